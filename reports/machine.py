"""Sentences about the machine itself: its health, its clocks and what it can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean

from harness.analysis.health_checks import UNKNOWN, XIDS
from harness.model.analysis import Analysis, Capability, Cause, Endurance, Outlier, PeakUse, Standing
from harness.model.platform import HOST, Check, HealthItem, Level
from harness.wording import counted
from reports import numbers
from reports.text import device_name, devices_of, variant_name
from workloads.protocol import CORE_SUFFIX


def verdict(analysis: Analysis) -> tuple[str, str]:
    """Return the machine's card and its level: "good", "notice" or "alert"; "" without anything to say."""
    parts = list(_verdict(analysis))
    levels = {item.level for item in analysis.health}
    attention = Level.ATTENTION in levels or _contended(analysis) or bool(analysis.outliers)
    level = "alert" if Level.FAIL in levels else "notice" if attention else "good"
    return ("Machine: " + "; ".join(parts) if parts else ""), level


def _verdict(analysis: Analysis) -> Iterator[str]:
    worst = analysis.problems
    if worst:
        where = "" if worst[0].device == HOST else f"{device_name(worst[0].device)}, "
        more = f"; {counted(len(worst) - 1, 'other finding')}" if len(worst) > 1 else ""
        what = "failing" if worst[0].level is Level.FAIL else "needs attention"
        yield f"{what} ({where}{health(worst[0])}{more})"
    elif analysis.health:
        yield "healthy, but other processes were using its CPUs" if _contended(analysis) else "healthy"
    yield from map(odd_one, analysis.outliers)
    yield from _able(analysis)
    if analysis.capabilities and not _capability_standings(analysis):
        yield "no others of its kind known"
    # One link for all: another one would be a finding.
    links = (item for item in analysis.health if item.check is Check.PCIE and item.level is Level.OK)
    yield from dict.fromkeys(map(health, links))
    if slow := clock(analysis):
        yield slow


def odd_one(each: Outlier) -> str:
    """Return the sentence about a GPU that differs from its neighbours."""
    what = "" if each.family == "all" else f" in {each.family}"
    slower = numbers.percent(1 - each.ratio)
    return f"{device_name(each.device)} is {slower} slower{what} than the other {counted(each.others, 'GPU')} here"


def _capability_standings(analysis: Analysis) -> list[Standing]:
    return [each for each in analysis.standings if each.value.name.startswith("capability.")]


def standing_of(analysis: Analysis, name: str, device: str) -> Standing | None:
    """Return where a value stands among its kind; None if nothing of its kind is known."""
    return next(
        (each for each in analysis.standings if (each.value.name, each.value.device) == (name, device)), None
    )


# From so many others on, places are percentiles; below FEW, between which two a value lies is all there is to say.
MANY, FEW = 20, 5


def place(each: Standing) -> str:
    """Return where a value stands: "between the 2nd and 3rd of 4", "better than 7 of 12", "37th percentile of 39"."""
    count, better = len(each.others), each.better
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


def why(each: Standing) -> str:
    """Return what tells the difference from others apart: "explained by the clock"; "" if nothing does."""
    if each.explained:
        return f"explained by the {' and the '.join(each.explained)}"
    return f"no other has this {' or '.join(each.unshared)}" if each.unshared else ""


def _contended(analysis: Analysis) -> bool:
    return any(each.cause in (Cause.OTHER_PROGRAMS, Cause.STEAL) for each in analysis.findings)


def clock(analysis: Analysis) -> str:
    """Return the lowest mean clock of a variant that something lowered, with the variant and the cause."""
    slowed = [(each.share, each, cause) for each in analysis.clocks if each.share for cause in each.slowed]
    if not slowed:
        return ""
    _, each, cause = min(slowed, key=lambda one: one[0])
    mhz = f"{numbers.number(each.mhz, 4)} of {numbers.number(each.max_mhz, 4)}{numbers.SPACE}MHz"
    return f"{cause.value} lowered the clock of {each.workload} ({variant_name(each.variant)}) to {mhz}"


