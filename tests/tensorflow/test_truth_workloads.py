"""Planted bottlenecks take at least the time that is planted in them, on however busy a machine."""

from __future__ import annotations

import pytest

from benchmarks.truth.cpu_cases import BATCH, DEVICE_S, METERED, RECORD_BYTES
from benchmarks.truth.running import file_of
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY

pytestmark = pytest.mark.tensorflow

STEPS = 12
# What may lie ready in a buffer when a window begins: two batches prefetched, and one under way.
READY = 3


def test_a_metered_store_and_a_simulated_accelerator(drive):
    (case,) = (case for case in METERED if case.name == "read-slow")
    done = drive(
        file=str(file_of(case)),
        workload=f"truth-{case.workload}",
        variants=(BASELINE, INPUT_ONLY, MODEL_ONLY),
        params=dict(case.params),
        windows=1,
        steps=STEPS,
    )
    assert done.code == 0, done.log
    period_s = BATCH * RECORD_BYTES / case.params["store_bytes_per_s"]
    assert period_s == pytest.approx(3 * DEVICE_S)
    least_s = {MODEL_ONLY: STEPS * DEVICE_S, INPUT_ONLY: (STEPS - READY) * period_s}
    least_s[BASELINE] = least_s[INPUT_ONLY]
    for variant, seconds in least_s.items():
        (window,) = done.of("window", variant=variant)
        assert window["steps"] >= STEPS
        assert (window["end_ns"] - window["start_ns"]) / 1e9 >= seconds * 0.99
