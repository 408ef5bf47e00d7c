"""Whether `precision` fits a call."""

from __future__ import annotations

import tensorflow as tf

from workloads.driver.call import Call


def misfit(call: Call) -> str:
    """Return why half precision needs another change of the script; "" if it does not."""
    scales = hasattr(call.model.optimizer, "inner_optimizer") if call.trains else False
    if scales and type(call.model).train_step.__module__ not in (
        "__main__",
        tf.keras.Model.train_step.__module__,
    ):
        return "The model's own step is in another file, and may not scale its loss."
    return ""
