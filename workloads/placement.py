"""Which kernels TensorFlow placed for a model, and where: read from the graph that ran, not guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

# cuDNN's whole layer in one kernel; a loop that TensorFlow runs step by step; the same loop inside XLA.
CUDNN_OPERATIONS = ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
LOOP_OPERATIONS = ("LoopCond", "While", "StatelessWhile")


def operations(function: Callable[..., Any], *arguments: Any) -> tuple[tuple[str, str], ...]:
    """Run a tf.function once and return (operation, device) of all that was placed, after optimisation.

    It must not have run before: TensorFlow tells of a graph only when it makes it.
    """
    running = context.context()
    running.enable_run_metadata()
    try:
        function(*arguments)
        metadata = running.export_run_metadata()
    finally:
        running.disable_run_metadata()
    graphs = [graph for function in metadata.function_graphs for graph in function.partition_graphs]
    nodes = [node for graph in (*graphs, *metadata.partition_graphs) for node in graph.node]
    inner = [node for graph in graphs for each in graph.library.function for node in each.node_def]
    return tuple(dict.fromkeys((node.op, node.device) for node in (*nodes, *inner)))


def recurrent_kernel(model: Any, batch: Any, *, jit: bool) -> str:
    """Say in words by which kernel `model`'s recurrent layers train on `batch`, and on which device."""
    if jit:
        return "a loop inside the code that XLA compiled"

    @tf.function(autograph=False)
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True))
        return tape.gradient(loss, model.trainable_variables)

    placed = operations(step, batch)
    for names, words in ((CUDNN_OPERATIONS, "cuDNN's kernel"), (LOOP_OPERATIONS, "the generic while loop")):
        named = [(name, device) for name, device in placed if name in names]
        if named:
            name, device = named[0]
            where = device.rpartition("device:")[2] or "a device that TensorFlow does not name"
            return f"{words} ({name} on {where})"
    return "none: no recurrent operation was placed"
