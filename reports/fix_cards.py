"""Fix cards: cause, change as a diff that runs as printed, and gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from harness.model.analysis import Cause, Finding
from reports.names import is_gpu
from reports.overview import Row

# Cause -> file in reports/snippets with the change. Tests run the code before and after each change.
SNIPPETS: Mapping[Cause, str] = {
    Cause.INPUT: "parallel_input",
    Cause.OVERLAP: "prefetch",
    Cause.DISK: "cache",
    Cause.COPY: "small_types",
    Cause.LAUNCH: "steps_per_execution",
    Cause.KERAS_LOOP: "steps_per_execution",
    Cause.EXCHANGE: "larger_batch",
    Cause.RUN_EAGERLY: "run_eagerly",
    Cause.CALLBACKS: "callbacks",
    Cause.PYTHON_IN_STEP: "python_in_step",
    Cause.RETRACING: "fixed_shapes",
    Cause.COMPUTE: "half_precision",
    Cause.MEMORY_BANDWIDTH: "half_precision",
}
# tf.data options cannot parallelize a loader written in Python.
LOADER = "python_loader"
# Half precision is a fix on GPUs only.
ON_CPU = "xla"


class Fix(NamedTuple):
    """A change with the rows that it fixes; the lines of `diff` begin with "+", "-" or a space."""

    diff: tuple[str, ...]
    rows: list[Row]


def fixes(rows: Sequence[Row]) -> list[Fix]:
    """Return the fixes of rows with a finding that can be fixed; a cause's rows with the same code share one."""
    result: dict[tuple[Cause, tuple[str, ...]], Fix] = {}
    for row in rows:
        finding = row.finding
        if finding is not None and (finding.cause is not Cause.COMPUTE or finding.remedy is not None):
            diff = _diff(row, finding)
            result.setdefault((finding.cause, diff), Fix(diff, [])).rows.append(row)
    return list(result.values())


def _diff(row: Row, finding: Finding) -> tuple[str, ...]:
    """Return the lines of a change; () without code or if it was not faster."""
    name = SNIPPETS.get(finding.cause, "")
    if finding.cause is Cause.INPUT and any(each.what == "loader" for each in row.changes):
        name = LOADER
    elif finding.cause is Cause.COMPUTE and not is_gpu(finding.device):
        name = ON_CPU
    slower = finding.remedy is not None and finding.remedy.gain.median <= 1
    return tuple(snippet(name).splitlines()) if name and not slower else ()


def snippet(name: str) -> str:
    """Return the diff of a snippet: lines that begin with "+", "-" or a space."""
    return (resources.files("reports") / "snippets" / f"{name}.diff").read_text(encoding="utf-8")
