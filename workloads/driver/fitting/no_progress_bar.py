"""Whether `no-progress-bar` fits a call."""

from __future__ import annotations

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.fitting.output import read_output
from workloads.driver.own_code.callbacks import bar_of_script, reads_param


def misfit(call: Call) -> str:
    """Return why the progress bar must stay; "" if only people read it."""
    if call.as_written.get("quiet"):
        return "The call shows no progress bar: its verbose says so."
    if isinstance(call.arguments.get("callbacks"), tf.keras.callbacks.CallbackList):
        return "Keras shows no bar of its own beside a CallbackList."
    if name := bar_of_script():
        return f"The script has put code of its own around {name} of the bar."
    name = reads_param(call, "verbose")
    return f"The callback {name} may read verbose from its params." if name else read_output(call)
