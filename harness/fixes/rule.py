"""What a remedy declares of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.fixes.source import Source
from workloads.protocol import Aim, Edit


class Safety(StrEnum):
    """What a remedy may change besides the speed."""

    SAME = "same numbers"
    ORDER = "same numbers; random ones in another order"
    ALIKE = "statistically the same"
    NUMERICS = "changes numerics"
    TRAINING = "changes training"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A remedy: a change of scripts that may make them faster.

    Attributes:
        name: of its variant: "xla" for "fix:xla".
        summary: what it does, in the imperative, as reports say it.
        aim: what it is aimed at.
        safety: what else it may change; why is in the docstring of its module.
        edits: returns the edits of a script; () where it does not fit.
    """

    name: str
    summary: str
    aim: Aim
    safety: Safety
    edits: Callable[[Source], Sequence[Edit]]
