"""Health: planted conditions, read through the stand-in of NVIDIA's library as an ordinary user."""

from dataclasses import replace

import numpy as np
import pynvml
import pytest

from harness.analysis import analyse, health_checks
from harness.cli.bench import raise_for_health
from harness.errors import UnhealthyError
from harness.model.platform import HOST, Health, HealthCheck, HealthItem, Level, State
from harness.model.run import Run, Series
from harness.run.store import RunFolder, read_run
from harness.system.health_readings import HealthWatch, host_state, links, watching
from reports import machine
from tests import builders, special_runs
from tests.nvml_standin import ONE_GPU, UUID, standin

GPU = replace(builders.gpu(), uuid=UUID)
__all__ = ["standin"]
POWER_BRAKE = pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown


@pytest.fixture
def run_of(standin, tmp_path):
    """Return a function that plays a script during a run: health before and after, telemetry in between."""

    def play(script: str, *, log: str = "") -> Run:
        path = tmp_path / "kmsg"
        path.write_text("")
        reading = standin.read(script, "nvml", "nvml_slow", reads=10)
        watch = HealthWatch((GPU,), "", tmp_path, log=path)
        health = watch.begin()
        path.write_text(log)
        health = watch.end(health)
        series = []
        for source in ("nvml", "nvml_slow"):
            own = [sample for sample in reading.samples if sample["source"] == source]
            columns = {
                name: np.array([sample["values"].get(name, np.nan) for sample in own])
                for name in reading.columns[source].get("gpu0", ())
            }
            times = np.array([sample["t_ns"] for sample in own])
            series.append(Series(source=source, device="gpu0", t_ns=times, columns=columns))
        whole = builders.gpu_run(trials=1)
        trials = tuple(replace(trial, telemetry=tuple(series)) for trial in whole.trials[1:])
        return replace(whole, manifest=replace(whole.manifest, gpus=(GPU,)), trials=trials, health=health)

    return play


def health_items(run: Run) -> tuple[HealthItem, ...]:
    return health_checks.health_items(run.health, len(run.manifest.gpus), run.trials)


def notable(run: Run) -> dict[tuple[HealthCheck, Level], dict[str, float]]:
    items = [item for item in health_items(run) if item.device != HOST]
    assert all(machine.health_text(item) for item in items), "every outcome has words"
    return {
        (item.check, item.level): dict(item.facts)
        for item in items
        if item.level in (Level.ATTENTION, Level.FAIL)
    }


def test_nothing_is_said_of_a_healthy_gpu(run_of):
    run = run_of(ONE_GPU)
    assert notable(run) == {}
    levels = {item.check: item.level for item in health_items(run) if item.device == "gpu0"}
    # The machine without this GPU has no NUMA node for it; a GPU without MIG mode cannot be in it.
    unreadable = {check for check, level in levels.items() if level is Level.UNREADABLE}
    assert unreadable == {HealthCheck.NUMA, HealthCheck.MIG}
    assert list(notable(run_of(f"gpu 0 {UUID} 1\n"))) == [(HealthCheck.MIG, Level.ATTENTION)]
    # The kernel's log adds what NVML did not say.
    line = "4,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.\n"
    other = line.replace("3b", "af")
    assert notable(run_of(ONE_GPU, log=line + other)) == {
        (HealthCheck.XID, Level.FAIL): {"code": 79, "during": 1}
    }


