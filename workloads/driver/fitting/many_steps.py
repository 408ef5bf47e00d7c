"""Whether `many-steps` fits a call."""

from __future__ import annotations

from workloads.driver.call import Call
from workloads.driver.fitting.output import read_output
from workloads.driver.fitting.reading import watched
from workloads.driver.own_code.callbacks import around_batches, reads_param


def misfit(call: Call) -> str:
    """Return why many steps per call of Keras would change what runs between them; "" if they would not."""
    if int(call.model.steps_per_execution) != 1:
        return "The script trains several steps per call by itself."
    return later(call) or read_output(call) or watched(call)


def later(call: Call) -> str:
    """Return why callbacks must run around each batch of a training, or know its steps; "" if they need not."""
    if not call.trains:
        return ""
    if name := reads_param(call, "steps"):
        return f"The callback {name} counts on the number of steps in its params."
    return around_batches(call)
