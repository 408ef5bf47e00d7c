from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import fields, replace
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.capabilities import data_sheet
from harness.analysis.extract import extract
from harness.analysis.quantities import planned_names, values
from harness.analysis.trial_measures import slow_trials
from harness.analysis.versus import versus
from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.model.analysis import Analysis, Capability, Cause, CaveatKind, Pair
from harness.model.platform import HealthCheck, HealthItem, Level
from harness.model.run import Metric, Run, Trial
from harness.model.workload import Workload
from harness.options import Options, seconds
from harness.paths import Paths
from harness.progress import Silent
from harness.run.json_values import from_plain
from harness.run.plan import machine_trials, soak_trials
from harness.run.resolve import resolve
from harness.run.trial_container import spec_for
from harness.system.doctor_checks import device_check, disk_checks, examine, prove_device
from harness.system.machine import host_facts, system_description
from harness.system.shared_files import LOCK_ENV, default_path, measuring
from reports import compare_page, machine, messages
from reports.exports import render_csv
from reports.page import figures_of, render_html, render_markdown
from tests import builders, special_runs
from tests.conftest import ROOT
from tests.fakes import FakeEngine, Script
from tests.folders import write_files
from workloads.protocol import (
    ALL_REDUCE_SIZES,
    CPU_CAPABILITIES,
    GPU_CAPABILITIES,
    GROUP_CAPABILITIES,
    MACHINE,
    PROBES,
    RATE,
    SOAK,
    Spec,
    all_reduce_mib,
    peer,
)
from workloads.variants import BASELINE

SMOKE = PROFILES["smoke"]
PAIRS = [*permutations(range(3), 2)]


def able(analysis: Analysis, device: str = "gpu0") -> dict[str, Capability]:
    return {each.name: each for each in analysis.capabilities if each.device == device}


def test_values_are_medians_over_trials_beside_the_data_sheet():
    analysis = analyse(special_runs.measured_machine_run())
    assert MACHINE not in {each.workload for each in analysis.cases}
    gpu = able(analysis)
    assert tuple(gpu) == GPU_CAPABILITIES
    half = gpu["fp16"]
    assert half.value.median == pytest.approx(7.23e14 * 1.004)
    assert (half.value.n, half.value.unit, half.kind) == (3, "FLOP/s", "NVIDIA H200")
    assert half.value.low < half.value.median < half.value.high
    assert half.sheet == 989.5e12
    assert gpu["memory"].sheet == 4.8e12
    assert gpu["to-device-pinned"].sheet == pytest.approx(63e9, rel=0.01), "PCIe 5.0 x16 in one direction"
    assert gpu["launch"].sheet is None
    assert (half.mhz, half.power_w) == (pytest.approx(1980), pytest.approx(698, abs=5))


def test_csv_and_markdown_have_it():
    analysis = analyse(special_runs.measured_machine_run())
    rows = list(csv.DictReader(io.StringIO(render_csv(analysis))))
    (half,) = (row for row in rows if (row["workload"], row["variant"]) == (MACHINE, "fp16"))
    assert float(half["capability"]) == pytest.approx(7.26e14, rel=0.01)
    assert float(half["data_sheet"]) == 989.5e12
    assert "of 990\u202fTFLOP/s" in render_markdown(analysis)


