"""Add a run to the package's reference machines: `python -m benchmarks.reference RUN NAME`.

The run should be the default suite of the release with at least three trials on an idle machine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

import harness.run
from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.model.comparison import Extract, Section
from harness.run.recording import EXTRACT_SUFFIX, ExtractFile, open_run

# Hashes of code, which changes after the release. Versions, data, batches and settings decide what is
# comparable.
HASHED = (" declaration", " file", " Python files", "workloads package", "image contents")
FOLDER = Path(harness.run.__file__).with_name("references")


def main(run: str, name: str) -> None:
    """Write the extract of a run folder or report file as NAME."""
    extracted = replace(extract(analyse(open_run(Path(run)))), label=name)
    facts: dict[Section, Mapping[str, str]] = {
        section: {field: value for field, value in fields.items() if not field.endswith(HASHED)}
        for section, fields in extracted.facts.items()
        if section is not Section.IMAGES
    }
    extracted = replace(extracted, facts=facts)
    (FOLDER / f"{name}{EXTRACT_SUFFIX}").write_text(to_json(extracted), encoding="utf-8")


def to_json(extracted: Extract) -> str:
    """Return the JSON text of an extract."""
    return msgspec.json.format(msgspec.json.encode(ExtractFile(extract=extracted)), indent=1).decode() + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
