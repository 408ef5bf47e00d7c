"""Scripts with planted bottlenecks take at least the planted time, even on a busy machine."""

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.truth.cpu_cases import BATCH, DEVICE_S, METERED, RECORD_BYTES
from benchmarks.truth.running import SCRIPTS
from harness.run.scripts import with_values
from workloads.protocol import BASELINE, CUSTOM_LOOP, INPUT_ONLY, MODEL_ONLY, PYTHON_IN_STEP, STAGES

pytestmark = pytest.mark.tensorflow

STEPS = 12
# Batches that may be buffered when a window begins: two prefetched and one in flight.
BUFFERED = 3
FILES = {path.name: path.read_text("utf-8") for path in SCRIPTS.glob("*.py")}


def drive_script(drive, name: str, params: Mapping[str, Any], variants: list[str], **spec: Any):
    return drive(with_values(FILES[f"{name}.py"], params), files=FILES, variants=variants, **spec)


def test_metered_storage_with_a_simulated_accelerator(drive):
    (case,) = (case for case in METERED if case.name == "read-slow")
    variants = [BASELINE, INPUT_ONLY, MODEL_ONLY]
    done = drive_script(drive, case.script, case.params, variants, windows=1, steps=STEPS)
    period_s = BATCH * RECORD_BYTES / case.params["STORE_BYTES_PER_S"]
    assert period_s == pytest.approx(3 * DEVICE_S)
    minimum_s = {MODEL_ONLY: STEPS * DEVICE_S, INPUT_ONLY: (STEPS - BUFFERED) * period_s}
    minimum_s[BASELINE] = minimum_s[INPUT_ONLY]
    for variant, seconds in minimum_s.items():
        (window,) = done.of("window", variant=variant)
        assert window["steps"] >= STEPS
        assert (window["end_ns"] - window["start_ns"]) / 1e9 >= seconds * 0.99


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("jpegs", {"SIDE": 128, "WIDTH": 8, "THREADS": 2}),
        ("augmenting", {"ROUNDS": 1, "WIDTH": 8}),
        ("generating", {"FIELDS": 64, "WIDTH": 16}),
        ("caching", {"SAMPLE_US": 100}),
        ("computing", {"ROWS": 16, "BATCH_SIZE": 2}),
        ("computing", {"SIDE": 64, "BATCH_SIZE": 2}),
        ("computing", {"WIDTH": 16, "DEPTH": 2, "BATCH_SIZE": 1}),
        ("framework", {"CONVOLUTIONS": 1, "PYTHON_MS": 1}),
        ("framework", {"CHANGING_LENGTHS": True}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_scripts_of_all_cases_run_on_a_cpu(drive, name, params):
    variants = [BASELINE, INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, "batch:2", STAGES]
    done = drive_script(drive, name, params, variants, steps=2)
    assert {window["variant"] for window in done.of("window")} >= set(variants) - {STAGES}


def test_the_simulated_accelerator_is_no_python_function_of_the_step(drive):
    done = drive_script(drive, "framework", {"PYTHON_MS": 2, "SAMPLE_US": 1000}, [BASELINE])
    assert 0.002 <= done.metric(BASELINE, PYTHON_IN_STEP) < 0.008
    done = drive_script(drive, "framework", {"SAMPLE_US": 1000}, [BASELINE])
    assert not done.of("metric", name=PYTHON_IN_STEP)
