"""Rules on what holds the device down from outside the program: quotas, other load, power and heat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.analysis.align import gpu_names
from harness.analysis.case import FREE, Case, cpus_used, host_busy, host_idle
from harness.analysis.remedies import without
from harness.analysis.words import percent, significant
from harness.model.analysis import Evidence, Finding, Remedy, Verdict
from harness.model.run import Gpu
from workloads.protocol import BASELINE, CALLS_PREFIX, MODEL_ONLY

# kubernetes-mixin, alert CPUThrottlingHigh: a quarter of the quota periods in which it ran out.
THROTTLED_PERIODS = 0.25
# xprof calls a loss of 5 % of the time moderate; the same mark is used for time that others took.
MODERATE = 0.05

STOLEN, OTHERS = "taken by the hypervisor (steal)", "used by other programs"


def cpu_quota(case: Case) -> Verdict:
    """Tell whether the container's CPU quota ran out, by kubernetes-mixin's CPUThrottlingHigh (25 %)."""
    rule = "cpu-quota"
    periods = case.host(BASELINE, "cgroup", "cpu_periods_per_s")
    throttled = case.host(BASELINE, "cgroup", "cpu_throttled_periods_per_s")
    if periods is None or throttled is None:
        if case.host(BASELINE, "cgroup", "cpu_usage_s_per_s") is not None:
            return case.verdict(rule, Finding.CLEAR, "The container has no CPU quota.")
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            f"Whether a CPU quota slowed it down cannot be told: {_unread(case, 'cgroup')}.",
        )
    share = throttled / periods if periods > 0 else 0.0
    evidence = (
        Evidence(
            metric="quota periods that ran out", observed=percent(share), threshold=percent(THROTTLED_PERIODS)
        ),
    )
    if share < THROTTLED_PERIODS:
        sentence = "No CPU quota slowed it down." if periods == 0 else "The CPU quota hardly ever ran out."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=0.0)
    return case.verdict(
        rule,
        Finding.FOUND,
        f"The container's CPU quota ran out in {percent(share)} of its periods: the program was made to "
        f"stand still "
        f"while CPUs were free.",
        cause="the container's CPU quota",
        evidence=evidence,
        cost=_withheld(case, share),
        remedy=Remedy(
            text="Lift the container's CPU quota, or give it whole CPUs instead.",
            code="docker update --cpus 0 CONTAINER  # or pin it: --cpuset-cpus 0-7",
            predicted_gain=without(_withheld(case, share)),
            measured_gain=None,
        ),
    )


def _withheld(case: Case, share: float) -> float:
    """Return the share of baseline's time that the quota cost; of the periods where no variant tells.

    A step takes no less without the quota than it takes now while it is let run, and no less than the model
    alone takes while that is let run: time in which a device computes passes under a quota too.
    """
    written = case.variants.get(BASELINE)
    stood = _stood_still(case, BASELINE)
    if written is None or not stood:
        return share
    needed_s = [written.step_time.median * (1.0 - stood)]
    for variant, one in case.variants.items():
        if variant == MODEL_ONLY or variant.startswith(CALLS_PREFIX):
            held = _stood_still(case, variant)
            needed_s += [] if held is None else [one.step_time.median * (1.0 - held)]
    return max(0.0, 1.0 - max(needed_s) / written.step_time.median)


def _stood_still(case: Case, variant: str) -> float | None:
    """Return the share of a variant's time in which it stood still: what was withheld of what it wanted."""
    throttled = case.host(variant, "cgroup", "cpu_throttled_s_per_s")
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    if throttled is None or not used:
        return None
    return min(throttled, throttled / (throttled + used))


def _unread(case: Case, source: str) -> str:
    return "too short to tell" if case.too_short(source) else f"no {source} telemetry"


