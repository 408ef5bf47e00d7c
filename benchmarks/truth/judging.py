"""Compare the first finding of a run with what was planted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.case import INPUT_BOUND, Case
from harness.analysis import analyse
from harness.model.analysis import Analysis, Cause, Finding, Part
from harness.run.store import read_run
from workloads.protocol import BASELINE, MODEL_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case, judged.

    Attributes:
        answer: the cause that the report finds first; None where it finds none.
        share: of the step's time, that it finds lost.
        planted: the share that was planted; None where it is not known, or where nothing was planted.
        unexplained: the share of the step that no part accounts for.
        prediction: the gain predicted for an ablation of that cause, over the one it gave.
        utilisation: MLPerf Storage's: computing time over run time, None where it cannot be told.
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
        """Whether the first finding names what was planted."""
        return self.answer in (self.case.planted, *self.case.also)

    @property
    def input_bound(self) -> bool:
        """Whether the answer is that the device waits for its data."""
        return self.answer in INPUT_BOUND

    @property
    def error(self) -> float | None:
        """How far the estimated share is from the planted one, relative to it."""
        if not self.right or not self.planted or self.share is None:
            return None
        return abs(self.share - self.planted) / self.planted


def step_s(analysis: Analysis, variant: str = BASELINE) -> float | None:
    """Return a variant's seconds a step."""
    return next((each.step_time.median for each in analysis.summaries if each.variant == variant), None)


def judge(case: Case, folder: Path, control: Path | None = None) -> Judged:
    """Judge a run folder by the first finding that the report makes of it now."""
    analysis = analyse(read_run(folder))
    first = analysis.findings[0] if analysis.findings else None
    time = next((each for each in analysis.step_times if each.variant == BASELINE), None)
    return Judged(
        case=case,
        answer=first.cause if first else None,
        stages=first.stages if first else (),
        share=first.share.median if first and first.share else None,
        planted=planted_loss(case, analysis, analyse(read_run(control)) if control else None),
        unexplained=time.share(Part.UNEXPLAINED) if time else None,
        prediction=_prediction(first),
        utilisation=utilisation(case, analysis),
    )


def _prediction(finding: Finding | None) -> float | None:
    ablation = finding.ablation if finding else None
    return ablation.predicted / ablation.gain.median if ablation else None


def planted_loss(case: Case, analysis: Analysis, control: Analysis | None) -> float | None:
    """Return the share of the baseline variant's time that the bottleneck takes."""
    if case.planted in (Cause.COMPUTE, Cause.MEMORY_BANDWIDTH):
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
    summary = next((each for each in analysis.summaries if each.variant == BASELINE), None)
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
