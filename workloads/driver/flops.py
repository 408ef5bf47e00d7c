"""Count the floating-point operations of a step from its traced graph.

Only products of matrices and convolutions count, a multiplication and an addition each, as in MFU (Chowdhery et al.
2022, "PaLM", appendix B): they alone can use the peak of a data sheet. The profiler's own counters cover neither Einsum
nor the gradients of depthwise convolutions, and take a transposed BatchMatMul for a plain one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import tensorflow as tf

from workloads.driver.call import rows

# Kind of operation -> position of the filter, and of the convolution's output (None for the result).
_CONVOLUTIONS: Mapping[str, tuple[int | None, int | None]] = {
    **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), (1, None)),
    **dict.fromkeys(
        ("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"), (1, 2)
    ),
    **dict.fromkeys(
        ("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"), (None, 2)
    ),
}
_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "SymbolicGradient")


def flops_per_sample(call: Any) -> float:
    """Return the floating-point operations of a sample in a call of fit, evaluate or predict.

    Args:
        call: the Call; its model has been built.

    Raises:
        ValueError: they are unknown.
    """
    model, batch = call.model, call.batch
    step = model.train_step if call.trains else model.test_step if call.evaluates else model.predict_step
    specs = tf.nest.map_structure(tf.type_spec_from_value, batch)
    function = tf.function(step, autograph=False).get_concrete_function(specs)
    flops = count_flops(function)
    # Keras multiplies sparse tensors by other operations, and what they compute depends on their values.
    if not flops or any(isinstance(each, tf.SparseTensor) for each in tf.nest.flatten(batch)):
        raise ValueError("The operations of the step are unknown.")
    return flops * call.steps_per_batch / rows(batch)


def count_flops(function: Any) -> float:
    """Return the floating-point operations of one call of a concrete function.

    Called functions count wherever they are called, the larger branch of a condition, and the body of a loop as often
    as its known maximum of iterations, else once: several steps per call count as one.

    Raises:
        ValueError: a matrix has an unknown size, trace the function with a full batch.
    """
    return _graph_flops(function.graph)


def _graph_flops(graph: Any) -> float:
    outputs = {id(each) for each in graph.outputs}
    return sum(_flops(each) for each in graph.get_operations() if not _is_pruned(each, outputs))


def _is_pruned(operation: Any, outputs: Collection[int]) -> bool:
    """Return whether nothing uses a product, such as the gradient of a model's input, so that it never runs."""
    product = operation.type in _PRODUCTS or operation.type in _CONVOLUTIONS
    return product and not any(each.consumers() or id(each) in outputs for each in operation.outputs)


def _flops(operation: Any) -> float:
    kind = operation.type
    if kind in _CALLS:
        return max(_called(operation, "f"), default=0.0)
    if kind in ("If", "StatelessIf"):
        return max(*_called(operation, "then_branch"), *_called(operation, "else_branch"))
    if kind in ("Case", "StatelessCase"):
        return max(_called(operation, "branches"))
    if kind in ("While", "StatelessWhile"):
        # The loop variables of tf.while_loop begin with its counter and its maximum of iterations.
        trips: Any = tf.get_static_value(operation.inputs[1]) if len(operation.inputs) > 1 else None
        known = trips is not None and trips.ndim == 0 and trips > 0
        return sum(_called(operation, "body")) * (int(trips) if known else 1)
    if kind in _CONVOLUTIONS:
        return _convolution(operation)
    count = _PRODUCTS.get(kind)
    return count(operation) if count else 0.0


def _called(operation: Any, attribute: str) -> Iterator[float]:
    """Yield the operations of the functions that an operation calls."""
    functions = operation.get_attr(attribute)
    for each in functions if isinstance(functions, list) else [functions]:
        yield _graph_flops(operation.graph._get_function(each.name).graph)


def _elements(tensor: Any) -> float:
    return float(math.prod(_shape(tensor)))


def _shape(tensor: Any) -> list[int]:
    if not tensor.shape.is_fully_defined():
        raise ValueError(f"{tensor.name} has an unknown size: trace the function with a full batch.")
    return list(tensor.shape)


def _convolution(operation: Any) -> float:
    """Count the filter's elements of one channel for each element of the output."""
    filter_at, output_at = _CONVOLUTIONS[operation.type]
    kernel = _shape(operation.outputs[0] if filter_at is None else operation.inputs[filter_at])
    output = operation.outputs[0] if output_at is None else operation.inputs[output_at]
    depthwise = operation.type.startswith("Depthwise")
    return 2.0 * _elements(output) * math.prod(kernel[: -2 if depthwise else -1])


def _product(transposed: str) -> Callable[[Any], float]:
    def count(operation: Any) -> float:
        inner = _shape(operation.inputs[0])[-2 if operation.get_attr(transposed) else -1]
        return 2.0 * _elements(operation.outputs[0]) * inner

    return count


def _einsum(operation: Any) -> float:
    """Count every combination of the indices; an ellipsis stands for the leading dimensions."""
    terms = operation.get_attr("equation").decode().split("->")[0].split(",")
    if len(terms) < 2:
        return 0.0
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, operation.inputs, strict=True):
        shape, named = _shape(tensor), term.replace("...", "")
        before = term.index("...") if "..." in term else len(named)
        spread = len(shape) - len(named)
        labels = [*named[:before], *(f"...{number}" for number in range(spread)), *named[before:]]
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return 2.0 * math.prod(sizes.values())


def _cudnn_rnn(times: int) -> Callable[[Any], float]:
    def count(operation: Any) -> float:
        """Count all parameters for each step of each sequence: biases, under 1 %, are among them."""
        steps, sequences, _ = _shape(operation.inputs[0])
        return 2.0 * times * steps * sequences * _elements(operation.inputs[3])

    return count


def _attention(operation: Any) -> float:
    """Count cuDNN's attention: 2 products forward, 4 backward; half of each if causal. Recomputing does not count."""
    target = operation.get_attr("call_target_name").decode()
    if not target.startswith("__cudnn$fmha"):
        return 0.0
    settings = json.loads(operation.get_attr("backend_config"))["cudnn_fmha_backend_config"]
    products = (4 if "Backward" in target else 2) * (0.5 if settings["mask_type"] == "CAUSAL" else 1.0)
    pairs = math.prod(int(each) for each in settings["intermediate_tensor_shape"]["dimensions"])
    return products * 2.0 * pairs * _shape(operation.inputs[0])[-1]


_PRODUCTS: Mapping[str, Callable[[Any], float]] = {
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), _cudnn_rnn(1)),
    **dict.fromkeys(("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"), _cudnn_rnn(2)),
    "MatMul": _product("transpose_a"),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _product("adj_x")),
    "Einsum": _einsum,
    "XlaCustomCallV2": _attention,
}
