import json

from benchmarks.footprint import cpu_footprints, updated
from harness.cli.list import FOOTPRINTS
from harness.run.catalogue import built_in
from tests.builders import gpu_run


def test_cpu_footprints_of_a_run() -> None:
    run = gpu_run(trials=3)
    result = dict(cpu_footprints(run))
    assert set(result) == {workload.name for workload in run.workloads}
    name = run.workloads[0].name
    own = [trial for trial in run.trials if trial.workload == name and trial.device == "cpu"]
    spent = sorted((item.ended_ns - item.started_ns) / 1e9 for item in own)
    assert spent[0] - 0.1 <= result[name]["trial_s"] <= spent[-1] + 0.1


def test_update_replaces_only_the_same_profile() -> None:
    old, newer = {"profile": "smoke", "trial_s": 9.0}, {"profile": "smoke", "trial_s": 8.0}
    two = {"profile": "quick", "trial_s": 30.0}
    table = updated({"a": [old]}, iter([("a", two), ("b", two)]))
    assert table == {"a": [old, two], "b": [two]}
    assert updated(table, iter([("a", newer)]))["a"] == [newer, two]


def test_the_table_has_only_existing_workloads() -> None:
    assert set(json.loads(FOOTPRINTS.read_text())) <= {entry.workload.name for entry in built_in()}
