"""Compare the first finding of a run with what was planted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.case import INPUT_BOUND, Case
from harness.analysis import analyse
from harness.model.analysis import Analysis, Cause
from harness.run.store import read_run
from workloads.variants import BASELINE, MODEL_ONLY, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of a case.

    Attributes:
        answer: cause of the first finding; None without findings.
        share: share of the step time that the finding reports as lost.
        planted: the planted share; None if unknown or if nothing was planted.
        unexplained: share of the step time that no part accounts for.
        prediction: predicted over measured gain of the cause's ablation.
        utilisation: accelerator utilisation as in MLPerf Storage; None if unknown.
    """

    case: Case
    answer: Cause | None
    stages: tuple[str, ...]
    share: float | None
    planted: float | None
    unexplained: float | None
    prediction: float | None
    utilisation: float | None

    @property
    def right(self) -> bool:
        """Whether the first finding is the planted cause."""
        return self.answer in (self.case.planted, *self.case.also)

    @property
    def input_bound(self) -> bool:
        """Whether the answer is that the device waits for its data."""
        return self.answer in INPUT_BOUND

    @property
    def stage_named(self) -> bool:
        """Whether the planted stage is among the slowest ones, if a stage is planted and stages are named."""
        names = [stage.partition(",")[0] for stage in self.stages]
        return not (self.case.stage and names) or self.case.stage in names

    @property
    def error(self) -> float | None:
        """The relative error of the estimated share."""
        if not self.right or not self.planted or self.share is None:
            return None
        return abs(self.share - self.planted) / self.planted


def step_s(analysis: Analysis, variant: str = BASELINE) -> float | None:
    """Return a variant's median step time in seconds."""
    results = (case.variants[variant] for case in analysis.cases if variant in case.variants)
    return next((each.step_time.median for each in results), None)


def judge(case: Case, folder: Path, control: Path | None = None) -> Judged:
    """Judge a run folder by the first finding of the current analysis."""
    analysis = analyse(read_run(folder))
    first = next((case.limit for case in analysis.cases if case.limit), None)
    ablation = first.ablation if first else None
    time = next((time for case in analysis.cases if (time := case.breakdown(BASELINE))), None)
    return Judged(
        case=case,
        answer=first.cause if first else None,
        stages=first.stages if first else (),
        share=first.share.median if first and first.share else None,
        planted=planted_loss(case, analysis, analyse(read_run(control)) if control else None),
        unexplained=time.share(Part.UNEXPLAINED) if time else None,
        prediction=ablation.predicted.median / ablation.gain.median
        if ablation and ablation.predicted
        else None,
        utilisation=utilisation(case, analysis),
    )


def planted_loss(case: Case, analysis: Analysis, control: Analysis | None) -> float | None:
    """Return the bottleneck's share of the baseline step time; None if unknown."""
    if case.planted in (Cause.COMPUTE, Cause.PRECISION, Cause.MEMORY_BANDWIDTH):
        return None
    if case.lost is not None:
        return case.lost
    ideal = case.step_s or (step_s(control) if control else None)
    actual = step_s(analysis)
    return max(0.0, 1.0 - ideal / actual) if ideal and actual else None


def utilisation(case: Case, analysis: Analysis) -> float | None:
    """Return MLPerf Storage's accelerator utilisation: compute time over run time.

    The compute time is known for a simulated accelerator, as in DLIO; else it is that of model-only.
    """
    actual = step_s(analysis)
    written = next((case.variants[BASELINE] for case in analysis.cases if BASELINE in case.variants), None)
    if actual is None or written is None:
        return None
    sample_us = case.params.get("SAMPLE_US")  # of the simulated accelerator
    simulated_us = case.params.get("STEP_US", 0) + sample_us * written.batch_size if sample_us else 0
    compute = simulated_us / 1e6 or step_s(analysis, MODEL_ONLY)
    return min(1.0, compute / actual) if compute else None
