import pytest

from workloads.protocol import NO_GPU_EXIT

pytestmark = pytest.mark.tensorflow

HEAD = """
import tensorflow as tf
from workloads.protocol import Data, Workload
workload = Workload(
    name="mine", title="M", data=Data(name="own", shape=(4,), classes=2, train=100, test=20),
    batch_size=10, epochs=1, params={"rate": 0.1},
)
def model(params):
    layers = tf.keras.layers
    net = tf.keras.Sequential([layers.Input((4,)), layers.Dense(8), layers.Dense(2)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(tf.keras.optimizers.SGD(params["rate"]), loss, metrics=["accuracy"])
    return net
"""


@pytest.fixture
def mine(tmp_path, data_dir):
    def write(more=""):
        path = tmp_path / "mine.py"
        path.write_text(HEAD + more)
        return {"file": str(path), "data_dir": data_dir((4,), 2, 100, 20)}

    return write


def test_a_gpu_trial_without_a_gpu_is_an_error(drive, mine):
    done = drive(**mine(), device="gpu", gpus=1, code=NO_GPU_EXIT)
    (error,) = done.of("error")
    assert error["type"] == "NoGpuError"
    assert "registered 0 of 1 requested GPUs" in error["message"]
    assert not done.of("window")
    assert not done.of("end")


def test_an_exception_in_a_workload_is_logged_with_its_file(drive, mine):
    done = drive(**mine("def data(arrays, params):\n    raise KeyError('no labels here')\n"), code=1)
    (error,) = done.of("error")
    assert error["type"] == "KeyError"
    assert "no labels here" in error["message"]
    assert "mine.py" in done.log


@pytest.mark.parametrize("failing", ["tuned", "baseline"])
def test_a_failed_variant_does_not_stop_the_others(drive, mine, failing):
    feed = "fit" if failing == "baseline" else "resident"
    more = f"""
plain = model
def model(params):
    if params["feed"] == "{feed}":
        raise RuntimeError("not for this GPU")
    return plain(params)
"""
    # The trial fails with its baseline.
    code = int(failing == "baseline")
    done = drive(**mine(more), variants=["baseline", "tuned", "input-only"], code=code)
    (left_out,) = done.of("left-out")
    assert (left_out["variant"], left_out["reason"]) == (failing, "RuntimeError: not for this GPU")
    for variant in {"baseline", "tuned", "input-only"} - {failing}:
        assert len(done.of("window", variant=variant)) == 2
    assert len(done.of("error")) == code


def test_a_tuned_variant_that_xla_cannot_compile_is_measured_without_xla(drive, mine):
    more = """
import dataclasses
workload = dataclasses.replace(workload, params={"jit_compile": False}, tuned={"jit_compile": True})
def model(params):
    layers = tf.keras.layers
    class InPython(layers.Layer):
        def call(self, x):
            return x + tf.stop_gradient(tf.ensure_shape(tf.numpy_function(abs, [x], tf.float32), x.shape))
    net = tf.keras.Sequential([layers.Input((4,), batch_size=10), InPython(), layers.Dense(2)])
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net
"""
    done = drive(**mine(more), variants=["baseline", "tuned"])
    assert len(done.of("warning")) == 1
    assert [event["params"]["jit_compile"] for event in done.of("variant", variant="tuned")] == [True, False]
    assert len(done.of("window", variant="tuned")) == 2


@pytest.mark.parametrize("variant", ["baseline", "tuned"])
def test_a_non_finite_loss_is_an_error(drive, mine, variant):
    done = drive(**mine(), variants=[variant], params={"rate": 1e38}, code=1)
    (error,) = done.of("error")
    assert error["type"] == "LossError"
    assert "try a smaller learning rate" in error["message"]


def test_an_optimization_out_of_memory_is_left_out_and_failing_facts_are_a_warning(drive, mine):
    more = """
import dataclasses
workload = dataclasses.replace(workload, optimizations={"huge": {"huge": 1}})
plain = model
def model(params):
    if params.get("huge"):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    return plain(params)
def facts(params):
    if params["feed"] == "resident":
        raise RuntimeError("nothing known")
    return {"huge": str(params.get("huge"))}
"""
    done = drive(**mine(more), variants=["baseline", "tuned", "opt:huge"])
    assert [event["variant"] for event in done.of("fact")] == ["baseline"]
    (left_out,) = done.of("left-out")
    assert left_out["variant"] == "opt:huge"
    assert "ResourceExhaustedError" in left_out["reason"]
    (warning,) = done.of("warning")
    assert "nothing known" in warning["message"]
