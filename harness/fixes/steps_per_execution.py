"""The remedy `steps-per-execution`.

Keras calls the compiled step from Python once per batch; for a small model that takes longer than the step.

Safety: the same numbers; callbacks on batches run once per call, so it is not offered if one changes training.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.fixes.changes import steers_batches
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source
from workloads.protocol import STEPS_PER_CALL, Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each compile; [] if training depends on callbacks around each batch."""
    if steers_batches(source):
        return []
    steps = str(STEPS_PER_CALL[source.device])
    return source.keyword_at(source.compiles(), "steps_per_execution", steps)


RULE = Rule(
    name="steps-per-execution",
    summary="Run several steps per call, and callbacks on batches as often: steps_per_execution",
    aim=Aim.LAUNCH,
    safety=Safety.SAME,
    edits=edits,
)
