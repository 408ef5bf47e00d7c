"""The losses of a script's first steps: a remedy that promises the same training must have them too.

Every process draws the same random numbers, so that a change which does not touch what is computed gives the same
losses but for rounding. It is checked before the first window, when nothing of the remedy has been measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from workloads.driver import keras_model
from workloads.driver.call import Call
from workloads.driver.fitting.operations import draws, kinds_of_step
from workloads.driver.fitting.prefetch import reads_on
from workloads.driver.fitting.reading import depends_on_time
from workloads.driver.own_code.step import own_of_step
from workloads.driver.results import EPOCHS, ROUNDED, STEPS
from workloads.driver.script import ScriptError
from workloads.protocol import visible
from workloads.variants import FIX

# Remedies after which each step computes what it did. The others round otherwise, or draw in another order.
_SAME = frozenset(
    {
        "prefetch",
        "cache",
        "parallel-map",
        "compiled",
        "steps-per-execution",
        "callbacks-per-epoch",
        "no-progress-bar",
    }
)
# Those that only round otherwise. XLA also fills up what has a size that depends on values, which a step may read.
_ROUNDING = frozenset({"xla"})
# Remedies that draw in another order, or leave out a few samples of an epoch.
_REORDERING = frozenset({"many-steps", "loader-threads"})
# Those that compile the step anew.
_COMPILING = frozenset({"compiled", "steps-per-execution"})
# Losses are read after so many steps and epochs, for so long at most, as each waits for the device; and warm-up goes
# on until they are read.
_STEPS, _EPOCHS, _READ_S = 64, 3, 2.0
# What rounding may do to a loss in so few steps on a CPU and on a GPU, and to another metric, which may count samples.
_LOSS_WITHIN, _LOSS_WITHIN_GPU, _METRIC_WITHIN = 5e-4, 5e-3, 5e-2
# What the former is multiplied by where the layers compute with 16 bits, or a remedy rounds otherwise.
_ROUNDED_TIMES = 10
# What is no difference in a loss near zero.
_LEAST = 1e-5
# By what part of its first epoch's loss a later one may differ where the order of samples does, or the baseline from
# itself.
_REORDERED_WITHIN = 0.5
# How many times the baseline's own spread is allowed.
_SPREADS = 4


class UnlikeError(ScriptError):
    """A script with a remedy has other losses than the baseline."""


class Losses:
    """Note the losses of a training, or compare them with the baseline's.

    Args:
        by: as `comparable` returns it.

    Attributes:
        values: by place, such as "epoch 1, step 10: loss".
    """

    def __init__(
        self, call: Call, baseline: Sequence[Mapping[str, float]] = (), *, gpu: bool, by: str = ""
    ) -> None:
        self.values: dict[str, float] = {}
        self._model = call.model
        self._baseline = baseline
        rounded = by == ROUNDED or "16" in str(getattr(call.model, "compute_dtype", ""))
        self._within = (_LOSS_WITHIN_GPU if gpu else _LOSS_WITHIN) * (_ROUNDED_TIMES if rounded else 1)
        self._by_epochs = self._apart = by == EPOCHS
        self._steps = self._epochs = 0
        self._ends_s = math.inf

    @property
    def wanted(self) -> bool:
        """Whether there are more to read."""
        read = (self._by_epochs or self._steps >= _STEPS) and self._epochs >= _EPOCHS
        return not read and time.monotonic() < self._ends_s

    def step(self, epoch: int, steps: int) -> None:
        """Read the mean loss of an epoch's first steps.

        Raises:
            UnlikeError: it is not the baseline's.
        """
        if not self._steps:
            self._ends_s = time.monotonic() + _READ_S
        if self._steps >= _STEPS or not self.wanted:
            return
        self._steps += 1
        loss = None if self._by_epochs else keras_model.running_loss(self._model)
        if loss is not None:
            self._take(f"epoch {epoch + 1}, step {steps}: loss", loss)

    def epoch(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Take what Keras has computed at the end of an epoch.

        Raises:
            UnlikeError: it is not the baseline's.
        """
        self._epochs += 1
        for name, value in logs.items() if self._epochs <= _EPOCHS else ():
            if isinstance(value, (int, float)) and len(self.values) < 4 * _STEPS:
                self._take(f"epoch {epoch + 1}: {visible(name)}", float(value))

    def _take(self, place: str, value: float) -> None:
        if not math.isfinite(value):
            return
        self.values[place] = value
        known = [each[place] for each in self._baseline if place in each]
        # A place that one of several readings has come to tells nothing of how much they differ there.
        if not known or len(known) < min(len(self._baseline), 2):
            return
        low, high = min(known), max(known)
        if high - low > self._allowed(place, low, high):
            self._apart = True  # rounding has grown, and goes on to
        allowed = max(self._allowed(place, low, high), _SPREADS * (high - low))
        if not low - allowed <= value <= high + allowed:
            raise UnlikeError(
                f"It would train differently: {place} {value:.5g}; the script's is {known[0]:.5g}."
            )

    def _allowed(self, place: str, low: float, high: float) -> float:
        """Return by how much a value may differ from the baseline's; infinite if it is not compared."""
        is_loss = place.endswith("loss")
        if self._apart:
            first = self._baseline[0].get(f"epoch 1: {place.partition(': ')[2]}", math.inf)
            return max(_REORDERED_WITHIN * abs(first), _LEAST) if is_loss else math.inf
        within = self._within if is_loss else _METRIC_WITHIN
        return max(within * max(abs(low), abs(high)), _LEAST if is_loss else _METRIC_WITHIN)


def comparable(fixes: Collection[str], call: Call) -> str:
    """Return by what a script with these remedies must have the baseline's losses: STEPS, ROUNDED, EPOCHS or ""."""
    names = {FIX.argument(each) for each in fixes}
    if not names or not names <= _SAME | _ROUNDING | _REORDERING or not call.trains:
        return ""
    if names & _REORDERING or not _draws_the_same(names, call):
        return EPOCHS
    return ROUNDED if names & _ROUNDING else STEPS


def _draws_the_same(names: Collection[str], call: Call) -> bool:
    """Return whether a script with these remedies draws the same random numbers, in the same order."""
    # Where a pipeline reads on from, and what it gives when, is another in each reading.
    if reads_on(call) or depends_on_time(call):
        return False
    if _COMPILING.intersection(names) and own_of_step(call) and draws(kinds_of_step(call)):
        return False
    # XLA draws other numbers from the same seed.
    by_xla = "xla" in names or ("compiled" in names and call.model.jit_compile)
    return not (by_xla and draws(kinds_of_step(call), stateless=True))
