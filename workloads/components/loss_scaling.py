"""Loss scaling without a branch, for steps that XLA compiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class BranchFreeLossScaling(tf.keras.optimizers.LossScaleOptimizer):
    """Keras' loss scaling with a select instead of a branch on whether all gradients are finite.

    At a branch in a compiled program the host waits for the condition from the device before it can launch
    more work.
    """

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Apply the gradients, then restore all variables if any gradient was not finite."""
        variables = list(trainable_variables or self._trainable_variables)
        if not self.built:
            self.build(variables)
        finite = self.check_finite(grads)
        restorable = [*variables, *self.inner_optimizer.variables]
        before = [tf.convert_to_tensor(variable) for variable in restorable]
        scale, count = (tf.convert_to_tensor(value) for value in (self.dynamic_scale, self.step_counter))
        self.inner_optimizer.apply([grad / scale for grad in grads], variables)
        for variable, old in zip(restorable, before, strict=True):
            variable.assign(tf.where(finite, tf.convert_to_tensor(variable), old))
        grows = tf.equal(count, self.dynamic_growth_steps - 1)
        self.dynamic_scale.assign(scale * tf.where(finite, tf.where(grows, 2.0, 1.0), 0.5))
        self.step_counter.assign(tf.where(finite & ~grows, count + 1, 0))
