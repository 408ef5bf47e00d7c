"""Fakes of the engine, telemetry source and progress interfaces.

A fake container serves trials, each by a Script: each poll writes the next piece of its event file. After the last
piece it waits for the next trial if that is an "exit", else it exits or hangs. A lost engine stays lost: every call on
its containers fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engines import Container, ContainerSpec, Exit
from harness.errors import EngineError
from harness.model.platform import EngineInfo
from harness.progress import Task
from harness.telemetry import GapSink, Sample, Target
from workloads.protocol import NEXT
from workloads.variants import BASELINE

LOST = EngineError("The engine does not answer.", hint="Start it again.")


def line(kind: str, **fields: Any) -> str:
    return json.dumps({"kind": kind, **fields}) + "\n"


def start_line() -> str:
    return line("start")


def window_line(samples_per_s: float, index: int = 0, variant: str = BASELINE) -> str:
    """Return a window of one second with the given speed."""
    begin = 1_000_000_000 * (index + 1)
    return line(
        "window", variant=variant, index=index, start_ns=begin, end_ns=begin + 1_000_000_000,
        steps=10, samples=round(samples_per_s), wait_ns=-1,
    )  # fmt: skip


def good_events(samples_per_s: float = 1000.0, variants: Sequence[str] = (BASELINE,)) -> tuple[str, ...]:
    """Return the event file of a successful trial in three pieces: beginning, windows, end."""
    begin = start_line() + line("facts", facts={"tensorflow": "2.21.0"})
    begin += "".join(
        line("variant", variant=name, params={"batch_size": 32}, changes=[]) for name in variants
    )
    windows = "".join(window_line(samples_per_s, index, name) for index in range(2) for name in variants)
    return (begin, windows, line("end") + line("exit", code=0))


def error_line(kind: str = "ValueError", message: str = "boom") -> str:
    return line("error", type=kind, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The behaviour of a fake container.

    Attributes:
        writes: pieces of the event file, one per poll.
        code: exit code after the last piece, unless that ends the trial; None to hang.
        raises: poll number, from 0 -> exception to raise; after an EngineError the engine is lost unless it `answers`.
        start_error: exception raised when the container is started, or None.
        on_start: called with the trial's out folder when it starts.
        may_exit: whether the trial may end.
    """

    writes: tuple[str, ...] = field(default_factory=good_events)
    code: int | None = 0
    out_of_memory: bool = False
    raises: Mapping[int, BaseException] = field(default_factory=dict)
    answers: bool = False
    start_error: BaseException | None = None
    on_start: Callable[[Path], None] | None = None
    may_exit: Callable[[], bool] = lambda: True
    log: str = "training ...\n"
    paused: bool = False


@dataclass(eq=False)
class FakeContainer:
    number: int
    spec: ContainerSpec
    engine: FakeEngine
    script: Script = field(default_factory=Script)
    trial: str = ""
    killed: bool = False
    removed: bool = False
    pid: int | None = None
    polls: int = 0
    exit: Exit | None = None

    @property
    def id(self) -> str:
        return f"fake-{self.number}"

    @property
    def out(self) -> Path:
        return self.spec.out / self.trial if self.serves else self.spec.out

    @property
    def serves(self) -> bool:
        return (self.spec.out / NEXT).exists()

    def paused(self) -> bool:
        return self.script.paused

    def poll(self) -> Exit | None:
        self.engine.answer()
        name = (self.spec.out / NEXT).read_text(encoding="utf-8") if self.serves else ""
        if not self.serves and (self.spec.out / "spec.json").exists():
            name = self.spec.trial_id
        if name != self.trial:
            self.trial, self.polls, self.script = name, 0, self.engine.next_script(name)
            if self.script.on_start is not None:
                self.script.on_start(self.out)
        number, self.polls = self.polls, self.polls + 1
        if number in self.script.raises:
            error = self.script.raises[number]
            self.engine.lost = isinstance(error, EngineError) and not self.script.answers
            raise error
        last = len(self.script.writes) - 1
        if number == last and not self.script.may_exit():
            self.polls -= 1
        elif number <= last:
            try:
                with (self.out / "events.jsonl").open("a", encoding="utf-8") as file:
                    file.write(self.script.writes[number])
            except OSError:  # the disk is full
                self.exit = Exit(code=1, out_of_memory=False)
        elif self.script.code is not None and self.exit is None and not (self.serves and self.ended):
            self.exit = Exit(code=self.script.code, out_of_memory=self.script.out_of_memory)
        return self.exit

    @property
    def ended(self) -> bool:
        return '"kind": "exit"' in "".join(self.script.writes[-1:])

    def seen(self, text: str) -> str:
        return text

    def log(self) -> str:
        self.engine.answer()
        return self.script.log

    def kill(self) -> None:
        self.engine.answer()
        if self.exit is None:
            self.killed = True
            self.exit = Exit(code=137, out_of_memory=False)

    def remove(self) -> None:
        self.engine.answer()
        self.removed = True


class FakeEngine:
    """An engine whose containers follow the scripts in order; the last one is repeated."""

    def __init__(self, *scripts: Script) -> None:
        self.containers: list[FakeContainer] = []
        self.started: list[str] = []
        self.lost = False
        self._scripts = scripts or (Script(),)

    def answer(self) -> None:
        if self.lost:
            raise LOST

    @property
    def left_behind(self) -> list[FakeContainer]:
        return [container for container in self.containers if not container.removed]

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(name="fake", version="1", isolated=True)

    @property
    def script(self) -> Script:
        """The script of the next trial."""
        return self._scripts[min(len(self.started), len(self._scripts) - 1)]

    def next_script(self, trial: str) -> Script:
        script = self.script
        self.started.append(trial)
        return script

    def start(self, spec: ContainerSpec) -> Container:
        self.answer()
        if (error := self.script.start_error) is not None:
            self.started.append("")
            raise error
        self.containers.append(FakeContainer(len(self.containers), spec, self))
        return self.containers[-1]

    def remove_stale(self) -> None:
        pass

    def answers(self) -> bool:
        return not self.lost

    def close(self) -> None:
        pass


@dataclass
class FakeSource:
    name = "host"
    interval_s = None
    stopped: bool = False
    reads: int = 0

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        gap("disk", "*", "There is no disk.")
        return {"host": ("cpu_util_pct",)}

    def read(self) -> Iterable[Sample]:
        self.reads += 1
        return (Sample(t_ns=time.monotonic_ns(), device="host", values={"cpu_util_pct": 50.0}),)

    def stop(self) -> None:
        self.stopped = True


@dataclass
class RecordingTask:
    label: str
    total: float | None
    done: float = 0.0
    notes: list[str] = field(default_factory=list)

    def advance(self, amount: float) -> None:
        self.done += amount

    def note(self, text: str) -> None:
        self.notes.append(text)


class RecordingProgress:
    def __init__(self) -> None:
        self.tasks: list[RecordingTask] = []
        self.lines: list[str] = []

    @contextmanager
    def task(self, label: str, total: float | None) -> Iterator[Task]:
        task = RecordingTask(label, total)
        self.tasks.append(task)
        yield task

    def line(self, text: str) -> None:
        self.lines.append(text)
