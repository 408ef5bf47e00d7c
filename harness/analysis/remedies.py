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

_POLICIES = {"fp16": "mixed_float16", "bf16": "mixed_bfloat16"}
_FEED = """\
with tf.device("/GPU:0"):  # the data stays on the card
    x, y = tf.constant(x_train), tf.constant(y_train)

@tf.function(jit_compile=True)
def train(indices):  # int32[steps, batch], shuffled
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
    if after.get("precision") in _POLICIES:
        yield f'tf.keras.mixed_precision.set_global_policy("{_POLICIES[after["precision"]]}")'
    compiled = []
    if after.get("steps_per_execution", "").isdecimal():
        compiled.append(f"steps_per_execution={after['steps_per_execution']}")
    if after.get("jit_compile") in ("on", "True"):
        compiled.append("jit_compile=True")
    if compiled:
        yield f"model.compile(optimizer, loss, {', '.join(compiled)})"
    if after.get("batch_size", "").isdecimal():
        yield f"model.fit(x, y, batch_size={after['batch_size']})"
    if after.get("prefetch_to_device") in ("on", "True"):
        yield 'dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))'
    if after.get("feed") == "resident":
        yield (
            _FEED
            if on_gpu
            else _FEED.replace("/GPU:0", "/CPU:0").replace("  # the data stays on the card", "")
        )
