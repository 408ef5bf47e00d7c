"""What a machine can do: values over trials, data sheets, machines of its kind, and their words."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse, compared
from harness.analysis.capabilities import _SHEETS, data_sheet
from harness.analysis.extract import extract
from harness.analysis.versus import versus
from harness.cli.shared_options import _PARSERS
from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.model.analysis import Analysis, Capability
from harness.model.run import Options
from harness.model.workload import Workload
from harness.run.json_values import to_plain
from harness.run.plan import machine_trials, soak_trials
from harness.run.recording import ExtractFile, read_extract_file
from harness.run.trial_container import spec_for
from harness.untrusted import MAX_BYTES
from reports import compare_page, machine
from reports.exports import render_csv
from reports.page import figures_of, render_markdown
from tests import builders
from workloads.protocol import CPU_CAPABILITIES, GPU_CAPABILITIES, GROUP_CAPABILITIES, MACHINE, SOAK


def able(analysis: Analysis, device: str = "gpu0") -> dict[str, Capability]:
    return {each.name: each for each in analysis.capabilities if each.device == device}


def test_values_are_medians_over_trials_beside_the_data_sheet():
    gpu = able(analyse(builders.measured_machine_run()))
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


def test_unknown_gpus_get_no_percentage():
    run = builders.measured_machine_run()
    unknown = replace(run.manifest.gpus[0], name="NVIDIA Rubin R100")
    analysis = analyse(replace(run, manifest=replace(run.manifest, gpus=(unknown,))))
    assert {each.sheet for each in analysis.capabilities if each.name in ("fp16", "memory")} == {None}
    assert "%" not in machine.verdict(analysis)[0]


def test_the_machine_is_no_workload():
    analysis = analyse(builders.measured_machine_run())
    assert MACHINE not in {each.workload for each in analysis.summaries}
    assert {each.key for each in analysis.summaries} == {
        each.key for each in analyse(builders.gpu_run()).summaries
    }


def test_normal_is_said_of_machines_of_the_same_kind_only():
    others = [extract(analyse(builders.measured_machine_run(scale=scale))) for scale in (0.99, 1.01)]
    (gpu, cpu) = sorted(
        compared(analyse(builders.measured_machine_run(scale=0.85)), others).normality,
        key=lambda each: each.device == "cpu",
    )
    assert (gpu.machines, gpu.kind) == (2, "NVIDIA H200")
    assert gpu.ratio == pytest.approx(0.85, rel=0.001)
    assert not gpu.normal
    assert cpu.kind == "AMD EPYC 9354, 16 vCPU"
    same = compared(analyse(builders.measured_machine_run(scale=0.95)), others)
    assert all(each.normal for each in same.normality)
    assert "95\u202f% of an NVIDIA H200 (2 machines)" in machine.verdict(same)[0]
    foreign = [
        replace(each, capabilities=[replace(one, kind="x") for one in each.capabilities]) for each in others
    ]
    assert compared(analyse(builders.measured_machine_run()), foreign).normality == ()


def test_an_extract_keeps_what_the_machine_can_do(tmp_path):
    import json  # noqa: PLC0415

    made = extract(analyse(builders.measured_machine_run()))
    text = json.dumps(to_plain(ExtractFile(extract=made)))
    assert len(text) < MAX_BYTES
    assert read_extract_file(text).capabilities == made.capabilities


def test_csv_and_markdown_have_it():
    analysis = analyse(builders.measured_machine_run())
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
        "gpu0+gpu1": GROUP_CAPABILITIES,
    }
    assert len(planned) == 4 * 3


def test_comparisons_say_what_the_machines_explain() -> None:
    runs = [extract(analyse(builders.measured_machine_run(scale=scale))) for scale in (1.0, 0.8)]
    runs = [replace(each, label=name, run_id=name) for each, name in zip(runs, "ab", strict=True)]
    slower = tuple(
        replace(each, throughput=tuple(0.8 * value for value in each.throughput)) for each in runs[1].speeds
    )
    same, explained = versus(runs), versus([runs[0], replace(runs[1], speeds=slower)])
    _, gpu = sorted(compare_page.machine_notes(same))
    assert gpu.startswith("b, GPU 0: the machine is 0.80× a; its speeds, 1.00×")
    assert (
        "which explains its speeds, 0.80× in the median." in sorted(compare_page.machine_notes(explained))[1]
    )
    rows = {name: cells for name, *cells in compare_page.machine_rows(same, (0, 1))}
    assert rows["GPU 0 FP16"][1].endswith("(0.80×)")
    assert "reading the data" not in " ".join(rows)


RENTED = (
    "Tesla T4", "Tesla V100-SXM2-16GB", "NVIDIA A10", "NVIDIA A10G", "NVIDIA L4", "NVIDIA A100-SXM4-40GB",
    "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA L40S", "NVIDIA H100 PCIe",
    "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H200", "NVIDIA GH200 480GB", "NVIDIA B200",
)  # fmt: skip


@pytest.mark.parametrize("name", RENTED)
def test_what_clouds_rent_is_known_by_the_name_that_nvml_gives(name):
    assert data_sheet(name) is not None


@pytest.mark.parametrize("name", ["NVIDIA H200 MIG 1g.18gb", "NVIDIA H100", "GeForce RTX 4090", ""])
def test_other_names_are_not_guessed(name):
    assert data_sheet(name) is None


@pytest.mark.parametrize("sheet", _SHEETS.values(), ids=_SHEETS)
def test_rates_are_dense_and_consistent(sheet):
    assert sheet.source
    assert sheet.bf16 in (0, sheet.fp16)
    # TF32 runs at half the rate of FP16; a sparse number among dense ones would break this.
    if sheet.tf32:
        assert sheet.tf32 == pytest.approx(sheet.fp16 / 2, rel=0.02)
    assert sheet.fp64 <= sheet.fp32 <= sheet.fp16
    assert 300 <= sheet.memory <= 8000


def test_a_device_that_heats_up_is_told_from_its_cold_self():
    speeds = np.concatenate([np.full(40, 700.0), np.linspace(700, 600, 40), np.full(120, 600.0)])
    analysis = analyse(builders.soaked_run(speeds))
    (result,) = analysis.endurance
    assert result.device == "gpu0"
    assert result.cold == pytest.approx(700e12, rel=0.01)
    assert result.sustained == pytest.approx(600e12, rel=0.01)
    assert 65 < result.steady_s < 80
    assert result.telemetry["power_instant_w"] == pytest.approx(690, abs=3)
    assert set(result.telemetry) == {"sm_clock_mhz", "power_instant_w", "temperature_c"}
    assert "(86\u202f%)" in machine.sustained(result)
    assert figures_of(analysis)["figure-soak-gpu0"].soak


@pytest.mark.parametrize(
    ("speeds", "steady"),
    [(np.full(60, 500.0), True), (np.linspace(700, 300, 60), False)],
)
def test_steady_from_the_start_or_never(speeds, steady):
    (result,) = analyse(builders.soaked_run(speeds)).endurance
    assert (result.steady_s == 0) is steady
    assert (result.steady_s is None) is not steady


def test_too_short_a_load_says_nothing():
    assert analyse(builders.soaked_run(np.full(8, 500.0))).endurance == ()


def test_each_device_is_saturated_alone_for_so_long():
    planned = soak_trials(("cpu", "gpu0", "gpu0+gpu1"), 600.0)
    assert [(each.device, each.variants) for each in planned] == [
        ("cpu", (SOAK,)), ("gpu0", (SOAK,)), ("gpu1", (SOAK,)),
    ]  # fmt: skip
    spec = spec_for(planned[0], Workload(name="any"), PROFILES["quick"], Options(), folder="", data={})
    assert (spec.soak_s, spec.windows) == (600.0, 600)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("45", 45)])
def test_times_have_units(text, seconds):
    assert _PARSERS["soak_s"][1](text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5s", "ten", "-1m", "nan", "99h"])
def test_other_times_are_refused(text):
    with pytest.raises(UsageError, match="--soak"):
        _PARSERS["soak_s"][1](text)
