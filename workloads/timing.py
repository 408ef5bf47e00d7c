"""Turn a variant's step boundaries into phases and windows: first step, warm-up until settled, measured windows.

The variant only says when a step boundary is reached (`Meter.tick`); all decisions are made here, between
steps, and none of them costs the measured code more than a function call a step.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from workloads.protocol import FIRST_STEP, STEADY, WARM_UP, EventWriter, Spec, measures_speed

# The step time has settled when blocks of this length agree: long enough that one scheduler hiccup (about
# 10 ms) stays within the tolerance.
BLOCK_NS = 200_000_000
SETTLED_BLOCKS = 3
SETTLED_WITHIN = 0.05
# Warm-up lasts for so many calls at least: what an input pipeline has buffered during the first step is used up.
BUFFERED_CALLS = 16
# Where steps are counted, the clock ends a window only when it takes so many times as long as planned: a slow
# model finishes a smoke run in seconds too.
SLOW = 10
# After this many windows of a whole training it is decided whether it will end in time.
JUDGED_WINDOWS = 3

Tick = tuple[int, int, int, int]  # now_ns, steps, samples, wait_ns
Machine = Generator[None, Tick, Any]
# Readings of the clock, in nanoseconds -> the readings that decide.
Agree = Callable[[Sequence[int]], Sequence[int]]


class LossError(ArithmeticError):
    """The loss is not a finite number, so that what is timed is not training."""


def alone_decides(readings: Sequence[int]) -> Sequence[int]:
    """Return the readings as they are, where no other worker takes the same steps."""
    return readings


def settled(blocks: list[float]) -> bool:
    """Return whether the last blocks' step times agree within SETTLED_WITHIN."""
    last = blocks[-SETTLED_BLOCKS:]
    return len(last) == SETTLED_BLOCKS and max(last) <= (1 + SETTLED_WITHIN) * min(last)


