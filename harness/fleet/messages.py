"""What a fleet is made of: frozen values that travel between the driver and its nodes; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.defaults import FLEET_WAIT_S
from harness.model.run import Manifest, PlannedTrial
from harness.system.disk_space import Disk
from workloads.protocol import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a node says of itself before anything runs on it.

    Attributes:
        versions: "python", "ray", "tfbench" ("" where none is installed) and "code", the digest of the
            harness that it would run.
        missing: packages that the harness needs and the node's Python lacks.
        boot_id: tells machines apart: two nodes with the same one share their CPUs.
        kind: what makes two nodes comparable: GPUs, CPU, memory, instance type.
        engine: the container engine that answers, "" for none, and why.
        images: targets ("cpu", "cuda") whose image is built already.
        cache_disk: where the node keeps its cache: wheels, data, the local engine's environments.
        image_disk: where its engine keeps images; None without one.
        gpus: names of the GPUs.
        wall_s: its wall clock as it answered, seconds since the epoch; 0 where it did not say.
    """

    versions: Mapping[str, str]
    missing: tuple[str, ...] = ()
    boot_id: str = ""
    kind: str = ""
    engine: str = ""
    engine_problem: str = ""
    images: tuple[str, ...] = ()
    cache_disk: Disk | None = None
    image_disk: Disk | None = None
    gpus: tuple[str, ...] = ()
    cpus: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster.

    Attributes:
        key: its name in the fleet folder: unique, and fit for a path.
        node_id: Ray's, new whenever the node is started again.
        address: IP address by which other nodes reach it.
        resources: what Ray may schedule there ("CPU", "GPU", ...).
        labels: Ray's and the user's own.
        facts: None where it could not be asked.
        clock_offset_s: its wall clock less the driver's, seconds; None where unknown.
    """

    key: str
    node_id: str
    address: str
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    facts: Facts | None = None
    clock_offset_s: float | None = None

    @property
    def kind(self) -> str:
        """What it is comparable to; "" where it could not be asked."""
        return self.facts.kind if self.facts else ""

    @property
    def machine(self) -> str:
        """The machine that it runs on, which other nodes may share."""
        return self.facts.boot_id if self.facts and self.facts.boot_id else self.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with one node: `fatal` keeps it out, anything else is said and it takes part."""

    node: str
    message: str
    hint: str
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one node is asked to do.

    Attributes:
        options: the document of harness.model.options.Options.
        files: workload files of the user's own, name -> text.
        only: ids of the trials to run, None for the whole plan.
        seed: archive of the run folder so far, b"" to begin a new one.
        commit: of the checkout that the harness came from.
        command: the driver's command line.
        heartbeat_s: least time between two reports of progress.
    """

    options: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] | None = None
    seed: bytes = b""
    commit: str = ""
    command: str = ""
    heartbeat_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The node has begun with its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """How far the node is: what it does, and trials done of those it surely runs."""

    label: str
    note: str
    done: float
    total: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The run is planned: what RunFolder.create takes."""

    manifest: Manifest
    workloads: tuple[Workload, ...]
    planned: tuple[PlannedTrial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDone:
    """One trial has ended; `archive` is its whole folder."""

    trial_id: str
    status: str
    message: str
    archive: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The plan is through; `stops` is the text of stops.json, `brief` the run in brief, "" where it has none.

    Analysing a run takes half a second: with each node doing its own, the page over hundreds takes seconds.
    """

    stops: str
    brief: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The node cannot do it; exit_code is that of the error in `tfbench bench`."""

    message: str
    hint: str
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The node, or the process on it, is gone."""

    message: str


Message = Started | Heartbeat | Begun | TrialDone | Done | Failed | Lost


class State(StrEnum):
    """Where one task stands."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # the node said why
    LOST = "lost"  # the node is gone
    MISSING = "missing"  # and nobody else can do it


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One plan for one node.

    Attributes:
        folder: name of its run folder in the fleet folder.
        node: key of the node that does it.
        kind: of that node, so that another one of the kind may be found when it is gone.
        instead_of: folder of the task whose rest this is, "" for none.
        only: ids of the trials, None for the whole plan.
    """

    folder: str
    node: str
    kind: str
    instead_of: str = ""
    only: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal: what became of a task, and when (seconds since the epoch)."""

    t_s: float
    task: Task
    state: State
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for beside the plan itself.

    Attributes:
        address: of the cluster, "auto" for the one that this machine is part of.
        nodes: see nodes.choose.
        retry: hand the rest of a lost node's plan to another one of its kind.
        wait_s: how long a node that others use is waited for.
        command: the command line, for the record.
        workers: numbers of nodes to train over together, "1,2,4"; "" for each node by itself.
    """

    address: str = "auto"
    nodes: str = "all"
    retry: bool = True
    wait_s: float = FLEET_WAIT_S
    command: str = ""
    workers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """All that the driver must know to go on after it was killed."""

    fleet_id: str
    created: str
    tfbench_version: str
    commit: str
    request: Request
    options: Mapping[str, Any]
    nodes: tuple[Node, ...]
    chosen: tuple[str, ...]
    problems: tuple[Problem, ...]
    files: Mapping[str, str] = field(default_factory=dict)
