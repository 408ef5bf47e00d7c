"""Divide a trial into named phases without gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.model.run import Phase, Trial
from reports.names import PHASE_NAMES, variant_name
from workloads.protocol import BASELINE, FIRST_STEP, STEADY, TUNED, WARM_UP

START, FIRST, WARM, MEASURED, REQUESTS, OTHER = (
    "start-up", "first step", "warm-up", "measured", "requests", "between",
)  # fmt: skip
_KINDS = {FIRST_STEP: FIRST, WARM_UP: WARM, STEADY: MEASURED, REQUESTS: REQUESTS}
# Shorter gaps between phases are ignored.
_MIN_GAP_S = 0.05


@dataclass(frozen=True, slots=True)
class Band:
    """A phase of a trial, in seconds since its start; `variant` is "" for phases shared by all variants."""

    kind: str
    variant: str
    label: str
    start_s: float
    end_s: float


def bands(trial: Trial) -> Sequence[Band]:
    """Return the phases of a trial without gaps; adjacent ones of the same kind and variant are merged."""
    result: list[Band] = []
    for band in _filled(trial):
        if result and (result[-1].kind, result[-1].variant) == (band.kind, band.variant):
            result[-1] = replace(result[-1], end_s=band.end_s)
        else:
            result.append(band)
    return result


def _filled(trial: Trial) -> Iterator[Band]:
    at = 0.0
    requests = (
        Phase(variant=each.variant, name=REQUESTS, start_ns=each.start_ns, end_ns=each.end_ns)
        for each in trial.requests
    )
    for phase in sorted((*trial.phases, *requests), key=lambda each: each.start_ns):
        start, end = ((moment - trial.started_ns) / 1e9 for moment in (phase.start_ns, phase.end_ns))
        if start - at > _MIN_GAP_S:
            kind, label = (OTHER, "between variants") if at else (START, "container start")
            yield Band(kind, "", label, at, start)
        name = PHASE_NAMES.get(phase.name, phase.name)
        kind = _KINDS.get(phase.name, OTHER if phase.variant else START)
        label = f"{name}, {variant_name(phase.variant)}" if phase.variant else name
        yield Band(kind, phase.variant, label, max(start, at), max(end, at))
        at = max(end, at)
    end = (trial.ended_ns - trial.started_ns) / 1e9
    if end - at > _MIN_GAP_S:
        yield Band(OTHER, "", "container end", at, end)


def measured_span(phases: Sequence[Band]) -> tuple[float, float] | None:
    """Return start and end of the measured phases of baseline and tuned, or else of all variants."""
    measured = [band for band in phases if band.kind == MEASURED]
    shown = [band for band in measured if band.variant in (BASELINE, TUNED)] or measured
    return (min(band.start_s for band in shown), max(band.end_s for band in shown)) if shown else None