@pytest.mark.parametrize(
    ("planted", "check", "level", "facts"),
    [
        ("value xid 48 0", HealthCheck.XID, Level.FAIL, {"code": 48, "during": 1}),
        ("value xid 63 0", HealthCheck.XID, Level.ATTENTION, {"code": 63, "during": 1}),
        ("value xid 79 79 0", HealthCheck.XID, Level.FAIL, {"code": 79, "during": 2}),
        ("value xid 13 0", HealthCheck.XID, Level.ATTENTION, {"code": 13, "during": 1}),
        ("value remap_pending 1", HealthCheck.REMAPPED, Level.ATTENTION, {"remapping_pending": 1}),
        ("value remap_failed 1", HealthCheck.REMAPPED, Level.FAIL, {"remapping_failed": 1}),
        ("value ecc10 0 2", HealthCheck.ECC, Level.FAIL, {"new": 2}),
        ("value ecc10 3", HealthCheck.ECC, Level.ATTENTION, {"new": 0, "ecc_uncorrected": 3}),
        ("value width 8", HealthCheck.PCIE, Level.ATTENTION, {"width": 8, "max_width": 16}),
        ("value nvlink4 0", HealthCheck.NVLINK, Level.FAIL, {"links": 18, "active": 17}),
        ("value field38 0 900", HealthCheck.NVLINK, Level.ATTENTION, {"errors": 900}),
        ("value field94 " + "0 " * 12 + "500", HealthCheck.REPLAYS, Level.ATTENTION, {"new": 500}),
        ("value limit 500000", HealthCheck.POWER_LIMIT, Level.ATTENTION, {"power_limit_w": 500}),
        ("value temperature0 88", HealthCheck.HEAT, Level.ATTENTION, {"hottest": 88, "limit": 89}),
        (f"value reasons {POWER_BRAKE}", HealthCheck.SLOWDOWN, Level.FAIL, {"share": 1}),
        ("value app_clock1 1200", HealthCheck.CLOCKS, Level.ATTENTION, {"clock_set_mhz": 1200}),
        ("value confidential 1", HealthCheck.CONFIDENTIAL, Level.ATTENTION, {"on": 1}),
        ("value process 1", HealthCheck.PROCESSES, Level.ATTENTION, {"others": 1}),
        (f"fail gpu:0 {pynvml.NVML_ERROR_GPU_IS_LOST} 100", HealthCheck.LOST, Level.FAIL, {}),
        # Retired pages stand for rows before Ampere.
        ("fail nvmlDeviceGetRemappedRows 3\nvalue retired_pending 1", HealthCheck.REMAPPED, Level.ATTENTION, {}),
    ],
)  # fmt: skip
def test_a_planted_condition_is_named_and_nothing_else(planted, check, level, facts, run_of):
    found = notable(run_of(f"{ONE_GPU}{planted}\n"))
    assert list(found) == [(check, level)]
    assert found[check, level].items() >= facts.items()


def test_a_link_that_rests_between_loads_is_healthy(run_of):
    """Idle GPUs lower their link: only readings under load count, and of those the best of a trial."""
    assert notable(run_of(ONE_GPU + "value gen 1 5 1 5\n")) == {}
    idle = run_of(ONE_GPU + "value gen 1\nvalue util 0\n")
    (link,) = (item for item in health_items(idle) if item.check is HealthCheck.PCIE)
    assert link.level is Level.UNREADABLE


def test_what_is_not_supported_is_unreadable_with_its_reason(run_of):
    run = run_of(ONE_GPU + "fail nvmlDeviceGetTotalEccErrors 3\nfail nvmlDeviceGetRemappedRows 3\n"
                 "fail nvmlDeviceGetNvLinkState 3\nfail nvmlDeviceGetRetiredPagesPendingStatus 4\n")  # fmt: skip
    assert notable(run) == {}
    why = {item.check: item.text for item in health_items(run) if item.level is Level.UNREADABLE}
    assert "not support" in why[HealthCheck.ECC]
    assert "not support" in why[HealthCheck.NVLINK]
    assert "no permission" in why[HealthCheck.REMAPPED]


def host_levels(before: dict[str, float | str], after: dict[str, float | str]) -> dict[HealthCheck, Level]:
    states = [State(t_ns=0, values={HOST: values}) for values in (before, after)]
    run = replace(builders.cpu_run(trials=1), health=Health(before=states[0], after=states[1]))
    return {item.check: item.level for item in health_items(run)}


