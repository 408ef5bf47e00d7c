import pytest

from harness.run.clocks import TOLERANCE_NS, clock_gap

HOST = {"boot_id": "a", "wall_ns": 5_000, "t_ns": 0}


@pytest.mark.parametrize(
    ("boot_id", "offset_ns", "reason"),
    [
        ("a", 5_000 + TOLERANCE_NS, ""),
        ("", 5_000, ""),
        ("b", 5_000, "different kernel"),
        ("a", 5_001 + TOLERANCE_NS, "by 0.05 s"),
        ("a", -3_000_000_000, "by 3 s"),
        ("", 9_000_000_000, "by 9 s"),
    ],
)
def test_clocks_that_differ_are_a_gap_of_the_whole_trial(boot_id: str, offset_ns: int, reason: str) -> None:
    gaps = clock_gap(HOST, {"boot_id": boot_id, "wall_ns": offset_ns + 7, "t_ns": 7}, 10, 20)
    spans = [(gap.source, gap.device, gap.metric, gap.start_ns, gap.end_ns) for gap in gaps]
    assert spans == ([("clock", "*", "*", 10, 20)] if reason else [])
    assert all(reason in gap.reason for gap in gaps)


def test_what_reported_nothing_has_nothing_to_be_aligned() -> None:
    assert clock_gap(HOST, None, 10, 20) == ()