def test_devices_alone_and_groups_together_are_planned():
    planned = machine_trials(("cpu", "gpu0", "gpu0+gpu1"), PROFILES["quick"])
    assert {trial.device: trial.variants for trial in planned} == {
        "cpu": CPU_CAPABILITIES,
        "gpu0": GPU_CAPABILITIES,
        "gpu1": GPU_CAPABILITIES,
        "gpu0+gpu1": ("peer:0-1", "peer:1-0", *GROUP_CAPABILITIES),
    }
    trials = PROFILES["quick"].trials
    assert len(planned) == 4 * trials
    first = planned[3].variants
    assert (planned[3].device, first) == ("gpu0+gpu1", (*planned[-1].variants, *ALL_REDUCE_SIZES))
    wide = {each.device: each.variants for each in machine_trials(("gpu0+gpu1", "gpu2+gpu1+gpu0"), SMOKE)}
    assert {each for each in wide["gpu2+gpu1+gpu0"] if "peer" in each} == {peer(a, b) for a, b in PAIRS}
    assert not {each for each in wide["gpu0+gpu1"] if "peer" in each}, "the wider group has them"
    planned = soak_trials(("cpu", "gpu0", "gpu0+gpu1"), 600.0)
    assert [(each.device, each.variants) for each in planned] == [("cpu", (SOAK,)), ("gpu0+gpu1", (SOAK,))]
    assert [each.device for each in soak_trials(("cpu", "gpu0", "gpu1"), 60.0)] == ["cpu", "gpu0", "gpu1"]
    two_nodes = machine_trials(("cpu", "gpu0"), SMOKE, ("0", "1"))
    assert two_nodes[1].variants == (*GPU_CAPABILITIES, "to-device-pinned:0", "to-device-pinned:1")
    assert machine_trials(("gpu0",), SMOKE, ("0",))[0].variants == GPU_CAPABILITIES
    spec = spec_for(planned[0], Workload(name="any"), PROFILES["quick"], Options(), folder="", data={})
    assert (spec.soak_s, spec.windows) == (600.0, 600)


NVLINKS = [[3.8e11] * 4 for _ in range(4)]


def between(analysis: Analysis) -> dict[tuple[str, str], Pair]:
    return {(each.source, each.target): each for each in analysis.pairs}


def test_copies_of_each_pair_are_a_matrix_beside_the_topology():
    analysis = analyse(special_runs.several_gpus_run(NVLINKS))
    found = between(analysis)
    assert len(found) == 4 * 3 + 2 * 4, "between GPUs, and from and to the host"
    assert found["gpu0", "gpu3"].value.median == 3.8e11
    assert (found["gpu0", "gpu3"].direct, found["gpu0", "gpu3"].link) == (True, "NVLink")
    assert not any(each.odd for each in analysis.pairs)
    whole = machine.matrix(analysis)
    assert whole is not None
    assert whole.header[1:] == ("n:host", "n:GPU 0", "n:GPU 1", "n:GPU 2", "n:GPU 3")
    assert [len(cells) for _, cells in whole.rows] == [5] * 5
    assert "NVLink" in machine.copies_line(analysis)
    assert "peer" not in able(analysis, "gpu0+gpu1"), "a pair is no group"
    named = {each.device: each.estimate.median for each in values(analysis) if each.name == "peer"}
    assert len(named) == 12 and named["gpu3+gpu0"] == 3.8e11
    planned = planned_names(machine_trials(("gpu1+gpu0",), SMOKE))
    assert set(planned["peer"]) == {"gpu0+gpu1", "gpu1+gpu0"}
    assert planned["capability.all-reduce:16"] == ("gpu1+gpu0",)
    assert not {"peer"} & {each.name for each in values(analysis, kept=True)}


def test_memory_of_each_numa_node_is_a_row_of_the_matrix_and_never_odd():
    run = special_runs.several_gpus_run(NVLINKS)
    nodes = [
        Metric(variant=f"to-device-pinned:{node}", name=RATE, value=5e10 / (1 + node)) for node in (0, 1)
    ]
    trials = [
        replace(each, metrics=(*each.metrics, *nodes)) if each.id.startswith("machine.gpu") else each
        for each in run.trials
    ]
    analysis = analyse(replace(run, trials=tuple(trials)))
    whole = machine.matrix(analysis)
    assert whole is not None and [name for name, _ in whole.rows[:3]] == [
        "host, NUMA node 0",
        "host, NUMA node 1",
        "host",
    ]
    assert not any(each.odd for each in analysis.pairs)


