"""Who else uses a GPU: a benchmark beside another job measures both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pynvml

from harness.telemetry.nvml_errors import UnreadableError
from harness.telemetry.nvml_gpu import Failed, Handle, Reading

# PROC_PID_INIT_INO: the inode of the process namespace that the kernel starts in.
_HOST_NAMESPACE = "pid:[4026531836]"


class OtherProcesses(Reading):
    """Processes with a context on the GPU that do not descend from the trial's first process.

    Args:
        pid: the trial's first process on this host.
        host_pids: tells whether process numbers here are the host's.
    """

    metrics = ("foreign_processes", "foreign_mem_bytes")

    def __init__(self, pid: int | None, host_pids: Callable[[], bool] | None = None) -> None:
        self._pid = pid
        self._host_pids = host_pids or _in_host_namespace

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Count them; a driver that does not say how much memory each holds is asked for the number only."""
        if not self._host_pids():
            raise UnreadableError("NVML reports the host's process IDs, but the harness runs in a container.")
        result = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        foreign = [each for each in result if not self._ours(each.pid)]
        values: dict[str, float] = {"foreign_processes": len(foreign)}
        if all(each.usedGpuMemory is not None for each in foreign):
            values["foreign_mem_bytes"] = sum(each.usedGpuMemory for each in foreign)
        return values

    def _ours(self, pid: int) -> bool:
        try:
            process = psutil.Process(pid)
            return pid == self._pid or any(parent.pid == self._pid for parent in process.parents())
        except psutil.NoSuchProcess:
            return True  # ended since NVML listed it
        except psutil.Error:
            return False


def _in_host_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _HOST_NAMESPACE
    except OSError:
        return False
