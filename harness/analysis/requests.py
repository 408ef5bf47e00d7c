"""Request latencies, and the highest rate that a device serves within a latency bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.analysis.ratios import Ratios, ratio
from harness.analysis.telemetry_means import SECOND_NS
from harness.intervals import estimate
from harness.model.analysis import Capacity, Estimate, Key, Latency, RatioKind
from harness.model.device import CPU
from harness.model.run import RequestTimes, Run, Trial
from workloads.protocol import MAX_LATE_SHARE, MIN_SERVER_REQUESTS, SERVER, SINGLE_STREAM
from workloads.variants import BASELINE, TUNED, measures_speed

QUANTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0))
# A quantile is reported only if at least this many requests lie beyond it.
_MIN_BEYOND = 1.0


def latencies(run: Run) -> Mapping[Key, tuple[Latency, ...]]:
    """Return latencies by scenario and batch size over all trials, and those of each Server series."""
    groups: dict[tuple[Key, str, int, float, str], list[tuple[Trial, RequestTimes]]] = {}
    for trial, each in _series(run):
        key = Key(trial.workload, trial.device, each.variant)
        trial_id = trial.id if each.scenario == SERVER else ""
        group_key = (key, each.scenario, each.batch_size, each.rate_per_s, trial_id)
        groups.setdefault(group_key, []).append((trial, each))
    result: dict[Key, list[Latency]] = {}
    for (key, *_), group in groups.items():
        if found := _latency(group):
            result.setdefault(key, []).append(found)
    return {key: tuple(sorted(found, key=_order)) for key, found in result.items()}


def _order(latency: Latency) -> tuple[bool, int, float]:
    return latency.scenario != SINGLE_STREAM, latency.batch_size, latency.rate_per_s or 0.0


def _series(run: Run) -> Iterator[tuple[Trial, RequestTimes]]:
    for trial in run.trials:
        if not trial.point:
            for each in trial.requests:
                if len(each.latency_ns) and each.end_ns > each.start_ns:
                    yield trial, each


def _latency(group: Sequence[tuple[Trial, RequestTimes]]) -> Latency | None:
    (_, first), pooled = group[0], np.concatenate([each.latency_ns for _, each in group])
    samples = 1 if first.scenario == SERVER else first.batch_size
    served = estimate(
        [len(each.latency_ns) * samples * SECOND_NS / _busy_ns(each) for _, each in group], "samples/s"
    )
    if served is None:
        return None
    return Latency(
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
    return float(each.end_ns - each.start_ns) if each.scenario == SERVER else float(each.latency_ns.sum())


# Trial id -> series of requests.
_Trials = Mapping[str, Sequence[RequestTimes]]
_Served = Mapping[Key, _Trials]


def _served(run: Run) -> _Served:
    """Return key -> trial id -> series of requests, of the variants that serve within declared bounds."""
    result: dict[Key, dict[str, list[RequestTimes]]] = {}
    for trial, item in _series(run):
        if _bounds(run, trial.workload) and measures_speed(item.variant):
            key = Key(trial.workload, trial.device, item.variant)
            result.setdefault(key, {}).setdefault(trial.id, []).append(item)
    return result


def _bounds(run: Run, name: str) -> tuple[float, ...]:
    """Return the declared latency bounds of a workload in seconds, tightest first."""
    requests = next((workload.requests for workload in run.workloads if workload.name == name), None)
    return tuple(bound / 1e3 for bound in sorted(requests.bounds_ms)) if requests else ()


def capacities(run: Run) -> Mapping[Key, tuple[Capacity, ...]]:
    """Return the capacity of each variant that served requests, at the bound at which variants are compared.

    A variant that meets a tighter bound has a second capacity. The value of a trial is the highest offered rate
    with at most 1 % late samples. A bound must be met in more than half of the trials.
    """
    served = _served(run)
    result: dict[Key, tuple[Capacity, ...]] = {}
    for key, trials in served.items():
        bounds = _bounds(run, key.workload)
        own = _tightest(bounds, [trials]) or bounds[-1]
        shown = dict.fromkeys((_common(run, served, key) or own, own))
        result[key] = tuple(_capacity(trials, bound) for bound in shown)
    return result


def _common(run: Run, served: _Served, key: Key) -> float | None:
    """Return the tightest bound that baseline and tuned meet on a device."""
    sides = (served.get(key._replace(variant=variant), {}) for variant in (BASELINE, TUNED))
    return _tightest(_bounds(run, key.workload), [side for side in sides if side])


def _tightest(bounds: Sequence[float], sides: Sequence[_Trials]) -> float | None:
    """Return the tightest bound that all sides meet in more than half of their trials."""
    return next((bound for bound in bounds if all(_meets(side, bound) for side in sides)), None)


def _meets(trials: _Trials, bound_s: float) -> bool:
    return 2 * sum(_max_rate(each, bound_s) > 0 for each in trials.values()) > len(trials)


def _capacity(trials: _Trials, bound_s: float) -> Capacity:
    rates = [rate for each in trials.values() if (rate := _max_rate(each, bound_s)) > 0]
    return Capacity(
        bound_s=bound_s,
        rate_per_s=estimate(rates, "requests/s") if _meets(trials, bound_s) else None,
        kept=len(rates),
        trials=len(trials),
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


def request_ratios(run: Run) -> Ratios:
    """Return ratios of rates: GPU / CPU at the tightest bound that both meet, and variant / baseline."""
    served = _served(run)
    result: dict[Key, dict[RatioKind, Estimate]] = {}
    index = {trial.id: trial.index for trial in run.trials}
    for key, trials in served.items():
        on_cpu, baseline = (
            served.get(other, {}) for other in (key._replace(device=CPU), key._replace(variant=BASELINE))
        )
        common = _common(run, served, key)
        for kind, other, bounds in (
            (RatioKind.REQUESTS_GPU_OVER_CPU, on_cpu, _bounds(run, key.workload)),
            (RatioKind.REQUESTS_OVER_BASELINE, baseline, (common,) if common else ()),
        ):
            bound = _tightest(bounds, (trials, other)) if other is not trials else None
            if bound is None:
                continue
            top, bottom = (
                {index[id_]: rate for id_, item in each.items() if (rate := _max_rate(item, bound))}
                for each in (trials, other)
            )
            value = ratio(top, bottom)
            if value is not None:
                result.setdefault(key, {})[kind] = value
    return result
