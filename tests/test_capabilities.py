"""What a machine can do: values over trials, data sheets, machines of its kind, and their words."""

import csv
import io
from dataclasses import replace

import pytest

from harness.analysis import analyse, compared
from harness.analysis.extract import extract
from harness.analysis.versus import versus
from harness.defaults import PROFILES
from harness.model.analysis import Analysis, Capability
from harness.run.json_values import to_plain
from harness.run.plan import machine_trials
from harness.run.recording import ExtractFile, read_extract_file
from harness.untrusted import MAX_BYTES
from reports import compare_page, machine
from reports.exports import render_csv
from reports.page import render_markdown
from tests import builders
from workloads.protocol import CPU_CAPABILITIES, GPU_CAPABILITIES, GROUP_CAPABILITIES, MACHINE


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
