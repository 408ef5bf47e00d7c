"""Whether a remedy fits the call that was taken: what its text does not tell, but the running script."""

from __future__ import annotations

from workloads.driver.call import Call
from workloads.driver.first_epoch import repeats


def misfit(remedy: str, call: Call) -> str:
    """Return why a remedy, by name, would change training or nothing; "" if it fits."""
    model, given = call.model, call.arguments
    match remedy:
        case "xla" if not model.jit_compile:
            return "Keras does not compile this model with XLA: a layer of it cannot be."
        case "steps-per-execution":
            per_call = int(model.steps_per_execution)
            for name in ("steps_per_epoch", "validation_steps", "steps"):
                if (given.get(name) or 0) % per_call:
                    return (
                        f"{name} is {given[name]}, and Keras would round it up to whole calls of {per_call}."
                    )
        case "cache" if not repeats(given["x"]):
            return "What lies before the cache differs from pass to pass, and would stay as in the first."
    return ""
