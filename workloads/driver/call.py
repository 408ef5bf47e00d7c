"""A call of Keras that was taken from a script: its model, its input, and one epoch of it.

Uses Keras' data adapters, so that input is read as in fit: arrays, tf.data, PyDataset or generator, with sample
and class weights.
"""

from __future__ import annotations

import re
import time
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing, get_data_adapter

from workloads.driver import standard_input
from workloads.driver.generators import renewed
from workloads.driver.pipelines import class_of, read_alone
from workloads.driver.script import ScriptError
from workloads.driver.sites import called_in_module, caller, calling, compiling

# To find a batch of a typical size, so many are read, for so many seconds at most.
_TRIED, _TRIED_S = 16, 1.0
# What Keras' input arguments are called in fit; evaluate and predict have fewer.
INPUT = ("x", "y", "sample_weight", "class_weight", "batch_size", "shuffle", "steps_per_epoch")


@dataclass(frozen=True)
class Epoch:
    """An epoch of an input.

    Attributes:
        batch: global batch size.
        batches: batches per epoch; None if endless or unknown.
        missing: number of samples by which the last batch is short.
        ends: whether the input stops after the last batch; else it repeats.
        exact: whether these numbers are known rather than assumed.
        shuffled: whether batches come in any order, so that a short one may be any.
    """

    batch: int
    batches: int | None = None
    missing: int = 0
    ends: bool = True
    exact: bool = True
    shuffled: bool = False

    @property
    def known(self) -> bool:
        """Whether it is known how many samples each step has."""
        return self.exact and not (self.shuffled and self.missing)

    def samples(self, steps: int) -> int:
        """Return the number of samples in the first `steps` steps, over all epochs."""
        return steps * self.batch - (steps // self.batches * self.missing if self.batches else 0)


def _no_samples() -> ScriptError:
    to_try = standard_input.advice() or "If files are missing here, name their folder with --mount."
    return ScriptError(f"The call has no samples. {to_try}")


def epoch_of(samples: int, batch: int) -> Epoch:
    """Return the epoch of `samples` samples in batches of at most `batch`; the last one may be short.

    Raises:
        ScriptError: there are no samples.
    """
    if not samples:
        raise _no_samples()
    batch = min(batch, samples)
    batches = -(-samples // batch)
    return Epoch(batch, batches, batches * batch - samples)


class Call:
    """A call of `fit`, `evaluate` or `predict`.

    Args:
        arguments: all arguments by name, with defaults.
        replicas: number of devices that share a batch, which is then as many times as large as in the script.

    Attributes:
        place: the line of the script, or of a module beside it, that makes this call.
        in_module: whether it is in a module.
        as_written: the parameters of the call in the script as written, by `params`, once it has run.
        sites: where the script makes this call, and where it compiled the model; each innermost first.
    """

    def __init__(self, model: Any, arguments: Mapping[str, Any], replicas: int = 1) -> None:
        self.model = model
        self.arguments = {**arguments}
        self._replicas = replicas
        self.as_written: Mapping[str, Any] = {}
        # The input may read files by paths from here after the script has ended.
        self.folder: Path | None = None
        with suppress(FileNotFoundError):  # the script may have removed it
            self.folder = Path.cwd()
        self.sites, self.place = (calling(model), compiling(model)), caller()
        self.in_module = called_in_module()
        if self.arguments.get("x") is None:
            raise ScriptError("The call has no input: its x is None.")
        if isinstance(
            self.arguments["x"], (tf.distribute.DistributedDataset, tf.distribute.DistributedIterator)
        ):
            raise ScriptError(
                "Give fit the tf.data.Dataset itself: under a strategy, it distributes its batches."
            )
        if self.epochs < 1:
            raise ScriptError(
                "The call trains no epoch. Give fit more epochs than its initial_epoch, or choose another "
                "call with --call."
            )
        share = self.arguments.pop("validation_split", 0.0)
        if share and self.arguments.get("validation_data") is None:
            split = tuple(self.arguments.get(name) for name in ("x", "y", "sample_weight"))
            trained, held_out = array_slicing.train_validation_split(split, validation_split=share)
            self.arguments |= dict(zip(("x", "y", "sample_weight"), trained, strict=True))
            self.arguments["validation_data"] = held_out
        # One training step on a batch from outside, compiled once for all variants of the breakdown.
        self.step: Callable[[Any], Any] | None = None
        # The script that makes the call.
        self.script = ""
        # Whether such variants follow, which begin with the weights of the first step.
        self.is_broken_down = False
        # The pipeline before its batches were put together for several devices.
        self._as_given: Any = None
        if replicas > 1:
            self._enlarge(replicas)
        self._initial: Sequence[tuple[Any, Any]] = ()
        self._early: Sequence[tuple[Any, Any]] = ()
        # The compiled functions of a model that generates tokens, for the variants made of this call.
        self.compiled: Any = None
        # Samples trained when the accuracy that `use_early_weights` restores was reached; 0 without.
        self.early_samples = 0
        # How many steps came before an error, if the script itself would have ended by then.
        self.steps_before_error = ""
        self.failed_late = False  # after its second step
        # Seconds by which the first epoch takes longer than later ones, for a cache that the baseline has not.
        self.fill_s = 0.0

    def _enlarge(self, times: int) -> None:
        x = self.arguments["x"]
        if self.is_loader or isinstance(x, types.GeneratorType):
            raise ScriptError("Python loaders cannot feed several GPUs here. Use tf.data, or --device gpu0.")
        if isinstance(x, tf.data.Dataset):
            self._as_given = x
            self.arguments["x"] = x.batch(times, drop_remainder=True).map(
                lambda *parts: tf.nest.map_structure(
                    lambda part: tf.reshape(part, tf.concat([[-1], tf.shape(part)[2:]], 0)),
                    parts if len(parts) > 1 else parts[0],
                ),
                tf.data.AUTOTUNE,
            )
        else:
            self.arguments["batch_size"] = (self.arguments.get("batch_size") or 32) * times

    @property
    def trains(self) -> bool:
        """Whether it is a call of fit."""
        return "epochs" in self.arguments

    def script_names(self, name: str) -> bool:
        """Return whether the script has a name, such as that of a method that it calls."""
        return re.search(rf"\b{name}\b", self.script) is not None

    @property
    def evaluates(self) -> bool:
        """Whether it is a call of evaluate."""
        return "return_dict" in self.arguments

    @property
    def validates(self) -> bool:
        """Whether fit is given data to validate with."""
        return self.arguments.get("validation_data") is not None

    @property
    def callbacks(self) -> list[Any]:
        """The callbacks that it is given."""
        return callbacks_in(self.arguments)

    @property
    def is_loader(self) -> bool:
        """Whether the input is a Keras PyDataset."""
        return isinstance(self.arguments["x"], tf.keras.utils.PyDataset)

    @property
    def is_pipeline(self) -> bool:
        """Whether the input is the script's own tf.data pipeline."""
        return isinstance(self.arguments["x"], tf.data.Dataset)

    @property
    def prefetches(self) -> bool:
        """Whether the input is a pipeline that ends with a prefetch, and at most options after it."""
        last = self.arguments["x"] if self.is_pipeline else None
        while last is not None and class_of(last) == "OptionsDataset":
            (last,) = last._inputs()
        return last is not None and class_of(last) == "PrefetchDataset"

    @property
    def in_python(self) -> bool:
        """Whether Python makes the batches."""
        return self.is_loader or isinstance(self.arguments["x"], types.GeneratorType)

    @cached_property
    def adapter(self) -> Any:
        """Keras' data adapter."""
        return self._adapter()

    def _adapter(self) -> Any:
        given = {name: self.arguments.get(name) for name in INPUT}
        given["shuffle"] = bool(given["shuffle"]) and not (self.is_pipeline or self.in_python)
        return get_data_adapter(**given)

    @property
    def dataset(self) -> tf.data.Dataset:
        """One epoch of the input as tf.data."""
        if self.is_loader:
            # The threads of a loader serve one iterator at a time.
            return self._adapter().get_tf_dataset()
        return self._kept

    @cached_property
    def _kept(self) -> tf.data.Dataset:
        # Making it copies arrays.
        with tf.device("CPU:0"):
            return self.adapter.get_tf_dataset()

    @cached_property
    def batch(self) -> Any:
        """The first batch, in host memory."""
        return self._first_of(self.dataset)

    def _first_of(self, dataset: tf.data.Dataset) -> Any:
        with read_alone(dataset) as alone:
            try:
                first = next(iter(alone), None)
            except Exception:
                if not self._begin_callbacks():
                    raise
                first = next(iter(alone), None)
        if first is None:
            raise _no_samples()
        return first

    def _begin_callbacks(self) -> bool:
        """Let a training's callbacks begin, which may set up what the input reads; return whether there are any."""
        if not self.trains:
            return False
        for callback in self.callbacks:
            with suppress(Exception):  # the input's error is told then
                callback.set_model(self.model)
                callback.on_train_begin()
                callback.on_epoch_begin(self.first_epoch)
        return bool(self.callbacks)

    @cached_property
    def epoch(self) -> Epoch:
        """One epoch of the input, without iterating over it as far as possible."""
        if not (self.is_pipeline or self.in_python):
            return epoch_of(rows((self.arguments["x"],)), self.adapter.batch_size)
        if self.is_loader:
            loader = self.arguments["x"]
            count = loader.num_batches
            batch = rows(self.batch)
            # The last one may be short.
            others, last = ((1, count // 2, count - 2), count - 1) if count else ((1, 2, 3), 4)
            alike = all(rows(loader[each]) == batch for each in others if 0 < each < last)
            if not count:
                return Epoch(batch, ends=False, exact=alike)
            missing = max(0, batch - rows(loader[count - 1]))
            return Epoch(batch, count, missing, exact=alike, shuffled=bool(self.arguments.get("shuffle")))
        epoch = _pipeline_epoch(self._as_given or self.dataset, self._first_of)
        if self._as_given is None and not epoch.exact:  # has read the first batch
            return epoch
        if self._as_given is None:
            # What follows batch() may have cut batches anew or joined them.
            first = rows(self.batch)
            short = epoch.batches == 1 and first == epoch.batch - epoch.missing
            same = first == epoch.batch or short
            return epoch if same else Epoch(first, epoch.batches, ends=epoch.ends, exact=False)
        times = self._replicas
        batches = epoch.batches // times if epoch.batches else None
        return Epoch(epoch.batch * times, batches, ends=epoch.ends, exact=epoch.exact)

    def renew(self) -> None:
        """Let generators begin anew when they have ended: that of the input, and of validations of so many steps."""
        for name in ("x", "validation_data") if self.arguments.get("validation_steps") else ("x",):
            if isinstance(self.arguments[name], types.GeneratorType):
                self.arguments[name] = renewed(self.arguments[name])

    def read_batch(self) -> None:
        """Read the first batch of a pipeline or loader, in each process alike: what Python gives may go on from there.

        Where sizes are unknown and it can be read again, it is one of about the mean size instead.
        """
        if not (self.is_pipeline or self.is_loader):
            return
        if self.epoch.exact or self._as_given is not None:
            _ = self.batch
            return
        ends_s, found = time.monotonic() + _TRIED_S, list[Any]()
        with read_alone(self.dataset) as alone:
            for batch in islice(alone, _TRIED):
                found.append(batch)
                if time.monotonic() > ends_s:
                    break
        mean = sum(map(rows, found)) / len(found)
        self.__dict__["batch"] = min(found, key=lambda batch: abs(rows(batch) - mean))
        self.__dict__["epoch"] = replace(self.epoch, batch=rows(self.batch))

    @property
    def first_epoch(self) -> int:
        """Number of the first epoch of the call."""
        return int(self.arguments.get("initial_epoch") or 0)

    @property
    def epochs(self) -> int:
        """Epochs of the call; 1 if it does not train."""
        return int(self.arguments.get("epochs", 1)) - self.first_epoch

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of an epoch of the call, which ends where its input ends; None if unknown."""
        given = self.arguments.get("steps_per_epoch" if self.trains else "steps")
        whole = self.epoch.batches if self.epoch.ends else None
        return min(filter(None, (given, whole)), default=None)

    @property
    def samples_per_epoch(self) -> int:
        """Samples of an epoch of the call; 0 if unknown."""
        steps = self.steps_per_epoch
        return self.epoch.samples(steps) if steps else 0

    @cached_property
    def steps_per_batch(self) -> int:
        """Training steps in a step of fit: several if batches are a multiple of the model's `samples_per_step`."""
        own, batch = getattr(self.model, "samples_per_step", None), self.epoch.batch
        return batch // own if isinstance(own, int) and 0 < own < batch and not batch % own else 1

    @property
    def new_tokens(self) -> int:
        """Tokens that a prediction generates for each row of its input, the model's `new_tokens`; 0 for other calls."""
        tokens = getattr(self.model, "new_tokens", None)
        return tokens if isinstance(tokens, int) and tokens > 0 and not (self.trains or self.evaluates) else 0

    def samples(self, batch: Any) -> int:
        """Return the number of samples of a batch: of new tokens, if the model generates them."""
        return rows(batch) * (self.new_tokens or 1)

    def params(self) -> dict[str, Any]:
        """Return what the script has chosen, for the event of a variant."""
        model = self.model
        policy = getattr(getattr(model, "dtype_policy", None), "name", "float32")
        sent = getattr(self.arguments["x"], "dtype", None)
        predicts = sent is not None and not self.trains
        return {
            **({} if self.trains else {"trains": False}),
            **({"input_type": tf.as_dtype(sent).name} if predicts else {}),
            "batch_size": self.epoch.batch // self.steps_per_batch,
            **({"new_tokens": self.new_tokens} if self.new_tokens else {}),
            "epochs": self.epochs,
            "samples_per_epoch": self.samples_per_epoch,
            "steps_per_call": int(getattr(model, "steps_per_execution", 1) or 1) * self.steps_per_batch,
            "jit_compile": bool(getattr(model, "jit_compile", False)),
            "run_eagerly": runs_eagerly(model),
            "precision": _precision(model, policy),
            **({"python_input": True} if self.in_python else {}),
            **({"validates": True} if self.validates else {}),
            **({"prefetches": True} if self.prefetches else {}),
            **({} if self.arguments.get("verbose", "auto") in (1, "auto") else {"quiet": True}),
        }

    def keep_state(self) -> None:
        """Remember all variables, in host memory; the model must have been built."""
        self._initial = self.state()

    def state(self) -> Sequence[tuple[Any, Any]]:
        """Return all variables with their values, in host memory."""
        return [(variable, np.array(variable)) for variable in _variables(self.model)]

    def set_state(self, state: Sequence[tuple[Any, Any]]) -> None:
        """Give variables the values that `state` returned."""
        for variable, value in state:
            variable.assign(value)

    def restore_state(self) -> None:
        """Give all variables the remembered values, so that variants start alike."""
        self.set_state(self._initial)

    def keep_early_weights(self, samples: int) -> None:
        """Remember the weights after so many samples, in host memory."""
        self._early = [(each, np.array(each)) for each in self.model.weights]
        self.early_samples = samples

    def use_early_weights(self) -> None:
        """Give the model the weights of `keep_early_weights`, if any."""
        self.set_state(self._early)


def callbacks_in(arguments: Mapping[str, Any]) -> list[Any]:
    """Return the callbacks among the arguments of a call, as one of Keras' lists or as the script has them."""
    given = arguments.get("callbacks") or ()
    if isinstance(given, tf.keras.callbacks.CallbackList):
        return list(given.callbacks) if type(given) is tf.keras.callbacks.CallbackList else [_as_one(given)]
    return list(tf.nest.flatten(given))


@cache
def _as_one(listed: Any) -> Any:
    """Return a callback that calls the methods of a list of callbacks, whose class is the script's."""

    def passing(name: str) -> Callable[..., None]:
        return lambda one, *given, **named: getattr(one.listed, name)(*given, **named)

    kind = tf.keras.callbacks.Callback
    methods = {name: passing(name) for name in dir(kind) if name.startswith(("on_", "set_"))}
    one = type(type(listed).__name__, (kind,), methods)()
    one.listed = listed
    return one


def brief(arguments: Mapping[str, Any], *, epochs: int, steps: int) -> dict[str, Any]:
    """Return the arguments of a call of fit for so many epochs of so many batches.

    Arrays are sliced: with steps_per_epoch, Keras copies them whole for each epoch, many times over.
    """
    given = {**arguments, "epochs": int(arguments.get("initial_epoch") or 0) + epochs}
    if arguments.get("steps_per_epoch") or not _are_arrays(arguments["x"]):
        return given | {"steps_per_epoch": steps}
    count = steps * (arguments.get("batch_size") or 32)
    names = [name for name in ("x", "y", "sample_weight") if arguments.get(name) is not None]
    return given | {name: tf.nest.map_structure(lambda part: part[:count], arguments[name]) for name in names}


def runs_eagerly(model: Any) -> bool:
    """Return whether Python runs each operation of a model's steps, as the script has asked for."""
    return bool(getattr(model, "run_eagerly", False)) or tf.config.functions_run_eagerly()


def brief_validation(arguments: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return the arguments of a call of fit that validate with so many batches; arrays are sliced."""
    data = arguments["validation_data"]
    if not isinstance(data, (tuple, list)):
        return {"validation_steps": steps}
    count = steps * (arguments.get("validation_batch_size") or arguments.get("batch_size") or 32)
    parts = tf.nest.map_structure(lambda part: None if part is None else part[:count], tuple(data))
    return {"validation_data": parts, "validation_steps": None}


def _are_arrays(x: Any) -> bool:
    return not isinstance(x, (tf.data.Dataset, tf.keras.utils.PyDataset, types.GeneratorType)) and all(
        hasattr(part, "shape") for part in tf.nest.flatten(x)
    )


def _precision(model: Any, policy: str) -> str:
    """Return the policy of most of the model's layers: Sequential and functional models keep the global one."""
    names = [layer.dtype_policy.name for layer in getattr(model, "layers", ()) if layer.weights]
    return max(set(names), key=names.count) if names else policy


def _variables(model: Any) -> list[Any]:
    optimizer = getattr(model, "optimizer", None)
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    found = [*model.variables, *(optimizer.variables if optimizer else ()), *metrics]
    return [
        variable
        for variable in {id(each): each for each in found}.values()
        if "key" not in str(variable.dtype)
    ]


def rows(batch: Any) -> int:
    """Return the number of samples in a batch or in arrays."""
    part = _counted_part(batch, lambda part: getattr(part, "shape", ()))
    if isinstance(part, tf.RaggedTensor):
        return int(part.nrows())
    return int(part.shape[0]) if getattr(part, "shape", ()) else 1


def rows_in_graph(batch: Any) -> tf.Tensor:
    """Return the number of samples in a batch whose size is unknown while it is traced: int32 without dimensions."""
    part = _counted_part(batch, _shape_in_graph)
    if isinstance(part, tf.RaggedTensor):
        return tf.cast(part.nrows(), tf.int32)
    if isinstance(part, tf.SparseTensor):
        return tf.cast(part.dense_shape[0], tf.int32)
    return tf.constant(1) if part.shape.rank == 0 else tf.shape(part)[0]


def _shape_in_graph(part: Any) -> Sequence[int | None]:
    return [None] if part.shape.rank is None else list(part.shape)


def _counted_part(batch: Any, shape: Callable[[Any], Any]) -> Any:
    """Return the part of a batch that has a row for each sample: of its targets, if any.

    An input may have others, such as a number for the whole batch, or the edges of a graph.
    """
    x, y = batch[:2] if isinstance(batch, (tuple, list)) and len(batch) in (2, 3) else (batch, None)
    for given in (y, x):
        parts = [part for part in tf.nest.flatten(given) if part is not None]
        ranked = [part for part in parts if len(shape(part) or ())]
        if ranked:
            known = [part for part in ranked if shape(part)[0] is not None]
            return max(known, key=lambda part: shape(part)[0]) if len(known) == len(ranked) else ranked[0]
    return tf.nest.flatten(batch)[0]


def _pipeline_epoch(dataset: tf.data.Dataset, first_of: Callable[[tf.data.Dataset], Any]) -> Epoch:
    """Return one epoch of a tf.data pipeline of batches; `first_of` reads its first one."""
    count = int(dataset.cardinality())
    batches, endless = count if count > 0 else None, count == tf.data.INFINITE_CARDINALITY
    shape = _counted_part(dataset.element_spec, _shape_in_graph).shape
    if shape.rank and shape[0]:
        return Epoch(shape[0], batches, ends=not endless)
    found = _batching(dataset)
    if found is not None:
        size, samples, drops, shuffled = found
        if drops:
            return Epoch(size, batches, ends=not endless)
        counted = epoch_of(samples, size) if samples > 0 else None
        if counted and (endless or count == counted.batches):
            return Epoch(size, counted.batches, counted.missing, ends=not endless, shuffled=shuffled)
    return Epoch(rows(first_of(dataset)), batches, ends=not endless, exact=False)


def _batching(dataset: Any) -> tuple[int, int, bool, bool] | None:
    """Return batch size, samples before batching (negative if unknown), and whether all are full, and are shuffled."""
    shuffled = False
    while (size := getattr(dataset, "_batch_size", None)) is None:
        shuffled |= class_of(dataset) == "ShuffleDataset"
        inputs = dataset._inputs()
        if len(inputs) != 1:
            return None
        (dataset,) = inputs
    samples = dataset._inputs()[0].cardinality()
    return int(size), int(samples), bool(getattr(dataset, "_drop_remainder", False)), shuffled