def test_conditions_of_the_host(tmp_path):
    before = {"cpu_s": 100.0, "steal_s": 1.0, "swapped_bytes": 5.0, "memory_errors": 0.0}
    fine = {"disk_free_share": 0.5, "governor": "performance", "huge_pages": "madvise", "disk_type": "ext4"}
    levels = host_levels(before, before | fine | {"cpu_s": 200.0})
    assert set(levels.values()) == {Level.OK}
    poor = {"disk_free_share": 0.01, "governor": "powersave", "huge_pages": "never", "steal_s": 11.0}
    levels = host_levels(before, before | poor | {"cpu_s": 200.0, "swapped_bytes": 9.0, "memory_errors": 1.0})
    assert levels.pop(HealthCheck.MEMORY) is Level.FAIL
    assert set(levels.values()) == {Level.ATTENTION}
    assert set(host_levels({}, {}).values()) == {Level.UNREADABLE}
    values = host_state("0", tmp_path)
    assert values["cpu_s"] > values["steal_s"] >= 0
    assert 0 <= values["disk_free_share"] <= 1 and values["disk_type"]


@pytest.mark.parametrize(
    ("node", "level"), [(0.0, Level.OK), (1.0, Level.ATTENTION), (-1.0, Level.UNREADABLE)]
)
def test_cpus_of_another_numa_node_than_the_gpus(node, level):
    state = State(t_ns=0, values={HOST: {"numa_nodes": "0"}, "gpu0": {"numa_node": node}})
    run = replace(builders.gpu_run(trials=1), health=Health(before=state))
    (item,) = (item for item in health_items(run) if item.check is HealthCheck.NUMA)
    assert item.level is level


def test_health_is_kept_in_the_run_folder_and_continued(standin, tmp_path):
    standin.load(ONE_GPU + "value xid 31 0 48 0\n")
    folder = RunFolder(tmp_path / "run")
    whole = builders.gpu_run(trials=1)
    folder.create(whole)
    assert folder.health() is None
    states = []
    for _ in range(2):
        watch = HealthWatch((GPU,), "", tmp_path, log=tmp_path / "none")
        with watching(watch, folder.health(), folder.write_health):
            states.append(folder.health())
    assert states[0].after is None
    health = read_run(folder.path).health
    assert health.before == states[0].before
    assert [xid.code for xid in health.xids] == [31, 48]
    (folder.path / "health.json").write_text("{")
    assert read_run(folder.path).health is None


def test_the_first_line_names_the_worst_finding():
    text, level = machine.verdict(analyse(special_runs.unhealthy_run()))
    assert "Xid 48" in text
    assert "2 other findings" in text
    assert level == "alert"
    with pytest.raises(UnhealthyError, match="memory errors"):
        raise_for_health(analyse(special_runs.unhealthy_run()))
    healthy = replace(builders.gpu_run(), health=special_runs.health())
    raise_for_health(analyse(healthy))
    assert machine.verdict(analyse(healthy)) == ("Machine: healthy", "good")
    unknown = analyse(builders.gpu_run(trials=1))
    assert (unknown.health, machine.verdict(unknown)[0]) == ((), "")


def test_what_connects_two_gpus_is_read_and_without_permission_the_reason_is_kept(standin):
    two = {"gpu0": UUID, "gpu1": UUID.replace("1", "2")}
    lines = "".join(f"gpu {number} {uuid} -1\n" for number, uuid in enumerate(two.values()))
    for planted, link in (("", "NVLink"), ("value p2p 5\nvalue topology 30\n", "one PCIe host bridge")):
        standin.load(lines + planted)
        pynvml.nvmlInit()
        assert links(two) == (
            {"gpu0": {"link gpu1": link}, "gpu1": {"link gpu0": link}},
            {"gpu0": {}, "gpu1": {}},
        )
    standin.load(lines + "value p2p 5\nfail nvmlDeviceGetTopologyCommonAncestor 3\n")
    pynvml.nvmlInit()
    values, missing = links(two)
    assert values == {"gpu0": {}, "gpu1": {}}
    assert "not support" in missing["gpu0"]["link gpu1"]
