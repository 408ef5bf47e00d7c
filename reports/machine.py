"""Sentences about the machine itself: its health, its clocks and what it can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from harness.analysis.health_checks import UNKNOWN, XIDS
from harness.model.analysis import Analysis, Capability, Cause, Endurance, Outlier, Pair, PeakUse, Standing
from harness.model.device import is_gpu, positions
from harness.model.metrics import METRICS
from harness.model.platform import HOST, NVLINK, HealthCheck, HealthItem, Level, link_to
from harness.wording import counted
from reports import numbers
from reports.text import device_name, devices_of
from workloads.protocol import (
    ALL_REDUCE,
    ALL_REDUCE_SIZES,
    CORE_SUFFIX,
    NODE_PREFIX,
    all_reduce_mib,
)
from workloads.variants import variant_name


def verdict(analysis: Analysis) -> tuple[str, str]:
    """Return the machine's card and its level: "good", "notice" or "alert"; "" without anything to say."""
    parts = list(_verdict(analysis))
    levels = {item.level for item in analysis.health}
    attention = Level.ATTENTION in levels or _contended(analysis) or bool(analysis.outliers)
    attention = attention or any(pair.odd for pair in analysis.pairs)
    level = "alert" if Level.FAIL in levels else "notice" if attention else "good"
    return ("Machine: " + "; ".join(parts) if parts else ""), level


def _verdict(analysis: Analysis) -> Iterator[str]:
    worst = analysis.problems
    if worst:
        where = "" if worst[0].device == HOST else f"{device_name(worst[0].device)}, "
        more = f"; {counted(len(worst) - 1, 'other finding')}" if len(worst) > 1 else ""
        what = "failing" if worst[0].level is Level.FAIL else "needs attention"
        yield f"{what} ({where}{health_text(worst[0])}{more})"
    elif analysis.health:
        yield "healthy, but other processes were using its CPUs" if _contended(analysis) else "healthy"
    yield from map(odd_one, analysis.outliers)
    if odd := odd_pairs(analysis):
        yield odd
    yield from _able(analysis)
    if analysis.capabilities and not _capability_standings(analysis):
        yield "no others of its kind known"
    # One link for all: another one would be a finding.
    links = (item for item in analysis.health if item.check is HealthCheck.PCIE and item.level is Level.OK)
    yield from dict.fromkeys(map(health_text, links))
    if slow := lowest_clock(analysis):
        yield slow


def odd_one(outlier: Outlier) -> str:
    """Return the sentence about a GPU that differs from its neighbours."""
    what = "" if outlier.family == "all" else f" in {outlier.family}"
    slower = numbers.percent(1 - outlier.ratio)
    others = counted(outlier.others, "GPU")
    return f"{device_name(outlier.device)} is {slower} slower{what} than the other {others} here"


def _capability_standings(analysis: Analysis) -> list[Standing]:
    return [standing for standing in analysis.standings if standing.value.name.startswith("capability.")]


def standing_of(analysis: Analysis, name: str, device: str) -> Standing | None:
    """Return where a value stands among its kind; None if nothing of its kind is known."""
    return next(
        (
            standing
            for standing in analysis.standings
            if (standing.value.name, standing.value.device) == (name, device)
        ),
        None,
    )


# From so many others on, places are percentiles; below FEW, between which two a value lies is all there is to say.
MANY, FEW = 20, 5


def place(standing: Standing) -> str:
    """Return where a value stands: "between the 2nd and 3rd of 4", "better than 7 of 12", "37th percentile of 39"."""
    count, better = len(standing.others), standing.better
    if count >= MANY:
        return f"{_ordinal(round(100 * (count - better) / count))} percentile of {count}"
    if count >= FEW:
        return f"better than {count - better} of {count}"
    if count == 1:
        return "below the only other" if better else "above the only other"
    if not better:
        return f"above all {count}"
    return (
        f"below all {count}"
        if better == count
        else f"between the {_ordinal(better)} and {_ordinal(better + 1)} of {count}"
    )


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def why(standing: Standing) -> str:
    """Return what tells the difference from others apart: "explained by the clock"; "" if nothing does."""
    if standing.explained:
        return f"explained by the {' and the '.join(standing.explained)}"
    return f"no other has this {' or '.join(standing.unshared)}" if standing.unshared else ""


def _contended(analysis: Analysis) -> bool:
    causes = {finding.cause for case in analysis.cases for finding in case.findings}
    return bool(causes & {Cause.OTHER_PROGRAMS, Cause.STEAL})


