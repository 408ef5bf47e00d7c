"""Turn a variant's step boundaries into phases (first step, warm-up) and measured windows.

The variant only reports step boundaries (`Meter.tick`); all decisions are made here between steps, at the
cost of one function call per step.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from statistics import median
from typing import Any

from workloads.protocol import FIRST_STEP, STEADY, WARM_UP, EventWriter, Spec

# The step time has settled if blocks of this length agree; long enough that a scheduling delay (about 10 ms)
# stays within the tolerance. Brief readings, which are repeated, are content with half of it.
BLOCK_NS = 200_000_000
SETTLED_BLOCKS = 3
SETTLED_WITHIN = 0.05
# Minimum calls in warm-up, which use up batches buffered during the first step.
BUFFERED_CALLS = 16
# How long warm-up may go on for what else needs steps before the windows.
LONGEST_WAIT_NS = 2_000_000_000
# And for steps that are compiled for some more sizes of a batch.
LONGEST_COMPILING_NS = 30_000_000_000
# Windows of a fixed number of steps end early after this many times their planned length, so that slow models
# finish a smoke run in seconds too.
MAX_STRETCH = 10
# XLA compiles for each size of a batch. A training has this many, because the last batch is short; for more, compiling
# is part of the speed.
COMPILED_SIZES = 2
# A whole training is checked against its time limit after this many windows.
PROJECTION_WINDOWS = 3

Tick = tuple[int, int, int, int]  # now_ns, steps, samples, wait_ns
Machine = Generator[None, Tick, Any]


class LossError(ArithmeticError):
    """The loss is not finite, so the measured steps are not valid training."""


def settled(blocks: list[float]) -> bool:
    """Return whether the step times of the last blocks agree within SETTLED_WITHIN."""
    last = blocks[-SETTLED_BLOCKS:]
    return len(last) == SETTLED_BLOCKS and max(last) <= (1 + SETTLED_WITHIN) * min(last)


# A step that takes so many times as long as most, and this share of a window, is a long one; a window that waits for
# the next takes so many times its length at most.
_LONG, _LONG_SHARE, _MOST_ALIGNED = 20, 0.05, 2


class UsualStep:
    """How long most steps take, to tell what one of them does beyond that.

    Args:
        most: number of steps that trace or compile whose excess is left out; with more, it is part of the speed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._compiled = 0
        self._lengths_ns: deque[int] = deque(maxlen=64)

    def note(self, length_ns: int) -> None:
        """Take a step as one of most."""
        self._lengths_ns.append(length_ns)

    def beyond_ns(self, length_ns: int) -> int:
        """Return by how much a step is longer than most; 0 if there are no others."""
        return max(0, round(length_ns - median(self._lengths_ns))) if self._lengths_ns else 0

    def compiled_ns(self, length_ns: int) -> int:
        """Return what to leave out of a step that traces or compiles."""
        self._compiled += 1
        return self.beyond_ns(length_ns) if self._compiled <= self._most else 0


class Rhythm:
    """Find the few steps that are much longer than most, such as one in a hundred that saves the model.

    Args:
        least_ns: shorter ones do not count.

    Attributes:
        seen: whether there was one.
    """

    def __init__(self, least_ns: float) -> None:
        self._least_ns = least_ns
        self._lengths_ns: deque[int] = deque(maxlen=64)
        self.seen = False

    def is_long(self, length_ns: int) -> bool:
        """Take the next step; return whether it is a long one."""
        longer = bool(self._lengths_ns) and length_ns > _LONG * median(self._lengths_ns)
        if longer and length_ns > self._least_ns:
            self.seen = True
            return True
        self._lengths_ns.append(length_ns)
        return False


