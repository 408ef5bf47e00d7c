"""The charts' JavaScript: Vega, Vega-Lite and Vega-Embed as vl-convert ships them."""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType

import vl_convert

_EXPORT = "window.vegaEmbed = vegaEmbed;"
_PROGRAM = (
    f"import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle({_EXPORT!r}).encode())"
)


class Bundling:
    """Put the bundle together in another process while this one draws: it takes over a second of one core.

    vl-convert holds the interpreter's lock meanwhile, so that a thread would gain nothing.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Bundling:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:  # no room for another process: `text` does the work
            self._process = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def text(self) -> str:
        """Wait for the bundle; make it here when the other process could not. To be called once."""
        if self._process is not None:
            made, _ = self._process.communicate()
            if self._process.returncode == 0:
                return made.decode()
        return bundle_text()


def bundle_text() -> str:
    """Make the bundle."""
    text: str = vl_convert.javascript_bundle(_EXPORT)
    return text