def _able(analysis: Analysis) -> Iterator[str]:
    """Yield how each kind of device compares with its kind, or else a GPU's FP16 with its data sheet."""
    compared = set()
    for kind in dict.fromkeys(each.kind for each in _capability_standings(analysis)):
        own = [each for each in _capability_standings(analysis) if each.kind == kind]
        devices = dict.fromkeys(each.value.device for each in own)
        compared |= set(devices)
        means = [
            geometric_mean(each.ratio for each in own if each.value.device == device) for device in devices
        ]
        ratios = dict.fromkeys(map(numbers.percent, (min(means), max(means))))
        others = counted(max(len(each.others) for each in own), "other")
        names = [device_name(device) for device in devices]
        which = " and ".join(names) if len(names) < 3 else f"{len(names)} GPUs"
        yield f"{which} at {' to '.join(ratios)} of {others} like it"
    for one in analysis.capabilities:
        if one.name == "fp16" and one.sheet and one.device not in compared:
            at = f" at {load(one)}" if load(one) else ""
            yield f"{device_name(one.device)} FP16 {capability(one)}{at}"


def capability(one: Capability) -> str:
    """Return a measured capability next to its data sheet: "723 of 990 TFLOP/s (73 %)"."""
    value = _rate(one)
    if one.sheet is None:
        return value
    sheet = numbers.rate(one.sheet, one.value.unit)
    number, _, unit = value.partition(numbers.SPACE)
    measured = number if sheet.endswith(f"{numbers.SPACE}{unit}") else value
    return f"{measured} of {sheet}{_share(one)}"


def _rate(one: Capability) -> str:
    return numbers.rate(one.value.median, one.value.unit)


def _share(one: Capability) -> str:
    return f" ({numbers.percent(one.value.median / one.sheet)})" if one.sheet else ""


def load(one: Capability) -> str:
    """Return the clock and power at which a capability was measured; "" if unknown."""
    clock = f"{numbers.number(one.mhz, 4)}{numbers.SPACE}MHz" if one.mhz else ""
    power = f"{one.power_w:.0f}{numbers.SPACE}W" if one.power_w else ""
    return ", ".join(filter(None, (clock, power)))


def capability_name(name: str) -> str:
    """Return the name of a capability."""
    kind, core, _ = name.partition(CORE_SUFFIX)
    return f"{_CAPABILITIES.get(kind, kind.upper())}{', one core' if core else ''}"


def abilities(analysis: Analysis, *, drawn: bool = True) -> Iterator[tuple[str, str]]:
    """Yield each device and all that it can do in one line; without what the chart draws if not `drawn`."""
    for device_, name in devices_of(analysis).items():
        own = [each for each in analysis.capabilities if each.device == device_]
        if line := abilities_line([each for each in own if drawn or not each.sheet]):
            yield name, line


def sustained(each: Endurance) -> str:
    """Return what a device sustained in one line."""
    cold, hot = numbers.rate(each.cold, "FLOP/s"), numbers.rate(each.sustained, "FLOP/s")
    steady = "not steady yet" if each.steady_s is None else f"steady after {numbers.duration(each.steady_s)}"
    units = {"sm_clock_mhz": "MHz", "power_instant_w": "W", "temperature_c": "°C"}
    at = (
        f"{each.telemetry[name]:.0f}{numbers.SPACE}{unit}"
        for name, unit in units.items()
        if name in each.telemetry
    )
    share = numbers.percent(each.sustained / each.cold)
    return ", ".join((f"{cold} cold, {hot} sustained ({share})", steady, *at))


