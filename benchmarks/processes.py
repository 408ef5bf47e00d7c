"""Samplers as seen from the benchmark: told when to start and stop, their cost read from the kernel."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

ANSWER_S = 45.0


class UnavailableError(Exception):
    """A sampler that cannot take part: why, in words for the table."""


class NoSampler:
    """No sampler: what the others are compared with. Every method of the others may raise UnavailableError."""

    _process: subprocess.Popen[str] | None = None

    def load(self) -> None:
        """Get ready."""

    def start(self) -> None:
        """Start sampling."""

    def begin(self) -> None:
        """Begin the measured interval."""

    def end(self) -> None:
        """End the measured interval."""

    def stop(self) -> Mapping[str, float | None]:
        """Stop sampling, and return what was observed in the interval."""
        return {}

    def close(self) -> None:
        """Kill its process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pids(self) -> tuple[int, ...]:
        """Return its process and that one's children."""
        if self._process is None:
            return ()
        try:
            process = psutil.Process(self._process.pid)
            return (process.pid, *(child.pid for child in process.children(recursive=True)))
        except psutil.NoSuchProcess:
            return ()


class Command(NoSampler):
    """A command that samples from its start to its end, such as `docker stats`; it reports nothing to us."""

    def __init__(self, *command: str) -> None:
        self._command = command

    def start(self) -> None:
        """Start the command."""
        try:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as error:
            raise UnavailableError(f"{self._command[0]}: {error.strerror}") from error

    def stop(self) -> Mapping[str, float | None]:
        """Kill the command."""
        self.close()
        return {}


class Peer(NoSampler):
    """A module of benchmarks.peers in a process of its own.

    Args:
        python: its interpreter.
        module: the module's name.
        arguments: see benchmarks.peers.serving.
        log: file for what it writes to standard error.
    """

    def __init__(self, python: str, module: str, arguments: Sequence[str], log: Path) -> None:
        self._command = [python, "-m", f"benchmarks.peers.{module}", *arguments]
        self._log = log

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
            raise UnavailableError(f"{self._command[0]}: {error.strerror}") from error
        self._ask("load")

    def start(self) -> None:
        """Start sampling."""
        self._ask("start")

    def begin(self) -> None:
        """Begin the measured interval."""
        self._ask("begin")

    def end(self) -> None:
        """End the measured interval."""
        self._ask("end")

    def stop(self) -> Mapping[str, float | None]:
        """Stop sampling, and return what was observed."""
        return self._ask("stop")

    def close(self) -> None:
        """Close its input, on which it ends; kill it and its children if it does not."""
        if self._process is None:
            return
        pids = self.pids()
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        for pid in pids:
            try:
                psutil.Process(pid).kill()
            except psutil.NoSuchProcess:
                continue
        super().close()

    def _ask(self, word: str) -> Mapping[str, float | None]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise UnavailableError(f"ended: {self._last_line()}") from error
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            silent = f"no answer to {word!r} within {ANSWER_S:g} s" if not ready else "ended"
            raise UnavailableError(f"{silent}: {self._last_line()}")
        answer = json.loads(line)
        if "missing" in answer:
            raise UnavailableError(f"not installed (no module {answer['missing']})")
        if "failed" in answer:
            raise UnavailableError(f"{word}: {answer['failed']}")
        return dict(answer)

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing on standard error"


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU seconds of live processes, to the nanosecond, and of children they have waited for."""
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
