import itertools

import pytest

pytestmark = pytest.mark.tensorflow

RESIDENT = """
import json
from types import SimpleNamespace
import numpy as np
import tensorflow as tf
from workloads.driver import resident
copies = resident.on_devices(SimpleNamespace(devices=["CPU:0", "CPU:1"]), (np.arange(6.0),))
print(json.dumps([each.backing_device for (each,) in copies]))
"""


def test_resident_data_is_copied_to_every_device(script):
    first, second = script(RESIDENT, devices=2)
    assert first.endswith("CPU:0") and second.endswith("CPU:1")


SYNC = """
import json, time
import tensorflow as tf
from workloads.driver import devices
tf.config.experimental.set_synchronous_execution(False)
a = tf.random.normal((1500, 1500))
product = tf.function(lambda x: tf.linalg.matmul(tf.linalg.matmul(tf.linalg.matmul(x, x), x), x))
product(a); devices.synchronise()
start = time.monotonic(); product(a); dispatched = time.monotonic() - start
devices.synchronise(); waited = time.monotonic() - start
start = time.monotonic(); devices.synchronise(); idle = time.monotonic() - start
print(json.dumps({"dispatched": dispatched, "waited": waited, "idle": idle}))
"""


def test_synchronise_waits_for_dispatched_work(script):
    result = script(SYNC)
    assert result["dispatched"] < result["waited"] / 2
    assert result["idle"] < result["waited"] / 2


PERMUTATIONS = """
import itertools, json
from workloads.driver.resident import shuffled
print(json.dumps([taken.tolist() for taken in itertools.islice(shuffled(10, SIZE, seed=3), 40 // SIZE + 1)]))
"""


@pytest.mark.parametrize("size", [3, 10, 27])
def test_every_sample_occurs_once_per_epoch_for_any_call_size(script, size):
    taken = script(PERMUTATIONS.replace("SIZE", str(size)))
    assert {len(part) for part in taken} == {size}
    joined = list(itertools.chain.from_iterable(taken))
    epochs = [joined[start : start + 10] for start in range(0, 40, 10)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_the_probe_reports_device_and_rate(script, tf_python):
    code = (
        "import sys; from workloads.driver import probe; probe.MEASURE_S = 0; sys.exit(probe.main(['cpu']))"
    )
    result = script(code)
    assert result["ok"] is True
    assert result["rates"]["CPU:0"]["device_fp32_tflops"] > 0.001