def test_a_slow_link_is_marked_and_said_with_the_gpu_that_all_slow_pairs_share():
    copies = [[1.4e10 if 2 in (a, b) else 5.7e10 for b in range(4)] for a in range(4)]
    analysis = analyse(special_runs.several_gpus_run(copies))
    odd = {pair for pair, each in between(analysis).items() if each.odd}
    assert odd == {pair for pair in permutations([f"gpu{each}" for each in range(4)], 2) if "gpu2" in pair}
    text, level = machine.verdict(analysis)
    assert "GPU 2" in text and level == "notice"
    assert "although NVML reports NVLink" in machine.copies_line(analysis), "63 GB/s is what PCIe carries"
    one_way = [[*row] for row in NVLINKS]
    one_way[1][3] = 2.0e11
    assert {
        pair for pair, each in between(analyse(special_runs.several_gpus_run(one_way))).items() if each.odd
    } == {("gpu1", "gpu3")}
    hidden = analyse(special_runs.several_gpus_run(NVLINKS, link=""))
    assert "does not report" in machine.copies_line(hidden)
    assert "faster than their PCIe" in machine.copies_line(hidden)


@pytest.mark.slow
def test_the_page_marks_slow_pairs_in_the_matrix():
    copies = [[1.4e10 if 2 in (a, b) else 5.7e10 for b in range(4)] for a in range(4)]
    page = render_html(analyse(special_runs.several_gpus_run(copies)), code="")
    assert page.count('<strong class="bad"') == 6 and "figure-all-reduce" in page


def test_the_all_reduce_is_a_curve_by_size():
    analysis = analyse(special_runs.several_gpus_run(NVLINKS))
    ((_, sizes),) = machine.all_reduces(analysis).items()
    assert [all_reduce_mib(each.name) for each in sizes] == [1, 4, 16, 64, 256, 1024]
    assert len(figures_of(analysis)["figure-all-reduce"].table.rows) == 6
    assert "all-reduce" not in " ".join(text for _, text in machine.abilities(analysis)), "said once"
    alone = replace(analysis, capabilities=tuple(each for each in sizes if each.name == "all-reduce"))
    assert not machine.all_reduces(alone), "older runs have one size"


def answers(given: dict[str, list[tuple[float, int]]]) -> dict[str, HealthItem]:
    items = analyse(special_runs.answering_run(given)).health
    return {each.device: each for each in items if each.check is HealthCheck.ANSWERS}


def test_equal_answers_are_healthy_and_without_any_nothing_is_said():
    equal = answers({"gpu0": [(1, 7)], "gpu1": [(1, 7)]})
    assert {each.level for each in equal.values()} == {Level.OK}
    assert (equal["gpu0"].facts["checked"], equal["gpu0"].facts["seconds"]) == (61, 0.61)
    assert "610\u202fms" in machine.health_text(equal["gpu0"]), "the cost is stated"
    assert not any(
        each.check is HealthCheck.ANSWERS for each in analyse(special_runs.measured_machine_run()).health
    )


def test_an_answer_that_differs_fails_with_its_time_clock_and_temperature():
    found = answers({"gpu0": [(1, 7)], "gpu1": [(1, 7), (30, 8), (31, 7)]})
    assert (found["gpu0"].level, found["gpu1"].level) == (Level.OK, Level.FAIL)
    facts = found["gpu1"].facts
    assert facts["of_others"] == 0 and facts["differing"] == 1
    assert 29 < facts["s"] < 40
    assert {"mhz", "temperature_c"} <= facts.keys()
    assert "MHz" in machine.health_text(found["gpu1"]) and "product" in machine.health_text(found["gpu1"])


def test_the_gpu_that_answers_unlike_most_fails_and_of_two_both_do():
    found = answers({"gpu0": [(1, 7)], "gpu1": [(1, 8)], "gpu2": [(1, 7)]})
    assert [found[f"gpu{each}"].level for each in range(3)] == [Level.OK, Level.FAIL, Level.OK]
    assert found["gpu1"].facts["of_others"] == 1
    both = answers({"gpu0": [(1, 7)], "gpu1": [(1, 8)]})
    assert {each.level for each in both.values()} == {Level.FAIL}


