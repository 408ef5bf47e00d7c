"""Determine the status and message of a finished trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from harness.engines import Exit
from harness.errors import EngineError, Interrupted
from harness.model.run import Status
from harness.run.events import EventLog
from workloads.protocol import FIX_PREFIX, FIXES, NO_GPU_EXIT, STAGE_PREFIX, STAGES

MAX_MESSAGE = 300  # TensorFlow errors can have hundreds of lines; log.txt has them in full


def trial_outcome(
    exit_: Exit | None,
    log: EventLog,
    cause: BaseException | None,
    memory_bytes: int | None,
    variants: Collection[str],
) -> tuple[Status, str]:
    """Return a trial's status, and a message that ends with what to try ("" for success).

    `cause` is the EngineError, Interrupted or KeyboardInterrupt that ended the trial, or None. A trial is successful
    if each of the planned `variants` was measured or left out with a reason, and at least one was measured.
    """
    if isinstance(cause, EngineError):
        return Status.ENGINE_LOST, f"The engine failed: {cause}"
    if cause is not None or exit_ is None:
        told = (
            cause.message if isinstance(cause, Interrupted) else "The run was interrupted during this trial."
        )
        return Status.INTERRUPTED, told
    text = _error(log.error) if log.error else ""
    if exit_.out_of_memory:
        limit = f" of {memory_bytes / 2**30:.1f} GiB" if memory_bytes else ""
        return (
            Status.OUT_OF_MEMORY,
            f"The trial exceeded its memory limit{limit}. Raise --memory or lower the batch size.",
        )
    if exit_.code == NO_GPU_EXIT:
        result = text or "TensorFlow did not find the GPU."
        return Status.NO_GPU, f"{result} Run `tfbench doctor` to see what is missing."
    if log.error and _is_out_of_memory(str(log.error["type"]), str(log.error["message"])):
        return (
            Status.OUT_OF_MEMORY,
            f"The workload ran out of memory. {text} Lower the batch size, or use a device with more memory.",
        )
    if text:
        return Status.FAILED, f"{text} See log.txt for the traceback."
    if exit_.code != 0:
        return Status.FAILED, f"The workload exited with code {exit_.code}. See log.txt for its last output."
    if log.problem or not log.ended:
        problem = _sentence(log.problem or "the last event is missing")
        return Status.BAD_EVENTS, f"The events are not valid: {problem} See log.txt and out/events.jsonl."
    measured = {window.variant for window in log.windows}
    if any(name.startswith(STAGE_PREFIX) for name in (*measured, *(metric.name for metric in log.metrics))):
        measured.add(STAGES)
    if any(name.startswith(FIX_PREFIX) for name in (*measured, *log.left_out)):
        measured.add(FIXES)
    missing = [
        variant for variant in variants if variant not in measured | log.needless | log.left_out.keys()
    ]
    if missing:
        return (
            Status.BAD_EVENTS,
            f"The workload did not measure {', '.join(missing)}. See out/events.jsonl.",
        )
    if not measured.intersection(variants):
        reasons = "; ".join(f"{name}: {log.left_out.get(name, 'not informative here')}" for name in variants)
        return Status.BAD_EVENTS, f"No variant was measured ({reasons}). Add others with --variants."
    return Status.OK, ""


def _error(error: Mapping[str, Any]) -> str:
    """Return an error as a sentence; a ScriptError is one already."""
    kind, message = str(error["type"]), str(error["message"])
    if kind == "ScriptError":
        return _sentence(message)
    # TensorFlow's errors begin with "Graph execution error:" and end with the reason and the nodes' names.
    lines = [text for line in message.splitlines() if (text := line.strip()) and not text.startswith("[[")]
    reason = lines[-1] if lines and lines[0].endswith(":") else message
    return _sentence(f"The workload raised {kind}: {reason}")


def _is_out_of_memory(kind: str, message: str) -> bool:
    """Return whether an error of TensorFlow, NumPy, XLA or CUDA means out of memory."""
    if kind.endswith(("ResourceExhaustedError", "MemoryError")):
        return True
    text = message.casefold()
    return "resource_exhausted" in text or "out of memory" in text or "cudaerrormemoryallocation" in text


def _sentence(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "").strip()
    short = line if len(line) <= MAX_MESSAGE else line[:MAX_MESSAGE].rstrip() + "..."
    return short if short.endswith((".", "!", "?")) else f"{short}."