def lowest_clock(analysis: Analysis) -> str:
    """Return the lowest mean clock of a variant that something lowered: at which load, of which GPU, and by what."""
    slowed = [
        (each.clocks.share, each.clocks, cause, case, variant)
        for case, variant, each in analysis.variants
        if each.clocks and each.clocks.share
        for cause in each.clocks.slowed
    ]
    if not slowed:
        return ""
    _, clocks, cause, case, variant = min(slowed, key=lambda one: one[0])
    mhz = f"{numbers.number(clocks.mhz, 4)} of {numbers.number(clocks.max_mhz, 4)}{numbers.SPACE}MHz"
    name = device_name(case.device)
    gpu = f"the slowest of {name}" if len(positions(case.device)) > 1 else name
    where = f"{case.workload} ({variant_name(variant)})"
    return f"{cause.value} lowered the clock of {gpu} to {mhz} in {where}"


def _able(analysis: Analysis) -> Iterator[str]:
    """Yield how each kind of device compares with its kind, or else a GPU's FP16 with its data sheet."""
    compared = set()
    for kind in dict.fromkeys(standing.kind for standing in _capability_standings(analysis)):
        own = [standing for standing in _capability_standings(analysis) if standing.kind == kind]
        devices = dict.fromkeys(standing.value.device for standing in own)
        compared |= set(devices)
        means = [
            geometric_mean(standing.ratio for standing in own if standing.value.device == device)
            for device in devices
        ]
        ratios = dict.fromkeys(map(numbers.percent, (min(means), max(means))))
        others = counted(max(len(standing.others) for standing in own), "other")
        names = [device_name(device) for device in devices]
        which = " and ".join(names) if len(names) < 3 else f"{len(names)} GPUs"
        yield f"{which} at {' to '.join(ratios)} of {others} like it"
    alike: dict[tuple[str, float], list[Capability]] = {}
    for one in analysis.capabilities:
        if one.name == "fp16" and one.sheet and one.device not in compared:
            alike.setdefault((one.kind, one.sheet), []).append(one)
    yield from map(_half, alike.values())


def _half(measured: Sequence[Capability]) -> str:
    """Return what GPUs of one model reach in FP16 products, each alone, with the load at which they did."""
    first = measured[0]
    if len(measured) == 1:
        at = f", meanwhile {load_text(first)}" if load_text(first) else ""
        return f"{device_name(first.device)} {capability_text(first)} in FP16 products{at}"
    ordered = sorted(measured, key=lambda capability: capability.value.median)
    speeds = dict.fromkeys(
        _rate(capability).partition(numbers.SPACE)[0] for capability in (ordered[0], ordered[-1])
    )
    shares = dict.fromkeys(_share(capability).strip(" ()") for capability in (ordered[0], ordered[-1]))
    loads = [
        " to ".join(dict.fromkeys(f"{end:,.0f}" for end in (min(found), max(found)))) + unit
        for found, unit in (
            ([capability.mhz for capability in measured if capability.mhz], f"{numbers.SPACE}MHz"),
            ([capability.power_w for capability in measured if capability.power_w], f"{numbers.SPACE}W"),
        )
        if found
    ]
    sheet = numbers.rate(first.sheet or 0.0, first.value.unit)
    at = f", meanwhile {', '.join(loads)} each" if loads else ""
    speed, share = " to ".join(speeds), " to ".join(shares)
    return f"{len(measured)} GPUs {speed} of {sheet} each ({share}) in FP16 products, one at a time{at}"


def capability_text(capability: Capability) -> str:
    """Return a measured capability next to its data sheet: "723 of 990 TFLOP/s (73 %)"."""
    value = _rate(capability)
    if capability.sheet is None:
        return value
    sheet = numbers.rate(capability.sheet, capability.value.unit)
    number, _, unit = value.partition(numbers.SPACE)
    measured = number if sheet.endswith(f"{numbers.SPACE}{unit}") else value
    return f"{measured} of {sheet}{_share(capability)}"


def _rate(capability: Capability) -> str:
    return numbers.rate(capability.value.median, capability.value.unit)


def _share(capability: Capability) -> str:
    return f" ({numbers.percent(capability.value.median / capability.sheet)})" if capability.sheet else ""


def load_text(capability: Capability) -> str:
    """Return the mean clock and power of the one GPU while a capability was measured; "" if unknown."""
    clock = f"{numbers.number(capability.mhz, 4)}{numbers.SPACE}MHz" if capability.mhz else ""
    power = f"{capability.power_w:.0f}{numbers.SPACE}W" if capability.power_w else ""
    return ", ".join(filter(None, (clock, power)))


