"""The remedy `xla`.

XLA fuses operations into fewer kernels, which launches less and reads memory less often.

Safety: rounding differs, as between two devices; the first step takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each compile."""
    return source.keyword_at(source.compiles(), "jit_compile", "True")


RULE = Rule(
    name="xla",
    summary="Compile the step with XLA: jit_compile=True",
    aim=Aim.DEVICE,
    safety=Safety.ALIKE,
    edits=edits,
)
