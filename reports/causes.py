"""The words for each cause: what it means, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness.fixes import rule_of
from harness.model.analysis import Cause, Finding
from harness.model.device import is_gpu
from reports import numbers
from workloads.variants import BASELINE, TUNED, WITHOUT_EPOCHS, variant_name

# Products that reach half of the measured peak leave little to gain: real steps have other kernels too.
MATH_LIMIT = 0.5


class Words(NamedTuple):
    """What reports say of a cause.

    Attributes:
        explanation: one or two sentences, or what makes them of a finding.
        advice: what to do, in a few words.
    """

    explanation: str | Callable[[Finding], str]
    advice: str


def explanation(finding: Finding) -> str:
    """Explain a finding in one or two sentences."""
    text = WORDS[finding.cause].explanation
    return text if isinstance(text, str) else text(finding)


def fix(finding: Finding | None) -> str:
    """Return the fix for a finding in a few words."""
    rule = rule_of(finding.remedy.variant) if finding and finding.remedy else None
    if rule is not None and finding and finding.remedy and numbers.is_gain(finding.remedy.gain):
        text, _, _ = rule.summary.partition(":")
        return f"{text[0].lower()}{text[1:]}"
    if finding and finding.cause is Cause.COMPUTE and not is_gpu(finding.device):
        return (
            "a smaller model, or a faster CPU" if rule or "compiled" in finding.facts else "compile with XLA"
        )
    if finding and finding.cause is Cause.EPOCHS and "predicts" in finding.facts:
        return "one call with more samples; for small inputs model(x) or predict_on_batch"
    if finding and finding.cause is Cause.EPOCHS and finding.stages:
        return "less work in its methods around epochs, or only every so many epochs"
    if finding and finding.cause is Cause.EPOCHS and "validates" in finding.facts:
        return "more samples per epoch, validation less often (validation_freq) or in larger batches"
    if (
        finding
        and finding.cause is Cause.INPUT
        and finding.facts.get("one_cpu")
        and "fast_alone" not in finding.facts
    ):
        return "parallelize the input pipeline with tf.data"
    if finding and "larger" in finding.facts:
        times = numbers.ratio(finding.facts["larger"])
        return f"a larger batch: alone, the model is {times} as fast with one"
    if rule and finding and finding.cause in _ANSWERED:
        return "no change that was tried helps"
    return WORDS[finding.cause].advice if finding else ""


def advice(finding: Finding | None) -> str:
    """Return what to do before the code is changed, or where no change of it was measured; "" otherwise."""
    if finding is None:
        return ""
    if finding.cause.of_machine:
        return f"first {fix(finding)}"
    if finding.remedy:
        return ""
    if "larger" in finding.facts:
        return fix(finding)
    if finding.cause is Cause.EPOCHS and finding.ablation:
        # Without callbacks, those around batches are missing too.
        long = finding.ablation.variant == WITHOUT_EPOCHS
        test = "one long epoch" if long else "the training without any callbacks"
        if not numbers.is_gain(finding.ablation.gain):
            return f"{test}, as a test, was not clearly faster"
        return f"{fix(finding)}: {test} was {numbers.ratio(finding.ablation.gain.median)} as fast"
    if finding.refused:
        return f"{fix(finding)}, but not by a change of lines alone: {finding.refused.rstrip('.')}"
    return f"untested: {fix(finding)}"


def _epochs(finding: Finding) -> str:
    if "predicts" in finding.facts:
        return "Much time passes between calls: each makes a new iterator."
    once = "once" in finding.facts
    made = "a new iterator" if once else "each makes a new iterator"
    usual = "validation and a new iterator" if "validates" in finding.facts else made
    what = f"callbacks ({', '.join(finding.stages)})" if finding.stages else usual
    return f"Much time passes {'before and after the epoch' if once else 'between epochs'}: {what}."


def _launch(finding: Finding) -> str:
    if "saved" not in finding.facts:
        return "Steps are too small: the device waits for Python to start the next one."
    saved = numbers.percent(finding.facts["saved"])
    return f"The operations of a step are small, or wait for each other: several steps per call save only {saved}."


def _input(finding: Finding) -> str:
    facts = finding.facts
    used, cpus = facts.get("cpus_used"), facts.get("cpus")
    if "later" in facts:
        return (
            f"Training will slow down: it drew on a buffer, or cheaper samples came first. Alone, the input makes "
            f"{numbers.number(facts['later'])} samples/s."
        )
    if facts.get("fast_alone"):
        return "The pipeline alone is fast enough, but not beside the training: both need the CPUs."
    if facts.get("serial"):
        return "The loader is serial: it prepares one sample at a time."
    if used and cpus and used >= 0.85 * cpus:
        return f"The pipeline keeps all {cpus:.0f} CPUs busy and is still too slow."
    if facts.get("one_cpu"):
        return "The loader uses at most one CPU: it loads in one thread, or waits."
    return "The input pipeline is slower than the model."


def _bandwidth(finding: Finding) -> str:
    facts = finding.facts
    if "bandwidth" in facts:
        share = numbers.percent(facts["bandwidth"])
        return f"Memory bandwidth is the limit: reading weights and cache takes {share} of what was measured."
    return f"GPU memory bandwidth is the limit: {numbers.percent(facts.get('dram'))} is used; 80 % is achievable."


def _compute(finding: Finding) -> str:
    facts = finding.facts
    if "untried_bits" in facts:
        bits = facts["untried_bits"]
        return f"The model computes in {bits:.0f} bits, which most CPUs emulate; float32 was not measured."
    peak, memory = (numbers.percent(facts.get(name)) for name in ("peak", "dram"))
    if facts.get("peak", 0.0) >= MATH_LIMIT:
        return f"Matrix products are the limit: they reach {peak} of the measured peak."
    if "peak" in facts and "dram" in facts:
        return (
            f"Neither matrix products ({peak} of the measured peak) nor memory bandwidth ({memory}) is the limit: "
            "the kernels are small, or wait for each other."
        )
    if "peak" in facts:
        return (
            f"Matrix products reach {peak} of the measured peak; the rest is memory traffic or small kernels."
        )
    if "sm" in facts and facts["sm"] < 0.5:
        return f"The GPU is busy, but its SM activity is only {numbers.percent(facts['sm'])}."
    if "tensor" in facts:
        return f"The GPU is the limit; its tensor cores are {numbers.percent(facts['tensor'])} active."
    return "The device itself is the limit. No counter here separates compute from memory bandwidth."


def _impossible(finding: Finding) -> str:
    facts = finding.facts
    if finding.variants:
        excess = numbers.percent(finding.share.median if finding.share else None)
        faster, ceiling = map(variant_name, finding.variants)
        return f"{faster.capitalize()} is {excess} faster than {ceiling}, which does less."
    if "bytes_per_s" in facts:
        rate, link = facts["bytes_per_s"] / 1e9, facts["link_bytes_per_s"] / 1e9
        return f"The copy would need {rate:.0f} GB/s over a {link:.0f} GB/s link."
    return "A speed is higher than any device can reach."


def _recurrent(finding: Finding) -> str:
    return f"Each time step is some small kernels: {'; '.join(finding.stages)}."


def _precision(finding: Finding) -> str:
    bits = finding.facts.get("bits", 0)
    return f"The model computes in {bits:.0f} bits, in which this device is slow."


def _update(finding: Finding) -> str:
    elements, names = finding.facts.get("elements", 0), ", ".join(finding.stages)
    return (
        f"This time does not grow with the batch: every step updates all {elements:,.0f} elements of {names}."
    )


def _on_cpu(finding: Finding) -> str:
    busy = numbers.percent(finding.facts.get("busy"))
    return f"The GPU is busy only {busy} of the model's step: operations run on the CPU."


def _clocks(what: str) -> Callable[[Finding], str]:
    """Return what tells for how much of the time something happened to the clock."""

    def text(finding: Finding) -> str:
        return f"{what} for {numbers.percent(finding.facts.get('time'))} of the time."

    return text


def _not_learning(finding: Finding) -> str:
    accuracy, needed = (numbers.percent(finding.facts.get(name)) for name in ("accuracy", "needed"))
    failing = variant_name(TUNED if finding.facts.get("tuned") else BASELINE)
    return f"Held-out accuracy of {failing} is only {accuracy} ({needed} expected). Ignore its speed."


# Causes whose advice is what remedies do: where these were measured, it is known.
_ANSWERED = {Cause.OVERLAP, Cause.LAUNCH, Cause.KERAS_LOOP}
WORDS: Mapping[Cause, Words] = {
    Cause.INPUT: Words(_input, "fewer or cheaper operations on each sample, or more CPUs"),
    Cause.OVERLAP: Words(
        "The pipeline alone is fast enough, but input and compute do not overlap.",
        "a tf.data pipeline that ends with prefetch(tf.data.AUTOTUNE)",
    ),
    Cause.DISK: Words("The input waits for storage.", "cache the data in memory or on a faster disk"),
    Cause.COPY: Words(
        "Batches are copied to the device while it waits.", "send small types and prefetch to the device"
    ),
    Cause.LAUNCH: Words(
        _launch,
        "multiple steps per call, compiled with XLA",
    ),
    Cause.RECURRENT: Words(
        _recurrent, "only what cuDNN's kernel has: tanh, sigmoid, biases, no recurrent dropout, no unrolling"
    ),
    Cause.EXCHANGE: Words(
        "The GPUs exchange gradients in every step.",
        "larger batches per GPU; compiled steps with packed gradients",
    ),
    Cause.RUN_EAGERLY: Words(
        "The model runs eagerly: Python executes each operation that is not in a tf.function, in every step.",
        "compile without run_eagerly, if the Python of a step reads nothing that changes",
    ),
    Cause.CALLBACKS: Words(
        "Callbacks run around every batch; Keras waits for each step's results.",
        "move callbacks from every batch to every epoch",
    ),
    Cause.PYTHON_IN_STEP: Words(
        "The step calls Python functions.", "replace Python functions with TensorFlow operations"
    ),
    Cause.RETRACING: Words(
        "The step is compiled again for each new batch shape.", "pad batches to a few fixed shapes"
    ),
    Cause.KERAS_LOOP: Words(
        "Keras adds this time to the same steps in a custom loop.", "multiple steps per call"
    ),
    Cause.EPOCHS: Words(_epochs, "more samples per epoch"),
    Cause.QUOTA: Words(
        "The container used up its CPU quota while CPUs were idle.",
        "lift the container's CPU quota: docker update --cpu-quota -1 CONTAINER",
    ),
    Cause.STEAL: Words(
        "The hypervisor gives this CPU time to other guests.", "use an instance with dedicated CPUs"
    ),
    Cause.OTHER_PROGRAMS: Words(
        "Other programs use the CPUs that this workload needs.", "stop the other programs and repeat"
    ),
    Cause.COMPUTE: Words(_compute, "half precision and XLA"),
    Cause.PRECISION: Words(_precision, "compute in float32"),
    Cause.UPDATE: Words(
        _update, "a larger batch, or an optimizer that updates only the rows in use, such as SGD"
    ),
    Cause.MEMORY_BANDWIDTH: Words(_bandwidth, "half precision halves the traffic; XLA fuses operations"),
    Cause.ON_CPU: Words(
        _on_cpu, "no tf.device around layers, and no operations without a GPU kernel; XLA places whole steps"
    ),
    Cause.HEAT: Words(_clocks("Heat lowered the clock"), "improve the cooling"),
    Cause.POWER: Words(
        _clocks("The power limit lowered the clock"),
        "raise the power limit if it is below the default: nvidia-smi -pl WATTS",
    ),
    Cause.HARDWARE: Words(
        _clocks("The hardware lowered the clock to protect itself"), "check power supply and cooling"
    ),
    Cause.NOT_LEARNING: Words(_not_learning, "check loss, learning rate and precision"),
    Cause.UNEXPLAINED: Words(
        "No measured part accounts for this time.", "profile it with xprof, or repeat on a quieter machine"
    ),
    Cause.IMPOSSIBLE: Words(_impossible, "repeat the run"),
}
