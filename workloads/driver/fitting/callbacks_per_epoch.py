"""Whether `callbacks-per-epoch` fits a call."""

from __future__ import annotations

from workloads.driver.call import Call
from workloads.driver.own_code.callbacks import acts_every


def misfit(call: Call) -> str:
    """Return why callbacks cannot act once per epoch; "" if they can."""
    rarest = call.as_written.get("acts_every", 0)
    if call.steps_per_epoch and rarest > max(call.steps_per_epoch, acts_every(call)):
        return "A callback saves or logs less often than once an epoch."
    for callback in call.callbacks:
        if (
            "{batch" in str(getattr(callback, "filepath", ""))
            and getattr(callback, "save_freq", "") == "epoch"
        ):
            return "A checkpoint's name has the number of a batch, which Keras does not know at the end of an epoch."
    return ""
