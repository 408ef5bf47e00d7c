"""What NVIDIA's data sheets promise of GPUs that clouds rent.

Rates of tensor cores are dense: the sheets' larger numbers assume structured sparsity. FP64 is that of the tensor
cores where there are some, since cuBLAS uses them. Only a name that NVML gives exactly is known.
"""

from __future__ import annotations

from typing import NamedTuple


class DataSheet(NamedTuple):
    """Peaks in TFLOP/s (0 where the hardware lacks the type), memory in GB/s, NVLink in GB/s of both directions."""

    fp64: float
    fp32: float
    tf32: float
    bf16: float
    fp16: float
    memory: float
    pcie_gen: int
    nvlink: float
    watts: float
    source: str


_AMPERE = "NVIDIA A100 data sheet, 2021"
_HOPPER = "NVIDIA H100 data sheet, 2023"
_SHEETS = {
    "T4": DataSheet(0.25, 8.1, 0, 0, 65, 320, 3, 0, 70, "NVIDIA T4 data sheet, 2019"),
    "V100-SXM2-16GB": DataSheet(7.8, 15.7, 0, 0, 125, 900, 3, 300, 300, "NVIDIA V100 data sheet, 2020"),
    "V100-SXM2-32GB": DataSheet(7.8, 15.7, 0, 0, 125, 900, 3, 300, 300, "NVIDIA V100 data sheet, 2020"),
    "V100-PCIE-16GB": DataSheet(7.0, 14.0, 0, 0, 112, 900, 3, 0, 250, "NVIDIA V100 data sheet, 2020"),
    "V100-PCIE-32GB": DataSheet(7.0, 14.0, 0, 0, 112, 900, 3, 0, 250, "NVIDIA V100 data sheet, 2020"),
    "A10": DataSheet(0, 31.2, 62.5, 125, 125, 600, 4, 0, 150, "NVIDIA A10 data sheet, 2021"),
    "A10G": DataSheet(0, 35, 35, 70, 70, 600, 4, 0, 300, "NVIDIA A10G data sheet, 2021"),
    "A30": DataSheet(10.3, 10.3, 82, 165, 165, 933, 4, 200, 165, "NVIDIA A30 data sheet, 2022"),
    "L4": DataSheet(0, 30.3, 60, 121, 121, 300, 4, 0, 72, "NVIDIA L4 data sheet, 2023"),
    "L40S": DataSheet(0, 91.6, 183, 362, 362, 864, 4, 0, 350, "NVIDIA L40S data sheet, 2023"),
    "A100-SXM4-40GB": DataSheet(19.5, 19.5, 156, 312, 312, 1555, 4, 600, 400, _AMPERE),
    "A100-SXM4-80GB": DataSheet(19.5, 19.5, 156, 312, 312, 2039, 4, 600, 400, _AMPERE),
    "A100-PCIE-40GB": DataSheet(19.5, 19.5, 156, 312, 312, 1555, 4, 600, 250, _AMPERE),
    "A100 80GB PCIe": DataSheet(19.5, 19.5, 156, 312, 312, 1935, 4, 600, 300, _AMPERE),
    "H100 PCIe": DataSheet(51, 51, 378, 756, 756, 2000, 5, 600, 350, _HOPPER),
    "H100 80GB HBM3": DataSheet(67, 67, 494.5, 989.5, 989.5, 3350, 5, 900, 700, _HOPPER),
    "H100 NVL": DataSheet(60, 60, 417.5, 835.5, 835.5, 3900, 5, 600, 400, "NVIDIA H100 data sheet, 2024"),
    "H200": DataSheet(67, 67, 494.5, 989.5, 989.5, 4800, 5, 900, 700, "NVIDIA H200 data sheet, 2024"),
    "H200 NVL": DataSheet(60, 60, 417.5, 835.5, 835.5, 4800, 5, 900, 600, "NVIDIA H200 data sheet, 2024"),
    "GH200 480GB": DataSheet(67, 67, 494.5, 989.5, 989.5, 4000, 5, 900, 1000, "NVIDIA GH200 data sheet, 2023"),
    "GH200 144G HBM3e": DataSheet(67, 67, 494.5, 989.5, 989.5, 4900, 5, 900, 1000, "NVIDIA GH200 data sheet, 2024"),
    "B200": DataSheet(37, 75, 1125, 2250, 2250, 8000, 5, 1800, 1000, "NVIDIA HGX B200 data sheet, 2024"),
}  # fmt: skip


def data_sheet(name: str) -> DataSheet | None:
    """Return the data sheet of a GPU by the name that NVML gives it; None if it is not in the table."""
    return _SHEETS.get(name.removeprefix("NVIDIA ").removeprefix("Tesla "))