def contended_host(case: Case) -> Verdict:
    """Tell whether others took CPU time that this could have used: other guests (steal) or programs.

    Threshold: 5 % of it, which is where xprof begins to call a loss moderate. Others cost nothing while
    CPUs are free.
    """
    rule = "contended-host"
    steal = case.host(BASELINE, "host", "cpu_steal_pct")
    others = _others(case, steal or 0.0)
    if steal is None and others is None:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            f"Whether others used the machine cannot be told: {_unread(case, 'host')}.",
        )
    free = host_idle(case, BASELINE)
    shares = {
        STOLEN: (steal or 0.0) / 100,
        OTHERS: others or 0.0,
    }
    evidence = [
        Evidence(metric=f"CPU time {name}", observed=percent(value), threshold=percent(MODERATE))
        for name, value in shares.items()
    ]
    evidence += _rest(case)
    enough = free is not None and free >= FREE
    felt = {**shares, OTHERS: 0.0} if enough else shares
    worst, share = max(felt.items(), key=lambda item: item[1])
    if share < MODERATE:
        return case.verdict(
            rule,
            Finding.CLEAR,
            "Nobody else used the CPUs."
            if max(shares.values()) < MODERATE
            else "Others used CPUs, but there were free ones left.",
            evidence=evidence,
            cost=0.0,
        )
    stolen, lost = worst == STOLEN, _taken(case, sum(felt.values()))
    return case.verdict(
        rule,
        Finding.FOUND,
        f"{percent(share)} of the CPUs' time was {worst}, so this machine's own speed is higher "
        f"than measured.",
        cause="other load on the machine",
        evidence=evidence,
        cost=lost,
        remedy=Remedy(
            text="Ask for an instance with dedicated CPUs."
            if stolen
            else "Stop the other programs; run again.",
            code="" if stolen else "top -o %CPU",
            predicted_gain=without(lost),
            measured_gain=None,
        ),
    )


def _others(case: Case, steal_pct: float) -> float | None:
    """Return how busy other programs kept the CPUs: those that the container is pinned to, or all.

    Time that the hypervisor took counts as busy, and is no program's of this machine.
    """
    busy, cpus, used = host_busy(case, BASELINE), _cpus(case), cpus_used(case, BASELINE)
    return (
        max(0.0, busy - used / cpus - steal_pct / 100)
        if busy is not None and used is not None and cpus
        else None
    )


def _rest(case: Case) -> Iterator[Evidence]:
    """Say who had the rest of the same CPUs: this workload, and nobody.

    What is free counts against what the container may use, by a quota less than all: below FREE of that.
    """
    busy, cpus, may = host_busy(case, BASELINE), _cpus(case), case.cpus
    used = cpus_used(case, BASELINE)
    if used is not None and cpus:
        yield Evidence(metric="CPU time used by this workload", observed=percent(used / cpus), threshold="")
    if busy is None or not cpus or not may:
        return
    part = 1.0 if case.pinned else may / cpus
    whose = f", {percent(FREE)} of what its limit lets it use" if part < 1 else ""
    yield Evidence(
        metric="CPU time free",
        observed=percent(1.0 - busy),
        threshold=f"below {percent(FREE * part)}{whose}",
    )


def _taken(case: Case, share: float) -> float:
    """Return what others took of the CPU time that this could have used, at most its own and theirs."""
    cpus, used = _cpus(case), cpus_used(case, BASELINE)
    return share / (share + used / cpus) if cpus and used else share


def _cpus(case: Case) -> int | None:
    cpus = case.run.manifest.host_facts.get("cpus")
    return len(case.pinned) or (cpus if isinstance(cpus, int) else None)


_POWER = (("nvml", "power_capped_s_per_s"), ("nvml", "throttle_sw_power_cap"))
_HEAT: tuple[tuple[str, str], ...] = (
    ("nvml_slow", "thermal_capped_s_per_s"),
    ("nvml", "throttle_sw_thermal"),
    ("nvml", "throttle_hw_thermal"),
)


