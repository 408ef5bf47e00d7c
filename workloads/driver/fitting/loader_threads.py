"""Whether `loader-threads` fits a call."""

from __future__ import annotations

import copy
import dis
import inspect
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.first_epoch import digest
from workloads.driver.fitting.at_once import COMPARED, SETS_SEEDS, alike
from workloads.driver.fitting.reading import live
from workloads.driver.own_code.beside import changing, step_changes
from workloads.driver.own_code.callbacks import around_batches, is_keras, methods_of
from workloads.driver.own_code.changing import TO_FILES, TO_VARIABLES, sets_seeds
from workloads.driver.own_code.lasting import Watch
from workloads.driver.own_code.reached import codes

# Bytes of a loader that is copied for a trial.
_MOST_COPIED = 256 << 20
_OBSERVED = 4


def misfit(call: Call) -> str:
    """Return why batches that threads load would be others; "" if they would not."""
    loader = call.arguments["x"]
    generator = getattr(loader, "image_data_generator", None)
    own = generator.preprocessing_function if generator else not is_keras(loader)
    if not call.is_loader or not own:
        return ""
    if type(loader).on_epoch_begin is not tf.keras.utils.PyDataset.on_epoch_begin:
        return "The loader has on_epoch_begin, which Keras calls when threads load the first batches already."
    if found := live(call, [loader]):
        return f"The loader may read {found}, and would read it at another time."
    if reason := step_changes(call, "what the loader reads", [loader], TO_FILES):
        return reason
    names = _length_names(type(loader)) & _stored(type(loader))
    if names and not _keeps_length(loader, names):
        return f"The loader's length may change with {min(names)}, and its threads ask for it early."
    steps = call.arguments.get("steps_per_epoch")
    if steps and loader.num_batches and steps != loader.num_batches:
        return f"Epochs of {steps} steps do not end where the loader does, which begins anew with workers."
    names = TO_FILES | TO_VARIABLES
    if loader.num_batches is None and (
        reason := changing(call, "what the loader reads, which has no end", [loader], names)
    ):
        return reason
    if sets_seeds([loader]):
        return SETS_SEEDS.format("The loader")
    count = int(loader.num_batches or COMPARED)
    watch = Watch([loader])
    if _overwrites(loader, count) or not alike(lambda number: digest(loader[number]), count, watch):
        return "The loader gives other batches if several are loaded at once."
    if watch.found:
        return f"The loader {watch.found}, which it would in another order."
    return around_batches(call)


def observed(call: Call) -> list[bytes] | None:
    """Return hashes of the first batches of a loader without an end, which is read ahead into the next epoch."""
    loader = call.arguments["x"]
    return None if loader.num_batches else [digest(loader[number]) for number in range(_OBSERVED)]


def _length_names(kind: type) -> set[str]:
    """Return what a loader's class reads for its number of batches."""
    found = [inspect.getattr_static(kind, name, None) for name in ("__len__", "num_batches")]
    functions = [getattr(each, "fget", each) for each in found]
    return {name for each in functions if inspect.isfunction(each) for name in each.__code__.co_names}


def _keeps_length(loader: Any, names: set[str]) -> bool:
    """Return whether on_epoch_end, tried with a copy, leaves the number of batches; no other method may set `names`."""
    kind, drawn = type(loader), (random.getstate(), np.random.get_state())
    if names & _stored(kind, but="on_epoch_end") or sum(_sizes(loader)) > _MOST_COPIED:
        return False
    try:
        clone, counts = copy.deepcopy(loader), list[Any]()
        with Watch([loader, kind.on_epoch_end]) as watch:
            for _ in range(COMPARED):
                clone.on_epoch_end()
                counts.append(clone.num_batches)
    except Exception:
        return False
    finally:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
    return not watch.found and {*counts} == {loader.num_batches}


def _sizes(loader: Any) -> Iterator[int]:
    """Yield the bytes of a loader's attributes, as far as they say."""
    for value in vars(loader).values():
        size = getattr(value, "nbytes", None)
        yield size if isinstance(size, int) else sys.getsizeof(value)


def _stored(kind: type, but: str = "") -> set[str]:
    """Return the attributes that methods of the script's classes, but for one, set after an object is made."""
    return {
        str(step.argval)
        for name, methods in methods_of(kind).items()
        if name != but
        for method in methods
        for part in codes(method.__code__)
        for step in dis.get_instructions(part)
        if step.opname == "STORE_ATTR"
    }


def _overwrites(loader: Any, count: int) -> bool:
    """Return whether a loader makes a batch where the one before it is."""
    first = loader[0]
    before = digest(first)
    if count > 1:
        loader[1]
    return digest(first) != before
