"""Make a reference machine of a run: `python -m benchmarks.reference RUN NAME` writes its extract into the package.

The run should be the default suite of the release, with three trials or more, on a machine with nothing else to do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import harness.run
from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.run.extracts import SUFFIX, to_json
from harness.run.recording import open_run

FOLDER = Path(harness.run.__file__).parent / "references"


def main(run: str, name: str) -> None:
    """Write the extract of a run folder or report file as NAME."""
    (FOLDER / f"{name}{SUFFIX}").write_text(
        to_json(extract(analyse(open_run(Path(run))), label=name)), "utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
