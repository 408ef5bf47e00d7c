"""Branch-free loss scaling equals Keras' loss scaling, with finite and infinite gradients."""

import pytest

pytestmark = pytest.mark.tensorflow

SIX_STEPS = """
import json
import numpy as np
import tensorflow as tf
from workloads.components.loss_scaling import BranchFreeLossScaling
def trained(kind, jit, spoilt):
    variables = [tf.keras.Variable(np.ones((4, 3), np.float32)), tf.keras.Variable(np.zeros(3, np.float32))]
    optimizer = kind(tf.keras.optimizers.SGD(0.1, momentum=0.9), initial_scale=8.0, dynamic_growth_steps=3)
    optimizer.build(variables)
    def step(number):
        grads = [8.0 * (number + 1) * tf.ones_like(variable.value) for variable in variables]
        grads[0] = tf.where(tf.equal(number, spoilt), np.inf, grads[0])
        optimizer.apply(grads, variables)
    run = tf.function(step, jit_compile=jit, autograph=False)
    for number in range(6):
        run(tf.constant(float(number)))
    return [variable.numpy().astype(float).ravel().tolist() for variable in (*variables, *optimizer.variables)]
print(json.dumps([[trained(tf.keras.optimizers.LossScaleOptimizer, False, spoilt),
                   trained(BranchFreeLossScaling, False, spoilt), trained(BranchFreeLossScaling, True, spoilt)]
                  for spoilt in (-1.0, 2.0)]))
"""


def test_weights_momenta_and_scale_equal_those_of_keras(script):
    results = script(SIX_STEPS)
    for keras, *ours in results:
        for values in ours:
            assert [pytest.approx(value, rel=1e-5) for value in keras] == values
    assert results[0][0] != results[1][0], "a step was skipped"
