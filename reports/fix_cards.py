"""Fix cards: cause, change as a diff that runs as printed, and gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

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


@dataclass(frozen=True, slots=True)
class Fix:
    """One workload's fix."""

    row: Row
    finding: Finding

    @property
    def diff(self) -> tuple[str, ...]:
        """Lines of the change, which begin with "+", "-" or a space; () without code or if it was not faster."""
        remedy = self.finding.remedy
        if remedy is not None and remedy.gain.median <= 1:
            return ()
        name = SNIPPETS.get(self.finding.cause, "")
        if self.finding.cause is Cause.INPUT and any(each.what == "loader" for each in self.row.changes):
            name = LOADER
        elif self.finding.cause is Cause.COMPUTE and not is_gpu(self.finding.device):
            name = ON_CPU
        return tuple(snippet(name).splitlines()) if name else ()


def fixes(rows: Sequence[Row]) -> list[list[Fix]]:
    """Return a fix for each row with a finding that can be fixed, with identical fixes grouped."""
    groups: dict[tuple[Cause, tuple[str, ...]], list[Fix]] = {}
    for row in rows:
        finding = row.finding
        if finding is not None and (finding.cause is not Cause.COMPUTE or finding.remedy is not None):
            fix = Fix(row, finding)
            groups.setdefault((finding.cause, fix.diff), []).append(fix)
    return list(groups.values())


def snippet(name: str) -> str:
    """Return the diff of a snippet: lines that begin with "+", "-" or a space."""
    return (resources.files("reports") / "snippets" / f"{name}.diff").read_text(encoding="utf-8")
