"""A sampler's process, and what it costs by the kernel's accounts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil


class UnavailableError(Exception):
    """A sampler that cannot take part: why, in words for the table."""


@contextmanager
def running(command: Sequence[str], log: Path, settle_s: float) -> Iterator[tuple[psutil.Process, ...]]:
    """Run a command until the block ends; give its process and its children after so many seconds.

    Args:
        command: () for none.

    Raises:
        UnavailableError: it could not be started, or ended too early; the reason is the last line of its log.
    """
    if not command:
        time.sleep(settle_s)
        yield ()
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("w") as errors:
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error.strerror}") from error
    tree: tuple[psutil.Process, ...] = ()
    try:
        time.sleep(settle_s)
        if started.poll() is None:
            process = psutil.Process(started.pid)
            tree = (process, *process.children(recursive=True))
            yield tree
        if started.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise UnavailableError(lines[-1] if lines else "it ended by itself")
    finally:
        for process in tree:
            if process.is_running():
                process.kill()
        started.kill()
        started.wait()
        psutil.wait_procs(tree, timeout=5)


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """Return the CPU seconds of live processes, to the nanosecond, and of children they have waited for."""
    total = 0.0
    for process in processes:
        try:
            # Linux' clock of another process, all its threads: clock_getcpuclockid(3) makes this number.
            total += time.clock_gettime((~process.pid << 3) | 2)
            times = process.cpu_times()
            total += times.children_user + times.children_system
        except (OSError, psutil.NoSuchProcess):
            continue
    return total


def memory_bytes(processes: Sequence[psutil.Process]) -> int:
    """Return the memory of processes, pages that several share counted in parts (PSS)."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
