"""The rules on input: does the model wait for its data, and would it if they were prepared meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.breakdown import (
    NOISE,
    InputShare,
    input_share,
    slowest_stage,
    stage_seconds,
    waits_for_copy,
)
from harness.analysis.case import Case
from harness.analysis.pipelines import how_it_runs, overlapped_speed, parallel_speed
from harness.analysis.remedies import INPUT, LESS_INPUT, OVERLAP, remedy, without
from harness.analysis.remedy_code import overlap_code, pipeline_code
from harness.analysis.words import percent, significant, times
from harness.model.analysis import Evidence, Finding, Verdict
from workloads.protocol import (
    BASELINE,
    CACHED_EPOCH,
    CUSTOM_LOOP,
    FIRST_EPOCH,
    INPUT_ONLY,
    MODEL_ONLY,
    THREADS_PREFIX,
)

# xprof (input pipeline analyzer): the share of the step time spent on input, highly and moderately bound.
HIGHLY, MODERATELY = 0.20, 0.05
# MLPerf Storage: the least accelerator utilisation (compute time over run time) that ResNet-50 must hold.
ACCELERATOR_UTILISATION = 0.90


def input_bound(case: Case) -> Verdict:
    """Tell whether training waits for its input, though it is prepared as fast as the pipeline can.

    By xprof's shares of the step time: from 20 % highly, from 5 % moderately input-bound. MLPerf Storage's
    accelerator utilisation (90 %) and the two ceilings stand beside it as evidence. Where the pipeline by
    itself is fast enough, or the copy to the device is what takes so long, other rules say so.
    """
    rule = "input-bound"
    found = input_share(case)
    evidence = tuple(_evidence(case))
    if found is None:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            "Whether training waits for its data cannot be told: waiting could not be seen, and the "
            "input-only and model-only variants were not both measured.",
            evidence=evidence,
        )
    share = Evidence(
        metric="time waiting for input" if found.seen else "time lost to input, at most",
        observed=percent(found.waited),
        threshold=f"moderate from {percent(MODERATELY)}, high from {percent(HIGHLY)}",
    )
    if found.waited < found.share:
        slower = Evidence(
            metric="time lost against the model alone, which the input alone is slower than",
            observed=percent(found.share),
            threshold="all of it is input's",
        )
        evidence = (slower, *evidence)
    if found.share < MODERATELY:
        return case.verdict(
            rule,
            Finding.CLEAR,
            f"Input is not the limit: it costs {percent(found.share)} of the time.",
            evidence=(share, *evidence),
            cost=found.share,
        )
    copies = waits_for_copy(case, MODERATELY)
    if copies or fast_enough(case):
        other = "the copy to the device (copy-bound)" if copies else "a lack of overlap (no-overlap)"
        return case.verdict(
            rule,
            Finding.CLEAR,
            f"Preparing the data is not the limit: the pipeline by itself is fast enough. If anything makes "
            f"training wait, it is {other}.",
            evidence=(share, *evidence),
            cost=0.0,
        )
    return _found(case, rule, found, (share, *evidence))


def _found(case: Case, rule: str, found: InputShare, evidence: tuple[Evidence, ...]) -> Verdict:
    share = found.share
    how = "highly" if share >= HIGHLY else "moderately"
    stage = slowest_stage(case)
    named = f" Most of that is the stage {stage!r}." if stage else ""
    runs = how_it_runs(case)
    return case.verdict(
        rule,
        Finding.FOUND,
        f"Training is {how} limited by its input: {_costs(case, found)}{_slower(case)}.{named}"
        f"{runs.sentence}{_epochs(case)}",
        cause=f"the input pipeline{f', stage {stage!r}' if stage else ''}",
        evidence=evidence,
        cost=share,
        remedy=remedy(
            case,
            LESS_INPUT if runs.saturated else INPUT,
            runs.remedy
            or "Make the pipeline itself faster: prepare samples in parallel, cache what stays the "
            "same, move costly stages behind the batch; overlapping alone cannot hide it.",
            pipeline_code,
            # How much less there could be to do, nothing tells.
            None if runs.saturated else _gain(case, parallel_speed(case), share),
        ),
    )


def _costs(case: Case, found: InputShare) -> str:
    whom = "the GPU" if case.on_gpu else "the model"
    if found.share - found.waited < MODERATELY:
        return f"{percent(found.share)} of the time {whom} waits for data to be read and prepared"
    return (
        f"reading and preparing data costs {percent(found.share)} of the time, {percent(found.waited)} that "
        f"{whom} waits and the rest by slowing its steps down"
    )


def no_overlap(case: Case) -> Verdict:
    """Tell whether training waits for data that could have been prepared while it computed.

    The pipeline by itself is as fast as the model, and yet the model waits, from xprof's 5 % of the time:
    then input and computing take turns, 1 / (1/T input + 1/T model), instead of running side by side. Where
    turns would cost less than that mark, and the wait that was seen is beyond it by noise, it cannot be told.
    """
    rule = "no-overlap"
    found = input_share(case)
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    if found is None or feed is None or model is None:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            "Whether data is prepared while the model computes cannot be told without the input-only and "
            "model-only variants.",
        )
    evidence = (
        Evidence(
            metric="time waiting for input",
            observed=percent(found.share),
            threshold=f"from {percent(MODERATELY)}",
        ),
        *_ceilings(case),
        Evidence(
            metric="time waiting for input if nothing overlapped",
            observed=percent(model / (feed + model)),
            threshold=f"more than that by {percent(NOISE)} is no matter of overlap alone",
        ),
    )
    if found.share < MODERATELY or not fast_enough(case) or waits_for_copy(case, MODERATELY):
        sentence = (
            "Data is prepared while the model computes, or takes no time worth speaking of."
            if found.share < MODERATELY
            else "The model would wait for its data even if they were prepared meanwhile."
        )
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=0.0)
    whom, turns = "the GPU" if case.on_gpu else "the model", model / (feed + model)
    if turns < MODERATELY and found.share - turns <= NOISE:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            f"Whether data is prepared while the model computes cannot be told: {whom} was seen to wait "
            f"{percent(found.share)} of the time, yet in turns it would wait {percent(turns)} only, and the "
            f"two differ by no more than noise does.",
            evidence=evidence,
        )
    held_up = (
        f" In turns alone it would wait {percent(turns)}: the pipeline is held up while the model computes."
        if found.share > turns + NOISE
        else ""
    )
    return case.verdict(
        rule,
        Finding.FOUND,
        f"Preparing data and computing take turns: {percent(found.share)} of the time {whom} waits for data, "
        f"though the pipeline by itself is {times(feed / model)} as fast as the model.{held_up}",
        cause="input and computing do not overlap",
        evidence=evidence,
        cost=found.share,
        remedy=remedy(
            case,
            OVERLAP,
            "Prepare the next batches while this one is computed.",
            overlap_code,
            _gain(case, overlapped_speed(case), found.share),
        ),
    )


def fast_enough(case: Case) -> bool:
    """Tell whether the pipeline by itself is at least as fast as the model by itself."""
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    return feed is not None and model is not None and feed >= model


def _slower(case: Case) -> str:
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    if feed is None or model is None or feed >= model:
        return ""
    return f", at {significant(feed)} samples/s where the model could take {significant(model)}"


def _gain(case: Case, speed: float | None, share: float) -> float:
    """Return the gain if baseline ran at `speed`, yet no more than not waiting at all would give."""
    whole, most = case.speed(BASELINE), without(share)
    return min(max(1.0, speed / whole), most) if whole and speed else most


def _epochs(case: Case) -> str:
    """Say in which epochs a pipeline with a cache is too slow."""
    first, cached, model = (case.speed(variant) for variant in (FIRST_EPOCH, CACHED_EPOCH, MODEL_ONLY))
    if not first or not cached or not model:
        return ""
    if first < model <= cached:
        return " That is so in the first epoch only: from the second on the cache is fast enough."
    if cached < model <= first:
        return " That is so from the second epoch on: the cache is slower than what it stands for."
    return " The cache does not change that." if cached < model else ""


def _evidence(case: Case) -> Iterator[Evidence]:
    yield from _ceilings(case)
    whole, model, loop = (case.speed(variant) for variant in (BASELINE, MODEL_ONLY, CUSTOM_LOOP))
    if whole and model:
        yield Evidence(
            metric="accelerator utilisation (baseline over model alone)",
            observed=percent(min(1.0, whole / model)),
            threshold=f"MLPerf Storage asks for {percent(ACCELERATOR_UTILISATION)}",
        )
    if whole and loop:
        yield Evidence(
            metric="the loop that sees the wait, against Keras fit",
            observed=f"{times(loop / whole)} as fast",
            threshold="near 1, else the wait is scaled",
        )
    yield from _stages(case)
    for variant, name in (
        (FIRST_EPOCH, "input alone, first epoch"),
        (CACHED_EPOCH, "input alone, from the cache"),
    ):
        if speed := case.speed(variant):
            yield Evidence(metric=name, observed=f"{significant(speed)} samples/s", threshold="")
    for variant, one in case.variants.items():
        if variant.startswith(THREADS_PREFIX) and (feed := case.speed(INPUT_ONLY)):
            number = variant.removeprefix(THREADS_PREFIX)
            yield Evidence(
                metric=f"input alone on all CPUs, against {number} thread{'s' if number != '1' else ''}",
                observed=f"{times(feed / one.throughput.median)} as fast",
                threshold="near 1: one sample after another",
            )
    yield from how_it_runs(case).evidence


def _ceilings(case: Case) -> Iterator[Evidence]:
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    if feed and model:
        yield Evidence(
            metric="input alone against model alone",
            observed=f"{significant(feed)} against {significant(model)} samples/s",
            threshold="input has to be the faster one",
        )


def _stages(case: Case) -> Iterator[Evidence]:
    """Name the slowest stage of the pipeline: what draining one stage more adds to the time of a sample."""
    costs, name = stage_seconds(case), slowest_stage(case)
    if name:
        part = costs[name] / sum(costs.values())
        yield Evidence(
            metric=f"slowest stage of the pipeline: {name}",
            observed=f"{significant(costs[name] * 1e6)} µs a sample, {percent(part)} of it",
            threshold="",
        )
