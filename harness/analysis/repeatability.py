"""Whether GPUs computed the same bits again, under load and beside each other, as health checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from harness.model.device import gpu_names, of_gpus
from harness.model.platform import HealthCheck, HealthItem, Level
from harness.model.run import Answer, Run, Trial
from workloads.protocol import ANSWERS_CHECKED, ANSWERS_S

# What a difference is recorded with.
_READINGS = {"sm_clock_mhz": "mhz", "temperature_c": "temperature_c"}
# Only results of one script in GPUs of one model are comparable: scripts may change how TensorFlow multiplies.
_Key = tuple[str, str, str, str]  # workload, variant, name of the result, model


class _Seen(NamedTuple):
    answer: Answer
    trial: Trial


def answer_items(run: Run) -> tuple[HealthItem, ...]:
    """Return a check of each GPU whose results were compared.

    It fails if a result differs from the GPU's first one of its kind, or its first one from that of most GPUs of its
    model; of two GPUs that differ, both fail, because either may be wrong. The facts are how many results were
    `checked`, the `seconds` that took, whether the GPU was `alone`; and of the first difference `mhz` and
    `temperature_c`, `s` after the trial began, and `of_others`, 1 if it is one between GPUs.
    """
    models = {of_gpus(position): gpu.name for position, gpu in enumerate(run.manifest.gpus)}
    seen: dict[str, dict[_Key, list[_Seen]]] = {}
    checked: Counter[str] = Counter()
    seconds: Counter[str] = Counter()  # of whole numbers of milliseconds
    for trial in run.trials:
        devices = gpu_names(trial.device)
        for metric in trial.metrics:
            if metric.name == ANSWERS_CHECKED:
                checked.update({device: int(metric.value) // len(devices) for device in devices})
            elif metric.name == ANSWERS_S:
                seconds.update({device: round(1000 * metric.value) for device in devices})
        for answer in trial.answers:
            if 0 <= answer.gpu < len(devices):
                device = devices[answer.gpu]
                key = (trial.workload, answer.variant, answer.name, models.get(device, ""))
                seen.setdefault(device, {}).setdefault(key, []).append(_Seen(answer, trial))
    usual = _usual(seen)
    return tuple(
        _item(
            device,
            keys,
            usual,
            {
                "checked": float(checked[device]),
                "seconds": seconds[device] / 1000,
                "alone": float(len(seen) < 2),
            },
        )
        for device, keys in sorted(seen.items())
    )


def _usual(seen: Mapping[str, Mapping[_Key, list[_Seen]]]) -> dict[_Key, int | None]:
    """Return the first result of most GPUs by key; None if no majority has one."""
    firsts: dict[_Key, Counter[int]] = {}
    for keys in seen.values():
        for key, results in keys.items():
            firsts.setdefault(key, Counter())[results[0].answer.value] += 1
    return {
        key: value if 2 * count > votes.total() else None
        for key, votes in firsts.items()
        for value, count in votes.most_common(1)
    }


def _item(
    device: str,
    keys: Mapping[_Key, list[_Seen]],
    usual: Mapping[_Key, int | None],
    facts: dict[str, float],
) -> HealthItem:
    differing = sorted(_differing(keys, usual), key=lambda found: found[0].answer.t_ns)
    if not differing:
        return HealthItem(device=device, check=HealthCheck.ANSWERS, level=Level.OK, facts=facts)
    (answer, trial), of_others = differing[0]
    facts |= {
        "differing": float(len(differing)),
        "of_others": float(of_others),
        "s": (answer.t_ns - trial.started_ns) / 1e9,
        **dict(_readings(trial, device, answer.t_ns)),
    }
    text = f"{answer.name} in trial {trial.id}"
    return HealthItem(device=device, check=HealthCheck.ANSWERS, level=Level.FAIL, facts=facts, text=text)


def _differing(
    keys: Mapping[_Key, list[_Seen]], usual: Mapping[_Key, int | None]
) -> Iterator[tuple[_Seen, bool]]:
    """Yield the results that differ from the GPU's first, or are its first and differ from other GPUs'."""
    for key, results in keys.items():
        first = results[0].answer.value
        if first != usual[key]:
            yield results[0], True
        yield from ((result, False) for result in results if result.answer.value != first)


def _readings(trial: Trial, device: str, t_ns: int) -> Iterator[tuple[str, float]]:
    """Yield the readings of a GPU nearest to a time."""
    for series in trial.telemetry:
        if series.source != "nvml" or series.device != device or not len(series.t_ns):
            continue
        nearest = int(np.argmin(np.abs(series.t_ns - t_ns)))
        for name, fact in _READINGS.items():
            if name in series.columns and np.isfinite(value := float(series.columns[name][nearest])):
                yield fact, value
