"""What training over several workers comes to, in sentences, and what its figures do not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.words import interval, percent, rounded
from harness.model.analysis import Estimate
from harness.model.scaling import Placement, Point
from harness.rounding import counted


def sentences(points: Sequence[Point]) -> Iterator[str]:
    """Yield what the most workers do, over one, for each workload, device and variant."""
    most: dict[tuple[str, str, str], Point] = {}
    for point in points:
        most[point.workload, point.device, point.variant] = point
    for one in most.values():
        if one.efficiency is not None and one.workers > 1:
            faster = _times(one.efficiency, one.workers)
            device = "the CPU" if one.device == "cpu" else one.device
            yield (
                f"{one.variant.replace('-', ' ').capitalize()}, {one.workers} workers on {device} train "
                f"{one.workload} {rounded(faster)} times as fast as one{interval(faster)}: "
                f"{percent(one.efficiency.median)} efficiency."
            )


def caveats(placements: Mapping[int, Placement]) -> Iterator[str]:
    """Yield what must be known before efficiency is taken for that of a network of machines."""
    shared = {workers: one for workers, one in placements.items() if len(set(one.machines)) < workers}
    if not shared:
        return
    workers, most = max(shared.items())
    machines = len(set(most.machines))
    yield (
        f"{workers} workers ran on {counted(machines, 'machine')} "
        f"({', '.join(most.nodes)}): what they exchanged crossed no network between workers of one machine."
    )
    if most.oversubscribed:
        each = max(Counter(most.machines).values())
        which = "its CPUs" if most.processors is None else counted(most.processors, "CPU")
        yield (
            f"The machine was oversubscribed: {each} workers used the same {which}, and one worker alone "
            f"used all of them too. Arithmetic alone keeps efficiency at {percent(1 / each)} or less where "
            "one worker keeps them busy."
        )


def _times(efficiency: Estimate, workers: int) -> Estimate:
    return Estimate(
        median=efficiency.median * workers,
        low=efficiency.low * workers,
        high=efficiency.high * workers,
        n=efficiency.n,
        unit="",
    )
