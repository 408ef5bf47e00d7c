"""Run a script to its end, shortened, and note what it does after its measured call.

Each fit, evaluate and predict stops after a few steps. What is noted is compared in workloads/driver/endings.py.
"""

from __future__ import annotations

import math
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from os import _exit, getpid  # by names of their own: scripts replace functions of os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import script
from workloads.driver.call import Call, callbacks_in
from workloads.driver.clocks import let_clocks_run
from workloads.driver.endings import Did, Ending
from workloads.driver.fitting import kept, misfit_later, misfit_program
from workloads.driver.interception import EVALUATE, FIT, PREDICT
from workloads.driver.job import Job, call_late
from workloads.driver.keras_model import iterations
from workloads.driver.own_code.children import STARTING
from workloads.driver.processes import End
from workloads.driver.sites import caller
from workloads.protocol import STEPS_PER_CALL, visible
from workloads.variants import BASELINE, FIX

# A call stops after so many steps, or fewer that take this long at the baseline's speed; a training after so many
# epochs. Calls of several steps are not tried where they would take longer.
_STEPS, _CALL_S, _EPOCHS = 100, 3.0, 2
# So long a script may take from its measured call to its end.
_LONGEST_S = 30.0
# How much faster clocks go in the second run of the script as written, and how many bytes more it uses: what it says of
# time and memory differs then. And what is kept there, so that sets of objects have another order.
_FASTER, _MORE_BYTES = 3, 64 << 20
_KEPT: list[bytes] = []
# Of output and of each of so many files, so many bytes and lines of so many characters are compared.
_FILES, _BYTES, _LINES, _CHARACTERS = 50, 1 << 20, 200, 200
# A digest, and what a script has of its own source, which is another with any remedy.
_DIGEST = re.compile(
    r"(?<![0-9a-zA-Z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,128}(?![0-9a-zA-Z])"
    r"|(?<![0-9a-zA-Z.])\d{7,128}(?![0-9a-zA-Z]|\.\d)"  # without a letter by chance
)
_OWN_SOURCE = re.compile(r"\b(__file__|getsource\w*)\b")
_MODEL = re.compile(r"\.(keras|h5|hdf5|pb)$|\.data-\d")
_METHODS: Mapping[Any, str] = {FIT: "fit", EVALUATE: "evaluate", PREDICT: "predict"}
_KINDS: Mapping[Any, str] = {FIT: "train", EVALUATE: "test", PREDICT: "predict"}