def test_comparisons_say_what_the_machines_explain() -> None:
    runs = [extract(analyse(special_runs.measured_machine_run(scale=scale))) for scale in (1.0, 0.8)]
    runs = [replace(each, label=name, run_id=name) for each, name in zip(runs, "ab", strict=True)]
    slower = tuple(
        replace(each, throughput=tuple(0.8 * value for value in each.throughput)) for each in runs[1].speeds
    )
    same, explained = versus(runs), versus([runs[0], replace(runs[1], speeds=slower)])
    _, gpu = sorted(compare_page.machine_notes(same))
    assert gpu.index("GPU 0") < gpu.index("0.80×") < gpu.index("1.00×") and "explains" not in gpu
    assert "explains its speeds, 0.80×" in sorted(compare_page.machine_notes(explained))[1]
    rows = {name: cells for name, *cells in compare_page.machine_rows(same, (0, 1))}
    assert rows["GPU 0 FP16"][1].endswith("(0.80×)")
    assert "reading the data" not in " ".join(rows)


def test_comparisons_say_that_the_host_was_in_another_state_if_the_machines_are_alike():
    run = extract(analyse(special_runs.measured_machine_run()))
    probe = dict.fromkeys(PROBES, 100.0)
    runs = [replace(run, label=name, run_id=name, probe=probe) for name in "ab"]

    def notes(**changes):
        versions = versus([runs[0], replace(runs[1], **changes)])
        return [note for note in compare_page.machine_notes(versions) if "probe" in note]

    slower = {**probe, PROBES[1]: 70.0}
    assert len(notes(probe=slower)) == 1 and "0.89×" in notes(probe=slower)[0]
    assert not notes() and not notes(probe={**probe, PROBES[1]: 90.0}) and not notes(probe={})
    assert not notes(probe=slower, machine="another kind")


# The names that NVML gives to what clouds rent.
RENTED = (
    "Tesla T4", "Tesla V100-SXM2-16GB", "NVIDIA A10", "NVIDIA A10G", "NVIDIA L4", "NVIDIA A100-SXM4-40GB",
    "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA L40S", "NVIDIA H100 PCIe",
    "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H200", "NVIDIA GH200 480GB", "NVIDIA B200",
)  # fmt: skip


def test_what_clouds_rent_is_known_and_other_names_are_not_guessed():
    assert [name for name in RENTED if data_sheet(name) is None] == []
    for name in ("NVIDIA H200 MIG 1g.18gb", "NVIDIA H100", "GeForce RTX 4090", ""):
        assert data_sheet(name) is None
    run = special_runs.measured_machine_run()
    unknown = replace(run.manifest.gpus[0], name="NVIDIA Rubin R100")
    analysis = analyse(replace(run, manifest=replace(run.manifest, gpus=(unknown,))))
    assert {each.sheet for each in analysis.capabilities if each.name in ("fp16", "memory")} == {None}
    assert "%" not in machine.verdict(analysis)[0]


def lowered(share: float, column: str, mhz: float) -> Run:
    """Return a run whose GPU was lowered to `mhz` by a reason that NVML gave for a share of the readings."""
    run = builders.gpu_run(trials=1)

    def planted(series):
        if series.source != "nvml":
            return series
        active = np.arange(len(series.t_ns)) % 100 < 100 * share
        return replace(series, columns={
            **series.columns, column: active.astype(float), "sm_clock_mhz": np.full(len(series.t_ns), mhz),
        })  # fmt: skip

    trials = (replace(trial, telemetry=tuple(map(planted, trial.telemetry))) for trial in run.trials)
    return replace(run, trials=tuple(trials))


