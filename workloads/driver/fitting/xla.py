"""Whether `xla` fits a call."""

from __future__ import annotations

from tensorflow.python.eager import context

from workloads.driver.call import Call
from workloads.driver.fitting.operations import CHECKING, kinds_of_step
from workloads.driver.own_code.step import own_of_step

# Errors of values that operations have.
_ERRORS = ("InvalidArgumentError", "OpError")


def misfit(call: Call) -> str:
    """Return why XLA would change this step, or cannot compile it; "" if neither."""
    if not call.model.jit_compile:
        return "Keras does not compile this model with XLA: a layer of it cannot be, or tf.config does not let it."
    if context.context().op_callbacks:
        return (
            "XLA would leave out what tf.debugging does after each operation, such as a check of its values."
        )
    if own_of_step(call) and kinds_of_step(call, tested=True) & CHECKING:
        return "XLA would leave out a check of values in the step, such as tf.debugging.assert_all_finite."
    if name := next(filter(call.script_names, _ERRORS), ""):
        return f"The script names {name}, and XLA raises none where values are wrong, such as an index out of range."
    return ""
