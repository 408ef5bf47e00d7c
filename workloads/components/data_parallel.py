"""Data-parallel training with plain Keras fit: a replica on each device, one all-reduce of all gradients per step.

MirroredStrategy reduces and updates variable by variable. Here a step has three parts: forward and backward
pass; one all-reduce of all gradients in a flat buffer; the optimizer. On the GPUs of one machine XLA compiles all
steps of a call, including the all-reduce, into one program per GPU, unless `compile` turns it off. Replicas start
with the same weights and apply the same gradients, so they stay equal; moving averages such as batch
normalisation's are the first one's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

# Keys of collectives, far from those of TensorFlow's strategies, which count from 1; each model takes one.
KEYS = itertools.count(1_000_000)


class DataParallel(keras.Model):
    """Train on several devices; fit on batches of indices, int32[steps * devices * batch_size], as from `shuffled`.

    Args:
        make_network: makes a replica.
        x, y: all training samples and labels; copied to each device.
        batch_size: samples per step and device.
        devices: names such as "GPU:0".
    """

    def __init__(
        self, make_network: Callable[[], keras.Model], x: Any, y: Any, batch_size: int, devices: Sequence[str]
    ) -> None:
        super().__init__()
        self.jit = True
        self.share = batch_size
        self.samples_per_step = batch_size * len(devices)
        self.devices = tuple(devices)
        self.key = next(KEYS)
        self.samples: list[Any] = []
        self.replicas: list[keras.Model] = []
        for device in self.devices:
            with tf.device(device):
                self.samples.append((tf.identity(x), tf.identity(y)))
                self.replicas.append(make_network())
                self.replicas[-1].set_weights(self.replicas[0].get_weights())

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Return the first replica's outputs."""
        return self.replicas[0](inputs, training=training)

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer,
        loss: Any = None,
        loss_of: Callable[[keras.Model], Any] | None = None,
        jit_compile: bool = True,
        **settings: Any,
    ) -> None:
        """Compile each replica with an optimizer of its own.

        Args:
            loss: of all replicas; None with `loss_of`.
            loss_of: makes the loss of a replica, for one that reads its weights.
            jit_compile: whether XLA compiles the steps on GPUs.
        """
        self.jit = jit_compile and self.devices[0].startswith("GPU")
        losses = [loss_of(each) if loss_of else loss for each in self.replicas]
        super().compile(optimizer=optimizer, loss=losses[0], jit_compile=jit_compile, **settings)
        for device, replica, own_loss in zip(self.devices, self.replicas, losses, strict=True):
            with tf.device(device):
                own = type(optimizer).from_config(optimizer.get_config())
                replica.compile(optimizer=own, loss=own_loss, jit_compile=jit_compile, **settings)
                replica.optimizer.build(replica.trainable_variables)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The first replica's metrics: of its share of the samples in training."""
        return self.replicas[0].metrics

    def evaluate(self, *args: Any, **settings: Any) -> Any:
        """Evaluate the first replica."""
        return self.replicas[0].evaluate(*args, **settings)

    def make_train_function(self, force: bool = False) -> None:
        """Build the function that fit calls with its iterator."""
        if self.train_function is not None and not force:
            return
        jit = self.jit
        runs = []
        for device, replica, samples in zip(self.devices, self.replicas, self.samples, strict=True):
            with tf.device(device):
                step = self._step(replica, samples, first=replica is self.replicas[0])
            # XLA does not support the all-reduce on CPUs, where the steps are looped over together.
            runs.append(tf.function(looped(step), jit_compile=True, autograph=False) if jit else step)

        def on_all(indices: tf.Tensor) -> None:
            for index, (device, run) in enumerate(zip(self.devices, runs, strict=True)):
                with tf.device(device):
                    run(indices[..., index, :])

        @tf.function(autograph=False)
        def train(batch: Any) -> dict[str, Any]:
            (indices,) = tf.nest.flatten(batch)
            steps = indices.shape[0] // self.samples_per_step
            chosen = tf.reshape(indices, [steps, len(self.devices), self.share])
            (on_all if jit else looped(on_all))(chosen)
            return self.get_metrics_result()

        self.train_function = lambda iterator: train(next(iterator))

    def _step(self, model: keras.Model, samples: Any, *, first: bool) -> Callable[[tf.Tensor], None]:
        variables = model.trainable_variables
        # Half-precision gradients are scaled and checked for overflow, so they can be exchanged as float16.
        width = tf.float16 if hasattr(model.optimizer, "inner_optimizer") else tf.float32
        # One token per device, or the devices' all-reduces would wait for each other in sequence and deadlock.
        token = tf.Variable(0.0, trainable=False)

        def step(indices: tf.Tensor) -> None:
            x, y = (tf.gather(part, indices) for part in samples)
            with tf.GradientTape() as tape:
                predictions = model(x, training=True)
                loss = model.compute_loss(x=x, y=y, y_pred=predictions)
                scaled = model.optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, variables)
            parts = [tf.convert_to_tensor(part) / len(self.devices) for part in gradients]
            flat = tf.concat([tf.cast(tf.reshape(part, [-1]), width) for part in parts], 0)
            summed = tf.split(self._sum(flat, token), [part.shape.num_elements() for part in parts])
            model.optimizer.apply_gradients(
                (tf.cast(tf.reshape(part, variable.shape), variable.dtype), variable)
                for part, variable in zip(summed, variables, strict=True)
            )
            if first:
                model._loss_tracker.update_state(loss, sample_weight=self.share)
                model.compute_metrics(x, y, predictions)

        return step

    def _sum(self, flat: tf.Tensor, token: tf.Variable) -> tf.Tensor:
        return tf.raw_ops.CollectiveReduceV2(
            input=flat,
            group_size=len(self.devices),
            group_key=self.key,
            instance_key=self.key,
            ordering_token=[token.handle],
            merge_op="Add",
            final_op="Id",
            communication_hint="nccl" if self.devices[0].startswith("GPU") else "ring",
        )


def looped(step: Callable[[tf.Tensor], None]) -> Callable[[tf.Tensor], None]:
    """Return a function that runs a step for each row of indices; their number must be known."""

    def many(indices: tf.Tensor) -> None:
        steps = indices.shape[0]

        def body(number: tf.Tensor) -> tf.Tensor:
            step(indices[number])
            return number + 1

        tf.while_loop(lambda number: number < steps, body, [tf.constant(0)], parallel_iterations=1)

    return many
