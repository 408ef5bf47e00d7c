"""Take what a script trains with: its calls of Keras, or the steps of its own loop that it marks.

The steps of a loop of the script's own end at comments `# tfbench: step BATCH_SIZE`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import mmap
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import getpid
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call, brief
from workloads.driver.job import Job
from workloads.driver.processes import End
from workloads.driver.script import ScriptError, may_train
from workloads.driver.sites import remember_compile
from workloads.driver.timing import UsualStep
from workloads.protocol import BUILD, KERAS, MARK

FIT, PREDICT, EVALUATE = tf.keras.Model.fit, tf.keras.Model.predict, tf.keras.Model.evaluate
# Keras asks whether a model has another compile than this class.
_COMPILES = next(each for each in tf.keras.Model.__mro__ if "compile" in vars(each))
_COMPILE = _COMPILES.compile
_APPLY = tf.keras.optimizers.Optimizer.apply
_MARK = re.compile(rf"^(?P<code>.*?){MARK.pattern}(?P<samples>.+?)\s*$", re.MULTILINE)
_NAME = "_tfbench_step"
MOST_SAMPLES = 10**7
# Steps in which a training traces functions for the first time: for a last batch that is short, and then for batches of
# any size. Where more trace, that is their speed.
_MOST_TRACED = 2


@dataclass(kw_only=True)
class Interception:
    """Hands the wanted call to `take` in the script's own frame, and what follows it to `evaluate`.

    Attributes:
        number: which call of fit is wanted, from 1; earlier ones train for one step.
        predicts: whether a call of predict is wanted instead.
        first: whether the first call of predict or evaluate is wanted if the script does not seem to train.
        replicas: devices that share a batch.
        take: measures a call; its result is returned to the script.
        evaluate: measures accuracy with the arguments of the script's evaluate; None to end the process instead.
        rest: makes the calls that the script makes after it, of a method of Keras; None to end the process there.
        end: ends the process.
        call: the wanted call, once the script has made it.
        other: the first call of predict or evaluate before it, for scripts that do not train.
        trained: whether the script has trained outside of fit.
        fits: calls of fit before the one that is measured, or of all.
    """

    number: int
    predicts: bool
    first: bool
    replicas: int
    take: Callable[[Call], Any]
    evaluate: Callable[[Call, dict[str, Any]], None] | None
    rest: Callable[[Callable[..., Any], Any, dict[str, Any]], Any] | None
    end: End
    call: Call | None = None
    other: Call | None = None
    trained: bool = False
    _process: int = field(init=False, default_factory=getpid)
    _busy: threading.Lock = field(init=False, default_factory=threading.Lock)
    fits: int = field(init=False, default=0)
    # Shared with the processes that the script forks.
    _forked: mmap.mmap = field(init=False, default_factory=functools.partial(mmap.mmap, -1, 1))

    @property
    def forked(self) -> bool:
        """Whether a process that the script has forked has made a call."""
        return self._forked[0] > 0

    @contextmanager
    def active(self) -> Iterator[None]:
        """Intercept calls inside the block."""
        keras = tf.keras.Model
        keras.fit = self._replacing(FIT, self._fit)
        keras.predict = self._replacing(PREDICT, self._predict)
        keras.evaluate = self._replacing(EVALUATE, self._evaluated)
        tf.keras.optimizers.Optimizer.apply = self._noticing(_APPLY)
        _COMPILES.compile = _remembered
        try:
            yield
        finally:
            keras.fit, keras.predict, keras.evaluate = FIT, PREDICT, EVALUATE
            tf.keras.optimizers.Optimizer.apply = _APPLY
            _COMPILES.compile = _COMPILE

    def _replacing(self, original: Callable[..., Any], take: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def method(model: Any, *args: Any, **named: Any) -> Any:
            if getpid() != self._process:
                self._forked[0] = 1
                return original(model, *args, **named)
            # Keras' fit calls evaluate.
            if not self._busy.acquire(blocking=False):
                return original(model, *args, **named)
            try:
                try:
                    bound = signature.bind(model, *args, **named)
                except TypeError:
                    return original(model, *args, **named)  # Keras names its method
                bound.apply_defaults()
                arguments = dict(list(bound.arguments.items())[1:])
                others = arguments.pop("kwargs", {})
                return take(model, {**arguments, **others})
            finally:
                self._busy.release()

        return method

    def _noticing(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def method(*args: Any, **named: Any) -> Any:
            self.trained |= not self._busy.locked()
            return apply(*args, **named)

        return method

    def _fit(self, model: Any, arguments: dict[str, Any]) -> Any:
        if self.call is not None:
            return self.rest(FIT, model, arguments) if self.rest else self.end()
        self.fits += 1
        if self.predicts or self.fits < self.number:
            return FIT(model, **brief(arguments, epochs=1, steps=1))
        return self._take(Call(model, arguments, self.replicas))

    def _predict(self, model: Any, arguments: dict[str, Any]) -> Any:
        if self.call is not None:
            return self.rest(PREDICT, model, arguments) if self.rest else self.end()
        call = Call(model, arguments)
        if self.predicts or self._only_infers():
            return self._take(call)
        self.other = self.other or call
        return PREDICT(model, **arguments)

    def _only_infers(self) -> bool:
        # Asked once: what names training stays imported.
        return self.first and self.other is None and not may_train()

    def _evaluated(self, model: Any, arguments: dict[str, Any]) -> Any:
        if self.call is None:
            call = Call(model, arguments)
            if self._only_infers():
                return self._take(call)
            self.other = self.other or call
            return EVALUATE(model, **arguments)
        if self.rest:
            result = self.rest(EVALUATE, model, arguments)
        if model is self.call.model and self.evaluate is not None:
            self.evaluate(self.call, arguments)
        return result if self.rest else self.end()

    def _take(self, call: Call) -> Any:
        for name, usual in KERAS.items():
            if (value := os.environ.get(name, usual)) != usual:
                raise ScriptError(
                    f"The script sets {name}={value}, but Keras 3 is measured on TensorFlow. Leave it out."
                )
        self.call = call
        result = self.take(call)
        return result if self.rest or self.evaluate is not None else self.end()


@functools.wraps(_COMPILE)
def _remembered(model: Any, *args: Any, **named: Any) -> None:
    remember_compile(model)
    _COMPILE(model, *args, **named)


def _marked(mark: re.Match[str]) -> str:
    try:
        strange = any(
            isinstance(node, ast.BitXor) for node in ast.walk(ast.parse(mark["samples"], mode="eval"))
        )
    except (SyntaxError, ValueError):
        strange = True
    if strange:
        raise ScriptError(
            f"`# tfbench: step {mark['samples'][:80]}`: give the number of samples, such as 32 or BATCH_SIZE; "
            "powers are **."
        )
    code = mark["code"].rstrip()
    if code.endswith(":"):
        raise ScriptError(f"`# tfbench: step {mark['samples']}` follows a colon: give it a line of its own.")
    return f"{code}; {_NAME}({mark['samples']})" if code else f"{mark['code']}{_NAME}({mark['samples']})"


class MarkedSteps:
    """Time steps that a script marks; only its throughput is known.

    Args:
        prove: checks that work runs on the devices.
        end: ends the process.
        rehearse: called at the first of them, which are not timed then; None to time them.
    """

    def __init__(
        self, job: Job, prove: Callable[[], None], end: End, rehearse: Callable[[], None] | None
    ) -> None:
        self._rehearse = rehearse
        self._job = job
        self._prove = prove
        self._end = end
        self._began_ns = self._last_ns = job.meter.clock()
        self._usual = UsualStep(_MOST_TRACED)
        self._traces = False
        self.done = False

    @contextmanager
    def active(self) -> Iterator[None]:
        """Note in which steps TensorFlow traces functions inside the block."""
        graphs = tf.__internal__.FuncGraph
        original = graphs.__init__

        @functools.wraps(original)
        def make(graph: Any, *args: Any, **named: Any) -> None:
            self._traces = True
            original(graph, *args, **named)

        graphs.__init__ = make
        try:
            yield
        finally:
            graphs.__init__ = original

    def inserted(self, text: str) -> str:
        """Return a script with a call in place of each mark; lines keep their numbers."""
        return _MARK.sub(_marked, text)

    def names(self) -> Mapping[str, Callable[[int], None]]:
        """Return the names to define in the script."""
        return {_NAME: self._step}

    def _step(self, samples: int) -> None:
        meter = self._job.meter
        given, samples = samples, int(samples)
        if not 0 < samples <= MOST_SAMPLES:
            raise ScriptError(
                f"`# tfbench: step {str(given)[:80]}`: a step has one sample or more, and at most {MOST_SAMPLES:,}."
            )
        if not tf.executing_eagerly() and tf.compat.v1.executing_eagerly_outside_functions():
            raise ScriptError(
                "Steps are marked in a tf.function, whose Python runs while it is traced: put the comment into the "
                "loop that calls it, with the samples of all its steps."
            )
        if not tf.executing_eagerly():
            raise ScriptError(
                "Steps are marked in a session of TensorFlow 1, which cannot be timed: train with fit, or in a loop of "
                "TensorFlow 2."
            )
        if self._rehearse:
            if not self.done:
                self.done = True
                self._rehearse()
            return
        if not self.done:
            self.done = True
            self._prove()
            meter.phase(BUILD, self._began_ns)
            params = {"batch_size": samples}
            self._job.events.write("variant", variant=self._job.variant, params=params, changes=[])
            # The first step lies before the first mark.
            meter.begin()
            self._next()
            return
        length_ns = meter.clock() - self._last_ns
        if not self._traces:
            self._usual.note(length_ns)
        else:
            meter.pause(self._usual.compiled_ns(length_ns))
        if not meter.tick(1, samples):
            self._end()
        self._next()

    def _next(self) -> None:
        self._last_ns, self._traces = self._job.meter.clock(), False