@dataclass
class Meter:
    """Measure one variant.

    Attributes:
        spec: window_s, windows, warmup_s, steps.
        events: where windows and phases go.
        synchronise: waits until the devices are idle.
        agree: gives every worker that takes the same steps the same readings, so that all decide the same.
        full: measure windows until `finish` instead of so many, unless that took too long.
        whole_samples: how many samples the whole training has; 0 where that is not known.
        clock: nanoseconds, CLOCK_MONOTONIC.
        steps, samples: how many were dispatched since `begin`.
        step_ns: how long a step took last, nanoseconds.
        loss: set by variants that learn: returns the mean loss of the last steps, and waits for them; None at
            the border of two epochs, where there is none.
        last_loss: the last that it returned.
    """

    variant: str
    _: KW_ONLY
    spec: Spec
    events: EventWriter
    synchronise: Callable[[], None]
    agree: Agree = alone_decides
    full: bool = False
    whole_samples: float = 0.0
    clock: Callable[[], int] = time.monotonic_ns
    steps: int = 0
    samples: int = 0
    step_ns: float = 0.0
    loss: Callable[[], float | None] | None = None
    last_loss: float | None = None
    _machine: Machine | None = None
    _began: int = 0
    _steady: int = 0
    _checked: int = 0
    _first: tuple[int, int] = (0, 0)
    _written: int = 0

    def phase(self, name: str, start_ns: int) -> int:
        """Write that phase `name` ended now, and return now."""
        now = self.clock()
        self.events.write("phase", name=name, variant=self.variant, start_ns=start_ns, end_ns=now)
        return now

    def begin(self) -> None:
        """Start the clock of the first step; call right before what runs it."""
        self._machine = self._life()
        self._began = self.clock()
        next(self._machine)

    def tick(self, steps: int, samples: int, wait_ns: int = -1) -> bool:
        """Report `steps` more dispatched steps of `samples` samples in all; return whether to go on.

        Args:
            wait_ns: how much of the time since the last tick was spent waiting for input; -1 if unseen.

        Raises:
            LossError: at a window's end, when the loss is not finite.
        """
        if self._machine is None:
            return False
        if steps:
            self.steps += steps
            self.samples += samples
            try:
                self._machine.send((self.clock(), steps, samples, wait_ns))
            except StopIteration:
                self._machine = None
        return self._machine is not None

    def finish(self) -> float:
        """End a whole training; return its seconds, first step included."""
        self.synchronise()
        if self._machine is not None:
            self._machine.close()
            self._machine = None
        now = self.phase(STEADY, self._steady) if self._steady else self.clock()
        if self._steady and not self._written and self.steps > self._first[0]:
            # A training shorter than a window is one window.
            steps, samples = self.steps - self._first[0], self.samples - self._first[1]
            self._write_window(0, self._steady, now, steps, samples, -1)
        self._check_loss()
        return (now - self._began) / 1e9

    def _life(self) -> Machine:
        yield from self._first_step()
        index = 0
        if self.full:
            self._steady = self.clock()
            index = yield from self._windows_back_to_back()
            self.full = False
        yield from self._warm_up()
        last = index + self.spec.windows
        while index < last:
            yield from self._window(index)
            index += 1
            (spent,) = self.agree([self.clock() - self._began])
            if self.spec.variant_s and spent >= self.spec.variant_s * 1e9:
                return

    def _first_step(self) -> Machine:
        _, steps, _, _ = yield
        self.synchronise()
        self._first = (self.steps, self.samples)
        (self.step_ns,) = self.agree([(self.phase(FIRST_STEP, self._began) - self._began) // steps])
        self._check_loss()

    def _warm_up(self) -> Machine:
        began = self.clock()
        blocks: list[float] = []
        # Of the last ones, however short: a single step may have found its batch in a buffer.
        recent: deque[tuple[int, int]] = deque(maxlen=SETTLED_BLOCKS)
        calls, called = 1, 0
        while True:
            start = now = self.clock()
            steps = made = 0
            while made < calls and not self._long_enough(now - start, BLOCK_NS):
                now, more, _, _ = yield
                steps += more
                made += 1
            called += made
            self.synchronise()
            now = self.clock()
            elapsed, spent = self.agree([now - start, now - began])
            recent.append((elapsed, steps))
            self.step_ns = sum(took for took, _ in recent) / sum(count for _, count in recent)
            if elapsed >= BLOCK_NS / 2:
                blocks.append(elapsed / steps)
            calls = max(1, min(2 * made, round(BLOCK_NS * made / elapsed)))
            if (settled(blocks) and called >= BUFFERED_CALLS) or spent >= self.spec.warmup_s * 1e9:
                break
        self.phase(WARM_UP, began)
        if not settled(blocks) and not self.spec.steps and measures_speed(self.variant):
            self.events.warning(
                f"{self.variant}: the step time did not settle within {SETTLED_WITHIN:.0%} in "
                f"{self.spec.warmup_s:g} s of warm-up."
            )

    def _long_enough(self, passed_ns: int, length_ns: float) -> bool:
        """Return whether the clock ends a stretch; a device that lags behind only makes it longer."""
        return self.agree is alone_decides and passed_ns >= length_ns * (SLOW if self.spec.steps else 1)

    def _windows_back_to_back(self) -> Machine:
        """Measure until the training is through; return the next window's number if that is not in time."""
        index = 0
        while index != JUDGED_WINDOWS or not self._too_long():
            yield from self._window(index)
            index += 1
        return index

    def _too_long(self) -> bool:
        """Return whether training to the end would take longer than a variant may, and warn if so."""
        passed_s = (self.clock() - self._steady) / 1e9
        whole_s = passed_s * self.whole_samples / self.samples
        alone = self.agree is alone_decides
        if not (alone and self.spec.whole_s and whole_s > self.spec.whole_s):
            return False
        self.events.warning(
            f"{self.variant}: training to the end would take {whole_s / 3600:.3g} h, and a variant may take "
            f"{self.spec.whole_s / 3600:.3g} h: measured in windows instead, training time projected."
        )
        return True

    def _window(self, index: int) -> Machine:
        length_ns = self.spec.window_s * 1e9
        # Counting steps besides watching the clock: an asynchronous device lets the host run ahead, so that
        # the host's clock alone would end the window many steps late.
        target = self.spec.steps or max(1, math.ceil(length_ns / self.step_ns))
        step_ns: list[int] = []
        waited = 0
        self.synchronise()
        start = last = self.clock()
        steps = samples = 0
        while True:
            now, more, more_samples, wait = yield
            step_ns.append((now - last) // more)
            waited = waited + wait if min(waited, wait) >= 0 else -1
            last = now
            steps += more
            samples += more_samples
            if steps < target and not self._long_enough(now - start, length_ns):
                continue
            self.synchronise()
            end = self.clock()
            length, self.step_ns = self.agree([end - start, (end - start) // steps])
            if self.spec.steps or length >= 0.95 * length_ns:
                break
            target = steps + max(1, math.ceil((length_ns - length) / self.step_ns))
        if not self.full:
            self.events.write("phase", name=STEADY, variant=self.variant, start_ns=start, end_ns=end)
        self._write_window(index, start, end, steps, samples, waited)
        self.events.write("steps", variant=self.variant, window=index, step_ns=step_ns)
        self._check_loss()

    def _write_window(self, index: int, start: int, end: int, steps: int, samples: int, waited: int) -> None:
        self._written += 1
        self.events.write(
            "window", variant=self.variant, index=index, start_ns=start, end_ns=end,
            steps=steps, samples=samples, wait_ns=waited,
        )  # fmt: skip

    def _check_loss(self) -> None:
        if self.loss is None or self._checked == self.steps:
            return
        self._checked = self.steps
        loss = self.loss()
        if loss is None:
            return
        self.last_loss = loss
        if not math.isfinite(self.last_loss):
            raise LossError(
                f"The loss is {self.last_loss} after {self.steps} steps of variant {self.variant}; "
                "try a smaller learning rate or precision=fp32."
            )