class Rehearsal:
    """A shortened run of a whole script.

    Args:
        job: of the script.
        end: ends the process.
    """

    def __init__(self, job: Job, end: End) -> None:
        self._job = job
        self._end = end
        self._calls: list[Did] = []
        self._before: set[str] = set()  # names of files
        self._output = -1
        self._even, self._times = True, 1
        self._ended = threading.Lock()
        self._caller: threading.Thread | None = None  # once its call has returned
        self._process = getpid()
        self._measured: Call | None = None
        self._reads_source = _OWN_SOURCE.search(job.spec.scripts[BASELINE].text) is not None
        self._kept: dict[str, Any] = {}  # kind of a step -> what remedies keep of it from the last call on
        step_s = job.results.step_s(BASELINE) or _CALL_S / _STEPS
        steps = min(_STEPS, int(_CALL_S / step_s))
        per_call = STEPS_PER_CALL[job.spec.device]
        self._steps = max(2, steps // per_call * per_call or steps)

    def take(self, call: Call) -> Any:
        """Run the measured call, shortened, and begin to note what follows."""
        self.begin()
        method = FIT if call.trains else EVALUATE if call.evaluates else PREDICT
        self._measured, self._times = call, call.steps_per_batch
        result = self._run(method, call.model, call.arguments, call.place, times=call.steps_per_batch)
        self._caller = threading.current_thread()
        return result

    def over(self) -> bool:
        """Return whether what follows the measured call has ended, in the thread that made it."""
        caller = self._caller
        return caller is not None and (caller is threading.current_thread() or not caller.is_alive())

    def begin(self) -> None:
        """Begin to note what the script does; a loop of its own, whose steps it marks, is not shortened."""
        self._before = {*_files()}
        if len(self._job.results.endings.get(BASELINE, ())) == 1 and self._job.variant == BASELINE:
            _disturb()
        _flush()
        self._output = os.memfd_create("output")
        os.dup2(self._output, 1)
        os._exit = self._exits  # type: ignore[assignment]
        sys.addaudithook(self._audit)
        call_late(self._job.spec, _LONGEST_S, self._late)

    def follow(self, method: Callable[..., Any], model: Any, arguments: Mapping[str, Any]) -> Any:
        """Run a later call of Keras, shortened; end the process if the remedy would change it."""
        if reason := self._misfit(method, model, arguments):
            self._refuse(f"For a later call, at {caller()}: {reason}")
        return self._run(method, model, arguments, caller())

    def _audit(self, event: str, arguments: Any) -> None:
        """Follow Python's events: end the process if the remedy would change what a program does that is started."""
        del arguments
        if event in STARTING and getpid() == self._process and self._remedies:
            made = [name for name, _ in self._made()]
            reasons = (misfit_program(each, made) for each in self._remedies)
            if reason := next(filter(None, reasons), ""):
                self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        with self._ended:
            self._job.events.write("judged", variant=self._job.variant, reason=reason)
            self._leave()

    @property
    def _remedies(self) -> list[str]:
        """The names of the remedies that the script runs with."""
        return FIX.argument(self._job.variant).split("+") if FIX.has(self._job.variant) else []

    def _misfit(self, method: Any, model: Any, arguments: Mapping[str, Any]) -> str:
        """Return why remedies do not fit a later call; "" if they do."""
        of_model = self._measured is not None and model is self._measured.model
        kind = _KINDS[method]
        # Keras keeps a step that it has compiled until the model is compiled anew.
        keeps = of_model and getattr(model, f"{kind}_function", None) is not None
        if keeps and kind in self._kept and self._keeping(kind) != self._kept[kind]:
            return "The script has changed what the step's Python reads, and reads once."
        if arguments.get("x") is None or not self._remedies:
            return ""
        with suppress(Exception):  # it fails where Keras runs it, too
            call = Call(model, arguments)
            call.script = self._job.spec.scripts[BASELINE].text
            reasons = (misfit_later(each, call, of_model=of_model) for each in self._remedies)
            return next(filter(None, reasons), "")
        return ""

    def _keeping(self, kind: str) -> list[Any]:
        """Return what remedies keep of a step of the measured model, as it would be by now."""
        call = self._measured
        return [] if call is None else [kept(each, call, kind) for each in self._remedies]

    def ended(self, error: BaseException | None = None) -> None:
        """Write what the script did, once it has ended; end the process."""
        self._write(script.named(error) if error else "")

    def _exits(self, code: int) -> None:
        if getpid() != self._process:
            _exit(code)
        self._write(f"os._exit({code})")

    def _late(self) -> None:
        self._write(whole=False)

    def _write(self, error: str = "", *, whole: bool = True) -> None:
        with self._ended:  # for good: the process ends
            found = self._made()
            names = self._compared([visible(name) for name, _ in found])
            made = dict(zip(names, (path for _, path in found), strict=True))
            ending = Ending(
                calls=self._calls,
                printed=self._printed(),
                files={name: self._compared(_lines_of(path)) for name, path in made.items()},
                sizes={name: path.stat().st_size for name, path in made.items() if _has_size(path)},
                error=error,
                whole=whole,
                even=self._even,
                times=self._times,
            )
            self._job.events.write("ending", variant=self._job.variant, **asdict(ending))
            self._leave()

    def _leave(self) -> None:
        os._exit = _exit
        self._end()

    def _run(
        self, method: Any, model: Any, arguments: Mapping[str, Any], place: str, *, times: int = 1
    ) -> Any:
        """Run a call that trains `times` steps where Keras knows of one."""
        given = {**arguments, "verbose": 0}
        shortened = _Shortened(self._steps, times)
        given["callbacks"] = [*callbacks_in(given), shortened]
        self._even &= self._steps % (int(getattr(model, "steps_per_execution", 1)) * times) == 0
        before = iterations(model)
        result = method(model, **given)
        values, form = _values(method, model, result)
        if method is FIT:
            values = {"steps": iterations(model) - before} | values
            shortened.lengthen_history()
        if self._measured is not None and model is self._measured.model:
            validated = ["test"] if method is FIT and given.get("validation_data") is not None else []
            self._kept |= {kind: self._keeping(kind) for kind in (_KINDS[method], *validated)}
        self._calls.append(Did(name=_METHODS[method], place=place, form=form, values=values))
        return result

    def _printed(self) -> list[str]:
        _flush()
        content = os.pread(self._output, _BYTES, 0) if self._output >= 0 else b""
        return self._compared(_lines(content.decode("utf-8", "replace")))

    def _compared(self, lines: list[str]) -> list[str]:
        """Return lines without digests, if the script may make them of its own source."""
        return [_DIGEST.sub("", line) for line in lines] if self._reads_source else lines

    def _made(self) -> list[tuple[str, Path]]:
        """Return the files that the script has made since its measured call, by name."""
        return [each for each in sorted(_files().items()) if each[0] not in self._before][:_FILES]


class _Shortened(tf.keras.callbacks.Callback):
    """Stops a call after some steps, of which it trains `times` where Keras knows of one."""

    def __init__(self, steps: int, times: int) -> None:
        super().__init__()
        self._steps, self._times = steps, times
        self._epochs = self._left = 0
        self._stopped = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._epochs += 1
        if self._epochs >= _EPOCHS:
            self._stop()
        if self._stopped:
            self._left = (self.params.get("epochs") or 0) - epoch - 1

    def _stop(self) -> None:
        """Stop the training, if the script's own callbacks have not."""
        self._stopped |= not self.model.stop_training
        self.model.stop_training = True

    def lengthen_history(self) -> None:
        """Repeat what the last epoch logged for those left out, as scripts take it by the number of an epoch."""
        history = self.model.history
        for values in [*history.history.values(), history.epoch]:
            if len(values) == self._epochs:
                values.extend([values[-1]] * self._left)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._enough(batch, self._times):
            self._stop()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._enough(batch):
            self.model.stop_evaluating = True

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._enough(batch):
            self.model.stop_predicting = True

    def _enough(self, batch: int, times: int = 1) -> bool:
        # The last call of several steps in an epoch is counted as a whole one.
        whole = (self.params.get("steps") or math.inf) * times
        return (batch + 1) * times >= self._steps and whole > self._steps


def _flush() -> None:
    with suppress(AttributeError, OSError, ValueError):  # scripts replace it, by None too
        sys.stdout.flush()


def _values(method: Any, model: Any, result: Any) -> tuple[dict[str, float], str]:
    """Return the numbers that a call returned, and the shapes of its results."""
    if method is FIT:
        last = {name: values[-1] for name, values in model.history.history.items() if values}
        return _finite(last), ""
    if method is EVALUATE:
        if isinstance(result, Mapping):
            return _finite(result), ""
        first, *others = np.ravel(result)
        return _finite({"loss": first} | {f"metric {n}": each for n, each in enumerate(others, 1)}), ""
    parts = [np.asarray(each) for each in tf.nest.flatten(result)]
    numbers: dict[str, float] = {}
    for number, part in enumerate(parts):
        if part.size and np.issubdtype(part.dtype, np.number):
            content = part.astype(np.float64)
            numbers |= {f"mean {number}": content.mean(), f"deviation {number}": content.std()}
    return _finite(numbers), ", ".join(str(part.shape) for part in parts)


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among values that events can have."""
    found = {}
    for name, value in values.items():
        with suppress(TypeError, ValueError):
            if math.isfinite(float(value)):
                found[visible(str(name))] = float(value)
    return found


def _files() -> dict[str, Path]:
    """Return the files in the script's folders by their names there."""
    return {
        str(Path(top, name).relative_to(folder)): Path(top, name)
        for folder in script.folders()
        for top, _, names in os.walk(folder)
        for name in names
    }


def _has_size(path: Path) -> bool:
    """Return whether the size of a file tells of its content; models may be saved in other types, which they name."""
    return path.is_file() and not _MODEL.search(path.name)


def _lines_of(path: Path) -> list[str]:
    """Return the lines of a small text file, what an array in a file amounts to, or nothing of another file."""
    with suppress(OSError, ValueError, EOFError):
        if path.suffix in (".npy", ".npz"):
            content = np.load(path, mmap_mode="r")
            arrays = (
                {"": content} if isinstance(content, np.ndarray) else {n: content[n] for n in content.files}
            )
            return [f"{name} {array.dtype} {_numbers_of(array)}" for name, array in arrays.items()]
        if path.is_file() and path.stat().st_size <= _BYTES:
            return _lines(path.read_bytes().decode("utf-8"))
    return []


def _numbers_of(array: np.ndarray[Any, Any]) -> str:
    """Return what two arrays of the same content have in common."""
    if not array.size or not np.issubdtype(array.dtype, np.number):
        return f"{array.shape}"
    first = array.flat[0]
    return f"{array.shape} from {first:.6g}, mean {array.mean():.6g}, deviation {array.std():.6g}"


def _lines(text: str) -> list[str]:
    # What is hidden would not be found once it is cut.
    return [line[:_CHARACTERS] for line in visible(text).splitlines()[:_LINES] if line.strip()]


def _disturb() -> None:
    """Let the clocks of Python go faster from now on, objects have other addresses, and the process be larger."""
    _KEPT.append(b"1" * _MORE_BYTES)
    _KEPT.extend(bytes(size) for size in range(1, 480, 8) for _ in range(size % 3 * 2 + 1))
    let_clocks_run(_FASTER)