@pytest.mark.parametrize(
    ("share", "column", "mhz", "causes"),
    [
        (1.0, "throttle_sw_power_cap", 1200.0, {Cause.POWER: 1.0}),
        (1.0, "throttle_sw_thermal", 1200.0, {Cause.HEAT: 1.0}),
        (1.0, "throttle_hw_thermal", 1200.0, {Cause.HEAT: 1.0}),
        (1.0, "throttle_hw_slowdown", 1200.0, {Cause.HARDWARE: 1.0}),
        # A reason that costs nothing is not said.
        (0.0, "throttle_sw_thermal", 1200.0, {}),
        (1.0, "throttle_sw_power_cap", 1975.0, {}),
    ],
)
def test_every_variant_says_what_lowered_its_clock(share, column, mhz, causes):
    analysis = analyse(lowered(share, column, mhz))
    slowed = {
        variant: each.clocks
        for case, variant, each in analysis.variants
        if each.clocks and case.device == "gpu0"
    }
    for each in slowed.values():
        assert (each.slowed, each.share) == (causes, pytest.approx(mhz / 1980))
    said = {each.variant for each in analysis.caveats if each.kind is CaveatKind.THROTTLED}
    assert said == (set(builders.LAUNCH_BOUND) if causes else set())


def test_a_device_that_heats_up_is_told_from_its_cold_self():
    speeds = np.concatenate([np.full(40, 700.0), np.linspace(700, 600, 40), np.full(120, 600.0)])
    analysis = analyse(special_runs.soaked_run(speeds))
    (result,) = analysis.endurance
    assert result.device == "gpu0"
    assert result.cold == pytest.approx(700e12, rel=0.01)
    assert result.sustained == pytest.approx(600e12, rel=0.01)
    assert 65 < result.steady_s < 80
    assert result.telemetry["power_instant_w"] == pytest.approx(690, abs=3)
    assert set(result.telemetry) == {"sm_clock_mhz", "power_instant_w", "temperature_c"}
    assert "(86\u202f%)" in machine.sustained(result)
    assert figures_of(analysis)["figure-soak-gpu0"].soak
    several = machine.sustained(replace(result, device="gpu0+gpu1", precision="fp16"))
    assert all(text in several for text in ("FP16", "of all together", "the slowest GPU at", "none above"))
    for speeds, steady_s in ((np.full(60, 500.0), 0), (np.linspace(700, 300, 60), None)):
        (result,) = analyse(special_runs.soaked_run(speeds)).endurance
        assert result.steady_s == steady_s
    assert analyse(special_runs.soaked_run(np.full(8, 500.0))).endurance == (), "too short a load"


def test_times_have_units_and_other_times_are_refused():
    read = partial(seconds, "--soak")
    assert [read(text) for text in ("90s", "10m", "1h", "45")] == [90, 600, 3600, 45]
    for text in ("", "m", "ten"):
        with pytest.raises(UsageError, match="--soak"):
            read(text)
    for text in ("5s", "-1m", "nan", "99h"):
        with pytest.raises(UsageError, match="--soak"):
            resolve(Options(soak_s=read(text)))


def probed(trial: Trial, speed: float) -> Trial:
    """Return a trial whose host ran at this share of its usual speed; its windows are as much longer."""
    rates = dict(zip(PROBES, (5000.0, 120.0, 90_000.0), strict=True))
    metrics = (
        Metric(variant="", name=name, value=rate * speed) for name, rate in rates.items() for _ in "12"
    )
    windows = tuple(replace(each, samples=round(each.samples * speed)) for each in trial.windows)
    return replace(trial, metrics=(*trial.metrics, *metrics), windows=windows)


def run_with(speeds: list[float]) -> Run:
    run = builders.cpu_run(trials=len(speeds))
    return replace(run, trials=tuple(map(probed, run.trials, speeds)))


