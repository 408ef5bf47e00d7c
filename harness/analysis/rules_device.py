"""Rules on where the device's time goes: waiting for the program, or computing."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.case import Case, activity, input_share
from harness.analysis.remedies import DEVICE, LAUNCH, remedy
from harness.analysis.words import percent, significant, times
from harness.model import Evidence, Finding, Verdict
from workloads.protocol import AS_WRITTEN, INPUT_ONLY, MODEL_ONLY

# xprof (analysis of the step time breakdown): kernel launch and unattributed time above 15 % of the step is
# "high", above 3 % "moderate".
LAUNCH_HIGH = 0.15
# A processor is never busy on all cores; below half, as DCGM says of a card's SMs, it is used ineffectively.
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
    costs. The threshold is xprof's 15 % on a card, and half on the processor, whose threads wait a lot.
    """
    rule = "launch-bound"
    busy = activity(case, AS_WRITTEN)
    feed = input_share(case)
    batches = tuple(_batch_evidence(case))
    if busy is None:
        what = "GPU utilisation" if case.on_gpu else "processor time"
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            f"Whether {_the_device(case)} waits for the program cannot be told: {what} was not recorded.",
            evidence=batches,
        )
    share, metric = busy
    waiting = max(0.0, 1.0 - share - (feed.share if feed else 0.0))
    threshold = LAUNCH_HIGH if case.on_gpu else CPU_IDLE
    evidence = [
        Evidence(
            metric=f"busy ({metric})",
            observed=percent(share),
            threshold=f"idle beyond input: {percent(threshold)}",
        ),
        *_model_evidence(case),
        *batches,
    ]
    if waiting < threshold:
        sentence = (
            f"Starting each step costs little: {_the_device(case)} was busy {percent(share)} of the time."
        )
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=waiting)
    if feed is None:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            f"{_the_device(case).capitalize()} was idle {percent(1 - share)} of the time; whether it "
            f"waited for the "
            f"program or for input cannot be told without the input-only and model-only legs.",
            evidence=evidence,
        )
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
            "fused by the compiler (XLA), data that is already on the device, or a larger batch.",
            _LAUNCH_CODE,
            _launch_ceiling(case, waiting),
        ),
    )


def _launch_sentence(case: Case, waiting: float) -> str:
    if not case.on_gpu:
        return (
            f"{percent(waiting)} of the processors' time went unused: each step is too small to occupy "
            f"them all, and "
            f"starting it costs about as much as computing it."
        )
    slower = case.over_cpu is not None and case.over_cpu.high < 1
    tail = (
        " That is why it loses to the processor, which starts its work without that detour." if slower else ""
    )
    return (
        f"The GPU spent {percent(waiting)} of the time waiting for the program to start its next small "
        f"piece of "
        f"work (launch-bound); a faster card would not help.{tail}"
    )


def _launch_ceiling(case: Case, waiting: float) -> float | None:
    """Return the gain if all that waiting vanished, but never beyond what the input pipeline can feed."""
    whole, feed = case.speed(AS_WRITTEN), case.speed(INPUT_ONLY)
    gain = 1.0 / max(1.0 - waiting, 0.01)
    return min(gain, feed / whole) if whole and feed else gain


def _model_evidence(case: Case) -> Iterator[Evidence]:
    busy = activity(case, MODEL_ONLY)
    if busy is not None:
        yield Evidence(
            metric=f"busy with the input taken away ({busy[1]})",
            observed=percent(busy[0]),
            threshold="near 100 % when computing is the limit",
        )


def _batch_evidence(case: Case) -> Iterator[Evidence]:
    """Compare step times of legs that differ in batch: a step that hardly grows is not arithmetic."""
    base = case.legs.get(AS_WRITTEN)
    for leg, one in case.legs.items():
        if base and leg not in (INPUT_ONLY, MODEL_ONLY) and one.batch_size > base.batch_size:
            grown = one.step_time.median / base.step_time.median
            yield Evidence(
                metric=f"step time when the batch grows from {base.batch_size} to {one.batch_size} ({leg})",
                observed=times(grown),
                threshold=f"{significant(one.batch_size / base.batch_size)} times when computing is the "
                f"limit",
            )


def compute_bound(case: Case) -> Verdict:
    """Tell whether the device itself is the limit, and by what: arithmetic or memory bandwidth.

    A device is the limit when it is idle for less than xprof's 15 %. What its parts did (GPM, from Hopper on)
    says how well it was used, by DCGM's marks.
    """
    rule = "compute-bound"
    busy = activity(case, AS_WRITTEN)
    if busy is None:
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            f"Whether {_the_device(case)} itself is the limit cannot be told: its utilisation was not "
            f"recorded.",
        )
    share, metric = busy
    parts = {
        name: _mean(case.cards(AS_WRITTEN, ("gpm", name)))
        for name in ("sm_util_pct", "tensor_util_pct", "dram_util_pct")
    }
    evidence = [
        Evidence(metric=f"busy ({metric})", observed=percent(share), threshold=percent(1 - LAUNCH_HIGH)),
        *(
            Evidence(metric=name, observed=percent(value / 100), threshold=threshold)
            for (name, value), threshold in zip(
                parts.items(),
                (f"effective from {SM_EFFECTIVE:.0f} %, ineffective below {SM_INEFFECTIVE:.0f} %", "",
                 f"the limit from {DRAM_LIMIT:.0f} %"),
                strict=True,
            )
            if value is not None
        ),
    ]  # fmt: skip
    if share < 1 - LAUNCH_HIGH:
        sentence = (
            f"{_the_device(case).capitalize()} is not the limit: it was busy {percent(share)} of the time."
        )
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=share)
    memory = (parts["dram_util_pct"] or 0.0) >= DRAM_LIMIT
    return case.verdict(
        rule,
        Finding.FOUND,
        _compute_sentence(case, share, parts["sm_util_pct"], parts["tensor_util_pct"], memory),
        cause="the device's memory bandwidth" if memory else "the device's own speed",
        evidence=evidence,
        cost=share,
        remedy=remedy(
            case,
            DEVICE,
            "Half-width arithmetic uses the tensor cores and halves the memory traffic; XLA fuses "
            "operations that "
            "pass their results through memory. Beyond that only a faster device helps."
            if case.on_gpu
            else "Only a faster or larger processor helps, or a GPU.",
            _DEVICE_CODE if case.on_gpu else "",
            None,
        ),
    )


def _compute_sentence(case: Case, share: float, sm: float | None, tensor: float | None, memory: bool) -> str:
    said = f"{_the_device(case).capitalize()} itself is the limit: it was busy {percent(share)} of the time"
    if memory:
        said += ", and its memory bandwidth was used up"
    if sm is not None and sm < SM_INEFFECTIVE:
        said += f", yet with only {percent(sm / 100)} of its compute units, so that much of it lay idle"
    elif tensor is not None:
        said += f", its tensor cores {percent(tensor / 100)}"
    return f"{said}."


def _the_device(case: Case) -> str:
    return "the GPU" if case.on_gpu else "the processor"


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None
