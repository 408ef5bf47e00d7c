"""Remedies as code to paste, with the gain that the tuned leg measured where it applied them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.analysis.case import Case
from harness.analysis.words import listed
from harness.model import Remedy
from workloads.protocol import TUNED, Change

# Which of a leg's changes answer which cause.
LAUNCH = frozenset({"steps_per_execution", "jit_compile", "feed", "batch_size"})
INPUT = frozenset({"feed", "prefetch_to_device", "cache", "prefetch", "workers", "num_parallel_calls"})
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
    case: Case, answers: frozenset[str], text: str, fallback: str, predicted_gain: float | None
) -> Remedy:
    """Return a remedy: the tuned leg's own where it changed one of `answers`, else `fallback`.

    The tuned leg applies all its changes at once, so the measured gain is theirs together; the text says so.
    """
    tuned = case.legs.get(TUNED)
    changes = tuned.changes if tuned else ()
    applied = {change.what: change for change in changes if change.what in answers}
    gain = case.tuned_gain if applied else None
    others = [
        change.what for change in changes if change.what not in answers and change.what != "global batch"
    ]
    if gain is not None and others:
        text = f"{text} The measured gain is that of the tuned leg, which also changes {listed(others)}."
    code = code_for(applied, case.on_gpu) or fallback
    return Remedy(text=text, code=code, predicted_gain=predicted_gain, measured_gain=gain)


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
    if after.get("prefetch_to_device") in _ON:
        yield 'dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))'