def test_a_trial_in_a_slow_period_does_not_count_and_that_is_said() -> None:
    quiet, disturbed = run_with([1.0, 1.01, 0.99, 1.0]), run_with([1.0, 1.01, 0.7, 1.0])
    (name,) = slow_trials(disturbed.trials)
    assert name == disturbed.trials[2].id
    before, after = (analyse(run).cases[0].variants[BASELINE] for run in (quiet, disturbed))
    assert (before.throughput.n, after.throughput.n) == (4, 3)
    assert after.throughput.median == pytest.approx(before.throughput.median, rel=0.03)
    (caveat,) = (each for each in analyse(disturbed).caveats if each.kind is CaveatKind.SLOW_PERIOD)
    assert caveat.value == pytest.approx(0.3, abs=0.02)
    assert "30" in messages.caveat_lines([caveat], notes=False)[0][0]


@pytest.mark.parametrize(
    ("speeds", "left_out"),
    [([1.0, 0.7, 1.0], 0), ([1, 0.7, 0.6, 1, 1, 1], 2), ([1, 1, 1, 1, 0.6, 0.6, 0.6], 2), ([1.0, 0.5], 0)],
)
def test_enough_trials_remain_and_slow_workloads_on_a_steady_host_count(speeds, left_out) -> None:
    assert len(slow_trials(run_with(speeds).trials)) == left_out
    *others, last = run_with([1.0] * 4).trials
    slower = tuple(replace(each, samples=each.samples // 2) for each in last.windows)
    assert slow_trials((*others, replace(last, windows=slower))) == {}


LSCPU = """#!/bin/sh
cat <<END
CPU(s):                                  8
Model name:                              AMD EPYC 9354 32-Core CPU
Socket(s):                               2
Hypervisor vendor:                       KVM
L1d cache:                               32 KiB (1 instance)
NUMA node(s):                            2
Vulnerability Meltdown:                  Not affected
Vulnerability Spectre v2:                Mitigation; Retpolines
Vulnerability Mmio stale data:           Vulnerable: no microcode
END
"""


@pytest.fixture
def lscpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace lscpu with a script that reports two sockets under KVM; return its path."""
    command = write_files(tmp_path, {"bin/lscpu": LSCPU}) / "bin/lscpu"
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    return command


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("AMD EPYC", "AMD EPYC (family 26, model 2)"),
        ("AMD EPYC 9354 32-Core CPU", "AMD EPYC 9354 32-Core CPU"),
    ],
)
def test_a_cpu_whose_model_is_hidden_is_told_by_its_numbers(lscpu: Path, name: str, shown: str) -> None:
    lscpu.write_text(f"#!/bin/sh\necho 'Model name: {name}\nCPU family: 26\nModel: 2'\n", encoding="utf-8")
    assert system_description()["host_processor_model_name"] == shown


@pytest.fixture
def server(tmp_path: Path, lscpu: Path) -> Path:
    """A tree with an NVMe SSD, a hard disk, and two 25 Gb/s interfaces."""
    files = {
        "sys/devices/system/cpu/smt/active": "1\n",
        "sys/devices/system/cpu/cpufreq/boost": "0\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/block/nvme0n1/size": "2000409264\n",
        "sys/block/nvme0n1/device/model": "fast\n",
        "sys/block/sda/size": "2000409264\n",
        "sys/block/sda/device/model": "slow\n",
        "sys/block/sda/queue/rotational": "1\n",
        "sys/block/loop0/size": "100\n",
        "sys/class/net/eth0/speed": "25000\n",
        "sys/class/net/eth0/device/vendor": "0x15b3\n",
        "sys/class/net/eth1/speed": "25000\n",
        "sys/class/net/eth1/device/vendor": "0x15b3\n",
        "sys/class/net/eth2/speed": "-1\n",
        "sys/class/net/eth2/device/vendor": "0x15b3\n",
        "sys/class/net/docker0/speed": "10000\n",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        "sys/class/dmi/id/product_name": "p5en.48xlarge\n",
    }
    return write_files(tmp_path, files)


def test_the_machine_is_described(server: Path) -> None:
    assert system_description(server).items() >= {
        "system_name": "Amazon EC2 p5en.48xlarge", "host_processors_per_node": "2",
        "host_processor_model_name": "AMD EPYC 9354 32-Core CPU", "host_processor_caches": "L1d 32 KiB (1 instance)",
        "host_storage_type": "NVMe SSD, hard disk",
        "host_storage_capacity": "nvme0n1 953.9 GiB, sda 953.9 GiB",
        "host_networking": "2x 25 Gb/s, 1x unknown speed",
    }.items()  # fmt: skip
    assert host_facts(server).items() >= {
        "cpu_governor": "powersave", "turbo": False, "smt": True, "transparent_hugepages": "madvise",
        "mitigations": "1 mitigated, 1 not affected, 1 vulnerable", "numa_nodes": 2, "hypervisor": "KVM",
    }.items()  # fmt: skip
    (server / "sys/devices/system/cpu/cpufreq/boost").unlink()
    write_files(server, {"sys/devices/system/cpu/intel_pstate/no_turbo": "0\n"})
    assert host_facts(server)["turbo"] is True


def test_unknown_values_are_empty_or_omitted(tmp_path: Path, lscpu: Path) -> None:
    lscpu.write_text("#!/bin/sh\nexit 1\n")
    description = system_description(tmp_path)
    assert {
        description[name] for name in ("host_processor_model_name", "system_name", "host_storage_type")
    } == {""}
    facts = {"turbo", "smt", "cpu_governor", "hypervisor", "mitigations", "numa_nodes"}
    assert not host_facts(tmp_path).keys() & facts


def test_doctor_asks_for_capabilities_as_a_run_does():
    asked = []
    engine = FakeEngine(
        Script(on_start=lambda out: asked.append(json.loads((out / "spec.json").read_text())))
    )
    prove_device(engine, builders.image(), None, CPU_CAPABILITIES)
    assert from_plain(asked[0], Spec).variants == CPU_CAPABILITIES
    assert asked[0].keys() == {each.name for each in fields(Spec)}


def test_doctor_leaves_a_machine_alone_on_which_a_run_measures(tmp_path, monkeypatch):
    monkeypatch.setenv(LOCK_ENV, str(tmp_path / "lock"))
    engine = FakeEngine()
    with measuring(default_path()):
        (check,) = device_check("CPU speed", None, engine, builders.image)
    assert (check.level, engine.started) == (Level.ATTENTION, [])
    assert check.fact.startswith("Not tested. Another run is measuring")
    (check,) = device_check("CPU speed", None, engine, builders.image)
    assert (check.level, engine.started) == (Level.OK, ["doctor"])


FULL = Path("/proc")  # a disk without space


@pytest.mark.parametrize(
    ("cache", "images", "to_build", "needed"),
    [
        (FULL, FULL, ("cpu", "cuda"), ("5.2 GiB", "16.0 GiB")),
        (FULL, FULL, (), ("0.2 GiB",)),
        (FULL, None, ("cpu",), ("4.2 GiB",)),
        (Path.cwd(), FULL, (), (None,)),
    ],
)
def test_space_needed_on_each_disk(cache, images, to_build, needed):
    checks = list(disk_checks(cache, images, to_build))
    assert [check.level for check in checks] == [Level.FAIL if size else Level.OK for size in needed]
    assert all(check.remedy.startswith(size or "") for check, size in zip(checks, needed, strict=True))


def test_free_space_with_missing_cache_folder(tmp_path):
    no_engine = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    checks = examine(Paths(checkout=ROOT, cache=tmp_path / "not/there"), no_engine, Silent())
    (item,) = [check for check in checks if check.name == "Disk"]
    assert item.fact.endswith(f"free under {tmp_path}/not/there")
    (tmp_path / "file").touch()
    for cache in (tmp_path / "file", tmp_path / "file/a/b"):
        (check,) = disk_checks(cache, None, ())
        assert check.level is Level.FAIL and "TFBENCH_CACHE" in check.remedy
