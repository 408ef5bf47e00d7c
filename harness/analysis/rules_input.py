"""The rule on input: does the model wait for its data?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.case import Case, input_share
from harness.analysis.remedies import INPUT, PIPELINE, remedy
from harness.analysis.words import percent, significant
from harness.model import Evidence, Finding, Verdict
from workloads.protocol import AS_WRITTEN, INPUT_ONLY, MODEL_ONLY, STAGE_PREFIX

# xprof (input pipeline analyzer): the share of the step time spent on input, highly and moderately bound.
HIGHLY, MODERATELY = 0.20, 0.05
# MLPerf Storage: the least accelerator utilisation (compute time over run time) that ResNet-50 must hold.
ACCELERATOR_UTILISATION = 0.90


def input_bound(case: Case) -> Verdict:
    """Tell whether training waits for its input.

    By xprof's shares of the step time: from 20 % highly, from 5 % moderately input-bound. MLPerf Storage's
    accelerator utilisation (90 %) and the two ceilings stand beside it as evidence.
    """
    rule = "input-bound"
    found = input_share(case)
    evidence = tuple(_evidence(case))
    if found is None:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            "Whether training waits for its data cannot be told: waiting could not be seen, and the "
            "input-only and "
            "model-only legs were not both measured.",
            evidence=evidence,
        )
    share = Evidence(
        metric="time waiting for input" if found.seen else "time lost to input, at most",
        observed=percent(found.share),
        threshold=f"moderate from {percent(MODERATELY)}, high from {percent(HIGHLY)}",
    )
    if found.share < MODERATELY:
        return case.verdict(
            rule,
            Finding.CLEAR,
            f"Input is not the limit: it costs {percent(found.share)} of the time.",
            evidence=(share, *evidence),
            cost=found.share,
        )
    how = "highly" if found.share >= HIGHLY else "moderately"
    whom = "the GPU" if case.on_gpu else "the model"
    slow = _input_is_slower(case)
    return case.verdict(
        rule,
        Finding.FOUND,
        f"Training is {how} limited by its input: {percent(found.share)} of the time {whom} waits for "
        f"data to be read "
        f"and prepared{', which is slower than the model even by itself' if slow else ''}.",
        cause="the input pipeline",
        evidence=(share, *evidence),
        cost=found.share,
        remedy=remedy(
            case,
            INPUT,
            "Make the pipeline itself faster: prepare samples in parallel, cache what stays the same, "
            "move costly "
            "stages behind the batch; overlapping alone cannot hide it."
            if slow
            else "Prepare the next batch while this one is computed, and keep unchanging data in memory "
            "or on the card.",
            PIPELINE.rstrip("\n"),
            _ceiling(case, found.share),
        ),
    )


def _input_is_slower(case: Case) -> bool:
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    return feed is not None and model is not None and feed < model


def _ceiling(case: Case, share: float) -> float:
    """Return the gain if no step waited: that of the model alone where it was measured."""
    whole, model = case.speed(AS_WRITTEN), case.speed(MODEL_ONLY)
    return max(1.0, model / whole) if whole and model else 1.0 / max(1.0 - share, 0.01)


def _evidence(case: Case) -> Iterator[Evidence]:
    whole, model, feed = (case.speed(leg) for leg in (AS_WRITTEN, MODEL_ONLY, INPUT_ONLY))
    if feed and model:
        yield Evidence(
            metric="input alone against model alone",
            observed=f"{significant(feed)} against {significant(model)} samples/s",
            threshold="input has to be the faster one",
        )
    if whole and model:
        yield Evidence(
            metric="accelerator utilisation (as written over model alone)",
            observed=percent(min(1.0, whole / model)),
            threshold=f"MLPerf Storage asks for {percent(ACCELERATOR_UTILISATION)}",
        )
    yield from _stages(case)


def _stages(case: Case) -> Iterator[Evidence]:
    """Name the dearest stage of the pipeline: what draining one stage more adds to the time of a sample."""
    before, costs = 0.0, {}
    for leg, one in case.legs.items():
        if leg.startswith(STAGE_PREFIX):
            after = 1.0 / one.throughput.median
            costs[leg.removeprefix(STAGE_PREFIX)] = max(0.0, after - before)
            before = after
    total = sum(costs.values())
    if total > 0:
        dearest = max(costs, key=lambda name: costs[name])
        yield Evidence(
            metric=f"dearest stage of the pipeline: {dearest}",
            observed=f"{significant(costs[dearest] * 1e6)} µs a sample, {percent(costs[dearest] / total)} "
            f"of it",
            threshold="",
        )
