"""GPT-2: the tuned script trains as the published one; its attention and loss have the gradients of the plain ones."""

import pytest

from harness.run.catalogue import built_in
from harness.run.scripts import script_text
from workloads.variants import BASELINE, TUNED

pytestmark = pytest.mark.tensorflow

ENTRY = next(each for each in built_in() if each.workload.name == "gpt2")
SIZES = {"LAYERS": 1, "WIDTH": 64, "HEADS": 2, "SEQUENCE": 48, "VOCABULARY": 500, "BATCH_SIZE": 2}

TAKE = """
import json
from contextlib import suppress
import keras
import numpy as np
import tensorflow as tf
from workloads.driver import script
from workloads.driver.flops import count_flops
from workloads.driver.interception import Interception
from workloads.driver.script import Script
def end():
    raise KeyboardInterrupt
def taken(path, text):
    took = Interception(
        number=1, predicts=False, first=False, replicas=1, take=print, evaluate=None, rest=None, end=end
    )  # fmt: skip
    with suppress(script.ScriptError), took.active():
        script.run(Script(path=path, text=text), (), {})
    return took.call.model
published, tuned = (taken(*each) for each in WHAT)
"""


def take(**changed):
    """Return code that makes both models."""
    what = []
    for variant in (BASELINE, TUNED):
        file, text = script_text(ENTRY.workload, variant, "cpu", {**SIZES, **changed})
        what.append((str(ENTRY.path.parent / file), text))
    return TAKE.replace("WHAT", repr(what))


TRAINED = """
weights = []
for layer in published.layers:
    if isinstance(layer, keras.layers.MultiHeadAttention):
        *parts, kernel, bias = layer.get_weights()
        width = len(kernel.reshape(-1, kernel.shape[-1]))
        weights += [np.concatenate([each.reshape(width, -1) for each in parts[::2]], 1),
                    np.concatenate([each.ravel() for each in parts[1::2]]), kernel.reshape(width, -1), bias]
    else:
        weights += layer.get_weights()
tuned.set_weights(weights)
text = sys.modules["__main__"].text
x, y = text[:, :-1], text[:, 1:]
batch = len(x)
from many_steps import INDICES
indices = tf.data.Dataset.from_tensors({INDICES: tf.range(batch)}).repeat()
losses = [model.fit(data, steps_per_epoch=1, epochs=4, verbose=0).history["loss"] for model, data in (
    (published, tf.data.Dataset.from_tensors((x, y)).repeat()), (tuned, indices))]
print()
print(json.dumps([losses, published.count_params(), tuned.count_params()]))
"""


@pytest.mark.parametrize(
    "changed",
    [
        {"LAYERS": 2, "ATTENTION": "plain", "LOSS_CHUNKS": 0, "JIT_COMPILE": False},
        {"BLOCK": 16, "LOSS_CHUNKS": 4},
    ],
)
def test_tuned_trains_as_published(execute, changed):
    (published, tuned), *parameters = execute(take(**changed) + TRAINED)
    assert published == pytest.approx(tuned, rel=1e-4)
    assert published[-1] < 0.99 * published[0]
    assert len(set(parameters)) == 1


def test_cudnns_attention_is_a_call_that_xla_knows(execute):
    """XLA on a CPU makes the module, but cannot run it."""
    module = execute("""
import json
import tensorflow as tf
from causal_attention import cudnn
def step(query, key, value):
    with tf.GradientTape() as tape:
        tape.watch((query, key, value))
        output = tf.reduce_sum(cudnn(query, key, value))
    return tape.gradient(output, (query, key, value))
one = tf.ones([2, 64, 3, 16], tf.bfloat16)
print(json.dumps(tf.function(step, jit_compile=True).experimental_get_compiler_ir(one, one, one)(stage="hlo")))
""")
    assert module.count('custom_call_target="__cudnn$fmhaSoftmax"') == 1
    assert module.count('custom_call_target="__cudnn$fmhaSoftmaxBackward"') == 1


COUNTED = """
def count(model, *batch):
    def step(*batch): return model.train_step(batch if len(batch) > 1 else batch[0])
    return count_flops(tf.function(step, autograph=False).get_concrete_function(*batch))
tokens = tf.TensorSpec(sys.modules["__main__"].text[:, 1:].shape, tf.int32)
from many_steps import INDICES
counts = [count(published, tokens, tokens), count(tuned, {INDICES: tf.TensorSpec(tokens.shape[:1], tf.int32)})]
print()
print(json.dumps(counts))
"""


def test_floating_point_operations(execute):
    """6 a weight and token; 12 a layer, width and pair of tokens: of all pairs for Keras, of the blocks for tuned."""
    layers, width, length, classes, block = 2, 128, 192, 1000, 64
    sizes = {"LAYERS": layers, "WIDTH": width, "SEQUENCE": length, "VOCABULARY": classes, "BLOCK": block}
    published, tuned = (each / 2 for each in execute(take(**sizes) + COUNTED))
    weights = layers * 12 * width**2
    pairs = 12 * layers * width * length**2
    assert published == pytest.approx(6 * (weights + classes * width) * length + pairs, rel=0.001)
    blocks = length // block
    seen = (blocks + 1) / (2 * blocks)
    assert tuned == pytest.approx(6 * (weights + 1024 * width) * length + seen * pairs, rel=0.001)
    cudnn = execute(take(**sizes, ATTENTION="cudnn", PRECISION="mixed_bfloat16") + COUNTED)[1]
    assert cudnn / 2 == pytest.approx(6 * (weights + 1024 * width) * length + pairs / 2, rel=0.001)


TOGETHER = """
import sys
from data_parallel import DataParallel
script = sys.modules["__main__"]
text = script.text
x, y = text[:, :-1], text[:, 1:]
batch = len(x)
both = DataParallel(script.decoder, x, y, batch, ["CPU:0", "CPU:1"])
both.compile(keras.optimizers.AdamW(3e-4, weight_decay=0.1), loss_of=script.loss_of, jit_compile=False)
for replica in both.replicas:
    replica.set_weights(tuned.get_weights())
from many_steps import INDICES
order = tf.data.Dataset.from_tensors({INDICES: tf.range(batch)}).repeat()
twice = tf.data.Dataset.from_tensors(tf.tile(tf.range(batch), [4])).repeat()
alone = tuned.fit(order, steps_per_epoch=2, epochs=3, verbose=0).history["loss"]
together = both.fit(twice, steps_per_epoch=1, epochs=3, verbose=0).history["loss"]
weights = [each.get_weights() for each in (tuned, *both.replicas)]
apart = [max(float(abs(a - b).max()) for a, b in zip(weights[0], other)) for other in weights[1:]]
equal = all((a == b).all() for a, b in zip(*weights[1:]))
print()
print(json.dumps([alone, together, apart, equal]))
"""


def test_replicas_with_the_same_samples_train_as_one_device(execute):
    alone, together, apart, equal = execute(take(LOSS_CHUNKS=1, JIT_COMPILE=False) + TOGETHER, devices=2)
    assert together == pytest.approx(alone, rel=1e-4)
    assert together[-1] < together[0]
    assert max(apart) < 2e-3, "their learning rate is 3e-4"
    assert equal, "replicas stay equal"
