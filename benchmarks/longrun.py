"""A recorded trial made long and wide: laid end to end in time, and given to several GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Gpu, PlannedTrial, Run, Series, Status, StepTimes, Trial, Window
from harness.telemetry.metrics import COUNTERS

SECONDS = 3600
CARDS = 8


def lengthened(run: Run, seconds: float = SECONDS, cards: int = CARDS) -> Run:
    """Return a run of one trial of `seconds` on `GPUs` GPUs, made of the longest trial on a GPU.

    Raises:
        ValueError: there is none.
    """
    fit = [t for t in run.trials if t.device.startswith("gpu") and t.windows and t.status is Status.OK]
    if not fit:
        raise ValueError("the recording has no trial on a GPU that went well")
    trial = max(fit, key=lambda one: one.ended_ns - one.started_ns)
    device = "+".join(f"gpu{place}" for place in range(cards))
    long = _long(trial, seconds, device, cards)
    planned = PlannedTrial(
        id=long.id,
        workload=long.workload,
        device=device,
        index=0,
        variants=tuple(one.variant for one in long.variants),
    )
    manifest = replace(run.manifest, gpus=tuple(_card(run.manifest.gpus[0], place) for place in range(cards)))
    declared = tuple(one for one in run.workloads if one.name == trial.workload)
    return replace(run, manifest=manifest, workloads=declared, planned=(planned,), trials=(long,), stops=())


def _card(card: Gpu, place: int) -> Gpu:
    return replace(card, index=place, uuid=f"{card.uuid[:-2]}{place:02d}")


def _long(trial: Trial, seconds: float, device: str, cards: int) -> Trial:
    """Repeat what follows the first window's start: cold start comes once."""
    first = min(window.start_ns for window in trial.windows)
    last = max(window.end_ns for window in trial.windows)
    span = last - first
    copies = max(1, round((seconds * 1e9 - (first - trial.started_ns)) / span))
    telemetry = []
    for series in trial.telemetry:
        long = _series(series, first, last, copies)
        names = [f"gpu{place}" for place in range(cards)] if series.device == "gpu0" else [series.device]
        telemetry += [replace(long, device=name) for name in names]
    steady = [phase for phase in trial.phases if phase.start_ns >= first and phase.end_ns <= last]
    return replace(
        trial,
        id=f"{trial.workload}.{device}.0",
        device=device,
        index=0,
        ended_ns=trial.ended_ns + (copies - 1) * span,
        phases=(
            *(phase for phase in trial.phases if phase not in steady),
            *(
                replace(phase, start_ns=phase.start_ns + at, end_ns=phase.end_ns + at)
                for at in _shifts(span, copies)
                for phase in steady
            ),
        ),
        windows=tuple(_windows(trial.windows, span, copies)),
        steps=tuple(_steps(trial, copies)),
        telemetry=tuple(telemetry),
        gaps=(),
    )


def _shifts(span: int, copies: int) -> Iterable[int]:
    return (copy * span for copy in range(copies))


def _per_variant(windows: Sequence[Window]) -> dict[str, int]:
    return {
        variant: 1 + max(w.index for w in windows if w.variant == variant)
        for variant in {w.variant for w in windows}
    }


def _windows(windows: Sequence[Window], span: int, copies: int) -> Iterable[Window]:
    counts = _per_variant(windows)
    for copy, at in enumerate(_shifts(span, copies)):
        for one in windows:
            yield replace(
                one,
                index=one.index + copy * counts[one.variant],
                start_ns=one.start_ns + at,
                end_ns=one.end_ns + at,
            )


def _steps(trial: Trial, copies: int) -> Iterable[StepTimes]:
    counts = _per_variant(trial.windows)
    for copy in range(copies):
        for one in trial.steps:
            yield replace(one, window=one.window + copy * counts[one.variant])


def _series(series: Series, first: int, last: int, copies: int) -> Series:
    """Repeat the readings between `first` and `last`; counters go on growing."""
    inside = (series.t_ns >= first) & (series.t_ns < last)
    before, after = series.t_ns < first, series.t_ns >= last
    shifts = np.repeat(np.arange(copies, dtype=np.int64), int(inside.sum()))
    span = last - first
    t_ns = np.concatenate(
        (
            series.t_ns[before],
            np.tile(series.t_ns[inside], copies) + shifts * span,
            series.t_ns[after] + (copies - 1) * span,
        )
    )
    columns = {
        name: _column(name, values, before, inside, after, copies) for name, values in series.columns.items()
    }
    return replace(series, t_ns=t_ns, columns=columns)


def _column(
    name: str,
    values: NDArray[np.float64],
    before: NDArray[np.bool_],
    inside: NDArray[np.bool_],
    after: NDArray[np.bool_],
    copies: int,
) -> NDArray[np.float64]:
    middle = values[inside]
    known = middle[np.isfinite(middle)]
    grows = name in COUNTERS and len(known) > 1
    growth = float(known[-1] - known[0]) * len(known) / (len(known) - 1) if grows else 0.0
    added = np.repeat(np.arange(copies) * growth, len(middle))
    return np.concatenate(
        (values[before], np.tile(middle, copies) + added, values[after] + (copies - 1) * growth)
    )
