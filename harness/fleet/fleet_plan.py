"""Data classes exchanged between the driver and its nodes."""

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
        key: unique name, also of its run folder.
        node_id: Ray's id; changes when the node is restarted.
        address: IP address for other nodes.
        resources: resources that Ray schedules ("CPU", "GPU", ...).
        labels: labels set by Ray and by the user.
        kind: GPUs, CPU, memory and instance type, which make nodes comparable; "" if unknown.
        machine: boot id of its machine; nodes with the same boot id share CPUs.
        cpus: number of CPUs of its machine; 0 if unknown.
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
    """The plan for all nodes, and everything a driver needs to resume it.

    Attributes:
        options: what each node runs.
        files: the user's workload files, path -> text.
        command: command line to record.
        address: address of the cluster, "auto" for that of this machine.
        choice: selection of nodes, see nodes.choose.
        workers: node counts for multi-node training, e.g. "1,2,4"; "" to run on each node separately.
        wait_s: how long to wait for busy nodes.
        nodes: all nodes of the cluster, including those that have left.
        chosen: keys of the selected nodes.
        commit: commit of the driver's checkout.
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
    """Files of a finished trial, or of a finished plan.

    Attributes:
        folder: the trial's folder below the run folder; "" for the run folder itself.
        files: path below `folder` -> content.
        note: message about the trial.
    """

    folder: str
    files: Mapping[str, bytes]
    note: str = ""


# Progress text, the planned run, written files, or an error.
Message = str | Run | Written | TfbenchError
