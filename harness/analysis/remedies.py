"""Remedies with the gain that a variant measured which applied them, and whether that is what was predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from harness.analysis.align import gpu_names
from harness.analysis.case import Case
from harness.analysis.compare import OPTIMIZATION_OVER_BASELINE
from harness.analysis.remedy_code import Program, code_for
from harness.analysis.remedy_names import introduced
from harness.analysis.words import listed, significant
from harness.model.analysis import Estimate, Remedy
from harness.model.variants import variant_name
from workloads.protocol import (
    BASELINE,
    CACHED_EPOCH,
    FIRST_EPOCH,
    OPTIMIZATION_PREFIX,
    TENSORFLOW,
    THREADS_PREFIX,
    TUNED,
    TUNED_INPUT,
    Change,
)

# Which of a variant's changes answer which cause.
LAUNCH = frozenset({"steps_per_execution", "jit_compile", "feed", "batch_size"})
COPYING = frozenset({"feed", "prefetch_to_device"})
# Data that stays on the device is not prefetched: it is not prepared at all any more.
OVERLAP = frozenset({"prefetch", "prefetch_batches", "prefetch_to_device"})
DISK = frozenset({"storage", "cache"})
# What leaves the CPUs less to do, and what has more of them at work.
LESS_INPUT = COPYING | DISK | {"loader", "decode_ratio", "preprocess"}
INPUT = LESS_INPUT | OVERLAP | {
    "workers", "threads", "num_parallel_calls", "parallel_calls", "parallel_maps", "queue_size",
}  # fmt: skip
DEVICE = frozenset({"precision", "jit_compile", "batch_size", "matrix", "max_bin", "evaluate"})

# A prediction that the measured gain misses by more is said to have missed.
MISSED = 0.25


def without(cost: float) -> float:
    """Return the gain if a cause went away that costs this share of the time, 0 to 1: no remedy gives more.

    No more than a hundred times: what is left of the time is known no better.
    """
    return 1.0 / max(1.0 - cost, 0.01)


def remedy(
    case: Case,
    answers: frozenset[str],
    text: str,
    fallback: Callable[[Program], str],
    predicted_gain: float | None,
    *,
    at_least: bool = False,
) -> Remedy:
    """Return a remedy: that of the variant which changed some of `answers` and least else, else `fallback`'s.

    A variant applies all its changes at once, so that the measured gain is theirs together: the text says
    so, and the prediction, which is of `answers` alone, is not judged by it.

    Args:
        answers: names of the changes that answer the cause.
        fallback: gives code where no variant applied any of them.
        predicted_gain: a ratio of throughputs, None where none can be told.
        at_least: it is a lower bound.
    """
    variant, applied, others = _measured(case, answers)
    gain = _gain_of(case, variant)
    if gain is not None and others:
        text = (
            f"{text} The gain was measured together with {listed(others)}, which the variant “{variant_name(variant)}” "
            "changes as well."
        )
    program = _program(case, variant)
    why = not_judged(case, predicted_gain, gain, others, at_least=at_least)
    return Remedy(
        text=text,
        code=introduced(code_for(applied, program) or fallback(program), program.stages),
        predicted_gain=predicted_gain,
        measured_gain=gain,
        at_least=at_least,
        measured_variant=variant if gain is not None else "",
        miss=None if why else missed(predicted_gain, gain, at_least=at_least),
        not_judged=why,
    )


def missed(predicted: float | None, measured: Estimate | None, *, at_least: bool) -> float | None:
    """Return by which share the measured gain misses the prediction; None within MISSED of it.

    More than a lower bound is no miss.
    """
    if predicted is None or measured is None:
        return None
    miss = measured.median / predicted - 1.0
    if abs(miss) <= MISSED or (at_least and miss > 0):
        return None
    return miss


def not_judged(
    case: Case, predicted: float | None, measured: Estimate | None, others: list[str], *, at_least: bool
) -> str:
    """Say why a prediction cannot be held against the measured gain; "" where it can, or one is missing."""
    if predicted is None or measured is None:
        return ""
    if case.run.tried_out:
        return "smoke profile, whose figures mean nothing"
    if measured.n < 2:
        return "one trial, which has no interval"
    if others:
        return f"measured together with {listed(others)}"
    least, most = predicted * (1 - MISSED), float("inf") if at_least else predicted * (1 + MISSED)
    within = least <= measured.low and measured.high <= most
    beyond = measured.high < least or measured.low > most
    if within or beyond:
        return ""
    span = f"{significant(measured.low)} to {significant(measured.high)}"
    return f"the measured gain's 95 % interval, {span}, is too wide to tell a hit from a miss"


def _measured(case: Case, answers: frozenset[str]) -> tuple[str, dict[str, Change], list[str]]:
    """Return the variant that shows a remedy best, its changes that answer the cause, and names of its others."""
    found = []
    for variant in _remedied(case):
        changes = case.variants[variant].changes
        applied = {change.what: change for change in changes if change.what in answers}
        others = [one.what for one in changes if one.what not in answers and one.what != "global batch"]
        if applied:
            found.append((variant, applied, others))
    return min(found, key=lambda one: (len(one[2]), -len(one[1])), default=("", {}, []))


def _remedied(case: Case) -> Iterator[str]:
    yield from (variant for variant in (TUNED_INPUT, TUNED) if variant in case.variants)
    yield from (variant for variant in case.variants if variant.startswith(OPTIMIZATION_PREFIX))


def _gain_of(case: Case, variant: str) -> Estimate | None:
    return (
        case.tuned_gain
        if variant == TUNED
        else case.ratio(OPTIMIZATION_OVER_BASELINE, variant)
        if variant
        else None
    )


def _program(case: Case, variant: str) -> Program:
    declared = case.workload
    cards = max(1, len(gpu_names(case.device)))
    batch = _params(case, variant or BASELINE).get("batch_size")
    return Program(
        on_gpu=case.on_gpu,
        cards=cards,
        task=declared.task if declared else "train",
        image=declared.image if declared else TENSORFLOW,
        pipeline=_has_pipeline(case),
        stages=declared.stages if declared else (),
        batch=batch * cards if isinstance(batch, int) else "batch_size",
        params=_params(case, variant),
    )


def _params(case: Case, variant: str) -> Mapping[str, object]:
    """Return what a variant ran with; {} where it did not run."""
    return next(
        (
            info.params
            for trial in case.run.trials
            if (trial.workload, trial.device) == (case.name, case.device)
            for info in trial.variants
            if info.variant == variant
        ),
        {},
    )


def _has_pipeline(case: Case) -> bool:
    """Tell whether a workload feeds itself: it says so, or the driver ran variants that only such have."""
    variants = (TUNED_INPUT, FIRST_EPOCH, CACHED_EPOCH)
    declared = case.workload is not None and (bool(case.workload.stages) or case.workload.data.kind == "jpeg")
    return declared or any(
        variant in variants or variant.startswith(THREADS_PREFIX) for variant in case.variants
    )
