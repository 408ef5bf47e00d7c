"""What a fleet is made of: frozen values that travel between the driver and its nodes; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from harness.defaults import FLEET_WAIT_S
from harness.model.run import Manifest, PlannedTrial
from workloads.protocol import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the cluster.

    Attributes:
        key: its name, and that of its run folder: unique, and fit for a path.
        node_id: Ray's, new whenever the node is started again.
        address: IP address by which other nodes reach it.
        resources: what Ray may schedule there ("CPU", "GPU", ...).
        labels: Ray's and the user's own.
        kind: what makes two nodes comparable: GPUs, CPU, memory, instance type; "" where it could not be asked.
        machine: the boot id of the machine that it runs on: nodes with the same one share their CPUs.
        cpus: how many that machine has; 0 where it could not be asked.
    """

    key: str
    node_id: str
    address: str
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""
    machine: str = ""
    cpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a node is asked to do.

    Attributes:
        options: the document of harness.model.options.Options.
        files: workload files of the user's own, path -> text.
        seed: what is needed of the run so far, path below its folder -> content; empty to begin a new one.
        commit: of the checkout that the harness came from.
        command: the driver's command line.
        wait_s: how long to wait while another run measures on the machine.
    """

    options: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    seed: Mapping[str, bytes] = field(default_factory=dict)
    commit: str = ""
    command: str = ""
    wait_s: float = FLEET_WAIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """How far the node is: what it does, and trials done of those it surely runs."""

    label: str
    note: str = ""
    done: float = 0.0
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The run is planned: what RunFolder.create takes."""

    manifest: Manifest
    workloads: tuple[Workload, ...]
    planned: tuple[PlannedTrial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A trial has ended, or the plan is through.

    Attributes:
        folder: of the trial, below the run folder; "" for the run folder itself.
        files: path below `folder` -> content.
        note: what there is to say about the trial.
    """

    folder: str
    files: Mapping[str, bytes]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The node cannot do it, or is gone: what happened, and what to try."""

    message: str
    hint: str


Message = Heartbeat | Begun | Written | Failed


class State(StrEnum):
    """Where one run of a fleet stands."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Board(Protocol):
    """Where the driver shows how far every run is."""

    def show(self, name: str, state: State, *, heartbeat: Heartbeat | None = None, note: str = "") -> None:
        """Show the state of the run in folder `name`; `note` is a sentence that stays."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for beside the plan itself.

    Attributes:
        address: of the cluster, "auto" for the one that this machine is part of.
        nodes: see nodes.choose.
        wait_s: how long a node that others use is waited for.
        command: the command line, for the record.
        workers: numbers of nodes to train over together, "1,2,4"; "" for each node by itself.
    """

    address: str = "auto"
    nodes: str = "all"
    wait_s: float = FLEET_WAIT_S
    command: str = ""
    workers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """All that the driver must know to go on after it was killed.

    Attributes:
        nodes: of the cluster, also those that have left since.
        chosen: keys of the nodes that the plan is for.
        files: as in Order.
    """

    created: str
    tfbench_version: str
    commit: str
    request: Request
    options: Mapping[str, Any]
    nodes: tuple[Node, ...]
    chosen: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
