"""All cases by suite."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.truth.case import Case
from benchmarks.truth.cases_held_out import HELD_OUT_ABLATIONS, HELD_OUT_CASES
from benchmarks.truth.cases_in_the_field import FIELD_ABLATIONS, FIELD_CASES
from benchmarks.truth.cpu_cases import CPU_CASES
from benchmarks.truth.gpu_cases import GPU_CASES
from benchmarks.truth.standin_cases import STANDIN_CASES

ABLATIONS = "-ablations"  # the references of a suite, in its folder
SUITES: Mapping[str, tuple[Case, ...]] = {
    "cpu": (*CPU_CASES, *STANDIN_CASES),
    "gpu": GPU_CASES,
    "field": FIELD_CASES,
    f"field{ABLATIONS}": FIELD_ABLATIONS,
    "held-out": HELD_OUT_CASES,
    f"held-out{ABLATIONS}": HELD_OUT_ABLATIONS,
}
