"""Make a reference machine of a run: `python -m benchmarks.reference RUN NAME` writes its extract into the package.

The run should be the default suite of the release, with three trials or more, on a machine with nothing else to do.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec

import harness.run
from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.model.comparison import Extract, Section
from harness.run.extracts import SUFFIX, Document
from harness.run.recording import open_run

# Of the code, which goes on changing after the release: versions, data, batches and settings decide what compares.
HASHED = (" declaration", " file", "workloads package", "image contents")
FOLDER = Path(harness.run.__file__).parent / "references"


def main(run: str, name: str) -> None:
    """Write the extract of a run folder or report file as NAME."""
    made = extract(analyse(open_run(Path(run))), label=name)
    facts = {
        section: {field: value for field, value in fields.items() if not field.endswith(HASHED)}
        for section, fields in made.facts.items()
        if section is not Section.IMAGES
    }
    made = replace(made, facts=facts)
    (FOLDER / f"{name}{SUFFIX}").write_text(to_json(made), encoding="utf-8")


def to_json(made: Extract) -> str:
    """Return an extract as the text of its file."""
    return msgspec.json.format(msgspec.json.encode(Document(extract=made)), indent=1).decode() + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
