"""How a trial ended: one pure function of everything that was seen of its end."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harness.engines import Exit
from harness.engines.container_init import GONE
from harness.errors import EngineError, Interrupted
from harness.model.run import Status
from harness.run.events import EventLog
from harness.untrusted import printable
from harness.wording import some
from workloads.protocol import DIED, NO_GPU_EXIT, OUT_OF_MEMORY, STALLED, reason_of, shortened
from workloads.variants import standing_for

MAX_MESSAGE = 400  # TensorFlow errors can have hundreds of lines; log.txt has them in full
# Shells and engines add this to the number of a signal that ended a process; the local engine negates the number.
FIRST_SIGNAL = 128
# Lines of TensorFlow that are neither warnings nor errors, such as how to turn oneDNN off.
_NOTICE = re.compile(
    r"\d{4}-\d\d-\d\d [\d:.]+: [IW] |[IW]\d{4} |WARNING: All log messages before absl|To enable the following"
)
# Types of errors that are sentences already.
_SENTENCES = {
    "ScriptError": Status.FAILED,
    DIED: Status.FAILED,
    OUT_OF_MEMORY: Status.OUT_OF_MEMORY,
    STALLED: Status.TIMEOUT,
}
# What errors say of a device without memory.
_FULL = (
    *("resource_exhausted", "resourceexhaustederror", "out of memory", "oom when allocating"),
    *("cudaerrormemoryallocation", "dst tensor is not initialized"),
)
# What may have sent a signal, and what to try.
_KILLED_BY: Mapping[int, str] = {
    signal.SIGBUS: (
        "Shared memory (/dev/shm) may be full: use threads instead of processes, or fewer of them. Otherwise a file "
        "that it has mapped is cut or damaged, such as a library: install or copy it again."
    ),
    signal.SIGTERM: "Somebody, or the script itself, stopped it. Unless it was the script, use --resume.",
    signal.SIGKILL: "Somebody, or the system for lack of memory, killed it. Use --resume to run it again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What was seen of a trial's end.

    Attributes:
        exit: how the container exited; None if it did not start, or the harness was killed.
        log: its events; output: the end of its log.
        killed: why the harness killed it, with what to try; None if it did not.
        cause: the EngineError, Interrupted or KeyboardInterrupt that ended the trial, or None.
        lost: whether the engine has stopped answering.
        memory_bytes: the container's memory limit.
    """

    exit: Exit | None
    log: EventLog
    output: str = ""
    killed: tuple[Status, str] | None = None
    cause: BaseException | None = None
    lost: bool = False
    memory_bytes: int | None = None


def outcome(end: End, planned: Collection[str]) -> tuple[Status, str]:
    """Return a trial's status, and a message that ends with what to try ("" for success).

    A trial is successful if each of the planned variants was measured or left out with a reason, and at least one was
    measured. What another trial has measured counts all the same: the message says how much is missing.
    """
    status, message = _ended_early(end) or _failed(end) or _incomplete(end.log, planned) or (Status.OK, "")
    if status is Status.OK or not end.log.windows:
        return status, message
    missing = [name for name in planned if name not in _settled(end.log)]
    if not missing:
        return status, message
    return status, f"{message} Not measured: {some(tuple(missing))}."


def _ended_early(end: End) -> tuple[Status, str] | None:
    """Return how a trial ended that did not end by itself."""
    if end.killed is not None:
        return end.killed
    if isinstance(end.cause, EngineError):
        return Status.ENGINE_LOST if end.lost else Status.FAILED, f"The engine failed: {end.cause}"
    if end.cause is not None or end.exit is None:
        reason = end.cause.message if isinstance(end.cause, Interrupted) else ""
        return Status.INTERRUPTED, reason or "The run was interrupted during this trial."
    return None


