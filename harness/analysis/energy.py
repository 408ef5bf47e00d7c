"""Energy for each sample: what a device's own counter says, and power where there is none.

A GPU's counter is exact but expensive to read, so that its readings stand further apart than the windows of
interleaved variants. Power at every tick says how much of each stretch belongs to which variant; the counter
says how much it is in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.analysis.align import SECOND_NS, Floats, edges, find, gpu_names, grown
from harness.analysis.stats import estimate
from harness.model.analysis import Estimate
from harness.model.run import Series, Trial, Window

GPU_COUNTER = "GPU energy counter"
CPU_COUNTER = "CPU package energy counter (RAPL), all that runs on the package"
# In order of trust.
_PROMPT = (
    ("nvml", "power_instant_w", "instant GPU power"),
    ("nvml", "power_usage_w", "GPU power"),
)
# It lags about a second behind, so that it cannot tell variants apart.
_LAGGING = ("nvml_slow", "power_average_w", "average GPU power")
# What was not read for more than this many times its usual distance is not known in between.
_GAP = 5
_MISSED = "missed_s"


def energy_per_sample(trial: Trial, variants: Iterable[str]) -> Mapping[str, tuple[float, str]]:
    """Return variant -> joules a sample over its windows, all the trial's GPUs together, and where they come from.

    A variant is absent where some GPU has neither a counter nor power readings around any of its windows.
    """
    of_variant = {
        variant: windows
        for variant in variants
        if (windows := [each for each in trial.windows if each.variant == variant and each.samples > 0])
    }
    result: dict[str, tuple[float, str]] = {}
    gpus = gpu_names(trial.device)
    sources = _of_gpus(trial, gpus) if gpus else _of_packages(trial)
    while of_variant.keys() > result.keys() and (source := next(sources, None)):
        series, label = source
        for variant in of_variant.keys() - result.keys():
            joules = _per_sample(series, of_variant[variant])
            if joules is not None:
                result[variant] = (joules, label)
    return result


def energy_over_trials(joules_of_trials: Sequence[tuple[float, str]]) -> tuple[Estimate | None, str]:
    """Summarise joules a sample over the trials that have the source most have: sources are not mixed."""
    if not joules_of_trials:
        return None, ""
    source = Counter(source for _, source in joules_of_trials).most_common(1)[0][0]
    return estimate(
        [joules for joules, its_source in joules_of_trials if its_source == source], "J/sample"
    ), source


def _of_gpus(trial: Trial, gpus: Sequence[str]) -> Iterator[tuple[Sequence[Series], str]]:
    """Yield one counter of joules for each GPU, from the most to the least trusted source.

    A source costs to make ready: the next is not looked at before it is asked for.
    """

    @cache
    def powers(source: str, metric: str) -> list[Series]:
        return _every(_power(trial, gpu, source, metric) for gpu in gpus)

    counters = _every(_counter(trial, gpu) for gpu in gpus)
    if counters:
        for source, metric, words in _PROMPT:
            parts = powers(source, metric)
            shared = _every(
                _shared_out(counter, part) for counter, part in zip(counters, parts, strict=False)
            )
            if shared:
                yield shared, f"{GPU_COUNTER}, shared out over time by {words}"
        yield counters, GPU_COUNTER
    for source, metric, words in (*_PROMPT, _LAGGING):
        if powers(source, metric):
            yield powers(source, metric), f"integrated {words}"


def _of_packages(trial: Trial) -> Iterator[tuple[Sequence[Series], str]]:
    """Yield the packages and their memory; RAPL's other zones are parts of a package or hold all of it."""
    series = [
        _readings(each, "energy_j")
        for each in trial.telemetry
        if each.source == "rapl"
        and each.device.startswith("package")
        and "_" not in each.device.removesuffix("_dram")
    ]
    if series:
        yield series, CPU_COUNTER


def _every(each: Iterable[Series | None]) -> list[Series]:
    """Return all of them, none when one is missing."""
    series = list(each)
    whole = [item for item in series if item is not None]
    return whole if len(whole) == len(series) else []