# Below this share of the highest clock NVIDIA's own benchmark harness calls a GPU slowed (nvbench
# discards samples below 75 %); 99 % leaves out no slowdown that a 1 % interval could show.
FULL_CLOCK = 0.99


def power_capped(case: Case) -> Verdict | None:
    """Tell whether a GPU lowered its clocks to keep to its power limit for 5 % of the time (NVML)."""
    return _capped(
        case,
        "power-capped",
        _POWER,
        "its power limit",
        "At full load that is how the GPU is meant to run. Raise the limit if it is below the GPU's "
        "default, "
        "and give the same limit to any GPU that you compare with.",
        "nvidia-smi -i {index} -pl WATTS",
    )


def thermally_capped(case: Case) -> Verdict | None:
    """Tell whether a GPU lowered its clocks to keep cool for 5 % of the time, by NVML's reasons."""
    return _capped(
        case,
        "thermal",
        _HEAT,
        "heat",
        "Improve the cooling: a GPU that throttles by heat will be slower still under a longer load.",
        "nvidia-smi -q -d TEMPERATURE,PERFORMANCE",
    )


def _capped(
    case: Case, rule: str, metrics: tuple[tuple[str, str], ...], why: str, text: str, code: str
) -> Verdict | None:
    if not case.on_gpu:
        return None
    held: Mapping[str, tuple[float, ...]] = {
        metric: values
        for source, metric in metrics
        if (values := case.cards(BASELINE, (source, metric)))
    }  # fmt: skip
    if not held:
        return case.verdict(
            rule, Finding.INCONCLUSIVE, f"Whether {why} held the GPU down cannot be told: NVML did not say."
        )
    each = [max(values) for values in zip(*held.values(), strict=True)]
    share = max(each)
    clock = _clock_share(case)
    evidence = [
        Evidence(metric=metric, observed=percent(max(values)), threshold=percent(MODERATE))
        for metric, values in held.items()
    ]
    if clock is not None:
        evidence.append(Evidence(metric="SM clock over its maximum", observed=percent(clock), threshold=""))
    lost = share * (1 - clock) if clock is not None else None
    # A power cap that leaves the clock up costs nothing worth a verdict; heat is worth one in any case.
    harmless = rule == "power-capped" and clock is not None and clock >= FULL_CLOCK
    if share < MODERATE or harmless:
        return case.verdict(
            rule, Finding.CLEAR, f"The GPU was not held down by {why}.", evidence=evidence, cost=lost
        )
    slowed = f", at {percent(clock)} of its highest clock" if clock is not None else ""
    watts = case.cards(BASELINE, ("nvml", "power_instant_w"), ("nvml", "power_usage_w"))
    worst = _gpus(case).get(gpu_names(case.device)[each.index(share)])
    drawn = f" It drew {significant(max(watts))} W." if watts and rule == "power-capped" else ""
    return case.verdict(
        rule,
        Finding.FOUND,
        f"The GPU ran below its full clock for {percent(share)} of the time because of {why}{slowed}.{drawn}",
        cause=why,
        evidence=evidence,
        cost=lost,
        remedy=Remedy(
            text=text,
            code=code.format(index=worst.index if worst else "INDEX"),
            predicted_gain=None,
            measured_gain=None,
        ),
    )


def _gpus(case: Case) -> Mapping[str, Gpu]:
    """Return the machine's chosen GPUs by their names in a device."""
    return {f"gpu{position}": gpu for position, gpu in enumerate(case.run.manifest.gpus)}


def _clock_share(case: Case) -> float | None:
    """Return the slowest GPU's mean SM clock over its highest possible one."""
    known = _gpus(case)
    clocks = case.cards(BASELINE, ("nvml", "sm_clock_mhz"))
    shares = [
        clock / top
        for name, clock in zip(gpu_names(case.device), clocks, strict=False)
        if name in known and (top := known[name].clock_max_sm_mhz)
    ]
    return min(1.0, *shares) if shares else None
