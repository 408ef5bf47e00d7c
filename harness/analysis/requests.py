"""Request latencies, and the highest rate that a device serves within a latency bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.analysis.align import SECOND_NS
from harness.analysis.ratios import ratio
from harness.analysis.stats import estimate
from harness.model.analysis import Capacity, Comparison, Key, Latency, RatioKind
from harness.model.run import CPU, RequestTimes, Run, Status, Trial
from workloads.protocol import BASELINE, MAX_LATE_SHARE, MIN_SERVER_REQUESTS, SERVER, SINGLE_STREAM, TUNED

QUANTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0))
# A quantile is reported only if at least this many requests lie beyond it.
_MIN_BEYOND = 1.0


def latencies(run: Run) -> tuple[Latency, ...]:
    """Return SingleStream latencies by batch size over all trials, and those of each Server series."""
    groups: dict[tuple[Key, str, int, float, str], list[tuple[Trial, RequestTimes]]] = {}
    for trial, each in _series(run):
        key = Key(trial.workload, trial.device, each.variant)
        trial_id = trial.id if each.scenario == SERVER else ""
        group_key = (key, each.scenario, each.batch_size, each.rate_per_s, trial_id)
        groups.setdefault(group_key, []).append((trial, each))
    result = [_latency(group) for group in groups.values()]
    order = {workload.name: rank for rank, workload in enumerate(run.workloads)}
    return tuple(
        sorted(
            (each for each in result if each is not None),
            key=lambda each: (
                order.get(each.workload, len(order)), each.device, each.variant, each.scenario != SINGLE_STREAM,
                each.batch_size, each.rate_per_s or 0.0,
            ),
        )
    )  # fmt: skip


def _series(run: Run) -> Iterator[tuple[Trial, RequestTimes]]:
    for trial in run.trials:
        if trial.status is Status.OK and not trial.point:
            for each in trial.requests:
                if len(each.latency_ns) and each.end_ns > each.start_ns:
                    yield trial, each


def _latency(group: Sequence[tuple[Trial, RequestTimes]]) -> Latency | None:
    (trial, first), pooled = group[0], np.concatenate([each.latency_ns for _, each in group])
    samples = 1 if first.scenario == SERVER else first.batch_size
    served = estimate(
        [len(each.latency_ns) * samples * SECOND_NS / _busy_ns(each) for _, each in group], "samples/s"
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
            if len(pooled) * (100 - share) / 100 >= _MIN_BEYOND
        },
        requests=len(pooled),
        planned=sum(each.planned for _, each in group),
    )


def _busy_ns(each: RequestTimes) -> float:
    return (
        float(each.latency_ns.sum()) if each.scenario == SINGLE_STREAM else float(each.end_ns - each.start_ns)
    )


_Served = Mapping[Key, Mapping[str, Sequence[RequestTimes]]]


def _served(run: Run) -> _Served:
    """Return key -> trial id -> series of requests, of the variants that serve within declared bounds."""
    result: dict[Key, dict[str, list[RequestTimes]]] = {}
    for trial, item in _series(run):
        if _bounds(run, trial.workload) and item.variant in (BASELINE, TUNED):
            key = Key(trial.workload, trial.device, item.variant)
            result.setdefault(key, {}).setdefault(trial.id, []).append(item)
    return result


def _bounds(run: Run, name: str) -> tuple[float, ...]:
    """Return the declared latency bounds of a workload in seconds, tightest first."""
    requests = next((workload.requests for workload in run.workloads if workload.name == name), None)
    return tuple(bound / 1e3 for bound in sorted(requests.bounds_ms)) if requests else ()


def capacities(run: Run) -> tuple[Capacity, ...]:
    """Return the capacity of each variant that served requests, at the tightest bound it meets.

    The value of a trial is the highest offered rate with at most 1 % late samples. A bound must be met in
    more than half of the trials. Looser bounds are ignored, because measuring stops at the first bound that
    is met.
    """
    result = []
    for key, trials in _served(run).items():
        by_bound = [_capacity(key, trials, bound) for bound in _bounds(run, key.workload)]
        result.append(next((each for each in by_bound if each.rate_per_s), by_bound[-1]))
    return tuple(result)


def _capacity(key: Key, trials: Mapping[str, Sequence[RequestTimes]], bound_s: float) -> Capacity:
    rates = [rate for each in trials.values() if (rate := _max_rate(each, bound_s)) > 0]
    return Capacity(
        bound_s=bound_s,
        rate_per_s=estimate(rates, "requests/s") if 2 * len(rates) > len(trials) else None,
        kept=len(rates),
        trials=len(trials),
        **key._asdict(),
    )


def _max_rate(series: Sequence[RequestTimes], bound_s: float) -> float:
    """Return the highest rate within the bound, or 0."""
    rates = [0.0]
    for each in series:
        late = int((each.latency_ns > bound_s * SECOND_NS).sum()) + each.planned - len(each.latency_ns)
        enough = each.scenario == SERVER and each.planned >= MIN_SERVER_REQUESTS
        if enough and late <= MAX_LATE_SHARE * each.planned:
            rates.append(each.rate_per_s)
    return max(rates)


def request_ratios(run: Run) -> tuple[Comparison, ...]:
    """Return the ratio of each GPU's rate to the CPU's at the tightest bound that both meet."""
    served = _served(run)
    index = {trial.id: trial.index for trial in run.trials}
    result = []
    for key, trials in served.items():
        on_cpu = served.get(key._replace(device=CPU), {})
        for bound in _bounds(run, key.workload) if key.device != CPU else ():
            if any(_capacity(key, each, bound).rate_per_s is None for each in (trials, on_cpu)):
                continue
            top, bottom = (
                {index[id_]: rate for id_, item in each.items() if (rate := _max_rate(item, bound))}
                for each in (trials, on_cpu)
            )
            value = ratio(top, bottom)
            if value is not None:
                kind = RatioKind.REQUESTS_GPU_OVER_CPU
                result.append(Comparison(kind=kind, ratio=value, **key._asdict()))
                break
    return tuple(result)