def _counter(trial: Trial, gpu: str) -> Series | None:
    series = find(trial, "nvml_slow", gpu, "energy_j")
    return None if series is None else _readings(series, "energy_j")


def _power(trial: Trial, gpu: str, source: str, metric: str) -> Series | None:
    series = find(trial, source, gpu, metric)
    return None if series is None else _integrated(_readings(series, metric), metric, trial.windows)


def _readings(series: Series, metric: str) -> Series:
    """Return what was read of `metric`, and beside it how many seconds were missed until then."""
    good = np.isfinite(series.columns[metric])
    t_ns = series.t_ns[good]
    steps = np.diff(t_ns, prepend=t_ns[:1]) / SECOND_NS
    usual = float(np.median(steps[1:])) if len(steps) > 1 else 0.0
    missed = np.cumsum(np.where(steps > _GAP * usual, steps, 0.0))
    return replace(series, t_ns=t_ns, columns={metric: series.columns[metric][good], _MISSED: missed})


def _per_sample(series: Sequence[Series], windows: Sequence[Window]) -> float | None:
    ends = edges(windows)
    joules = np.sum([grown(each.t_ns, each.columns["energy_j"], *ends) for each in series], axis=0)
    missed = np.sum([grown(each.t_ns, each.columns[_MISSED], *ends) for each in series], axis=0)
    samples = np.array([window.samples for window in windows], dtype=np.float64)
    good = np.isfinite(joules) & (missed == 0)
    return float(joules[good].sum() / samples[good].sum()) if good.any() else None


def _integrated(readings: Series, metric: str, windows: Sequence[Window]) -> Series:
    """Turn power into a counter of joules by the trapezoidal rule over its readings.

    Power may jump where a window begins or ends: on either side of such an edge it is that side's nearest
    reading, as a line drawn across the edge would give part of one variant's power to the other.
    """
    t_ns, power = readings.t_ns, readings.columns[metric]
    turns = np.unique(np.concatenate(edges(windows)))
    turns = turns[(turns > t_ns[0]) & (turns < t_ns[-1])]
    after = np.searchsorted(t_ns, turns)
    sides = np.repeat((0, 1, 2), (len(turns), len(turns), len(t_ns)))
    times = np.concatenate((turns, turns, t_ns))
    order = np.lexsort((sides, times))
    times = times[order]
    power = np.concatenate((power[after - 1], power[after], power))[order]
    seconds = np.diff(times) / SECOND_NS
    joules = np.concatenate(([0.0], np.cumsum((power[1:] + power[:-1]) / 2 * seconds)))
    missed = _at(times, readings, _MISSED)
    return replace(readings, t_ns=times, columns={"energy_j": joules, _MISSED: missed})


def _shared_out(counter: Series, power: Series) -> Series | None:
    factor = _factor(counter, power)
    if factor is None:
        return None
    return replace(power, columns={**power.columns, "energy_j": power.columns["energy_j"] * factor})


def _factor(counter: Series, power: Series) -> float | None:
    """Return the counter's growth over the integral's, where both are known; None where they never are."""
    both = (counter.t_ns >= power.t_ns[0]) & (counter.t_ns <= power.t_ns[-1])
    times = counter.t_ns[both]
    grown = np.diff(counter.columns["energy_j"][both])
    added = np.diff(_at(times, power, "energy_j"))
    # A counter that went back was reset.
    good = (grown >= 0) & (added > 0) & (np.diff(_at(times, power, _MISSED)) == 0)
    factor = float(grown[good].sum() / added[good].sum()) if good.any() else 0.0
    return factor if factor > 0 else None


def _at(t_ns: NDArray[np.int64], series: Series, column: str) -> Floats:
    # Relative times: float64 holds nanoseconds since boot exactly for 104 days only.
    origin = series.t_ns[0]
    times, read = (t_ns - origin).astype(np.float64), (series.t_ns - origin).astype(np.float64)
    return np.asarray(np.interp(times, read, series.columns[column]))
