"""End with whoever started us: a closed standard input means that the harness is gone."""

from __future__ import annotations

import os
import threading

from workloads.protocol import LEASE_ENV, LEASE_EXIT


def hold() -> None:
    """Watch standard input from a daemon thread where LEASE_ENV is "stdin"; otherwise do nothing."""
    if os.environ.get(LEASE_ENV) == "stdin":
        threading.Thread(target=_watch, name="lease", daemon=True).start()


def _watch() -> None:
    while True:
        try:
            if not os.read(0, 4096):
                break
        except OSError:
            break
    # Python's own way out would wait for TensorFlow's threads; nothing is left that could be lost, since
    # every event was flushed when it was written.
    os._exit(LEASE_EXIT)
