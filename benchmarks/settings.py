"""What the command line of `benchmarks.overhead` chose."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

COMPARE = Path("build/compare/bin/python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to measure and where.

    Attributes:
        rounds: how often each thing is measured, in turns.
        work: folder for what the measurements write.
        device: "cpu", "gpu", or a single GPU as `tfbench bench` names it.
        workload, variant: what runs while samplers take turns; "" for the workload's usual variant here.
        images: target ("cpu", "cuda") -> reference of an image of the user's own.
        engine: "docker" or "local".
        python: interpreter of other people's samplers; None for build/compare's, else this one.
        turn_s: how long a sampler watches in a round.
        recording: a run folder, or an archive of one as in tests/data, to make the long run of.
    """

    rounds: int = 12
    work: Path = Path("build/overhead")
    device: str = "cpu"
    workload: str = "cifar100-mlp"
    variant: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    engine: str = "docker"
    python: Path | None = None
    turn_s: float = 3.0
    recording: Path = Path("tests/data/h200-launch-bound.tar.xz")

    @property
    def peers_python(self) -> str:
        """The interpreter that other people's samplers run in."""
        return str(self.python or (COMPARE.absolute() if COMPARE.exists() else sys.executable))
