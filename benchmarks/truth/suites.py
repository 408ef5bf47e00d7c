"""All cases by the device that they need."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.truth.case import Case
from benchmarks.truth.cpu_cases import CPU_CASES
from benchmarks.truth.gpu_cases import GPU_CASES
from benchmarks.truth.standin_cases import STANDIN_CASES

SUITES: Mapping[str, tuple[Case, ...]] = {"cpu": (*CPU_CASES, *STANDIN_CASES), "gpu": GPU_CASES}