@dataclass
class Meter:
    """Measure one variant.

    Attributes:
        spec: window_s, windows, warmup_s, steps.
        events: receives windows and phases.
        synchronise: waits until the devices are idle.
        brief: whether to settle faster, and not to warn of a step time that does not.
        full: measure windows until `finish`, unless the projected time is too long.
        whole_samples: samples of the whole training; 0 if unknown.
        clock: CLOCK_MONOTONIC in nanoseconds.
        steps, samples: number dispatched since `begin`.
        step_ns: most recent step time, nanoseconds.
        loss: set by training variants; returns the mean loss of the last steps after waiting for them, or
            None right after an epoch ends.
        written: number of windows written.
        warm: whether windows are measured; before that, reading a loss delays nothing.
        waits: set by training variants; returns how long a warm-up must go on at most, nanoseconds since it began.
    """

    variant: str
    _: KW_ONLY
    spec: Spec
    events: EventWriter
    synchronise: Callable[[], None]
    brief: bool = False
    full: bool = False
    whole_samples: float = 0.0
    clock: Callable[[], int] = time.monotonic_ns
    steps: int = 0
    samples: int = 0
    step_ns: float = 0.0
    loss: Callable[[], float | None] | None = None
    written: int = 0
    warm: bool = False
    waits: Callable[[], int] = int
    _machine: Machine | None = None
    _began: int = 0
    _compiled: int = 0
    _steady: int = 0
    _checked: int = 0
    _finite: int = 0  # samples after which the loss was a number
    _stopped: bool | None = None  # whether the loss is a number where the script would end its training
    _first: tuple[int, int] = (0, 0)
    _paused: int = 0
    _rhythm: Rhythm = field(default_factory=lambda: Rhythm(math.inf))

    def phase(self, name: str, start_ns: int) -> int:
        """Write that phase `name` ends now; return the current time."""
        now = self.clock()
        self.events.write("phase", name=name, variant=self.variant, start_ns=start_ns, end_ns=now)
        return now

    def begin(self) -> None:
        """Start timing the first step; call immediately before running it."""
        self._machine = self._life()
        self._began = self.clock()
        next(self._machine)

    def tick(self, steps: int, samples: int, wait_ns: int = -1) -> bool:
        """Report `steps` dispatched steps with `samples` samples in total; return whether to continue.

        Args:
            wait_ns: time spent waiting for input since the last tick; -1 if unknown.

        Raises:
            LossError: at the end of a window, if the loss is not finite.
        """
        if self._machine is None:
            return False
        if steps:
            self.steps += steps
            self.samples += samples
            if 0 < self.whole_samples <= self.samples and self._finite < self.whole_samples:
                # What comes after the script's own last step may have no loss.
                began = self.clock()
                self._check_loss()
                self.pause(self.clock() - began)
            try:
                self._machine.send((self.clock(), steps, samples, wait_ns))
            except StopIteration:
                self._machine = None
        return self._machine is not None

    def pause(self, length_ns: int) -> None:
        """Leave time since the last tick, such as an end of an epoch, out of the window or block in progress."""
        self._paused += max(0, length_ns)

    def _take_pause(self) -> int:
        paused, self._paused = self._paused, 0
        return paused

    @property
    def going(self) -> bool:
        """Whether steps are still being measured."""
        return self.full or self._machine is not None

    def finish(self) -> float:
        """End a whole training; return its duration in seconds, including the first step."""
        self.synchronise()
        if self._machine is not None:
            self._machine.close()
            self._machine = None
        now = self.phase(STEADY, self._steady) if self._steady else self.clock()
        if self._steady and not self.written and self.steps > self._first[0]:
            # A training shorter than one window becomes one window.
            steps, samples = self.steps - self._first[0], self.samples - self._first[1]
            self._write_window(0, self._steady, now, steps, samples, -1)
        self._check_loss()
        return (now - self._began) / 1e9

    def _life(self) -> Machine:
        yield from self._first_step()
        index = 0
        if self.full:
            self.warm = True
            self._steady = self.clock()
            index = yield from self._windows_back_to_back()
            self.full = False
        yield from self._warm_up()
        self.warm = True
        last = index + self.spec.windows
        while index < last:
            yield from self._window(index)
            index += 1
            spent = self.clock() - self._compiled
            if self.spec.variant_s and spent >= self.spec.variant_s * 1e9:
                return

    def _first_step(self) -> Machine:
        _, steps, _, _ = yield
        self._take_pause()
        self.synchronise()
        self._first = (self.steps, self.samples)
        self._compiled = self.phase(FIRST_STEP, self._began)
        self.step_ns = (self._compiled - self._began) // steps
        self._check_loss()

    def _warm_up(self) -> Machine:
        began = last = self.clock()
        window_ns, after_long = self.spec.window_s * 1e9, False
        if not self.spec.steps:
            self._rhythm = Rhythm(_LONG_SHARE * window_ns)
        blocks: list[float] = []
        # (time, steps) of the last blocks, because a single step may have used a buffered batch.
        recent: deque[tuple[int, int]] = deque(maxlen=SETTLED_BLOCKS)
        calls, total_calls, block_ns = 1, 0, BLOCK_NS // 2 if self.brief else BLOCK_NS
        while True:
            start = now = self.clock()
            steps = block_calls = 0
            while block_calls < calls and not self._long_enough(now - start, block_ns):
                now, more, _, _ = yield
                paused = self._take_pause()
                start, last = start + paused, last + paused
                after_long = self._rhythm.is_long((now - last) // more)
                last = now
                steps += more
                block_calls += 1
            total_calls += block_calls
            self.synchronise()
            now = last = self.clock()
            elapsed, spent = now - start, now - began
            recent.append((elapsed, steps))
            self.step_ns = sum(block_ns for block_ns, _ in recent) / sum(count for _, count in recent)
            if elapsed >= block_ns / 2:
                blocks.append(elapsed / steps)
            calls = max(1, min(2 * block_calls, round(block_ns * block_calls / elapsed)))
            over = (settled(blocks) and total_calls >= BUFFERED_CALLS) or spent >= self.spec.warmup_s * 1e9
            # Windows begin and end after long steps, so that they have their share of these.
            aligned = after_long or not self._rhythm.seen or spent > self.spec.warmup_s * 1e9 + window_ns
            if over and aligned and spent > self.waits():
                break
        self.phase(WARM_UP, began)
        if not (settled(blocks) or self.spec.steps or self.brief):
            self.events.warning(
                f"{self.variant}: the step time did not settle within {SETTLED_WITHIN:.0%} in "
                f"{self.spec.warmup_s:g} s of warm-up."
            )

    def _long_enough(self, passed_ns: int, length_ns: float) -> bool:
        """Return whether a block or window has reached its length, by the host's clock."""
        return passed_ns >= length_ns * (MAX_STRETCH if self.spec.steps else 1)

    def _windows_back_to_back(self) -> Machine:
        """Measure windows until training ends; return the next index if it would exceed the time limit."""
        index = 0
        while index != PROJECTION_WINDOWS or not self._too_long():
            yield from self._window(index)
            index += 1
        return index

    def _too_long(self) -> bool:
        """Return whether the whole training would exceed the time limit, and warn if so."""
        passed_s = (self.clock() - self._steady) / 1e9
        whole_s = passed_s * self.whole_samples / self.samples
        if not (self.spec.whole_s and whole_s > self.spec.whole_s):
            return False
        self.events.warning(
            f"{self.variant}: the whole training would take {whole_s / 3600:.3g} h; the limit is "
            f"{self.spec.whole_s / 3600:.3g} h. Measured in windows instead; training time is projected."
        )
        return True

    def _window(self, index: int) -> Machine:
        length_ns = self.spec.window_s * 1e9
        # Steps are counted as well, because with an asynchronous device the host runs ahead and its clock
        # alone would end the window many steps late.
        target = self.spec.steps or max(1, math.ceil(length_ns / self.step_ns))
        step_ns: list[int] = []
        waited = 0
        self.synchronise()
        start = last = self.clock()
        steps = samples = 0
        while True:
            now, more, more_samples, wait = yield
            paused = self._take_pause()
            # The window begins later by the pause, so that its length is that of its steps.
            start, last = start + paused, last + paused
            step_ns.append((now - last) // more)
            after_long = self._rhythm.is_long(step_ns[-1])
            waited = waited + wait if min(waited, wait) >= 0 else -1
            last = now
            steps += more
            samples += more_samples
            if steps < target and not self._long_enough(now - start, length_ns):
                continue
            # By steps too, because the host's clock runs ahead of an asynchronous device.
            short = now - start < _MOST_ALIGNED * length_ns and steps < _MOST_ALIGNED * target
            if self._rhythm.seen and not after_long and short:
                continue
            self.synchronise()
            end = self.clock()
            length, self.step_ns = end - start, (end - start) // steps
            if self.spec.steps or length >= 0.95 * length_ns:
                break
            target = steps + max(1, math.ceil((length_ns - length) / self.step_ns))
        if not self.full:
            self.events.write("phase", name=STEADY, variant=self.variant, start_ns=start, end_ns=end)
        self._write_window(index, start, end, steps, samples, waited)
        self.events.write("steps", variant=self.variant, window=index, step_ns=step_ns)
        self._check_loss()

    def _write_window(self, index: int, start: int, end: int, steps: int, samples: int, waited: int) -> None:
        self.written += 1
        self.events.write(
            "window", variant=self.variant, index=index, start_ns=start, end_ns=end,
            steps=steps, samples=samples, wait_ns=waited,
        )  # fmt: skip

    def stopped(self) -> None:
        """Take it that the script would end its training here: if its loss is a number, later ones may be none."""
        if not self._stopped:
            loss = self.loss() if self.loss else None
            self._stopped = loss is None or math.isfinite(loss)

    def _check_loss(self) -> None:
        if self.loss is None or self._checked == self.steps:
            return
        self._checked = self.steps
        loss = self.loss()
        if loss is None:
            return
        if math.isfinite(loss):
            self._finite = self.samples
            return
        after = f"The loss is {loss} after {self.steps} step{'' if self.steps == 1 else 's'} of variant {self.variant}"
        if self._stopped or 0 < self.whole_samples <= self._finite:
            # Measuring goes on longer, and what the script's callbacks change may add up.
            self.events.warning(f"{after}, which trains longer here than in the script.")
            self.loss = None
            return
        raise LossError(
            f"{after}; try a smaller learning rate, float32 instead of half precision, or data without NaN."
            + (
                " If the script stops it for that, as a search for a learning rate does, and trains again, choose that "
                "training with --call."
                if self._stopped is False
                else ""
            )
        )


def drive(meter: Meter, call: Callable[[], Any], *, steps: int, samples: int) -> None:
    """Call repeatedly until the meter stops; what a call returns has a `numpy` that waits for the device."""
    meter.begin()
    pending, going = None, True
    while going:
        result = call()
        # At most one call ahead of the device, which keeps it busy and windows accurate.
        if pending is not None:
            pending.numpy()
        pending = result
        going = meter.tick(steps, samples, 0)


class Completions:
    """Track when results complete, with at most one pending.

    With an asynchronous device the host runs ahead, so that the device may still be busy while the host waits
    for a batch. A thread waits for each result, because completion cannot be observed otherwise.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "completions")
        self._last: Future[int] | None = None

    def close(self) -> None:
        """Wait for the last result and stop the thread."""
        self._thread.shutdown()

    def follow(self, result: Any) -> None:
        """Track a result that has `numpy()`; block until all earlier ones are done.

        Raises:
            Exception: any error of an earlier result.
        """
        earlier, self._last = self._last, self._thread.submit(_done_ns, result)
        if earlier is not None:
            earlier.result()

    def idle_ns(self, start_ns: int, end_ns: int) -> int:
        """Return how long the device was idle during a wait for input, with all tracked results done."""
        if self._last is None or not self._last.done():
            return 0
        return max(0, end_ns - max(start_ns, self._last.result()))


def _done_ns(result: Any) -> int:
    result.numpy()
    return time.monotonic_ns()
