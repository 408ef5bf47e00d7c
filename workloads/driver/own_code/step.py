"""What is the script's own of a step: the classes, functions and objects that Keras calls in it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.own_code.callbacks import is_keras, is_own_function, methods_of
from workloads.driver.own_code.reached import is_of_script

# Methods of a model that Keras calls in a step.
_STEPS = {"train": "train_step", "test": "test_step", "predict": "predict_step"}
_CALLED = {"call", "__call__", "compute_loss", "compute_metrics"}


def steps_of(call: Call) -> list[Any]:
    """Return the steps of the model that a script runs: of the call, of its validation, and what it names besides."""
    kinds = ["train"] if call.trains else []
    kinds += ["test"] if call.evaluates or call.validates or call.script_names("evaluate") else []
    kinds += ["predict"] if not (call.trains or call.evaluates) or call.script_names("predict") else []
    return [step_of(call.model, kind) for kind in kinds]


def step_of(model: Any, kind: str) -> Any:
    """Return the model's step of a kind: "train", "test" or "predict"."""
    return getattr(model, _STEPS[kind])


def parts_of(model: Any) -> list[Any]:
    """Return the model, its layers, its optimizer and its metrics."""
    layers = getattr(model, "_flatten_layers", lambda: model.layers)()
    optimizer = getattr(model, "optimizer", None)
    return [model, *layers, *([] if optimizer is None else [optimizer]), *getattr(model, "metrics", ())]


def own_of_step(call: Call, *, whole: bool = False) -> list[Any]:
    """Return the functions and objects of the script that Keras calls in the steps of a script.

    Args:
        whole: also the other methods of the model, which Keras or the script may call between steps.
    """
    model = call.model
    parts = parts_of(model)
    found = [
        getattr(part, name)
        for part in parts
        for name in methods_of(type(part))
        if whole or part is not model or name in _CALLED
    ]
    given = [*tf.nest.flatten(getattr(model, "loss", None)), *metrics_of(model)]
    # Activations, schedules and the like.
    held = [value for part in (*parts, *given) for value in getattr(part, "__dict__", {}).values()]
    functions = [each for each in (*held, *given) if is_of_script(each) or is_own_function(each)]
    steps = [each for each in steps_of(call) if is_own_function(each)]
    return [*found, *steps, *functions, *(each for each in parts if not is_keras(each))]


def metrics_of(model: Any) -> list[Any]:
    """Return a model's metrics, and what compile was given for them before the first step makes them."""
    compiled = getattr(model, "_compile_metrics", None)
    given = (getattr(compiled, "_user_metrics", None), getattr(compiled, "_user_weighted_metrics", None))
    return [*getattr(model, "metrics", ()), *tf.nest.flatten(given)]
