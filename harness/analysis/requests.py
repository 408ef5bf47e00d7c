"""Latencies of requests, and how many a second a device serves within a bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.align import SECOND_NS
from harness.analysis.compare import CPU
from harness.analysis.stats import estimate, ratio
from harness.model.analysis import Capacity, Comparison, Latency, NoRate
from harness.model.run import RequestTimes, Run, Status, Trial
from workloads.protocol import SERVER, SINGLE_STREAM, Workload

REQUESTS_GPU_OVER_CPU = "requests-gpu-over-cpu"
QUANTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0))
# So many requests must lie beyond a quantile for it to be told.
_BEYOND = 1.0
_FEWEST_SERVED = 100
_LATE_SHARE = 0.01


def latencies(run: Run) -> tuple[Latency, ...]:
    """Return SingleStream by batch size over all trials, and each series of Server by itself."""
    groups: dict[tuple[str, str, str, str, int, float, str], list[tuple[Trial, RequestTimes]]] = {}
    for trial, one in _all(run):
        own = trial.id if one.scenario == SERVER else ""
        key = (trial.workload, trial.device, one.variant, one.scenario, one.batch_size, one.rate_per_s, own)
        groups.setdefault(key, []).append((trial, one))
    found = [_latency(group) for _, group in groups.items()]
    order = {workload.name: rank for rank, workload in enumerate(run.workloads)}
    return tuple(
        sorted(
            (one for one in found if one is not None),
            key=lambda one: (
                order.get(one.workload, len(order)), one.device, one.variant, one.scenario != SINGLE_STREAM,
                one.batch_size, one.rate_per_s or 0.0,
            ),
        )
    )  # fmt: skip


def _all(run: Run) -> Iterator[tuple[Trial, RequestTimes]]:
    for trial in run.trials:
        if trial.status is Status.OK and not trial.point:
            for one in trial.requests:
                if len(one.latency_ns) and one.end_ns > one.start_ns:
                    yield trial, one


def _latency(group: Sequence[tuple[Trial, RequestTimes]]) -> Latency | None:
    (trial, first), pooled = group[0], np.concatenate([one.latency_ns for _, one in group])
    samples = 1 if first.scenario == SERVER else first.batch_size
    served = estimate(
        [len(one.latency_ns) * samples * SECOND_NS / _busy_ns(one) for _, one in group], "samples/s"
    )
    if served is None:
        return None
    return Latency(
        workload=trial.workload,
        device=trial.device,
        variant=first.variant,
        scenario=first.scenario,
        batch_size=first.batch_size,
        rate_per_s=first.rate_per_s if first.scenario == SERVER else None,
        samples_per_s=served,
        quantiles_s={
            name: float(np.percentile(pooled, share)) / SECOND_NS
            for name, share in QUANTILES
            if len(pooled) * (100 - share) / 100 >= _BEYOND
        },
        requests=len(pooled),
        planned=sum(one.planned for _, one in group),
        trial_ids=tuple(dict.fromkeys(trial.id for trial, _ in group)),
    )


def _busy_ns(one: RequestTimes) -> float:
    return float(one.latency_ns.sum()) if one.scenario == SINGLE_STREAM else float(one.end_ns - one.start_ns)


def capacities(run: Run) -> tuple[Capacity, ...]:
    """Return, for each variant that was served, the largest rate within each declared bound.

    One value a trial: the largest offered rate of which at most one sample in a hundred was late. A bound to
    which no rate kept in half of the trials or more has none: the others' luck would stand for all.
    """
    declared = {workload.name: workload for workload in run.workloads}
    groups: dict[tuple[str, str, str], dict[str, tuple[Trial, list[RequestTimes]]]] = {}
    for trial, one in _all(run):
        if _bounds(declared.get(trial.workload)):
            of_variant = groups.setdefault((trial.workload, trial.device, one.variant), {})
            of_variant.setdefault(trial.id, (trial, []))[1].append(one)
    return tuple(
        _capacity(key, of_variant, bound, _bounds(declared.get(key[0])))
        for key, of_variant in groups.items()
        for bound in _bounds(declared.get(key[0]))
        if any(
            one.batch_size == 1 or one.scenario == SERVER for _, each in of_variant.values() for one in each
        )
    )


def _bounds(workload: Workload | None) -> tuple[float, ...]:
    wanted = workload.requests if workload else None
    return tuple(bound / 1e3 for bound in sorted(wanted.bounds_ms)) if wanted else ()


def _capacity(
    key: tuple[str, str, str],
    of_variant: dict[str, tuple[Trial, list[RequestTimes]]],
    bound_s: float,
    bounds: Sequence[float],
) -> Capacity:
    rates = {trial_id: _best(each, bound_s) for trial_id, (_, each) in of_variant.items()}
    known = [rate for rate in rates.values() if rate > 0]
    workload, device, variant = key
    alone_s = [
        float(np.percentile(one.latency_ns, 99)) / SECOND_NS
        for _, each in of_variant.values()
        for one in each
        if one.scenario == SINGLE_STREAM and one.batch_size == 1
    ]
    why = None
    if known and 2 * len(known) <= len(rates):
        why = NoRate.FEW_TRIALS
    elif not known and min(alone_s, default=0.0) > bound_s:
        why = NoRate.ALONE
    elif not known:
        told = any(_tells(one) for _, each in of_variant.values() for one in each)
        why = NoRate.NONE_KEPT if told else NoRate.FEW_REQUESTS
    # The search ends with the least bound to which a useful rate keeps: for those beyond it the rate is the same.
    smaller = [each for each in bounds if each < bound_s]
    at_least = any(
        0 < _best(each, bound_s) <= _best(each, less) for _, each in of_variant.values() for less in smaller
    )
    return Capacity(
        workload=workload,
        device=device,
        variant=variant,
        bound_s=bound_s,
        rate_per_s=None if why else estimate(known, "requests/s"),
        at_least=at_least and not why,
        why=why,
        kept=len(known),
        alone_s=min(alone_s, default=None),
        trial_ids=tuple(rates),
    )


def _tells(one: RequestTimes) -> bool:
    return one.scenario == SERVER and one.planned >= _FEWEST_SERVED


def _best(series: Sequence[RequestTimes], bound_s: float) -> float:
    """Return the largest rate within the bound, 0 where there is none."""
    rates = [0.0]
    for one in series:
        late = int((one.latency_ns > bound_s * SECOND_NS).sum()) + one.planned - len(one.latency_ns)
        if _tells(one) and late <= _LATE_SHARE * one.planned:
            rates.append(one.rate_per_s)
    return max(rates)


def request_ratios(run: Run) -> tuple[Comparison, ...]:
    """Compare each GPU's rate with the CPU's, at the least bound that both keep to."""
    found = [one for one in capacities(run) if one.rate_per_s is not None]
    trials: dict[tuple[str, str, str, float], dict[int, float]] = {}
    for trial, one in _all(run):
        for each in found:
            same = (each.workload, each.device, each.variant) == (trial.workload, trial.device, one.variant)
            if same and (best := _best([one], each.bound_s)):
                of_key = trials.setdefault((each.workload, each.device, each.variant, each.bound_s), {})
                of_key[trial.index] = max(best, of_key.get(trial.index, 0.0))
    ratios: dict[tuple[str, str, str], Comparison] = {}
    for workload, device, variant, bound in sorted(trials, key=lambda key: key[3]):
        on_cpu = trials.get((workload, CPU, variant, bound))
        if device == CPU or on_cpu is None or (workload, device, variant) in ratios:
            continue
        value = ratio(trials[workload, device, variant, bound], on_cpu)
        if value is not None:
            ratios[workload, device, variant] = Comparison(
                workload=workload,
                kind=REQUESTS_GPU_OVER_CPU,
                numerator=f"{device}/{variant}",
                denominator=f"{CPU}/{variant}",
                ratio=value,
            )
    return tuple(ratios.values())