def use(each: PeakUse) -> str:
    """Return how much of its device's peak a variant uses: "22.1 TFLOP/s, 5.7 % of the measured TF32 peak"."""
    rate = numbers.rate(each.flops_per_s, "FLOP/s")
    if each.of_measured is None:
        return rate
    sheet = f" ({numbers.percent(each.of_sheet)} of the data sheet)" if each.of_sheet is not None else ""
    peak = f"the measured {capability_name(each.precision)} peak"
    return f"{rate}, {numbers.percent(each.of_measured)} of {peak}{sheet}"


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
    texts = {each.name: f"{capability_name(each.name)} {_rate(each)}{_share(each)}" for each in measured}
    for each in measured:
        both = texts.get(kind := each.name.removesuffix(CORE_SUFFIX))
        if kind != each.name and both:
            texts[kind] = f"{both} ({_rate(each)} on one core)"
            del texts[each.name]
    return "; ".join(texts.values())


_CAPABILITIES = {
    "memory": "memory",
    "to-device": "host to GPU",
    "to-device-pinned": "host to GPU, pinned",
    "from-device": "GPU to host",
    "from-device-pinned": "GPU to host, pinned",
    "launch": "kernel launches",
    "all-reduce": "all-reduce",
    "jpeg": "JPEG decoding",
    "read": "reading the data",
}


def health(item: HealthItem) -> str:
    """Return what a check found in a few words, and for a problem what to do."""
    if item.level is Level.UNREADABLE:
        return (item.text or "not reported here").rstrip(".")
    observed = _OBSERVED[item.check](item.facts, item.text.rstrip("."))
    remedy = "" if item.level is Level.OK else _REMEDIES.get(item.check)
    return f"{observed}: {remedy}" if remedy else observed


def device(name: str) -> str:
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
_REMEDIES: Mapping[Check, str] = {
    Check.LOST: "reset the GPU, or restart the machine",
    Check.ECC: "reset the GPU, and replace it if they return",
    Check.NVLINK: "read the fabric manager's log",
    Check.PCIE: "reseat the card or check the slot",
    Check.REPLAYS: "reseat the card or check its riser",
    Check.HEAT: "improve the cooling",
    Check.SLOWDOWN: "check power supply and cooling",
    Check.POWER_LIMIT: "raise it with nvidia-smi -pl",
    Check.CLOCKS: "reset them with nvidia-smi -rac and -rgc",
    Check.PROCESSES: "stop what they run, and repeat",
    Check.STEAL: "use a dedicated host",
    Check.GOVERNOR: "set it to performance",
    Check.SWAP: "free memory, and repeat",
    Check.MEMORY: "replace the memory module",
    Check.DISK: "free some space, or use a local disk",
    Check.HUGE_PAGES: "set them to madvise",
}
_OBSERVED: Mapping[Check, Callable[[Facts, str], str]] = {
    Check.LOST: lambda facts, text: text or "yes",
    Check.XID: _xid,
    Check.ECC: _ecc,
    Check.REMAPPED: _remapped,
    Check.NVLINK: _nvlink,
    Check.PCIE: _pcie,
    Check.REPLAYS: lambda facts, text: f"{facts['new']:.0f} during this run",
    Check.HEAT: _heat,
    Check.SLOWDOWN: _slowdown,
    Check.POWER_LIMIT: _power_limit,
    Check.CLOCKS: _clocks,
    Check.PERSISTENCE: _flag("on"),
    Check.MIG: _flag("on: a part of the GPU was measured"),
    Check.CONFIDENTIAL: _flag("on: copies to the GPU are encrypted"),
    Check.PROCESSES: _processes,
    Check.NUMA: _numa,
    Check.STEAL: lambda facts, text: f"{numbers.percent(facts['share'])} of the CPU time went to other VMs",
    Check.GOVERNOR: lambda facts, text: text,
    Check.SWAP: lambda facts, text: f"{numbers.size(facts['bytes'])} moved" if facts["bytes"] else "none",
    Check.HUGE_PAGES: lambda facts, text: text,
    Check.MEMORY: lambda facts, text: f"{facts['new']:.0f} uncorrectable during this run",
    Check.DISK: lambda facts, text: f"{text or 'unknown type'}, {numbers.percent(facts['free'])} free",
}
