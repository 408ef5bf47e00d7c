"""Rules on where the device's time goes: waiting for the program, or computing."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.breakdown import (
    LAUNCH_HIGH,
    Launching,
    device_share,
    fit_overhead_s,
    idle_share,
    input_share,
    launching,
    per_call_s,
    step_cost,
)
from harness.analysis.case import Case, activity, host_idle
from harness.analysis.remedies import DEVICE, LAUNCH, remedy, without
from harness.analysis.remedy_code import device_code, launch_code
from harness.analysis.rules_host import contended_host, cpu_quota
from harness.analysis.words import percent, significant, times
from harness.model.analysis import Evidence, Finding, Verdict
from harness.telemetry.metrics import METRICS
from workloads.protocol import (
    BASELINE,
    CUSTOM_LOOP,
    INPUT_ONLY,
    MODEL_ONLY,
    TREES,
    TUNED,
)

# Threads on a CPU always wait for each other; below half, as DCGM says of SMs, it is used badly.
CPU_IDLE = 0.5
# DCGM user guide, DCGM_FI_PROF_SM_ACTIVE: 0.8 or greater is necessary for effective use of the GPU, less than
# 0.5 likely indicates ineffective use.
SM_EFFECTIVE, SM_INEFFECTIVE = 80.0, 50.0
# Same guide, DCGM_FI_PROF_DRAM_ACTIVE: about 80 % of the peak is the most that can be reached; three quarters
# of that is where bandwidth becomes the limit.
DRAM_LIMIT, DRAM_REACHED = 60.0, 80.0
HALF = 0.5
# xprof calls a loss of a fifth of the time high.
TAKEN = 0.20
# GPUs that exchange gradients send some; a gigabyte a second each is worth a line of evidence.
NVLINK_WORTH_SAYING = 1e9
# A larger batch is worth naming where it makes a sample cheaper by a fifth.
ROOM = 0.8


def launch_bound(case: Case) -> Verdict:
    """Tell whether the device waits for the program to start its next piece of work.

    What a step costs whatever its batch, as far as the device was idle, and what many steps in one call save;
    from xprof's 15 % on. Where these contradict each other, or leave open which side of it they are on, it
    cannot be told. Without the variants that tell, the device's idle time in baseline less what waiting for
    input explains, from 15 % on a GPU and from half on the CPU.
    """
    rule = "launch-bound"
    told = launching(case)
    probed = told.share if told is not None else None
    busy = activity(case, BASELINE)
    feed = input_share(case)
    evidence = (*_probes(case), *_batches(case))
    if told is not None and probed is None:
        return case.verdict(rule, Finding.INCONCLUSIVE, _open(case, told), evidence=evidence)
    if probed is None and busy is None:
        sentence = f"Whether {_device(case)} waits for the program cannot be told: {_unknown(case)}."
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence, evidence=evidence)
    waiting = probed if probed is not None else idle_share(case) or 0.0
    least = LAUNCH_HIGH if case.on_gpu or probed is not None else CPU_IDLE
    evidence = (
        Evidence(
            metric="starting steps" if probed is not None else "idle, and not waiting for input",
            observed=percent(waiting),
            threshold=f"from {percent(least)}",
        ),
        *((Evidence(metric=_label(busy[1]), observed=percent(busy[0]), threshold=""),) if busy else ()),
        *_model_alone(case),
        *evidence,
    )
    if waiting < least:
        rest = _rest(case, 1.0 - busy[0], waiting) if busy else ""
        was = f": {_device(case)} was busy {percent(busy[0])} of the time{rest}" if busy else ""
        was = f" ({percent(waiting)} of the time)" if probed is not None else was
        return case.verdict(
            rule, Finding.CLEAR, f"Starting each step costs little{was}.", evidence=evidence, cost=waiting
        )
    if taken := _taken_away(case):
        sentence = f"Whether starting steps costs much time cannot be told: {taken}."
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence, evidence=evidence)
    if feed is None:
        sentence = (
            f"{_device(case, start=True)} was idle {percent(1 - (busy[0] if busy else 0.0))} of the time; "
            f"whether it waited for the program or for input cannot be told without the input-only and "
            f"model-only variants."
        )
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence, evidence=evidence)
    ceiling = _launch_ceiling(case, waiting)
    return case.verdict(
        rule,
        Finding.FOUND,
        _launch_sentence(case, waiting),
        cause="starting each step costs more than computing it"
        if waiting >= HALF
        else "starting each step costs time that computes nothing",
        evidence=evidence,
        cost=waiting,
        remedy=remedy(
            case,
            LAUNCH,
            "Give the device more work each time the program calls it: several steps in one call, operations "
            "fused by the compiler (XLA), data that is already on the device, or a larger batch. Closing the "
            f"gaps alone would make it {times(ceiling)} as fast; fusing small kernels into few comes on top."
            f"{_larger_batch(case)}",
            launch_code,
            ceiling,
            # On a GPU fusing kernels removes work besides: how much no variant tells without doing it.
            at_least=case.on_gpu or told is not None,
        ),
    )


def _taken_away(case: Case) -> str:
    """Say who took so much of the CPUs that a step's start cannot be told from waiting for its turn.

    On the CPU alone: a GPU's idle time is seen on the GPU.
    """
    for verdict in () if case.on_gpu else (cpu_quota(case), contended_host(case)):
        if verdict.finding is Finding.FOUND and (verdict.cost or 0.0) >= TAKEN:
            return f"{verdict.cause} took {percent(verdict.cost or 0.0)} of the CPUs' time from it"
    return ""


def _launch_sentence(case: Case, waiting: float) -> str:
    if not case.on_gpu:
        return (
            f"{percent(waiting)} of the time goes into starting steps instead of computing them: each step "
            f"is too small for this CPU (launch-bound)."
        )
    slower = case.over_cpu is not None and case.over_cpu.high < 1
    tail = " That is why it loses to the CPU, which starts its work without that detour."
    return (
        f"The GPU spent {percent(waiting)} of the time waiting for the program to start its next small piece "
        f"of work (launch-bound); a faster GPU would not help.{tail if slower else ''}"
    )


def _rest(case: Case, quiet: float, waiting: float) -> str:
    """Say what else kept a device from being busy than starting steps: other programs, or its input."""
    free, feed = None if case.on_gpu else host_idle(case, BASELINE), input_share(case)
    fed_late = feed.share if feed else 0.0
    if free is not None and quiet - free > max(fed_late, waiting):
        return ", and others used most of the rest"
    return ", and waiting for input explains the rest" if fed_late > waiting else ""


def _open(case: Case, told: Launching) -> str:
    """Say why the variants leave open whether starting steps costs much."""
    begin = "Whether starting steps costs much time cannot be told: "
    saved = percent(max(told.saved or 0.0, 0.0))
    if told.contradictory:
        return (
            f"{begin}many steps in one call save {saved} of it, yet only {percent(told.fixed)} is the same "
            f"for any batch. The two contradict each other by more than noise; more and longer trials would "
            f"tell."
        )
    proved = f"of which many steps in one call save {saved}; " if told.saved is not None else ""
    return (
        f"{begin}{percent(told.fixed)} of it is the same for any batch, {proved}the rest may be starting "
        f"steps or work such as an optimiser's pass over the weights, and {_unknown(case)}."
    )


def _launch_ceiling(case: Case, waiting: float) -> float:
    """Return the gain if that waiting vanished, as far as the input pipeline could feed it."""
    whole, feed = case.speed(BASELINE), case.speed(INPUT_ONLY)
    gain = without(waiting)
    return max(1.0, min(gain, feed / whole)) if whole and feed else gain


def _larger_batch(case: Case) -> str:
    """Say what a larger batch gives: it spreads over more samples whatever is the same for any batch."""
    cost = step_cost(case)
    if cost is None or cost.growth >= ROOM * cost.times:
        return ""
    learns = case.workload is None or case.workload.task == "train"
    return (
        f" A batch {cost.times:.0f} times as large takes only {times(cost.growth)} as long a step, which "
        f"is {times(cost.times / cost.growth)} the speed"
        + ("; it also changes how the model learns." if learns else ".")
    )


def _unknown(case: Case) -> str:
    if case.on_gpu:
        return "GPU utilisation was not recorded"
    if any(case.too_short(source) for source in ("cgroup", "process")):
        return "the measurement was too short for CPU time to tell"
    return "CPU time was not recorded"


def _probes(case: Case) -> Iterator[Evidence]:
    cost, told = step_cost(case), launching(case)
    if cost is not None:
        yield Evidence(
            metric=f"a step of the model alone, with a batch {cost.times:.0f} times as large",
            observed=f"{times(cost.growth)} as long",
            threshold=f"{cost.times:.0f} times if computing is the limit, 1 if starting it is",
        )
    if told is not None:
        yield Evidence(
            metric="the same for any batch, of baseline's step",
            observed=percent(told.fixed),
            threshold="starting steps costs no more",
        )
        if told.idle is not None:
            yield Evidence(
                metric="the device idle, and not waiting for input",
                observed=percent(told.idle),
                threshold="what is the same for any batch counts as far as this, else it is work",
            )
    saved = told.saved if told is not None else _saved(case)
    if saved is not None:
        yield Evidence(
            metric="saved by many steps in one call, of baseline's step",
            observed=percent(saved),
            threshold="starting steps costs no less",
        )
    if CUSTOM_LOOP in case.variants:
        written = case.variants[BASELINE].step_time.median if BASELINE in case.variants else 0.0
        if written > 0:
            yield Evidence(
                metric="Keras fit's own part of a step",
                observed=percent(fit_overhead_s(case) / written),
                threshold="",
            )


def _saved(case: Case) -> float | None:
    saved, written = per_call_s(case), case.variants.get(BASELINE)
    return saved / written.step_time.median if saved is not None and written is not None else None


def _model_alone(case: Case) -> Iterator[Evidence]:
    busy = activity(case, MODEL_ONLY)
    if busy is not None:
        yield Evidence(
            metric=f"{_label(busy[1])}, with the input taken away",
            observed=percent(busy[0]),
            threshold="near 100 % when computing is the limit",
        )


def _batches(case: Case) -> Iterator[Evidence]:
    """Compare step times of variants that differ in batch: a step that hardly grows is not arithmetic."""
    base = case.variants.get(BASELINE)
    for variant, one in case.variants.items():
        if base and variant in (BASELINE, TUNED) and one.batch_size > base.batch_size:
            yield Evidence(
                metric=f"step time when the batch grows from {base.batch_size} to {one.batch_size} ({variant})",
                observed=times(one.step_time.median / base.step_time.median),
                threshold=f"{significant(one.batch_size / base.batch_size)} times if computing is the limit",
            )


def compute_bound(case: Case) -> Verdict:
    """Tell whether the device itself is the limit, by its arithmetic.

    A GPU is the limit when it is idle for less than xprof's 15 %, the CPU when for less than half; and
    any device when the model's own work takes so much of the time, which the batch has to do with. What a
    GPU's parts did (GPM, from Hopper on) says how well it was used, by DCGM's marks.
    """
    rule = "compute-bound"
    busy = activity(case, BASELINE)
    own = device_share(case)
    if busy is None and own is None:
        sentence = f"Whether {_device(case)} is the limit cannot be told: {_unknown(case)}."
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence)
    by_variant = own is not None and not (case.on_gpu and busy is not None)
    share = own if by_variant and own is not None else busy[0] if busy else 0.0
    least = 1 - (LAUNCH_HIGH if case.on_gpu else CPU_IDLE)
    evidence = [*_probes(case), *_parts(case)]
    if busy is not None:
        mark = "" if by_variant else f"from {percent(least)}"
        evidence.insert(0, Evidence(metric=_label(busy[1]), observed=percent(busy[0]), threshold=mark))
    if own is not None:
        mark = f"from {percent(least)}" if by_variant else ""
        evidence.insert(0, Evidence(metric="the model's own work", observed=percent(own), threshold=mark))
    if share < least:
        what = "the model's own work took" if by_variant else "it was busy"
        sentence = f"{_device(case, start=True)} is not the limit: {what} {percent(share)} of the time."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=share)
    if _memory_full(case):
        sentence = (
            f"{_device(case, start=True)} is the limit, by its memory bandwidth and not its arithmetic."
        )
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence)
    return case.verdict(
        rule,
        Finding.FOUND,
        _compute_sentence(case, share, by_variant=by_variant),
        cause="the device's own speed",
        evidence=evidence,
        # Being the limit is no loss: what a device computes with is not time that could be saved.
        cost=None,
        remedy=remedy(case, DEVICE if case.on_gpu else DEVICE | LAUNCH, _faster(case), device_code, None),
    )


def _faster(case: Case) -> str:
    """Say what makes a busy device faster."""
    if case.workload is not None and case.workload.image == TREES:
        return "Less to do in every round, as far as tuned shows; beyond that only a faster device helps."
    if case.on_gpu:
        return (
            "Half-width arithmetic uses the tensor cores and halves the memory traffic; XLA fuses operations "
            "that pass their results through memory. Beyond that only a faster device helps."
        )
    return (
        "XLA and several steps in one call may get more out of a CPU, as far as the tuned variant shows; "
        f"beyond that a faster one, or a GPU.{_larger_batch(case)}"
    )


def _compute_sentence(case: Case, share: float, *, by_variant: bool) -> str:
    what = "the model's own work takes" if by_variant else "it was busy"
    said = f"{_device(case, start=True)} itself is the limit: {what} {percent(share)} of the time"
    sm, tensor = _part(case, "sm_util_pct"), _part(case, "tensor_util_pct")
    if sm is not None and sm < SM_INEFFECTIVE:
        said += f", yet with only {percent(sm / 100)} of its compute units, so that much of it lay idle"
    elif tensor is not None:
        said += f", its tensor cores {percent(tensor / 100)}"
    # No counter of a CPU's memory traffic is read, and containers have no right to it.
    unknown = (
        "" if case.on_gpu else " Whether by its arithmetic or its memory bandwidth nothing recorded tells."
    )
    return f"{said}.{unknown}"


def memory_bound(case: Case) -> Verdict | None:
    """Tell whether a GPU's memory is the limit: from 60 % of its theoretical bandwidth, by DCGM's guide."""
    rule = "memory-bandwidth-bound"
    if not case.on_gpu:
        return None
    used = _part(case, "dram_util_pct")
    if used is None:
        sentence = (
            "Whether memory bandwidth is the limit cannot be told: the GPU does not say how much it uses."
        )
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence)
    evidence = tuple(_parts(case))
    if not _memory_full(case):
        sentence = f"Memory bandwidth is not the limit: {percent(used / 100)} of it was used."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence)
    return case.verdict(
        rule,
        Finding.FOUND,
        f"The GPU's memory is the limit: {percent(used / 100)} of its theoretical bandwidth was used, and "
        f"about {percent(DRAM_REACHED / 100)} is the most that can be reached.",
        cause="the device's memory bandwidth",
        evidence=evidence,
        cost=None,
        remedy=remedy(
            case,
            DEVICE,
            "Half-width numbers halve the memory traffic; XLA fuses operations that pass their results "
            "through memory. Beyond that only a GPU with faster memory helps.",
            device_code,
            None,
        ),
    )


def _memory_full(case: Case) -> bool:
    return (_part(case, "dram_util_pct") or 0.0) >= DRAM_LIMIT


def _parts(case: Case) -> Iterator[Evidence]:
    for metric, threshold in (
        ("sm_util_pct", f"effective from {SM_EFFECTIVE:.0f} %, ineffective below {SM_INEFFECTIVE:.0f} %"),
        ("tensor_util_pct", ""),
        ("dram_util_pct", f"the limit from {DRAM_LIMIT:.0f} %"),
    ):
        value = _part(case, metric)
        if value is not None:
            yield Evidence(metric=_label(metric), observed=percent(value / 100), threshold=threshold)
    sent = _part(case, "nvlink_send_bytes_per_s") or 0.0
    if sent >= NVLINK_WORTH_SAYING:
        yield Evidence(
            metric=_label("nvlink_send_bytes_per_s"), observed=f"{significant(sent / 1e9)} GB/s", threshold=""
        )


def _part(case: Case, metric: str) -> float | None:
    values = case.cards(BASELINE, ("gpm", metric))
    return sum(values) / len(values) if values else None


def _label(metric: str) -> str:
    return METRICS[metric].label


def _device(case: Case, *, start: bool = False) -> str:
    name = "the GPU" if case.on_gpu else "the CPU"
    return f"{name[0].upper()}{name[1:]}" if start else name
