import pytest

pytestmark = pytest.mark.tensorflow

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


def test_synchronise_waits_for_dispatched_work(execute):
    result = execute(SYNC)
    assert result["dispatched"] < result["waited"] / 2
    assert result["idle"] < result["waited"] / 2
