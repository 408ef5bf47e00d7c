"""The numbers of a run by name: what limits, files of known machines and the JSON export refer to.

`QUANTITIES` is the only list of them. A new one is a row here; docs/limits.md has the table, which a test checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from harness.analysis.capabilities import unit_of
from harness.model.analysis import (
    Analysis,
    Estimate,
    Generation,
    PeakUse,
    RatioKind,
    Value,
    VariantResult,
)
from harness.model.device import gpu_names, is_gpu, of_gpus, positions
from harness.model.platform import Level
from harness.model.run import PlannedTrial
from workloads.protocol import (
    ALL_REDUCE_SIZES,
    CPU_CAPABILITIES,
    GPU_CAPABILITIES,
    GROUP_CAPABILITIES,
    MACHINE,
    PEER_PREFIX,
    SOAK,
    peers_of,
)
from workloads.variants import BASELINE, TUNED, measures_speed

# The words of `health`, as the numbers that it is compared by.
HEALTH_LEVELS: Mapping[str, float] = {"ok": 0.0, "attention": 1.0, "fail": 2.0}
_SEVERITY = {Level.OK: 0.0, Level.UNREADABLE: 0.0, Level.ATTENTION: 1.0, Level.FAIL: 2.0}
CAPABILITIES = tuple(
    dict.fromkeys((*GPU_CAPABILITIES, *GROUP_CAPABILITIES, *ALL_REDUCE_SIZES, *CPU_CAPABILITIES))
)

# What the words in capitals of a pattern stand for.
_PLACEHOLDERS = {
    "CAPABILITY": "|".join(map(re.escape, CAPABILITIES)),
    "WORKLOAD": r"[\w+-]+",
    "VARIANT": rf"{BASELINE}|{TUNED}|opt:[\w+-]+",
    "GPUS": r"[1-9]\d?",
}

Named = Iterator[tuple[str, str, Estimate]]  # name, device, value


class Quantity(NamedTuple):
    """A number, or a family of them whose names follow a pattern.

    Attributes:
        pattern: the name; words in capitals stand for others.
        units: name -> the units in which its values may be.
        meaning, needs: for people: what it is, and what a run needs to measure it.
        example: a limit.
        read: yields the values that an analysis has.
        planned: yields the names that a trial measures on its device.
        lower: whether lower is better.
        exact: whether a single reading is final.
        everywhere: whether a limit applies to all devices, not to GPUs before CPUs.
        kept: whether `--write-limits` and files of known machines have it.
        devices: yields the devices that the values of a planned trial are of.
    """

    pattern: str
    units: Callable[[str], tuple[str, ...]]
    meaning: str
    needs: str
    example: str
    read: Callable[[Analysis], Named]
    planned: Callable[[PlannedTrial], Iterator[str]]
    lower: bool = False
    exact: bool = False
    everywhere: bool = False
    kept: bool = False
    devices: Callable[[PlannedTrial], Iterator[str]] = lambda trial: iter([trial.device])

    def names(self, name: str) -> Mapping[str, str] | None:
        """Return what the words in capitals stand for in a name; None if it does not follow the pattern."""
        pattern = re.escape(self.pattern)
        for word, form in _PLACEHOLDERS.items():
            pattern = pattern.replace(word, f"(?P<{word}>{form})")
        match = re.fullmatch(pattern, name)
        return match.groupdict() if match else None


def _always(*units: str) -> Callable[[str], tuple[str, ...]]:
    return lambda name: units


def _capabilities(analysis: Analysis) -> Named:
    for each in analysis.capabilities:
        yield f"capability.{each.name}", each.device, each.value


def _planned_capabilities(trial: PlannedTrial) -> Iterator[str]:
    if trial.workload == MACHINE:
        yield from (f"capability.{each}" for each in trial.variants if each in CAPABILITIES)


def _peers(analysis: Analysis) -> Named:
    for pair in analysis.pairs:
        if is_gpu(pair.source) and is_gpu(pair.target):
            yield "peer", f"{pair.source}+{pair.target}", pair.value


def _planned_pairs(trial: PlannedTrial) -> Iterator[str]:
    for variant in trial.variants:
        if variant.startswith(PEER_PREFIX):
            yield of_gpus(*(trial.gpus[number] for number in peers_of(variant)))


def _planned_peers(trial: PlannedTrial) -> Iterator[str]:
    if any(variant.startswith(PEER_PREFIX) for variant in trial.variants):
        yield "peer"


def _speeds(analysis: Analysis) -> Named:
    for case, variant, _ in analysis.variants:
        if measures_speed(variant) and (speed := case.speed(variant)):
            yield f"{case.workload}.{variant}", case.device, speed


def _of_variant(
    suffix: str, value: Callable[[VariantResult], Estimate | None]
) -> Callable[[Analysis], Named]:
    def read(analysis: Analysis) -> Named:
        for case, variant, result in analysis.variants:
            if measures_speed(variant) and (found := value(result)):
                yield f"{case.workload}.{variant}.{suffix}", case.device, found

    return read


def _of_peak(suffix: str, share: Callable[[PeakUse], float | None]) -> Callable[[Analysis], Named]:
    """Return a reader of shares of a peak, with the relative interval of the speed."""

    def value(result: VariantResult) -> Estimate | None:
        if not result.peak_use or not (found := share(result.peak_use)):
            return None
        factor = found / result.throughput.median
        return result.throughput.map(lambda speed: speed * factor, "ratio")

    return _of_variant(suffix, value)


def _tokens(suffix: str, times: Callable[[Generation], Mapping[str, float]]) -> Callable[[Analysis], Named]:
    """Return what reads a median of the smallest batch that was timed."""

    def value(result: VariantResult) -> Estimate | None:
        smallest = next(iter(result.generation), None)
        return _exactly(times(smallest).get("p50") if smallest else None, "s")

    return _of_variant(suffix, value)


def _scaling(analysis: Analysis) -> Named:
    for case in analysis.cases:
        ratio = case.ratio(RatioKind.SCALING, TUNED) or case.ratio(RatioKind.SCALING, BASELINE)
        if ratio:
            yield f"scaling.{case.workload}.{len(positions(case.device))}", case.device, ratio


def _planned_scaling(trial: PlannedTrial) -> Iterator[str]:
    if trial.workload != MACHINE and not trial.point and len(trial.gpus) > 1:
        yield f"scaling.{trial.workload}.{len(trial.gpus)}"


def _soak(end: str) -> Callable[[Analysis], Named]:
    def read(analysis: Analysis) -> Named:
        for each in analysis.endurance:
            yield f"soak.{end}", each.device, Estimate.exact(getattr(each, end), "FLOP/s")

    return read


def _planned_soak(end: str) -> Callable[[PlannedTrial], Iterator[str]]:
    return lambda trial: iter([f"soak.{end}"] if SOAK in trial.variants else [])


def _health(analysis: Analysis) -> Named:
    worst: dict[str, float] = {}
    for each in analysis.health:
        worst[each.device] = max(worst.get(each.device, 0.0), _SEVERITY[each.level])
    for device, level in worst.items():
        yield "health", device, Estimate.exact(level, "level")


def _planned(suffix: str) -> Callable[[PlannedTrial], Iterator[str]]:
    def names(trial: PlannedTrial) -> Iterator[str]:
        # The points of a sweep are no cases.
        if trial.workload != MACHINE and not trial.point:
            yield from (f"{trial.workload}.{each}{suffix}" for each in trial.variants if measures_speed(each))

    return names


def _exactly(value: float | None, unit: str) -> Estimate | None:
    return None if value is None else Estimate.exact(value, unit)


_MACHINE = "--machine, the default, without --variants, --no-analysis or a sweep"
_WORKLOAD = "the workload in the run"
QUANTITIES = (
    Quantity(
        "health", _always("level"), "the worst health check of GPUs and host: ok, attention or fail",
        "nothing else",
        "health = ok", _health, lambda trial: iter(["health"]), lower=True, exact=True, everywhere=True, kept=True,
    ),
    Quantity(
        "capability.CAPABILITY", lambda name: (unit_of(name.partition(".")[2]),), "what a device can do at best",
        f"{_MACHINE}, and a device that has it", "capability.bf16 >= 650 TFLOP/s",
        _capabilities, _planned_capabilities, kept=True,
    ),
    Quantity(
        "peer", _always("B/s"), "copies from one GPU to another, of each pair in both directions",
        f"{_MACHINE}, and --device gpu0+gpu1 or scaling", "peer >= 200 GB/s", _peers, _planned_peers,
        devices=_planned_pairs,
    ),
    Quantity(
        "WORKLOAD.VARIANT", _always("samples/s", "requests/s"),
        "speed; of a workload that serves, requests/s within its latency bound", _WORKLOAD,
        "resnet50.tuned >= 6400 samples/s", _speeds, _planned(""), kept=True,
    ),
    Quantity(
        "WORKLOAD.VARIANT.step", _always("s"), "time of a training step", _WORKLOAD, "gpt2.baseline.step <= 210 ms",
        _of_variant("step", lambda each: each.step_time), _planned(".step"), lower=True,
    ),
    Quantity(
        "WORKLOAD.VARIANT.mfu", _always("ratio"), "share of the data sheet's peak (MFU)",
        "--machine, and a GPU with a data sheet", "gpt2.tuned.mfu >= 0.35",
        _of_peak("mfu", lambda use: use.of_sheet), _planned(".mfu"),
    ),
    Quantity(
        "WORKLOAD.VARIANT.bandwidth", _always("ratio"),
        "share of the measured memory bandwidth that weights and cache take, of a workload that generates tokens",
        "--machine, and such a workload", "gpt2-generate.tuned.bandwidth >= 0.6",
        _of_peak("bandwidth", lambda use: use.needed_bandwidth),
        _planned(".bandwidth"),
    ),
    Quantity(
        "WORKLOAD.VARIANT.first-token", _always("s"), "median time to the first token, at the smallest batch",
        "a workload that generates tokens", "gpt2-generate.tuned.first-token <= 20 ms",
        _tokens("first-token", lambda each: each.first_s), _planned(".first-token"),
        lower=True, exact=True,
    ),
    Quantity(
        "WORKLOAD.VARIANT.token", _always("s"), "median time of a further token, at the smallest batch",
        "a workload that generates tokens", "gpt2-generate.tuned.token <= 2 ms",
        _tokens("token", lambda each: each.token_s), _planned(".token"),
        lower=True, exact=True,
    ),
    Quantity(
        "WORKLOAD.VARIANT.energy", _always("J/sample"), "energy for a sample", "a GPU or CPU with an energy counter",
        "resnet50.tuned.energy <= 0.12 J/sample", _of_variant("energy", lambda each: each.energy_j_per_sample),
        _planned(".energy"), lower=True,
    ),
    Quantity(
        "WORKLOAD.VARIANT.memory", _always("B"), "largest memory in use", _WORKLOAD,
        "gpt2.tuned.memory <= 40 GB", _of_variant("memory", lambda each: _exactly(each.memory_bytes, "B")),
        _planned(".memory"), lower=True, exact=True,
    ),
    Quantity(
        "scaling.WORKLOAD.GPUS", _always("ratio"), "speed per GPU of several over one alone; tuned, if measured",
        "--device scaling, or gpu0,gpu0+gpu1", "scaling.resnet50.4 >= 0.95", _scaling, _planned_scaling, kept=True,
    ),
    Quantity(
        "soak.cold", _always("FLOP/s"), "speed at the beginning of a load without pause", "--soak 10m",
        "soak.cold >= 640 TFLOP/s", _soak("cold"), _planned_soak("cold"), exact=True,
    ),
    Quantity(
        "soak.sustained", _always("FLOP/s"), "speed at its end", "--soak 10m",
        "soak.sustained / soak.cold >= 0.9", _soak("sustained"), _planned_soak("sustained"), exact=True, kept=True,
    ),
)  # fmt: skip


def quantity_of(name: str) -> Quantity | None:
    """Return the quantity that a name belongs to; None for a name that follows no pattern."""
    return next((each for each in QUANTITIES if each.names(name) is not None), None)


def values(analysis: Analysis, *, kept: bool = False) -> tuple[Value, ...]:
    """Return every named number of an analysis; only those of known machines' files if `kept`."""
    return tuple(
        Value(name=name, device=device, estimate=estimate, lower=each.lower, exact=each.exact)
        for each in QUANTITIES
        if each.kept or not kept
        for name, device, estimate in each.read(analysis)
        if each.names(name) is not None  # reports of others may have any names
    )


def planned_names(trials: Iterable[PlannedTrial]) -> Mapping[str, tuple[str, ...]]:
    """Return each name that a plan measures, with its devices."""
    result: dict[str, dict[str, None]] = {}
    for trial in trials:
        for each in QUANTITIES:
            for name in each.planned(trial):
                result.setdefault(name, {}).update(dict.fromkeys(each.devices(trial)))
    return {name: tuple(devices) for name, devices in result.items()}


def applying(found: Iterable[Value], device: str) -> tuple[Value, ...]:
    """Return the values of one name that a limit is about: those of its device, or else of single GPUs, if any."""
    found = tuple(found)
    if device:
        return tuple(each for each in found if each.device == device)
    quantity = quantity_of(found[0].name) if found else None
    if quantity and quantity.everywhere:
        return found
    single = tuple(each for each in found if len(gpu_names(each.device)) == 1)
    return single or found
