"""Whether container and host share their clocks."""

from __future__ import annotations

import time

import pytest

from harness.run.clocks import TOLERANCE_NS, Clocks, clock_gap, container_clocks, disagreement, host_clocks
from workloads.protocol import boot_id

HOST = Clocks(boot_id="a", offset_ns=5_000)


def test_this_machine_agrees_with_itself() -> None:
    start = {"t_ns": time.monotonic_ns(), "wall_ns": time.time_ns(), "boot_id": boot_id()}
    assert disagreement(host_clocks(), container_clocks(start)) == ""


@pytest.mark.parametrize(
    ("container", "said"),
    [
        (Clocks(boot_id="a", offset_ns=5_000 + TOLERANCE_NS), ""),
        (Clocks(boot_id="", offset_ns=5_000), ""),
        (Clocks(boot_id="b", offset_ns=5_000), "another kernel"),
        (Clocks(boot_id="a", offset_ns=5_001 + TOLERANCE_NS), "0.05 s off"),
        (Clocks(boot_id="a", offset_ns=-3_000_000_000), "3 s off"),
        (Clocks(boot_id="", offset_ns=9_000_000_000), "9 s off"),
    ],
)
def test_disagreement(container: Clocks, said: str) -> None:
    result = disagreement(HOST, container)
    assert said in result
    assert (result == "") == (said == "")


def test_the_gap_is_the_whole_trial() -> None:
    start = {"t_ns": 0, "wall_ns": 5_000, "boot_id": "b"}
    (gap,) = clock_gap(HOST, start, 10, 20)
    assert (gap.source, gap.device, gap.metric, gap.start_ns, gap.end_ns) == ("clock", "*", "*", 10, 20)
    assert "cannot be aligned" in gap.reason
    assert clock_gap(HOST, {**start, "boot_id": "a"}, 10, 20) == ()
    assert clock_gap(HOST, None, 10, 20) == (), "what said nothing has nothing to be aligned"
