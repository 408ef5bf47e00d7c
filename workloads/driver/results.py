"""What a trial has measured so far, as its events say: the first process and its children decide by it."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads.driver.endings import Did, Ending
from workloads.protocol import (
    BETWEEN_EPOCHS,
    CALLBACKS,
    EPOCH_CALLBACK_PREFIX,
    FILLING,
    FIRST_STEP,
    SAMPLES_TRAINED,
    read_events,
)
from workloads.readings import Timing, Window, between_epochs_s, gains, mean_gain, overlaps, timing
from workloads.variants import BASELINE, CUSTOM_LOOP, Kind, has_any, standing_for

# By what a script with remedies must have the baseline's losses: of single steps, as they are or rounded otherwise, or
# of epochs.
STEPS, ROUNDED, EPOCHS = "steps", "rounded", "epochs"


class Results:
    """Events of a trial, added in order.

    Attributes:
        begun: the variant whose reading began last; "" if none has.
        params: the parameters of the baseline's call; sites: where remedies change it and its compile.
        left_out, needless: variants that have no reading, with the reason.
        unlike: variants whose losses were not those of the baseline's only reading, with both.
        errors: the types of error events.
        scripts: variants whose script is written.
        facts: whether the facts of the framework are known.
        alike: variant with remedies -> by what its losses must be the baseline's.
        losses: those of the baseline's first steps, by place, of each reading.
        endings: variant -> what its script did after the measured call, in each shortened run.
        first_step_s: variant -> seconds of its longest first step, which compiles.
    """

    def __init__(self) -> None:
        self.begun = ""
        self.params: Mapping[str, Any] = {}
        self.sites: Sequence[Sequence[tuple[int, int]]] = ()
        self.left_out: dict[str, str] = {}
        self.needless: dict[str, str] = {}
        self.errors: list[str] = []
        self.scripts: set[str] = set()
        self.facts = False
        self.losses: list[Mapping[str, float]] = []
        self.alike: dict[str, str] = {}
        self.unlike: dict[str, str] = {}
        self.endings: dict[str, list[Ending]] = {}
        self.first_step_s: dict[str, float] = {}
        self._windows: dict[str, list[list[Window]]] = {}
        self._stops: list[tuple[int, int]] = []
        # Variant -> from and to, of its windows and series of requests.
        self._times: dict[str, list[tuple[int, int]]] = {}
        self._metrics: dict[str, dict[str, list[float]]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add the next event."""
        variant = str(event.get("variant", ""))
        self._add_measured(event, variant)
        match event["kind"]:
            case "call" if variant == BASELINE:
                self.sites = [[(line, column) for line, column in chain] for chain in event["sites"]]
            case "variant" if variant == BASELINE:
                self.params = event["params"]
            case "alike":
                self.alike[variant] = event["by"]
            case "losses":
                self.losses.append(event["values"])
            case "left-out" | "needless" | "unlike" as kind:
                reasons = {"left-out": self.left_out, "needless": self.needless, "unlike": self.unlike}
                reasons[kind][variant] = event["reason"]
            case "ending":
                fields = {name: value for name, value in event.items() if name not in ("kind", "variant")}
                calls = [Did(**each) for each in event["calls"]]
                self.endings.setdefault(variant, []).append(Ending(**{**fields, "calls": calls}))
            case "judged" if event["reason"]:
                self.left_out[variant] = event["reason"]
                for each in [each for each in self._windows if has_any([each], [variant])]:
                    del self._windows[each]
            case "error":
                self.errors.append(event["type"])
            case "script":
                self.scripts.add(variant)
            case "facts":
                self.facts = True

    def _add_measured(self, event: Mapping[str, Any], variant: str) -> None:
        if event["kind"] in ("window", "requests"):
            self._times.setdefault(variant, []).append((event["start_ns"], event["end_ns"]))
        match event["kind"]:
            case "reading":
                self.begun = variant
                self._windows.setdefault(variant, []).append([])
            case "window":
                readings = self._windows.setdefault(variant, [[]])
                fields = {name: value for name, value in event.items() if name != "kind"}
                readings[-1].append(Window(**fields, reading=len(readings) - 1))
            case "stopped":
                self._stops.append((event["start_ns"], event["end_ns"]))
            case "metric":
                self._metrics.setdefault(event["name"], {}).setdefault(variant, []).append(event["value"])
            case "phase" if event["name"] == FIRST_STEP:
                took_s = (event["end_ns"] - event["start_ns"]) / 1e9
                self.first_step_s[variant] = max(took_s, self.first_step_s.get(variant, 0.0))

    def metric(self, variant: str, name: str) -> float | None:
        """Return the last value of a metric; None without one."""
        values = self._metrics.get(name, {}).get(variant)
        return values[-1] if values else None

    def filling_share(self) -> float:
        """Return the share of the baseline's step in which it waits for a shuffle buffer to be filled."""
        return (self.metric(CUSTOM_LOOP, FILLING) or 0.0) / (self.step_s(BASELINE) or math.inf)

    def has(self, variant: str, prefix: str) -> bool:
        """Return whether a variant has a metric whose name begins so."""
        return any(name.startswith(prefix) and variant in values for name, values in self._metrics.items())

    def timings(self, variant: str) -> list[Timing]:
        """Return the times of each reading of a variant that has windows."""
        between_s = between_epochs_s(self._metrics.get(BETWEEN_EPOCHS, {}), variant)
        whole = (
            [each for each in windows if not overlaps(each.start_ns, each.end_ns, self._stops)]
            for windows in self._windows.get(variant, ())
        )
        found = (timing(windows, between_s) for windows in whole)
        return [each for each in found if each is not None]

    def step_s(self, variant: str) -> float:
        """Return the seconds per step of a variant's last reading; 0 without one."""
        found = self.timings(variant)
        return found[-1].step_s if found else 0.0

    def steps_s(self, kind: Kind) -> dict[str, float]:
        """Return the seconds per step of the variants of a kind."""
        return {name: step for name in kind.among(self._windows) if (step := self.step_s(name))}

    def gain(self, variant: str) -> float:
        """Return how many times as fast a variant is as the baseline around it in time; 0 if it has no reading."""
        readings, references = (
            [(each.at_ns, each.sample_s) for each in self.timings(name)] for name in (variant, BASELINE)
        )
        return mean_gain(gains(readings, references))

    def read(self, variant: str) -> int:
        """Return how many readings a variant has."""
        return len(self.timings(variant))

    def begun_count(self, variant: str) -> int:
        """Return how many readings of a variant have begun."""
        return len(self._windows.get(variant, ()))

    def call_cut_short(self) -> bool:
        """Return whether the baseline's only reading has begun a call of fit and not come to its end."""
        trains = bool(self.sites) and not self.params.get("new_tokens")
        return trains and self.begun_count(BASELINE) == 1 and self.metric(BASELINE, SAMPLES_TRAINED) is None

    def disturbed(self, variant: str) -> bool:
        """Return whether processes stood still while a variant was measured."""
        return any(overlaps(*each, self._stops) for each in self._times.get(variant, ()))

    def settled(self, variant: str) -> bool:
        """Return whether a variant was measured, or has a reason why not."""
        measured = self.read(variant) > 0 or variant in standing_for((*self._windows, *self._metrics))
        return measured or variant in self.left_out or variant in self.needless

    @property
    def wait_share(self) -> float | None:
        """The share of the custom loop's time spent waiting for input; None before it has run."""
        found = self.timings(CUSTOM_LOOP)
        return found[-1].wait_share if found else None

    @property
    def eager(self) -> bool:
        """Whether the baseline runs eagerly."""
        return self.params.get("run_eagerly") is True

    @property
    def callbacks(self) -> bool:
        """Whether the script has callbacks that take time."""
        return self.metric(BASELINE, CALLBACKS) is not None or self.has(BASELINE, EPOCH_CALLBACK_PREFIX)


class ResultsFile:
    """Results of an event file that grows.

    Attributes:
        results: of the events that were read.
    """

    def __init__(self, path: Path) -> None:
        self.results = Results()
        self._path = path
        self._offset = 0

    def size(self) -> int:
        """Return the file's size in bytes."""
        return self._path.stat().st_size

    def read(self) -> Results:
        """Add the events written since the last call; drop a line that was cut short by the end of its process."""
        with self._path.open("r+b") as file:
            file.seek(self._offset)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._offset += len(whole)
            if len(whole) < len(content):
                file.truncate(self._offset)
        for event in read_events(io.StringIO(whole.decode("utf-8"))):
            self.results.add(event)
        return self.results
