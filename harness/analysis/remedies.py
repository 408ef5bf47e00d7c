"""Remedies as code to paste, with the gain that the tuned leg measured where it applied them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.analysis.case import Case
from harness.analysis.compare import RUNG_OVER_AS_WRITTEN
from harness.analysis.words import listed
from harness.model import Estimate, Remedy
from workloads.protocol import TUNED, TUNED_INPUT, Change

# Which of a leg's changes answer which cause.
LAUNCH = frozenset({"steps_per_execution", "jit_compile", "feed", "batch_size"})
COPYING = frozenset({"feed", "prefetch_to_device"})
OVERLAP = COPYING | {"prefetch", "prefetch_batches"}
INPUT = OVERLAP | {
    "cache", "workers", "threads", "num_parallel_calls", "parallel_calls", "parallel_maps", "loader",
    "queue_size", "decode_ratio", "storage", "preprocess",
}  # fmt: skip
DEVICE = frozenset({"precision", "jit_compile", "batch_size"})

# How the driver and a workload's own declaration say yes.
_ON = ("on", "True")
_POLICIES = {"fp16": "mixed_float16", "bf16": "mixed_bfloat16"}
_FEED = """\
with tf.device("{device}"):  # the data stays on the device
    x, y = tf.constant(x_train), tf.constant(y_train)

@tf.function(jit_compile={jit})
def train(indices):  # int32[{steps}, batch], shuffled: so many steps a call
    for chosen in indices:
        model.train_step((tf.gather(x, chosen), tf.gather(y, chosen)))
"""
PREFETCH = "dataset = dataset.prefetch(tf.data.AUTOTUNE)  # at the pipeline's end"
TO_DEVICE = 'dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))  # the last stage'
# A prediction that the measured gain misses by more is said to have missed.
MISSED = 0.25
PIPELINE = """\
dataset = (
    dataset.cache()  # after the stages that give the same result each time
    .shuffle(10_000)
    .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    .batch(batch_size)
    .prefetch(tf.data.AUTOTUNE)
)
"""


def remedy(
    case: Case,
    answers: frozenset[str],
    text: str,
    fallback: str,
    predicted_gain: float | None,
    *,
    at_least: bool = False,
) -> Remedy:
    """Return a remedy: that of the leg which changed some of `answers` and least else, else `fallback`.

    A leg applies all its changes at once, so that the measured gain is theirs together; the text says so.
    """
    leg, applied, others = _measured(case, answers)
    gain = _gain_of(case, leg)
    if gain is not None and others:
        text = f"{text} The measured gain is that of the {leg} leg, which also changes {listed(others)}."
    return Remedy(
        text=text,
        code=code_for(applied, case.on_gpu) or fallback,
        predicted_gain=predicted_gain,
        measured_gain=gain,
        at_least=at_least,
        measured_leg=leg if gain is not None else "",
        miss=missed(predicted_gain, gain, at_least=at_least),
    )


def missed(predicted: float | None, measured: Estimate | None, *, at_least: bool) -> float | None:
    """Return by which share the measured gain misses the prediction; None within MISSED of it.

    More than a lower bound is no miss.
    """
    if predicted is None or measured is None:
        return None
    miss = measured.median / predicted - 1.0
    if abs(miss) <= MISSED or (at_least and miss > 0):
        return None
    return miss


def _measured(case: Case, answers: frozenset[str]) -> tuple[str, dict[str, Change], list[str]]:
    """Return the leg that shows a remedy best, its changes that answer the cause, and names of its others."""
    found = []
    for leg in (TUNED_INPUT, TUNED):
        changes = case.legs[leg].changes if leg in case.legs else ()
        applied = {change.what: change for change in changes if change.what in answers}
        others = [one.what for one in changes if one.what not in answers and one.what != "global batch"]
        if applied:
            found.append((leg, applied, others))
    return min(found, key=lambda one: len(one[2]), default=("", {}, []))


def _gain_of(case: Case, leg: str) -> Estimate | None:
    return case.tuned_gain if leg == TUNED else case.ratio(RUNG_OVER_AS_WRITTEN, leg) if leg else None


def code_for(changes: Mapping[str, Change], on_gpu: bool) -> str:
    """Return Python that applies `changes` to a Keras program; "" when none of them is known."""
    return "\n".join(_lines(changes, on_gpu)).rstrip("\n")


def _lines(changes: Mapping[str, Change], on_gpu: bool) -> Iterable[str]:
    after = {what: change.after for what, change in changes.items()}
    said = after.get("steps_per_execution", "")
    steps = said if said.isdecimal() else "1"
    jit = after.get("jit_compile") in _ON
    if after.get("precision") in _POLICIES:
        yield f'tf.keras.mixed_precision.set_global_policy("{_POLICIES[after["precision"]]}")'
    if after.get("feed") == "resident":
        yield _FEED.format(device="/GPU:0" if on_gpu else "/CPU:0", jit=jit, steps=steps)
        return
    compiled = [f"steps_per_execution={steps}"] if steps != "1" else []
    compiled += ["jit_compile=True"] if jit else []
    if compiled:
        yield f"model.compile(optimizer, loss, {', '.join(compiled)})"
    if after.get("batch_size", "").isdecimal():
        yield f"model.fit(x, y, batch_size={after['batch_size']})"
    if after.get("parallel_maps") in _ON:
        yield "dataset = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)  # each map and interleave"
    if after.get("prefetch_batches") in _ON:
        yield PREFETCH
    if after.get("prefetch_to_device") in _ON:
        yield 'dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))'
