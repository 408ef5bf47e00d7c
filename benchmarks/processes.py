"""Samplers as processes: told what to do, and what they cost read off the kernel's own accounts."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import psutil

ANSWER_S = 45.0


class LeftOutError(Exception):
    """A sampler that cannot take part: why, in words for the table."""


class Sampler(Protocol):
    """Something that can watch a stretch of the workload, again and again."""

    def load(self) -> None:
        """Get ready.

        Raises:
            LeftOutError: it is not installed or does not work here; so may all the others.
        """
        ...

    def on(self) -> None:
        """Start sampling."""
        ...

    def begin(self) -> None:
        """The stretch begins."""
        ...

    def end(self) -> None:
        """The stretch ends."""
        ...

    def off(self) -> Mapping[str, float | None]:
        """Stop, and return what was seen of the stretch."""
        ...

    def pids(self) -> tuple[int, ...]:
        """Return the processes that it consists of now."""
        ...

    def close(self) -> None:
        """End for good."""
        ...


class Nobody:
    """No sampler: what the others are compared with."""

    def load(self) -> None:
        """Do nothing."""

    def on(self) -> None:
        """Do nothing."""

    def begin(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def off(self) -> Mapping[str, float | None]:
        """See nothing."""
        return {}

    def pids(self) -> tuple[int, ...]:
        """Consist of nothing."""
        return ()

    def close(self) -> None:
        """Do nothing."""


class Command(Nobody):
    """A command that samples from its start to its end, such as `docker stats`; it reports nothing to us."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def on(self) -> None:
        """Start it."""
        try:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise LeftOutError(f"{self._command[0]}: {error.strerror}") from error

    def off(self) -> Mapping[str, float | None]:
        """End it."""
        self.close()
        return {}

    def pids(self) -> tuple[int, ...]:
        """Return it and its children."""
        return _tree(self._process.pid) if self._process else ()

    def close(self) -> None:
        """End it."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


class Peer:
    """A module of benchmarks.peers in a process of its own.

    Args:
        python: its interpreter.
        module: the module's name.
        arguments: see benchmarks.peers.answering.
        log: file for what it writes to standard error.
    """

    def __init__(self, python: str, module: str, arguments: Sequence[str], log: Path) -> None:
        self._command = [python, "-m", f"benchmarks.peers.{module}", *arguments]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def load(self) -> None:
        """Start the process and have it import its library."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                    cwd=Path(__file__).resolve().parents[1],
                )  # fmt: skip
        except OSError as error:
            raise LeftOutError(f"{self._command[0]}: {error.strerror}") from error
        self._ask("load")

    def on(self) -> None:
        """Have it start."""
        self._ask("on")

    def begin(self) -> None:
        """Tell it."""
        self._ask("begin")

    def end(self) -> None:
        """Tell it."""
        self._ask("end")

    def off(self) -> Mapping[str, float | None]:
        """Have it stop and report."""
        return self._ask("off")

    def pids(self) -> tuple[int, ...]:
        """Return the process and its children."""
        return _tree(self._process.pid) if self._process else ()

    def close(self) -> None:
        """Close its input, on which it ends; kill it and its children if it does not."""
        if self._process is None:
            return
        children = _tree(self._process.pid)
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        for pid in children:
            try:
                psutil.Process(pid).kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        self._process = None

    def _ask(self, word: str) -> Mapping[str, float | None]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise LeftOutError(f"ended: {self._last_words()}") from error
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            silent = f"no answer to {word!r} within {ANSWER_S:g} s" if not ready else "ended"
            raise LeftOutError(f"{silent}: {self._last_words()}")
        answer = json.loads(line)
        if "missing" in answer:
            raise LeftOutError(f"not installed (no module {answer['missing']})")
        if "failed" in answer:
            raise LeftOutError(f"{word}: {answer['failed']}")
        return dict(answer)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def _tree(pid: int) -> tuple[int, ...]:
    try:
        process = psutil.Process(pid)
        return (pid, *(child.pid for child in process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return ()


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU seconds of live processes, to the nanosecond, and of children they have buried."""
    total = 0.0
    for pid in pids:
        try:
            # Linux' clock of another process, all its threads: clock_getcpuclockid(3) makes this number.
            total += time.clock_gettime((~pid << 3) | 2)
            times = psutil.Process(pid).cpu_times()
            total += times.children_user + times.children_system
        except (OSError, psutil.NoSuchProcess):
            continue
    return total


def memory_bytes(pids: Sequence[int]) -> int:
    """Return the memory of processes, pages that several share counted in parts (PSS)."""
    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
