from contextlib import nullcontext

import pytest

from harness.run.events import read_log
from workloads.driver.failing_variants import measure_each
from workloads.protocol import BASELINE, EventWriter


@pytest.mark.parametrize(("baseline", "raised"), [("first", None), ("bad", "no"), ("", "no")])
def test_failed_variants_are_left_out_and_only_a_failed_baseline_fails_the_trial(tmp_path, baseline, raised):
    failures = {"first": "", "bad": "no\nmore", "worse": "nor this", "last": ""}
    failures = {BASELINE if name == baseline else name: failure for name, failure in failures.items()}
    ran: list[str] = []

    def measure(name: str) -> None:
        if failures[name]:
            raise ValueError(failures[name])
        ran.append(name)

    ending = pytest.raises(ValueError, match=raised) if raised else nullcontext()
    with (tmp_path / "events").open("w") as file, ending:
        measure_each(tuple(failures), measure, EventWriter(file))
    assert ran == [name for name, failure in failures.items() if not failure]
    assert list(read_log(tmp_path / "events").left_out.values()) == ["ValueError: no", "ValueError: nor this"]
