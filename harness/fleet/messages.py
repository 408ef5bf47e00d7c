"""What a fleet is made of: frozen values that travel between the driver and its nodes; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.defaults import FLEET_WAIT_S
from harness.errors import TfbenchError
from harness.model.options import Options
from harness.model.run import Run


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
class FleetPlan:
    """What the nodes are asked to do, and all that a driver must know to go on after another was killed.

    Attributes:
        options: what each node runs.
        files: workload files of the user's own, path -> text.
        command: the command line, for the record.
        address: of the cluster, "auto" for the one that this machine is part of.
        choice: which nodes, see nodes.choose.
        workers: numbers of nodes to train over together, "1,2,4"; "" for each node by itself.
        wait_s: how long a node that others use is waited for.
        nodes: of the cluster, also those that have left since.
        chosen: keys of the nodes that the plan is for.
        commit: of the checkout that the harness comes from.
    """

    options: Options
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    address: str = "auto"
    choice: str = "all"
    workers: str = ""
    wait_s: float = FLEET_WAIT_S
    nodes: tuple[Node, ...] = ()
    chosen: tuple[str, ...] = ()
    commit: str = ""


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


# What a node does now, the run that it has planned, what it wrote, or why it cannot go on.
Message = str | Run | Written | TfbenchError
