import pytest

from tests.tensorflow.texts import FIT, HEAD
from workloads.protocol import BASELINE, INPUT_ONLY, NO_GPU_EXIT, TUNED

pytestmark = pytest.mark.tensorflow

FAILING = HEAD + "raise RuntimeError('not for this GPU')"


def test_a_gpu_trial_without_a_gpu_is_an_error(drive):
    done = drive(FIT, device="gpu", gpus=1, code=NO_GPU_EXIT)
    (error,) = done.of("error")
    assert error["type"] == "NoGpuError"
    assert "registered 0 of 1 requested GPUs" in error["message"]
    assert not done.of("window")
    assert not done.of("end")


def test_inference_on_several_devices_is_rejected(drive):
    requests = {"batch_sizes": [1]}
    done = drive(FIT, device="gpu", requests=requests, code=NO_GPU_EXIT, gpus=2)
    (error,) = done.of("error")
    assert error["message"].startswith("2 GPUs were")
    assert "--device gpu0" in error["message"]


@pytest.mark.parametrize("failing", [TUNED, BASELINE])
def test_a_failed_variant_does_not_stop_the_others(drive, failing):
    texts = {BASELINE: FIT, TUNED: FIT} | {failing: FAILING}
    # The trial fails with its baseline.
    code = int(failing == BASELINE)
    done = drive(
        texts[BASELINE], others={TUNED: texts[TUNED]}, variants=[BASELINE, TUNED, INPUT_ONLY], code=code
    )
    left_out = {event["variant"]: event["reason"] for event in done.of("left-out")}
    assert "not for this GPU" in left_out[failing]
    # Without a baseline there is no call to break down.
    assert left_out.keys() == {failing} | ({INPUT_ONLY} if code else set())
    for variant in {BASELINE, TUNED, INPUT_ONLY} - left_out.keys():
        assert len(done.of("window", variant=variant)) == 2
    assert len(done.of("error")) == code


def test_a_script_cannot_hide_that_measuring_failed(drive):
    text = HEAD + "try:\n    made().fit(x, y[:5])\nexcept Exception:\n    pass\n"
    done = drive(text, code=1)
    assert len(done.of("error")) == 1


@pytest.mark.parametrize("variant", [BASELINE, TUNED])
def test_a_non_finite_loss_is_an_error(drive, variant):
    text = HEAD + (
        "model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile(keras.optimizers.SGD(1e38), 'mse')\nmodel.fit(x, y, 8)"
    )
    done = drive(text, others={TUNED: text}, variants=[variant], code=1)
    (error,) = done.of("error")
    assert error["type"] == "LossError"
    assert "try a smaller learning rate" in error["message"]


def test_a_variant_out_of_memory_is_left_out(drive):
    text = HEAD + "raise tf.errors.ResourceExhaustedError(None, None, 'OOM when allocating tensor')"
    done = drive(FIT, others={"opt:huge": text})
    (left_out,) = done.of("left-out")
    assert left_out["variant"] == "opt:huge"
    assert "ResourceExhaustedError" in left_out["reason"]