def capability_name(name: str) -> str:
    """Return the name of a capability."""
    if name.startswith(NODE_PREFIX):
        return f"host to GPU, pinned, NUMA node {name.removeprefix(NODE_PREFIX)}"
    if name in ALL_REDUCE_SIZES:
        return f"all-reduce, {_sum_size(name)}"
    kind, core, _ = name.partition(CORE_SUFFIX)
    return f"{_CAPABILITIES.get(kind, kind.upper())}{', one core' if core else ''}"


def abilities(analysis: Analysis, *, drawn: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each device and all that it can do in one line; without what the chart draws if not `drawn`."""
    curves = all_reduces(analysis)
    for device, name in devices_of(analysis).items():
        own = [
            capability
            for capability in analysis.capabilities
            if capability.device == device and not (device in curves and capability.name == ALL_REDUCE)
        ]
        if line := abilities_line([capability for capability in own if drawn or not capability.sheet]):
            yield name, line


def sustained(endurance: Endurance) -> str:
    """Return what a device sustained in one line: its load, and of several GPUs which values are of all or of one."""
    cold, hot = numbers.rate(endurance.cold, "FLOP/s"), numbers.rate(endurance.sustained, "FLOP/s")
    steady = (
        "not steady yet"
        if endurance.steady_s is None
        else f"steady after {numbers.duration(endurance.steady_s)}"
    )
    share = numbers.percent(endurance.sustained / endurance.cold)
    several = len(positions(endurance.device)) > 1
    together = " of all together" if several else ""
    what = f"{endurance.precision.upper()} products" if endurance.precision else "matrix products"
    at = [
        f"{value:,.0f}{numbers.SPACE}{METRICS[name].unit.symbol}"
        for name, value in endurance.telemetry.items()
    ]
    if several and "sm_clock_mhz" in endurance.telemetry:
        at[0] = f"the slowest GPU at {at[0]}"
    if several and len(at) > 1:
        at[1:] = [f"none above {' and '.join(at[1:])}"]
    while_sustained = f"then {', '.join(at)}" if at else ""
    first = f"{what} without pause, {cold} cold, {hot} sustained ({share}){together}"
    return ", ".join(filter(None, (first, steady, while_sustained)))


def use(peak_use: PeakUse, device: str) -> str:
    """Return how much of its device's peak a variant uses: "22.1 TFLOP/s, 5.7 % of the measured TF32 peak"."""
    rate = numbers.rate(peak_use.flops_per_s, "FLOP/s")
    if peak_use.of_measured is None:
        return rate
    sheet = (
        f" ({numbers.percent(peak_use.of_sheet)} of the data sheet)" if peak_use.of_sheet is not None else ""
    )
    peak = f"the measured {capability_name(peak_use.precision)} peak{_each_of(device)}"
    return f"{rate}, {numbers.percent(peak_use.of_measured)} of {peak}{sheet}"


def _each_of(device: str) -> str:
    count = len(positions(device))
    return f" of {count} GPUs" if count > 1 else ""


def bandwidth(each: PeakUse) -> str:
    """Return how much of the memory bandwidth a variant uses; "" if it is unknown."""
    texts = []
    if each.needed_bandwidth is not None:
        texts.append(
            f"weights and cache take {numbers.percent(each.needed_bandwidth)} of the measured bandwidth"
        )
    if each.reported_bandwidth is not None:
        texts.append(f"{numbers.percent(each.reported_bandwidth)} of the theoretical bandwidth in use (GPM)")
    return "; ".join(texts)


def abilities_line(measured: Sequence[Capability]) -> str:
    """Return capabilities in one line, with shares of the data sheet; "" for none."""
    # all_reduces has the sizes.
    measured = [capability for capability in measured if capability.name not in ALL_REDUCE_SIZES]
    texts = {
        capability.name: f"{capability_name(capability.name)} {_rate(capability)}{_share(capability)}"
        for capability in measured
    }
    for capability in measured:
        both = texts.get(kind := capability.name.removesuffix(CORE_SUFFIX))
        if kind != capability.name and both:
            texts[kind] = f"{both} ({_rate(capability)} on one core)"
            del texts[capability.name]
    return "; ".join(texts.values())


_CAPABILITIES = {
    "memory": "memory",
    "to-device": "host to GPU",
    "to-device-pinned": "host to GPU, pinned",
    "from-device": "GPU to host",
    "from-device-pinned": "GPU to host, pinned",
    "launch": "kernel launches",
    "all-reduce": "all-reduce, 256 MiB",
    "jpeg": "JPEG decoding",
    "read": "reading the data",
}


def _sum_size(name: str) -> str:
    mib = all_reduce_mib(name)
    return f"{mib >> 10}{numbers.SPACE}GiB" if mib >= 1024 else f"{mib}{numbers.SPACE}MiB"


def all_reduces(analysis: Analysis) -> dict[str, list[Capability]]:
    """Return the all-reduces of each group of GPUs that has several sizes, smallest first."""
    found: dict[str, list[Capability]] = {}
    for capability in analysis.capabilities:
        if capability.name == ALL_REDUCE or capability.name in ALL_REDUCE_SIZES:
            found.setdefault(capability.device, []).append(capability)
    return {
        device: sorted(own, key=lambda capability: all_reduce_mib(capability.name))
        for device, own in found.items()
        if len(own) > 1
    }


def all_reduce_line(measured: Sequence[Capability]) -> str:
    """Return the bus bandwidth of an all-reduce by size: "12.0 GB/s for 1 MiB, 269 GB/s for 256 MiB"."""
    sizes = ", ".join(f"{_rate(capability)} for {_sum_size(capability.name)}" for capability in measured)
    return f"all-reduce (bus bandwidth as NCCL counts it): {sizes}"


def _between(analysis: Analysis) -> list[Pair]:
    return [pair for pair in analysis.pairs if is_gpu(pair.source) and is_gpu(pair.target)]


def odd_pairs(analysis: Analysis) -> str:
    """Return a sentence about copies that are much slower than the others; "" without any."""
    odd = [pair for pair in analysis.pairs if pair.odd]
    if not odd:
        return ""
    slowest = min(odd, key=lambda pair: pair.ratio or 1.0)
    common = set.intersection(*({pair.source, pair.target} for pair in odd)) - {HOST}
    if len(odd) > 1 and len(common) == 1:
        what = f"copies to and from {device_name(common.pop())} reach {_speeds(odd)}"
    else:
        more = f" ({counted(len(odd) - 1, 'other pair')} slow too)" if len(odd) > 1 else ""
        source, target = checked_device(slowest.source), checked_device(slowest.target)
        what = f"copies from {source} to {target} reach {_speeds([slowest])}{more}"
    return f"{what}, {numbers.percent(slowest.ratio)} of what other pairs reach"


def _speeds(pairs: Sequence[Pair]) -> str:
    ends = (min(pair.value.median for pair in pairs), max(pair.value.median for pair in pairs))
    return " to ".join(dict.fromkeys(numbers.rate(end, "B/s") for end in ends))


def copies_line(analysis: Analysis) -> str:
    """Return what copies between GPUs reach, the odd ones, and the topology; "" if none were measured."""
    between = _between(analysis)
    if not between:
        return ""
    parts = (f"copies between GPUs {_speeds(between)}", odd_pairs(analysis), *topology(analysis))
    return "; ".join(filter(None, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Copies in GB/s, from the device of a row to that of a column.

    Attributes:
        header: cells as macros.html has them.
        rows: the device, and for each column the number and whether it is odd.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]


def matrix(analysis: Analysis) -> Matrix | None:
    """Return the copies between all GPUs, and the host, as a matrix; None if no pair was measured."""
    if not _between(analysis):
        return None
    found = {(pair.source, pair.target): pair for pair in analysis.pairs}
    gpus = sorted({pair.source for pair in _between(analysis)}, key=positions)
    names = [*([HOST] if any(HOST in ends for ends in found) else []), *gpus]
    nodes = dict.fromkeys(pair.source for pair in analysis.pairs if pair.source not in names)

    def cell(source: str, target: str) -> tuple[str, bool]:
        pair = found.get((source, target))
        return (numbers.number(pair.value.median / 1e9), pair.odd) if pair else (numbers.MISSING, False)

    return Matrix(
        header=("GB/s from, to", *(f"n:{checked_device(name)}" for name in names)),
        rows=tuple(
            (checked_device(source), tuple(cell(source, target) for target in names))
            for source in (*nodes, *names)
        ),
    )


def topology(analysis: Analysis) -> Iterator[str]:
    """Yield what NVML says connects the GPUs, whether they read each other, and what the speeds say of it."""
    between = _between(analysis)
    if not between:
        return
    said = Counter(pair.link for pair in between if pair.link)
    if said:
        counts = {
            link: "" if len(said) == 1 else f" ({counted(count, 'pair')})" for link, count in said.items()
        }
        links = (f"{link}{count}" for link, count in counts.items())
        yield f"NVML reports {', '.join(links)}"
    else:
        health, first = analysis.run.health, between[0]
        missing = health.before.missing.get(first.source, {}) if health else {}
        why = missing.get(link_to(first.target), "").rstrip(".")
        yield "NVML does not report what connects them" + (f": {why}" if why else "")
    for direct, text in ((True, "peer access"), (False, "no peer access, so CUDA copies through the host")):
        count = sum(pair.direct is direct for pair in between)
        if count:
            yield text if count == len(between) else f"{text} in {counted(count, 'pair')}"
    limits = [pair.pcie for pair in between if pair.pcie]
    if limits:
        faster = [pair for pair in between if pair.pcie and pair.value.median > pair.pcie]
        most = numbers.rate(max(limits), "B/s")
        if len(faster) == len(between):
            yield f"faster than their PCIe link can carry ({most})"
        elif not faster:
            broken = any(pair.link == NVLINK for pair in between)
            yield f"{'although NVML reports NVLink, ' if broken else ''}not faster than PCIe ({most})"
        else:
            yield f"{counted(len(faster), 'pair')} of {len(between)} faster than PCIe can carry ({most})"


def health_text(item: HealthItem) -> str:
    """Return what a check found in a few words, and for a problem what to do."""
    if item.level is Level.UNREADABLE:
        return (item.text or "not reported here").rstrip(".")
    observed = _OBSERVED[item.check](item.facts, item.text.rstrip("."))
    remedy = "" if item.level is Level.OK else _REMEDIES.get(item.check)
    return f"{observed}: {remedy}" if remedy else observed


def checked_device(name: str) -> str:
    """Return the name of a checked device."""
    return "host" if name == HOST else device_name(name)


Facts = Mapping[str, float]


def _xid(facts: Facts, text: str) -> str:
    if "code" not in facts:
        return "none"
    code = int(facts["code"])
    meaning = XIDS.get(code, UNKNOWN)
    when = "during this run" if facts["during"] else "before this run"
    return f"Xid {code} {when}, {meaning.meaning}: {meaning.action}"


def _ecc(facts: Facts, text: str) -> str:
    during = f", {facts['new']:.0f} of them during this run" if facts["new"] else ""
    ever = f", {facts['ecc_uncorrected_ever']:.0f} ever" if facts.get("ecc_uncorrected_ever") else ""
    return f"{facts['ecc_uncorrected']:.0f} uncorrectable since the driver was loaded{during}{ever}"


def _answers(facts: Facts, text: str) -> str:
    if not facts.get("differing"):
        others = "" if facts["alone"] else ", also to those of the other GPUs"
        cost = f", in {numbers.duration(facts['seconds'])} of all trials" if facts["seconds"] else ""
        return f"{facts['checked']:.0f} seeded results, each equal to the first one bit for bit{others}{cost}"
    at = [
        f"{facts[name]:,.0f}{numbers.SPACE}{unit}"
        for name, unit in (("mhz", "MHz"), ("temperature_c", "°C"))
        if name in facts
    ]
    where = f" at {', '.join(at)}" if at else ""
    than = "another GPU's" if facts["of_others"] else "its first one"
    when = numbers.duration(facts["s"])
    more = facts["differing"] - 1
    rest = f", and {counted(round(more), 'other result')}" if more else ""
    return f"the seeded {text} differs from {than} {when} after the start{where}{rest}"


def _remapped(facts: Facts, text: str) -> str:
    if facts.get("remapping_failed"):
        return "a memory row could not be remapped, so replace the GPU"
    if facts["remapping_pending"]:
        return "a remapping waits for a reset of the GPU"
    return f"{facts.get('remapped_uncorrected', 0) + facts.get('remapped_corrected', 0):.0f} rows remapped"


def _nvlink(facts: Facts, text: str) -> str:
    errors = f", {counted(round(facts['errors']), 'error')} during this run" if facts["errors"] else ""
    return f"{facts['active']:.0f} of {facts['links']:.0f} links active{errors}"


def _pcie(facts: Facts, text: str) -> str:
    now, most = (f"{facts[f'{prefix}gen']:.0f}.0 x{facts[f'{prefix}width']:.0f}" for prefix in ("", "max_"))
    return f"PCIe {now}" if now == most else f"PCIe {now} of {most}"


def _heat(facts: Facts, text: str) -> str:
    return f"{facts['hottest']:.0f} °C at most, slowdown at {facts['limit']:.0f} °C"


def _slowdown(facts: Facts, text: str) -> str:
    return f"{numbers.percent(facts['share'])} of the time under load"


def _power_limit(facts: Facts, text: str) -> str:
    limit, default = facts["power_limit_w"], facts["power_default_w"]
    return f"{limit:.0f} W" + (f", below the default of {default:.0f} W" if limit < default else "")


def _clocks(facts: Facts, text: str) -> str:
    now, default = facts.get("clock_set_mhz", 0.0), facts.get("clock_default_mhz", 0.0)
    if now < default:
        return f"set to {now:.0f} MHz, below {default:.0f} MHz"
    locked = facts.get("share", 0.0)
    return f"limited by a setting for {numbers.percent(locked)} of the time" if locked else "not limited"


def _flag(on: str) -> Callable[[Facts, str], str]:
    return lambda facts, text: on if facts["on"] else "off"


def _processes(facts: Facts, text: str) -> str:
    others = round(facts["others"])
    return counted(others, "other process") if others else "none"


def _numa(facts: Facts, text: str) -> str:
    return f"node {facts['node']:.0f}; the CPUs used are on {counted(round(facts['nodes']), 'node')}"


# What to do about a problem; an Xid's meaning has its own.
_REMEDIES: Mapping[HealthCheck, str] = {
    HealthCheck.LOST: "reset the GPU, or restart the machine",
    HealthCheck.ECC: "reset the GPU, and replace it if they return",
    HealthCheck.ANSWERS: "do not trust its results; run dcgmi diag -r 3, and return it if this repeats",
    HealthCheck.NVLINK: "read the fabric manager's log",
    HealthCheck.PCIE: "reseat the card or check the slot",
    HealthCheck.REPLAYS: "reseat the card or check its riser",
    HealthCheck.HEAT: "improve the cooling",
    HealthCheck.SLOWDOWN: "check power supply and cooling",
    HealthCheck.POWER_LIMIT: "raise it with nvidia-smi -pl",
    HealthCheck.CLOCKS: "reset them with nvidia-smi -rac and -rgc",
    HealthCheck.PROCESSES: "stop what they run, and repeat",
    HealthCheck.STEAL: "use a dedicated host",
    HealthCheck.GOVERNOR: "set it to performance",
    HealthCheck.SWAP: "free memory, and repeat",
    HealthCheck.MEMORY: "replace the memory module",
    HealthCheck.DISK: "free some space, or use a local disk",
    HealthCheck.HUGE_PAGES: "set them to madvise",
}
_OBSERVED: Mapping[HealthCheck, Callable[[Facts, str], str]] = {
    HealthCheck.LOST: lambda facts, text: text or "yes",
    HealthCheck.XID: _xid,
    HealthCheck.ECC: _ecc,
    HealthCheck.ANSWERS: _answers,
    HealthCheck.REMAPPED: _remapped,
    HealthCheck.NVLINK: _nvlink,
    HealthCheck.PCIE: _pcie,
    HealthCheck.REPLAYS: lambda facts, text: f"{facts['new']:.0f} during this run",
    HealthCheck.HEAT: _heat,
    HealthCheck.SLOWDOWN: _slowdown,
    HealthCheck.POWER_LIMIT: _power_limit,
    HealthCheck.CLOCKS: _clocks,
    HealthCheck.PERSISTENCE: _flag("on"),
    HealthCheck.MIG: _flag("on: a part of the GPU was measured"),
    HealthCheck.CONFIDENTIAL: _flag("on: copies to the GPU are encrypted"),
    HealthCheck.PROCESSES: _processes,
    HealthCheck.NUMA: _numa,
    HealthCheck.STEAL: lambda facts, text: (
        f"{numbers.percent(facts['share'])} of the CPU time went to other VMs"
    ),
    HealthCheck.GOVERNOR: lambda facts, text: text,
    HealthCheck.SWAP: lambda facts, text: (
        f"{numbers.size(facts['bytes'])} moved" if facts["bytes"] else "none"
    ),
    HealthCheck.HUGE_PAGES: lambda facts, text: text,
    HealthCheck.MEMORY: lambda facts, text: f"{facts['new']:.0f} uncorrectable during this run",
    HealthCheck.DISK: lambda facts, text: f"{text or 'unknown type'}, {numbers.percent(facts['free'])} free",
}