def _failed(end: End) -> tuple[Status, str] | None:
    """Return how the process of a trial failed; None if it exited with 0 and without an error."""
    exit_, error = end.exit, end.log.error
    assert exit_ is not None  # see _ended_early
    text = _error(error) if error else ""
    kind = str(error["type"]) if error else ""
    if exit_.code == NO_GPU_EXIT:
        result = text or "TensorFlow did not find the GPU."
        return Status.NO_GPU, f"{result} Run `tfbench doctor` to see what is missing."
    if kind == OUT_OF_MEMORY or (exit_.code and exit_.out_of_memory and not text):
        limit = f" of {end.memory_bytes / 2**30:.1f} GiB" if end.memory_bytes else ""
        result = f"The trial exceeded its memory limit{limit}. Raise --memory or lower the batch size."
        return Status.OUT_OF_MEMORY, result
    if error and _is_out_of_memory(kind, str(error["message"])):
        return Status.OUT_OF_MEMORY, f"The workload ran out of memory. {text} {_of_memory(kind, text)}"
    if kind in _SENTENCES:
        more = "" if "log.txt" in text else " See log.txt for its output."
        return _SENTENCES[kind], f"{text}{more}"
    if text:
        return Status.FAILED, f"{text} See log.txt for the traceback."
    if exit_.removed:
        return Status.FAILED, "Somebody removed the container during the trial. Let it run, and use --resume."
    # The driver reads the events, too, and exits if a line of them is invalid.
    spoilt = exit_.code < FIRST_SIGNAL and end.log.problem.startswith("line ")
    if exit_.code == 0 or spoilt:
        return None
    number = exit_.code - FIRST_SIGNAL if exit_.code > FIRST_SIGNAL else -exit_.code
    name = {int(known): f" ({known.name})" for known in signal.Signals}.get(number, "")
    if number == signal.SIGKILL and GONE in end.output:
        return Status.FAILED, "The connection to its container was cut. Use --resume to run it again."
    told = 0 < exit_.code < FIRST_SIGNAL or number == signal.SIGABRT
    last = _KILLED_BY.get(number) or (_last_line(end.output) if told else "")
    result = f"The workload exited with code {exit_.code}{name}. See log.txt for its last output. {last}"
    return Status.FAILED, result.strip()


def _incomplete(log: EventLog, planned: Collection[str]) -> tuple[Status, str] | None:
    """Return what is missing in the events of a process that ended well; None if nothing is."""
    if log.problem or not log.ended:
        problem = "The events end before the trial does."
        problem = f"The events are not valid: {_sentence(log.problem)}" if log.problem else problem
        return Status.BAD_EVENTS, f"{problem} See log.txt and out/events.jsonl."
    settled = _settled(log)
    if missing := [name for name in planned if name not in settled]:
        return (
            Status.BAD_EVENTS,
            f"The workload did not measure {some(tuple(missing))}. See out/events.jsonl.",
        )
    if not (settled - log.needless - log.left_out.keys()).intersection(planned):
        reasons = "; ".join(f"{name}: {log.left_out.get(name, 'not informative here')}" for name in planned)
        return Status.BAD_EVENTS, f"No variant was measured ({reasons}). Add others with --variants."
    return None


def _settled(log: EventLog) -> set[str]:
    """Return the variants that were measured, or have a reason why not."""
    measured = {window.variant for window in log.windows}
    measured |= standing_for((*measured, *log.left_out, *(metric.name for metric in log.metrics)))
    return {*measured, *log.needless, *log.left_out}


def _error(error: Mapping[str, Any]) -> str:
    """Return an error as a sentence."""
    kind, message = str(error["type"]), str(error["message"])
    if kind in _SENTENCES or kind == MemoryError.__name__:
        return _sentence(message)
    return _sentence(f"The workload raised {kind}: {reason_of(message)}")


def _is_out_of_memory(kind: str, message: str) -> bool:
    """Return whether an error of TensorFlow, NumPy, XLA or CUDA means out of memory."""
    if kind.endswith(("ResourceExhaustedError", "MemoryError")):
        return True
    text = message.casefold()
    return any(each in text for each in _FULL)


def _of_memory(kind: str, text: str) -> str:
    """Return what to try where memory is full."""
    if kind.endswith(MemoryError.__name__):
        return "Let it allocate less."
    if "_EagerConst" in text:
        return "Keras copies arrays to the device as a whole: give it a tf.data.Dataset or a PyDataset of batches."
    return "Lower the batch size, or use a device with more memory."


def _last_line(output: str) -> str:
    """Return the last line of a log as a sentence, which names the error of a workload that could write no event."""
    lines = output.strip().splitlines()
    causes = [line for line in lines if not _NOTICE.match(line)]
    # More lines follow that of an interpreter that does not start.
    fatal = (cause for cause in causes if cause.startswith("Fatal Python error"))
    line = next(fatal, causes[-1] if causes else "")
    advice = ". Build the image FROM one of ours" if line.startswith("ModuleNotFoundError") else ""
    return f"It is: {printable(line, 200)}{advice}" if line else ""


def _sentence(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "").strip()
    short = shortened(line, MAX_MESSAGE)
    return short if short.endswith((".", "!", "?")) else f"{short}."
