"""Workloads with planted bottlenecks take at least the planted time, even on a busy machine."""

import pytest

from benchmarks.truth.case import Case
from benchmarks.truth.cpu_cases import BATCH, DEVICE_S, METERED, RECORD_BYTES
from benchmarks.truth.running import file_of
from harness.model.analysis import Cause
from workloads.protocol import BASELINE, CUSTOM_LOOP, INPUT_ONLY, MODEL_ONLY, TUNED

pytestmark = pytest.mark.tensorflow

STEPS = 12
# Batches that may be buffered when a window begins: two prefetched and one in flight.
BUFFERED = 3


def test_metered_storage_with_a_simulated_accelerator(drive):
    (case,) = (case for case in METERED if case.name == "read-slow")
    done = drive(
        file=str(file_of(case)), workload=f"truth-{case.workload}", variants=(BASELINE, INPUT_ONLY, MODEL_ONLY),
        params=dict(case.params), windows=1, steps=STEPS,
    )  # fmt: skip
    period_s = BATCH * RECORD_BYTES / case.params["store_bytes_per_s"]
    assert period_s == pytest.approx(3 * DEVICE_S)
    minimum_s = {MODEL_ONLY: STEPS * DEVICE_S, INPUT_ONLY: (STEPS - BUFFERED) * period_s}
    minimum_s[BASELINE] = minimum_s[INPUT_ONLY]
    for variant, seconds in minimum_s.items():
        (window,) = done.of("window", variant=variant)
        assert window["steps"] >= STEPS
        assert (window["end_ns"] - window["start_ns"]) / 1e9 >= seconds * 0.99


@pytest.mark.parametrize(
    ("workload", "params"),
    [
        ("jpegs", {"side": 128, "real": "convolutions", "width": 8}),
        ("augmenting", {"rounds": 1, "real": "convolutions", "width": 8}),
        ("generating", {"fields": 64, "real": "dense", "width": 16}),
        ("caching", {"sample_us": 100}),
        ("computing", {"rows": 16, "batch_size": 2}),
        ("computing", {"side": 64, "batch_size": 2}),
        ("computing", {"width": 16, "depth": 2, "batch_size": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_workloads_of_the_gpu_cases_run_on_a_cpu(drive, workload, params):
    case = Case("c", Cause.INPUT, workload, "")
    variants = [BASELINE, INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, "batch:2", TUNED]
    done = drive(
        file=str(file_of(case)), workload=f"truth-{workload}", variants=variants, params=params, steps=2
    )
    assert {window["variant"] for window in done.of("window")} == set(variants)
