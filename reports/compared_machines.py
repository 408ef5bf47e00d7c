"""What the machines of a comparison can do, and whether that explains how fast their workloads are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean, median

from harness.model.analysis import NORMAL_BAND
from harness.model.comparison import Extract, Versus
from reports import machine, numbers
from reports.names import device_name
from workloads.protocol import COPIES, PRECISIONS

# Others depend on the disk, or are a matter of a part of a workload.
_COMPARED = (*PRECISIONS, "memory", *COPIES, "launch", "jpeg")


def table(versus: Versus, shown: Sequence[int]) -> list[tuple[str, ...]]:
    """Return a row per device and capability: its name, and its value in each run with the ratio to the reference."""
    values = [_values(versus.runs[run]) for run in shown]
    reference = _values(versus.runs[versus.reference])
    rows = []
    for device, name in dict.fromkeys(key for each in values for key in each):
        cells = []
        for run, own in zip(shown, values, strict=True):
            found, base = own.get((device, name)), reference.get((device, name))
            text = numbers.rate(*found) if found else numbers.MISSING
            if found and base and run != versus.reference:
                text += f" ({numbers.ratio(found[0] / base[0])})"
            cells.append(text)
        rows.append((f"{device_name(device)} {machine.capability_name(name)}", *cells))
    return rows


def notes(versus: Versus) -> Iterator[str]:
    """Yield for each run and device how its machine and its speeds compare with the reference's."""
    reference = _values(versus.runs[versus.reference])
    for number, run in enumerate(versus.runs):
        own = _values(run) if number != versus.reference else {}
        for device in dict.fromkeys(device for device, _ in own):
            ratios = [own[key][0] / reference[key][0] for key in own if key[0] == device and key in reference]
            speeds = [
                each.ratio.median
                for each in versus.results
                if (each.run, each.device) == (number, device) and each.ratio
            ]
            if ratios:
                yield _note(versus, run, device, geometric_mean(ratios), speeds)


def _note(versus: Versus, run: Extract, device: str, able: float, speeds: Sequence[float]) -> str:
    label = versus.runs[versus.reference].label
    text = f"{run.label}, {device_name(device)}: the machine is {numbers.ratio(able)} {label}"
    if not speeds:
        return f"{text}."
    measured = median(speeds)
    if abs(math.log(measured / able)) <= NORMAL_BAND:
        return f"{text}, which explains its speeds, {numbers.ratio(measured)} in the median."
    return f"{text}; its speeds, {numbers.ratio(measured)} in the median, have other causes."


def _values(run: Extract) -> Mapping[tuple[str, str], tuple[float, str]]:
    return {
        (each.device, each.name): (each.value.median, each.value.unit)
        for each in run.capabilities
        if each.name in _COMPARED
    }
