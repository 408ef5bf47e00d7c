"""Rules on where the device's time goes: waiting for the program, or computing."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.case import Case, activity, input_share
from harness.analysis.remedies import DEVICE, LAUNCH, remedy
from harness.analysis.words import percent, significant, times
from harness.model import Evidence, Finding, Verdict
from harness.telemetry.metrics import METRICS
from workloads.protocol import AS_WRITTEN, INPUT_ONLY, MODEL_ONLY

# xprof (step time breakdown): kernel launch and unattributed time from 15 % of the step is "high", from 3 %
# "moderate".
LAUNCH_HIGH = 0.15
# Threads on a processor always wait for each other; below half, as DCGM says of SMs, it is used badly.
CPU_IDLE = 0.5
# DCGM user guide, DCGM_FI_PROF_SM_ACTIVE: 0.8 or greater is necessary for effective use of the GPU, less than
# 0.5 likely indicates ineffective use.
SM_EFFECTIVE, SM_INEFFECTIVE = 80.0, 50.0
# Same guide, DCGM_FI_PROF_DRAM_ACTIVE: about 80 % of the peak is the most that can be reached; three quarters
# of that is where bandwidth becomes the limit.
DRAM_LIMIT = 60.0
_LAUNCH_CODE = "model.compile(optimizer, loss, steps_per_execution=50, jit_compile=True)"
_DEVICE_CODE = 'tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")'


def launch_bound(case: Case) -> Verdict:
    """Tell whether the device waits for the program to start its next piece of work.

    The device's idle time in as-written, less what waiting for input explains, is what starting each step
    costs. The threshold is xprof's 15 % on a card, and half on the processor.
    """
    rule = "launch-bound"
    busy = activity(case, AS_WRITTEN)
    feed = input_share(case)
    if busy is None:
        what = "GPU utilisation" if case.on_gpu else "processor time"
        sentence = f"Whether {_device(case)} waits for the program cannot be told: {what} was not recorded."
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence, evidence=tuple(_batches(case)))
    share = busy[0]
    waiting = max(0.0, 1.0 - share - (feed.share if feed else 0.0))
    least = LAUNCH_HIGH if case.on_gpu else CPU_IDLE
    evidence = (
        Evidence(
            metric="idle, and not waiting for input",
            observed=percent(waiting),
            threshold=f"from {percent(least)}",
        ),
        Evidence(metric=_label(busy[1]), observed=percent(share), threshold=""),
        *_model_alone(case),
        *_batches(case),
    )
    if waiting < least:
        rest = ", and waiting for input explains the rest" if feed and feed.share > waiting else ""
        sentence = (
            f"Starting each step costs little: {_device(case)} was busy {percent(share)} of the time{rest}."
        )
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=waiting)
    if feed is None:
        sentence = (
            f"{_device(case, start=True)} was idle {percent(1 - share)} of the time; whether it waited "
            f"for the "
            f"program or for input cannot be told without the input-only and model-only legs."
        )
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence, evidence=evidence)
    ceiling = _launch_ceiling(case, waiting)
    return case.verdict(
        rule,
        Finding.FOUND,
        _launch_sentence(case, waiting),
        cause="starting each step costs more than computing it",
        evidence=evidence,
        cost=waiting,
        remedy=remedy(
            case,
            LAUNCH,
            "Give the device more work each time the program calls it: several steps in one call, operations "
            "fused by the compiler (XLA), data that is already on the device, or a larger batch. Closing the "
            f"gaps alone would make it {times(ceiling)} as fast; fusing small kernels into few comes on top.",
            _LAUNCH_CODE,
            ceiling,
        ),
    )


def _launch_sentence(case: Case, waiting: float) -> str:
    if not case.on_gpu:
        return (
            f"{percent(waiting)} of the processor's time went unused: each step is too small to occupy all "
            f"of its cores, and starting it costs about as much as computing it."
        )
    slower = case.over_cpu is not None and case.over_cpu.high < 1
    tail = " That is why it loses to the processor, which starts its work without that detour."
    return (
        f"The GPU spent {percent(waiting)} of the time waiting for the program to start its next small piece "
        f"of work (launch-bound); a faster card would not help.{tail if slower else ''}"
    )


def _launch_ceiling(case: Case, waiting: float) -> float:
    """Return the gain if all that waiting vanished, but never beyond what the input pipeline can feed."""
    whole, feed = case.speed(AS_WRITTEN), case.speed(INPUT_ONLY)
    gain = 1.0 / max(1.0 - waiting, 0.01)
    return max(1.0, min(gain, feed / whole)) if whole and feed else gain


def _model_alone(case: Case) -> Iterator[Evidence]:
    busy = activity(case, MODEL_ONLY)
    if busy is not None:
        yield Evidence(
            metric=f"{_label(busy[1])}, with the input taken away",
            observed=percent(busy[0]),
            threshold="near 100 % when computing is the limit",
        )


def _batches(case: Case) -> Iterator[Evidence]:
    """Compare step times of legs that differ in batch: a step that hardly grows is not arithmetic."""
    base = case.legs.get(AS_WRITTEN)
    for leg, one in case.legs.items():
        if base and leg not in (INPUT_ONLY, MODEL_ONLY) and one.batch_size > base.batch_size:
            yield Evidence(
                metric=f"step time when the batch grows from {base.batch_size} to {one.batch_size} ({leg})",
                observed=times(one.step_time.median / base.step_time.median),
                threshold=f"{significant(one.batch_size / base.batch_size)} times if computing is the limit",
            )


def compute_bound(case: Case) -> Verdict:
    """Tell whether the device itself is the limit, and by what: arithmetic or memory bandwidth.

    A card is the limit when it is idle for less than xprof's 15 %, the processor when for less than half.
    What a card's parts did (GPM, from Hopper on) says how well it was used, by DCGM's marks.
    """
    rule = "compute-bound"
    busy = activity(case, AS_WRITTEN)
    if busy is None:
        sentence = f"Whether {_device(case)} is the limit cannot be told: its utilisation was not recorded."
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence)
    share = busy[0]
    least = 1 - (LAUNCH_HIGH if case.on_gpu else CPU_IDLE)
    evidence = (
        Evidence(metric=_label(busy[1]), observed=percent(share), threshold=f"from {percent(least)}"),
        *_parts(case),
    )
    if share < least:
        sentence = f"{_device(case, start=True)} is not the limit: it was busy {percent(share)} of the time."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=share)
    memory = (_part(case, "dram_util_pct") or 0.0) >= DRAM_LIMIT
    text = "Only a faster or larger processor helps, or a GPU."
    if case.on_gpu:
        text = (
            "Half-width arithmetic uses the tensor cores and halves the memory traffic; XLA fuses operations "
            "that pass their results through memory. Beyond that only a faster device helps."
        )
    return case.verdict(
        rule,
        Finding.FOUND,
        _compute_sentence(case, share, memory),
        cause="the device's memory bandwidth" if memory else "the device's own speed",
        evidence=evidence,
        # Being the limit is no loss: what a device computes with is not time that could be saved.
        cost=None,
        remedy=remedy(case, DEVICE, text, _DEVICE_CODE if case.on_gpu else "", None),
    )


def _compute_sentence(case: Case, share: float, memory: bool) -> str:
    said = f"{_device(case, start=True)} itself is the limit: it was busy {percent(share)} of the time"
    sm, tensor = _part(case, "sm_util_pct"), _part(case, "tensor_util_pct")
    if memory:
        said += ", and its memory bandwidth was used up"
    if sm is not None and sm < SM_INEFFECTIVE:
        said += f", yet with only {percent(sm / 100)} of its compute units, so that much of it lay idle"
    elif tensor is not None:
        said += f", its tensor cores {percent(tensor / 100)}"
    return f"{said}."


def _parts(case: Case) -> Iterator[Evidence]:
    for metric, threshold in (
        ("sm_util_pct", f"effective from {SM_EFFECTIVE:.0f} %, ineffective below {SM_INEFFECTIVE:.0f} %"),
        ("tensor_util_pct", ""),
        ("dram_util_pct", f"the limit from {DRAM_LIMIT:.0f} %"),
    ):
        value = _part(case, metric)
        if value is not None:
            yield Evidence(metric=_label(metric), observed=percent(value / 100), threshold=threshold)


def _part(case: Case, metric: str) -> float | None:
    values = case.cards(AS_WRITTEN, ("gpm", metric))
    return sum(values) / len(values) if values else None


def _label(metric: str) -> str:
    return METRICS[metric].label


def _device(case: Case, *, start: bool = False) -> str:
    name = "the GPU" if case.on_gpu else "the processor"
    return f"{name[0].upper()}{name[1:]}" if start else name
