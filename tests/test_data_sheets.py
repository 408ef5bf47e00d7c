"""The data sheets of GPUs, held against what their numbers must have in common."""

import pytest

from harness.analysis.capabilities import _SHEETS, data_sheet

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
