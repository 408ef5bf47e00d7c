"""Fix cards: the cause, the change as a diff that runs as printed, and what it gained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from harness.model.analysis import Analysis, Cause, Finding, Remedy
from reports.overview import Row, rows

# Cause -> the file in reports/snippets that shows the change. Each runs, before and after, in tests.
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
# A loader written in Python cannot be made parallel by tf.data's own options.
LOADER = "python_loader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One workload's fix.

    Attributes:
        diff: lines that begin with "+", "-" or a space; () where there is no code to change.
        tried: the measured variant behind it was slower, so that no code is offered.
    """

    row: Row
    finding: Finding
    diff: tuple[str, ...]
    tried: Remedy | None


def fixes(analysis: Analysis) -> tuple[Fix, ...]:
    """Return a fix for each row that has a finding with something to do about it."""
    result = []
    for row in rows(analysis):
        finding = row.finding
        if finding is None or (finding.cause is Cause.COMPUTE and finding.remedy is None):
            continue
        slower = finding.remedy is not None and finding.remedy.gain.median <= 1
        result.append(
            Fix(
                row=row,
                finding=finding,
                diff=() if slower else diff_of(finding, row),
                tried=finding.remedy if slower else None,
            )
        )
    return tuple(result)


def diff_of(finding: Finding, row: Row) -> tuple[str, ...]:
    """Return the lines of the change that answers a finding."""
    name = SNIPPETS.get(finding.cause, "")
    loader = row.tuned is not None and any(change.what == "loader" for change in row.tuned.changes)
    if finding.cause is Cause.INPUT and loader:
        name = LOADER
    return tuple(snippet(name).splitlines()) if name else ()


def snippet(name: str) -> str:
    """Return a snippet's diff: lines that begin with "+", "-" or a space."""
    return (resources.files("reports") / "snippets" / f"{name}.diff").read_text(encoding="utf-8")
