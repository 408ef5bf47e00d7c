"""The input pipeline by itself: its stages, how many CPUs it uses, how fast it could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.breakdown import stage_seconds
from harness.analysis.case import Case, cases, cpus_used
from harness.analysis.words import percent, significant
from harness.model.analysis import Comparison, Evidence, Pipeline, Stage, Summary
from harness.model.run import Run
from workloads.protocol import (
    BASELINE,
    CACHED_EPOCH,
    FIRST_EPOCH,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGE_PREFIX,
    THREADS_PREFIX,
)

# USE method (Gregg, 2013): a resource is saturated when it has no more to give; xprof's 15 % from the other
# side, as for a device that is busy.
SATURATED = 0.85
# More CPUs than one thread uses, or more speed than one thread has, tell that work runs side by side.
SERIAL_CPUS, SERIAL_SPEEDUP = 1.25, 1.25


def pipelines(run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison]) -> tuple[Pipeline, ...]:
    """Return the stages of each workload and device whose pipeline was drained stage by stage."""
    return tuple(one for case in cases(run, summaries, ratios) if (one := _pipeline(case)) is not None)


def _pipeline(case: Case) -> Pipeline | None:
    seconds = stage_seconds(case)
    total = sum(seconds.values())
    if not seconds or total <= 0:
        return None
    before, stages = 0.0, []
    for name, cost in seconds.items():
        after = before + cost
        one = case.variants.get(f"{STAGE_PREFIX}{name}")
        stages.append(
            Stage(
                name=name,
                start_s=before,
                cost_s=cost,
                share=cost / total,
                ceiling=one.throughput.median if one else 1.0 / after,
                trial_ids=one.trial_ids if one else case.variants[INPUT_ONLY].trial_ids,
            )
        )
        before = after
    return Pipeline(
        workload=case.name,
        device=case.device,
        stages=tuple(stages),
        baseline=case.speed(BASELINE),
        model=case.speed(MODEL_ONLY),
        first_epoch=case.speed(FIRST_EPOCH),
        cached=case.speed(CACHED_EPOCH),
        running=how_it_runs(case).sentence.strip(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How a pipeline uses the CPUs, in words; all empty where nothing tells.

    Attributes:
        saturated: all of them are busy, so that doing more side by side gives nothing.
    """

    sentence: str = ""
    remedy: str = ""
    evidence: tuple[Evidence, ...] = ()
    saturated: bool = False


def how_it_runs(case: Case) -> Running:
    """Tell a pipeline that takes one sample after another from one that has all CPUs busy."""
    used, cpus = cpus_used(case, INPUT_ONLY), case.cpus
    if used is None or cpus is None:
        return Running()
    evidence = (
        Evidence(
            metric="CPUs that the pipeline uses by itself",
            observed=f"{significant(used)} of {significant(cpus)}",
            threshold=f"saturated from {percent(SATURATED)} of them",
        ),
    )
    if used >= SATURATED * cpus:
        return Running(
            sentence=" It has all CPUs busy.",
            remedy="The CPUs have no more to give: cache what stays the same, do costly work on the "
            "device or once and for all before training, or take a machine with more CPUs.",
            evidence=evidence,
            saturated=True,
        )
    speedup = _speedup(case)
    if used <= SERIAL_CPUS and (speedup is None or speedup <= SERIAL_SPEEDUP):
        return Running(
            sentence=f" It prepares one sample after another, on {significant(used)} of "
            f"{significant(cpus)} CPUs.",
            remedy="Prepare samples side by side on all CPUs, and cache what stays the same.",
            evidence=evidence,
        )
    return Running(evidence=evidence)


def _speedup(case: Case) -> float | None:
    """Return how many times as fast the pipeline is on all CPUs as on one thread."""
    feed = case.speed(INPUT_ONLY)
    single = case.speed(f"{THREADS_PREFIX}1")
    return feed / single if feed and single else None


def overlapped_speed(case: Case) -> float | None:
    """Return the samples/s with input beside computing: the lower ceiling, if the CPUs suffice."""
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    if feed is None or model is None:
        return None
    return min(feed, model, _capacity(case) or model)


def parallel_speed(case: Case) -> float | None:
    """Return the samples/s with samples prepared on all CPUs, and that while the model computes."""
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    if feed is None or model is None:
        return None
    capacity = _capacity(case)
    return model if capacity is None else min(model, max(feed, capacity))


def _capacity(case: Case) -> float | None:
    """Return the samples/s for which the CPUs have time: for input, and for a model that they run."""
    cpus, feed, model = case.cpus, case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    used = cpus_used(case, INPUT_ONLY)
    if not cpus or not feed or not model or used is None:
        return None
    a_sample_s = used / feed
    if not case.on_gpu:
        a_sample_s += (cpus_used(case, MODEL_ONLY) or 0.0) / model
    return cpus / a_sample_s if a_sample_s > 0 else None
