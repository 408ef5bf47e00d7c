"""What `tfbench list` says a workload takes comes from runs."""

from __future__ import annotations

from benchmarks.footprint import measured, merged
from harness.run.catalogue import built_in
from harness.run.footprint import Footprint, footprints
from tests.builders import gpu_run

OLD = Footprint(profile="smoke", trial_s=9.0, trials=1, memory_bytes=None, data_bytes=0, machine="m")


def test_a_run_says_what_its_workloads_took_on_the_processor() -> None:
    run = gpu_run(trials=3)
    result = dict(measured(run))
    assert set(result) == {workload.name for workload in run.workloads}
    name = run.workloads[0].name
    own = [trial for trial in run.trials if trial.workload == name and trial.device == "cpu"]
    spent = sorted((item.ended_ns - item.started_ns) / 1e9 for item in own)
    assert spent[0] - 0.1 <= result[name].trial_s <= spent[-1] + 0.1
    assert result[name].run_s == result[name].trial_s * result[name].trials


def test_only_the_same_profile_is_replaced() -> None:
    each, two = (
        OLD,
        Footprint(profile="quick", trial_s=30.0, trials=3, memory_bytes=5, data_bytes=7, machine="m"),
    )
    table = merged({"a": (each,)}, iter([("a", two), ("b", two)]))
    assert table == {"a": (each, two), "b": (two,)}
    newer = Footprint(profile="smoke", trial_s=8.0, trials=1, memory_bytes=None, data_bytes=0, machine="m")
    assert merged(table, iter([("a", newer)]))["a"] == (newer, two)


def test_the_table_speaks_of_workloads_that_there_are() -> None:
    assert set(footprints()) <= {entry.workload.name for entry in built_in()}
