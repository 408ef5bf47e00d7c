"""What a trial did when: every second of it belongs to a named phase."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.model.run import Phase, Trial
from reports.names import PHASE_NAMES, variant_name
from workloads.protocol import BASELINE, FIRST_STEP, STEADY, TUNED, WARM_UP

START, FIRST, WARM, MEASURED, REQUESTS, OTHER = KINDS = (
    "start-up", "first step", "warm-up", "measured", "requests", "between",
)  # fmt: skip
_COLOURS = dict(zip(KINDS, ("start", "first", "warm", "measured", "requests", "other"), strict=True))
_KINDS = {FIRST_STEP: FIRST, WARM_UP: WARM, STEADY: MEASURED, REQUESTS: REQUESTS}
# Phases that touch within this are one.
_TOUCHING_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A stretch of a trial, in seconds since it began; `variant` is "" for what all variants share."""

    kind: str
    variant: str
    label: str
    start_s: float
    end_s: float

    @property
    def colour(self) -> str:
        """Its CSS colour."""
        return f"var(--phase-{_COLOURS[self.kind]})"


def bands(trial: Trial) -> tuple[Band, ...]:
    """Return the phases of a trial without a gap, those of one kind and variant that touch as one."""
    result: list[Band] = []
    for band in _filled(trial):
        last = result[-1] if result else None
        if last and (last.kind, last.variant) == (band.kind, band.variant):
            result[-1] = replace(last, end_s=band.end_s)
        else:
            result.append(band)
    return tuple(result)


def _filled(trial: Trial) -> Iterator[Band]:
    at = 0.0
    requests = (
        Phase(variant=each.variant, name=REQUESTS, start_ns=each.start_ns, end_ns=each.end_ns)
        for each in trial.requests
    )
    for phase in sorted((*trial.phases, *requests), key=lambda each: each.start_ns):
        start, end = ((moment - trial.started_ns) / 1e9 for moment in (phase.start_ns, phase.end_ns))
        if start - at > _TOUCHING_S:
            kind, label = (START, "container start") if not at else (OTHER, "between variants")
            yield Band(kind=kind, variant="", label=label, start_s=at, end_s=start)
        name = PHASE_NAMES.get(phase.name, phase.name)
        yield Band(
            kind=_KINDS.get(phase.name, OTHER if phase.variant else START),
            variant=phase.variant,
            label=f"{name}, {variant_name(phase.variant)}" if phase.variant else name,
            start_s=max(start, at),
            end_s=max(end, at),
        )
        at = max(end, at)
    end = (trial.ended_ns - trial.started_ns) / 1e9
    if end - at > _TOUCHING_S:
        yield Band(kind=OTHER, variant="", label="container end", start_s=at, end_s=end)


def measured_span(phases: tuple[Band, ...]) -> tuple[float, float] | None:
    """Return the seconds from the first to the last measured stretch of baseline and tuned; else of all."""
    measured = [band for band in phases if band.kind == MEASURED]
    own = [band for band in measured if band.variant in (BASELINE, TUNED)] or measured
    return (min(band.start_s for band in own), max(band.end_s for band in own)) if own else None
