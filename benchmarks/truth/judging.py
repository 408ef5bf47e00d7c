"""Hold what the report says of a run first against what was planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.case import FED_LATE, Case, Kind
from harness.analysis import analyse
from harness.model.analysis import Analysis, Finding, Verdict
from harness.run.store import read_run
from workloads.protocol import BASELINE, MODEL_ONLY

# The verdicts' rules; one that is not here, such as not-learning, says nothing of what holds training back.
KINDS: Mapping[str, Kind] = {
    "input-bound": Kind.INPUT,
    "disk-bound": Kind.INPUT,
    "no-overlap": Kind.OVERLAP,
    "copy-bound": Kind.COPY,
    "launch-bound": Kind.LAUNCH,
    "memory-bandwidth-bound": Kind.MEMORY,
    "compute-bound": Kind.ARITHMETIC,
    "cpu-quota": Kind.QUOTA,
    "contended-host": Kind.CONTENTION,
    "thermal": Kind.THERMAL,
    "power-capped": Kind.POWER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case, judged.

    Attributes:
        said: what the report's first verdict on the workload comes to.
        cost: the share of the time that it says is lost.
        planted: the share that was planted; None where it is not known, or where nothing was planted.
        utilisation: MLPerf Storage's: computing time over run time, None where it cannot be told.
        sentence: the verdict's own words.
        found: all that was found, in the report's order, as "rule 12 %".
    """

    case: Case
    said: Kind
    stage: str
    cost: float | None
    planted: float | None
    utilisation: float | None
    sentence: str
    found: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the first verdict names what was planted."""
        return self.said is self.case.planted

    @property
    def said_fed_late(self) -> bool:
        """Whether it says that the device waits for its data."""
        return self.said in FED_LATE

    @property
    def error(self) -> float | None:
        """How far the estimated loss is from the planted one, relative to it."""
        if not self.right or self.planted is None or self.cost is None or self.planted == 0:
            return None
        return abs(self.cost - self.planted) / self.planted


def step_s(analysis: Analysis, variant: str = BASELINE) -> float | None:
    """Return a variant's seconds a step."""
    return next((one.step_time.median for one in analysis.summaries if one.variant == variant), None)


def judge(case: Case, folder: Path, control: Path | None = None) -> Judged:
    """Judge a run folder by the first verdict that the report makes of it now."""
    analysis = analyse(read_run(folder))
    first = analysis.verdicts[0] if analysis.verdicts else None
    found = first if first is not None and first.finding is Finding.FOUND else None
    return Judged(
        case=case,
        said=kind_of(found),
        stage=_stage(found),
        cost=found.cost if found else None,
        planted=planted_loss(case, analysis, analyse(read_run(control)) if control else None),
        utilisation=utilisation(case, analysis),
        sentence=first.sentence if first else "",
        found=tuple(
            one.rule if one.cost is None else f"{one.rule} {one.cost:.0%}"
            for one in analysis.verdicts
            if one.finding is Finding.FOUND
        ),
    )


def kind_of(verdict: Verdict | None) -> Kind:
    """Return what a verdict that was found comes to."""
    if verdict is None:
        return Kind.NOTHING
    return KINDS.get(verdict.rule, Kind.NOTHING)


def planted_loss(case: Case, analysis: Analysis, control: Analysis | None) -> float | None:
    """Return the share of the baseline variant's time that the bottleneck takes."""
    if case.planted in (Kind.ARITHMETIC, Kind.MEMORY):
        return None
    if case.lost is not None:
        return case.lost
    free = case.step_s or (step_s(control) if control else None)
    actual = step_s(analysis)
    return max(0.0, 1.0 - free / actual) if free and actual else None


def utilisation(case: Case, analysis: Analysis) -> float | None:
    """Return MLPerf Storage's accelerator utilisation: the time of computing over the time of the run.

    Where the accelerator is simulated its time is known, as in DLIO; else it is that of the model fed from
    memory.
    """
    actual = step_s(analysis)
    summary = next((one for one in analysis.summaries if one.variant == BASELINE), None)
    if actual is None or summary is None:
        return None
    free = simulated_step_s(case, summary.batch_size) or step_s(analysis, MODEL_ONLY)
    return min(1.0, free / actual) if free else None


def simulated_step_s(case: Case, batch: int) -> float | None:
    """Return what the simulated accelerator takes a step; None where the device is real."""
    sample_us = case.params.get("sample_us")
    if sample_us is None or case.params.get("real"):
        return None
    return float(case.params.get("step_us", 0) + sample_us * batch) / 1e6


def _stage(verdict: Verdict | None) -> str:
    """Return the stage that an input verdict blames: it stands in its cause or evidence."""
    if verdict is None:
        return ""
    marker = "slowest stage of the pipeline: "
    named = (one.metric.removeprefix(marker) for one in verdict.evidence if one.metric.startswith(marker))
    return next(named, "")
