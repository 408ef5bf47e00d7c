"""Add a run to the machines that ship with tfbench, or write the index of their files again.

    python -m benchmarks.reference RUN NAME    # its extract, for `compare --baseline NAME`, and its machine's file
    python -m benchmarks.reference             # only the index, after files of machines were added

The run should be the default suite of the release with at least three trials on an idle machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

import harness.run
from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.analysis.known import known_machine
from harness.model.comparison import Extract, Section
from harness.run.machines import INDEX, MACHINE_SUFFIX, MACHINES, index_of, machine_json, read_machine
from harness.run.recording import EXTRACT_SUFFIX, ExtractFile, open_run

# Hashes of code, which changes after the release. Versions, data, batches and settings decide what is
# comparable.
HASHED = (" declaration", " file", " Python files", "workloads package", "image contents")
FOLDER = Path(harness.run.__file__).with_name("references")


def main(run: str, name: str) -> None:
    """Write the extract of a run folder or report file, and its machine's file, as NAME."""
    analysis = analyse(open_run(Path(run)))
    extracted = replace(extract(analysis), label=name)
    facts: dict[Section, Mapping[str, str]] = {
        section: {field: value for field, value in fields.items() if not field.endswith(HASHED)}
        for section, fields in extracted.facts.items()
        if section is not Section.IMAGES
    }
    extracted = replace(extracted, facts=facts)
    (FOLDER / f"{name}{EXTRACT_SUFFIX}").write_text(to_json(extracted), encoding="utf-8")
    (MACHINES / f"{name}{MACHINE_SUFFIX}").write_text(machine_json(known_machine(analysis)), encoding="utf-8")


def index() -> str:
    """Return the index of the files of machines that are there."""
    machines = [read_machine(path) for path in sorted(MACHINES.glob(f"*{MACHINE_SUFFIX}"))]
    return json.dumps(index_of(machines), indent=1) + "\n"


def to_json(extracted: Extract) -> str:
    """Return the JSON text of an extract."""
    return msgspec.json.format(msgspec.json.encode(ExtractFile(extract=extracted)), indent=1).decode() + "\n"


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    INDEX.write_text(index(), encoding="utf-8")
