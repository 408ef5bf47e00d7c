"""Run extracts and their comparison: numbers and facts, no sentences.

An Extract is a few kilobytes, so hundreds of runs can be compared. It can be recomputed from its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.analysis import Capability, Caveat, Estimate, Finding, Key, Keyed, StepTime, Value
from harness.model.platform import HealthItem
from harness.model.run import SMOKE


class Section(StrEnum):
    """Categories of facts about a run."""

    MACHINE = "machine"  # MLPerf system description and other host facts
    LIMITS = "limits"  # resource limits of the containers
    GPUS = "GPUs"
    DRIVER = "driver"
    SOFTWARE = "software"
    IMAGES = "images"
    DATA = "data"
    SETTINGS = "settings"  # profile, options and parameters
    WORKLOADS = "workloads"


Facts = Mapping[Section, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed(Keyed):
    """Speed of baseline or tuned on one workload and device in a run.

    Attributes:
        throughput: samples/s of each trial, in order.
        energy_j_per_sample: median, as measured by `energy_source`, or None.
        cost_per_million: cost of a million samples in Extract.currency, or None.
        learned: whether training reached the workload's required accuracy; None if unknown.
        breakdown: where the time of its step goes.
        finding: what limits the workload most on the device.
    """

    throughput: tuple[float, ...]
    batch_size: int
    energy_j_per_sample: float | None = None
    energy_source: str = ""
    cost_per_million: float | None = None
    learned: bool | None = None
    breakdown: StepTime | None = None
    finding: Finding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """Summary of a run for comparisons.

    Attributes:
        label: display name; the run id unless the caller has a better one, such as a node name.
        machine: kind of machine; identical text for machines with the same description.
        facts: values that may differ between two runs, as text.
        caveats: warnings only, no notes.
        health: the checks of the machine that did not pass, failures first.
        images: workload -> its image family.
        probe: the host's rates in the short probe around each trial, as medians, in calls per second; {} if unknown.
        duration_s: total of all trials.
        adaptive: whether trials were repeated until the interval was narrow enough.
        unfinished: whether the run was in progress or was cut short.
        swept: number of sweep points, which `speeds` does not include.
        source: path that the run was read from, or "".
    """

    run_id: str
    label: str
    created: str
    machine: str
    facts: Facts
    speeds: tuple[Speed, ...]
    caveats: tuple[Caveat, ...] = ()
    health: tuple[HealthItem, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)
    probe: Mapping[str, float] = field(default_factory=dict)
    duration_s: float = 0.0
    adaptive: bool = False
    planned: int = 0
    ok: int = 0
    unfinished: bool = False
    swept: int = 0
    currency: str = ""
    source: str = ""

    @property
    def smoke(self) -> bool:
        """Whether this is a smoke run, whose numbers mean nothing."""
        return self.facts.get(Section.SETTINGS, {}).get("profile") == SMOKE


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDevice:
    """A device of a known machine.

    Attributes:
        kind: only values of one kind are compared.
        driver, power_limit_w: of a GPU; "" and None for a CPU.
        values: name of a quantity -> median, in its unit.
        mhz: name of a quantity -> mean SM clock while it was measured.
    """

    kind: str
    driver: str = ""
    power_limit_w: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    mhz: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMachine:
    """What a machine of the past measured, without anything that identifies it.

    Attributes:
        name: its file's name; not in the file.
        date: year, month and day.
        host: model of its CPU and number of its CPUs.
        cloud: provider and type of instance, or "".
        devices: device -> its values; a GPU is named by its position.
    """

    name: str = ""
    date: str
    host: str
    cloud: str = ""
    framework: str = ""
    devices: Mapping[str, KnownDevice]

    def values(self, name: str) -> tuple[Value, ...]:
        """Return the values of a quantity by device, without intervals and units."""
        return tuple(
            Value(name=name, device=device, estimate=Estimate.exact(each.values[name], ""))
            for device, each in self.devices.items()
            if name in each.values
        )


class Outcome(StrEnum):
    """Conclusion from the interval of a speed ratio, by the decision table of docs/compare.md."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    UNDECIDED = "undecided"
    UNKNOWN = "one trial"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Keyed):
    """One workload, device and variant of a run compared with the reference.

    Attributes:
        run: position in Versus.runs.
        speed: samples/s, as in the run's own report.
        ratio: ratio of the medians with a simultaneous 95 % interval over all comparisons; None for the
            reference itself and if the reference has no such speed.
        not_comparable: sections with differences that change what a speed means.
    """

    run: int
    speed: Estimate
    ratio: Estimate | None = None
    outcome: Outcome = Outcome.NOT_COMPARED
    not_comparable: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """A run's score: geometric mean over workloads of its best speed / the reference's best speed."""

    run: int
    score: Estimate
    workloads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field that is known for all runs and differs; one value per run."""

    section: Section
    field: str
    values: tuple[str, ...]
    comparable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """A comparison of runs.

    Attributes:
        runs: with unique labels.
        reference: position in `runs` of the run that ratios and standings are relative to.
        standings: fastest first.
        limit: the smallest relative loss of speed that matters, as a share.
        copies: (position of a run, position of an earlier run with the same recording).
    """

    runs: tuple[Extract, ...]
    reference: int
    results: tuple[Result, ...]
    standings: tuple[RunScore, ...]
    differences: tuple[Difference, ...]
    tests: int
    limit: float
    copies: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A check of all comparisons with a baseline against Versus.limit.

    Attributes:
        failed: slower by at least the limit.
        open: may be slower by the limit.
        missing: (position of a run, key of the baseline that this run lacks).
        is_empty: nothing could be decided: there are no common speeds, or only single trials.
        copied: (position of a run) with the same recording as the baseline.
    """

    failed: tuple[Result, ...]
    open: tuple[Result, ...]
    missing: tuple[tuple[int, Key], ...]
    is_empty: bool
    copied: tuple[int, ...]
