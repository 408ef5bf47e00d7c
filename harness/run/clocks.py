"""Do container and host share their clocks? Where not, steps and telemetry cannot be laid side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.run import Gap
from workloads.protocol import boot_id

# Half a period of the default sampling rate: less than that moves no sample into another step.
TOLERANCE_NS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """One side's kernel, and by how much its wall clock is ahead of its CLOCK_MONOTONIC."""

    boot_id: str
    offset_ns: int


def host_clocks() -> Clocks:
    """Read this machine's."""
    return Clocks(boot_id=boot_id(), offset_ns=time.time_ns() - time.monotonic_ns())


def container_clocks(start: Mapping[str, Any]) -> Clocks:
    """Return a container's, as its first event tells them."""
    return Clocks(boot_id=start["boot_id"], offset_ns=start["wall_ns"] - start["t_ns"])


def disagreement(host: Clocks, container: Clocks) -> str:
    """Explain why the two do not share CLOCK_MONOTONIC; "" if they do.

    Both wall clocks may be right while the monotonic ones count from different boots; an offset that
    differs on the same kernel is a time namespace, or a wall clock that was set in between.
    """
    if "" not in (host.boot_id, container.boot_id) and host.boot_id != container.boot_id:
        return "The container ran on another kernel than the harness"
    apart_ns = abs(host.offset_ns - container.offset_ns)
    if apart_ns > TOLERANCE_NS:
        return f"The container's clock is {apart_ns / 1e9:.3g} s off the harness' own"
    return ""


def clock_gap(host: Clocks, start: Mapping[str, Any] | None, began_ns: int, ended_ns: int) -> tuple[Gap, ...]:
    """Return a gap over the whole trial where its steps cannot be aligned with telemetry, else nothing."""
    why = disagreement(host, container_clocks(start)) if start is not None else ""
    if not why:
        return ()
    reason = f"{why}, so its steps cannot be aligned with telemetry."
    return (Gap(source="clock", device="*", metric="*", start_ns=began_ns, end_ns=ended_ns, reason=reason),)
