"""Check that container and host share their clocks; otherwise steps and telemetry cannot be aligned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.run import Gap

# Half the default sampling period: a smaller offset does not matter.
TOLERANCE_NS = 50_000_000


def clock_gap(
    host: Mapping[str, Any], container: Mapping[str, Any] | None, began_ns: int, ended_ns: int
) -> tuple[Gap, ...]:
    """Return a gap over the whole trial if its steps cannot be aligned with telemetry.

    The boot ids detect monotonic clocks of different kernels. An offset on the same kernel means a time namespace,
    or that the wall clock was set in between.

    Args:
        host, container: boot_id, wall_ns and t_ns of one instant, as in the event "start"; None if the
            container wrote no such event.
    """
    if container is None:
        return ()
    offsets = [clocks["wall_ns"] - clocks["t_ns"] for clocks in (host, container)]
    apart_ns = abs(offsets[0] - offsets[1])
    if host["boot_id"] and container["boot_id"] and host["boot_id"] != container["boot_id"]:
        cause = "The container ran on a different kernel than the harness"
    elif apart_ns > TOLERANCE_NS:
        cause = f"The container's clock differs from the host's by {apart_ns / 1e9:.3g} s"
    else:
        return ()
    reason = f"{cause}, so its steps cannot be aligned with telemetry."
    return (Gap(source="clock", device="*", metric="*", start_ns=began_ns, end_ns=ended_ns, reason=reason),)
