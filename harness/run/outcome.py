"""What became of a trial, in a word and a sentence: a pure judgement over what was seen."""

from __future__ import annotations

from collections.abc import Collection

from harness.engines import Exit
from harness.errors import EngineError
from harness.model.run import Status
from harness.run.events import EventLog
from workloads.protocol import NO_GPU_EXIT

LONGEST = 300  # TensorFlow's own errors run to hundreds of lines; log.txt has them whole


def judge(
    exit_: Exit | None,
    log: EventLog,
    cause: BaseException | None,
    memory_bytes: int | None,
    variants: Collection[str],
) -> tuple[Status, str]:
    """Return a trial's status and a message for people that ends with what to try; "" when all went well.

    `cause` is what cut the trial off: EngineError or KeyboardInterrupt, None when it ran to its end. It went well
    when each of the planned `variants` was measured or left out with a reason, and at least one was measured.
    """
    if isinstance(cause, EngineError):
        return Status.ENGINE_LOST, f"The engine was lost or refused: {cause}"
    if cause is not None or exit_ is None:
        return Status.INTERRUPTED, "The run was stopped during this trial."
    text = _sentence(f"{log.error['type']}: {log.error['message']}") if log.error else ""
    if exit_.out_of_memory:
        limit = f" of {memory_bytes / 2**30:.1f} GiB" if memory_bytes else ""
        return (
            Status.OUT_OF_MEMORY,
            f"It exceeded its memory limit{limit}. Raise --memory or lower batch_size.",
        )
    if exit_.code == NO_GPU_EXIT:
        result = text or "TensorFlow did not find the GPU."
        return Status.NO_GPU, f"{result} Run `tfbench doctor` to see what is missing."
    if log.error and _ran_out(str(log.error["type"]), str(log.error["message"])):
        return (
            Status.OUT_OF_MEMORY,
            f"The workload ran out of memory: {text} Lower batch_size, or use a device with more memory.",
        )
    if text:
        return Status.FAILED, f"The workload raised {text} See log.txt for the traceback."
    if exit_.code != 0:
        return Status.FAILED, f"It exited with code {exit_.code}. See log.txt for its last output."
    if log.problem or not log.ended:
        problem = _sentence(log.problem or "its last event is missing")
        return Status.BAD_EVENTS, f"Its events are not valid: {problem} See log.txt and out/events.jsonl."
    measured = {window.variant for window in log.windows}
    missing = [each for each in variants if each not in measured | log.needless | log.left_out.keys()]
    if missing or not measured.intersection(variants):
        return (
            Status.BAD_EVENTS,
            f"It did not measure {', '.join(missing or variants)}. See out/events.jsonl.",
        )
    return Status.OK, ""


def _ran_out(kind: str, message: str) -> bool:
    """Return whether an error says that memory ran out: TensorFlow's and NumPy's own kinds, XLA's, CUDA's."""
    if kind.endswith(("ResourceExhaustedError", "MemoryError")):
        return True
    text = message.casefold()
    return "resource_exhausted" in text or "out of memory" in text or "cudaerrormemoryallocation" in text


def _sentence(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "").strip()
    short = line if len(line) <= LONGEST else line[:LONGEST].rstrip() + "..."
    return short if short.endswith((".", "!", "?")) else f"{short}."
