"""Do container and host share their clocks? Where not, steps and telemetry cannot be laid side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.run import Gap

# Half a period of the default sampling rate: less than that moves no sample into another step.
TOLERANCE_NS = 50_000_000


def clock_gap(
    host: Mapping[str, Any], container: Mapping[str, Any] | None, began_ns: int, ended_ns: int
) -> tuple[Gap, ...]:
    """Return a gap over the whole trial where its steps cannot be aligned with telemetry, else nothing.

    Both wall clocks may be right while the monotonic ones count from different boots; an offset that
    differs on the same kernel is a time namespace, or a wall clock that was set in between.

    Args:
        host, container: boot_id, wall_ns and t_ns of one instant, as in the protocol's "start"; None where the
            container did not come to say so.
    """
    if container is None:
        return ()
    offsets = [clocks["wall_ns"] - clocks["t_ns"] for clocks in (host, container)]
    apart_ns = abs(offsets[0] - offsets[1])
    if host["boot_id"] and container["boot_id"] and host["boot_id"] != container["boot_id"]:
        why = "The container ran on another kernel than the harness"
    elif apart_ns > TOLERANCE_NS:
        why = f"The container's clock is {apart_ns / 1e9:.3g} s off the harness' own"
    else:
        return ()
    reason = f"{why}, so its steps cannot be aligned with telemetry."
    return (Gap(source="clock", device="*", metric="*", start_ns=began_ns, end_ns=ended_ns, reason=reason),)
