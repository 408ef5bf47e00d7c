"""Sentences about the machine itself: its health, its clocks and what it can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import geometric_mean

from harness.analysis.health_checks import UNKNOWN, XIDS
from harness.model.analysis import Analysis, Capability, Cause, Endurance, Outlier, PeakUse, Standing
from harness.model.metrics import METRICS
from harness.model.platform import HOST, HealthCheck, HealthItem, Level
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
    links = (item for item in analysis.health if item.check is HealthCheck.PCIE and item.level is Level.OK)
    yield from dict.fromkeys(map(health, links))
    if slow := clock(analysis):
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
    return any(finding.cause in (Cause.OTHER_PROGRAMS, Cause.STEAL) for finding in analysis.findings)


def clock(analysis: Analysis) -> str:
    """Return the lowest mean clock of a variant that something lowered, with the variant and the cause."""
    slowed = [
        (clock.share, clock, cause) for clock in analysis.clocks if clock.share for cause in clock.slowed
    ]
    if not slowed:
        return ""
    _, clocks, cause = min(slowed, key=lambda one: one[0])
    mhz = f"{numbers.number(clocks.mhz, 4)} of {numbers.number(clocks.max_mhz, 4)}{numbers.SPACE}MHz"
    return f"{cause.value} lowered the clock of {clocks.workload} ({variant_name(clocks.variant)}) to {mhz}"


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
        own = [capability for capability in analysis.capabilities if capability.device == device_]
        if line := abilities_line([capability for capability in own if drawn or not capability.sheet]):
            yield name, line


def sustained(endurance: Endurance) -> str:
    """Return what a device sustained in one line."""
    cold, hot = numbers.rate(endurance.cold, "FLOP/s"), numbers.rate(endurance.sustained, "FLOP/s")
    steady = (
        "not steady yet"
        if endurance.steady_s is None
        else f"steady after {numbers.duration(endurance.steady_s)}"
    )
    at = (
        f"{value:.0f}{numbers.SPACE}{METRICS[name].unit.symbol}"
        for name, value in endurance.telemetry.items()
    )
    share = numbers.percent(endurance.sustained / endurance.cold)
    return ", ".join((f"{cold} cold, {hot} sustained ({share})", steady, *at))


def use(peak_use: PeakUse) -> str:
    """Return how much of its device's peak a variant uses: "22.1 TFLOP/s, 5.7 % of the measured TF32 peak"."""
    rate = numbers.rate(peak_use.flops_per_s, "FLOP/s")
    if peak_use.of_measured is None:
        return rate
    sheet = (
        f" ({numbers.percent(peak_use.of_sheet)} of the data sheet)" if peak_use.of_sheet is not None else ""
    )
    peak = f"the measured {capability_name(peak_use.precision)} peak"
    return f"{rate}, {numbers.percent(peak_use.of_measured)} of {peak}{sheet}"


def abilities_line(measured: Sequence[Capability]) -> str:
    """Return capabilities in one line, with shares of the data sheet; "" for none."""
    texts = {
        capability_.name: f"{capability_name(capability_.name)} {_rate(capability_)}{_share(capability_)}"
        for capability_ in measured
    }
    for capability_ in measured:
        both = texts.get(kind := capability_.name.removesuffix(CORE_SUFFIX))
        if kind != capability_.name and both:
            texts[kind] = f"{both} ({_rate(capability_)} on one core)"
            del texts[capability_.name]
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
_REMEDIES: Mapping[HealthCheck, str] = {
    HealthCheck.LOST: "reset the GPU, or restart the machine",
    HealthCheck.ECC: "reset the GPU, and replace it if they return",
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
