"""The only module that uses Ray: join a cluster, ask its nodes what they are, and run the plan on them.

A node's work is one Ray task pinned to it. It asks for all CPUs and GPUs that Ray may give away
there, so that nothing else of the cluster runs beside a measurement, and streams its messages back. A task
ends with the driver: Ray kills it, its containers' standard input closes, and they end too.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.defaults import FLEET_DESCRIBE_S
from harness.errors import FleetError, TfbenchError
from harness.fleet.messages import FleetPlan, Message, Node, Written
from harness.fleet.nodes import node_keys
from harness.fleet.training_worker import TrainingWorker
from harness.fleet.worker import describe, work
from harness.model.run import Run

START = (
    "Check `ray status` on the cluster's head. Start one with `ray start --head` there and "
    "`ray start --address=HOST:6379` on each node; see docs/fleet.md and examples/cloud/."
)
LOCKED = (
    "Something listens there but refuses this machine. A cluster with token authentication "
    "(Ray turns it on where the head has ~/.ray/auth_token) needs RAY_AUTH_MODE=token here, and the head's "
    "token in ~/.ray/auth_token or RAY_AUTH_TOKEN. Otherwise the cluster has another version of "
    "Ray or Python, or a firewall passes only the first port."
)
# Folders of a checkout that nodes need, and what in them stays here.
PARTS = ("harness", "workloads", "images")
LEFT_OUT = ("/images/context", "__pycache__")
CONNECT_S = 5.0
CLOSE_S = 10.0
LOOK_S = 0.5
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@contextmanager
def connected(address: str, checkout: Path) -> Iterator[Cluster]:
    """Join the cluster at `address` as a driver, with the harness' own code on its way to every node.

    Raises:
        FleetError: Ray is not installed, no cluster answers, or it is of another version.
    """
    # Ray is an extra, and importing it takes longer than all of tfbench.
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise FleetError("Ray is not installed.", hint="Install it: pip install tfbench[fleet]") from error
    _check_listening(address)
    others = [f"/{path.name}" for path in checkout.iterdir() if path.name not in PARTS]
    try:
        ray.init(
            address=address,
            runtime_env={"working_dir": str(checkout), "excludes": [*others, *LEFT_OUT]},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        if "Could not find" in str(error):
            raise FleetError("No Ray cluster runs on this machine.", hint=START) from error
        reason = f"The Ray cluster at {address!r} refuses this machine: {_first(error)}"
        raise FleetError(reason, hint=LOCKED) from error
    # Ray 2.60 prints pages of a dead node's log into --json, and has no other way to keep it from that.
    with suppress(AttributeError):
        ray._private.worker._worker_logs_enabled = False
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Make sure that something listens at the cluster's head: Ray itself waits minutes for one that is gone.

    Raises:
        FleetError: nothing does, or what does is of another kind.
    """
    if address == "auto":
        return
    if address.startswith("ray://"):
        raise FleetError(
            f"{address} is the address of a Ray client server, which cannot stream trials.",
            hint="Run tfbench on a node of the cluster, e.g. by `ray job submit` or `ray attach`.",
        )
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_S):
            pass
    except (OSError, ValueError) as error:
        raise FleetError(
            f"No Ray cluster answers at {address}: {error}.", hint=f"Check host and port. {START}"
        ) from error


class Cluster:
    """A cluster that this process has joined.

    Args:
        ray: the package.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def survey(self, *, cloud: bool) -> tuple[tuple[Node, ...], Mapping[str, TfbenchError]]:
        """Return the nodes that are alive and offer CPUs, in the order of keys, and why some cannot be used.

        Args:
            cloud: whether nodes may ask their cloud's metadata service.
        """
        nodes = alive(self._ray.nodes())
        end_s = time.monotonic() + FLEET_DESCRIBE_S
        remote = self._ray.remote(describe)
        answers = [
            remote.options(num_cpus=0, max_retries=0, scheduling_strategy=_pinned(node)).remote(node, cloud)
            for node in nodes
        ]
        described: list[Node] = []
        failed: dict[str, TfbenchError] = {}
        for node, answer in zip(nodes, answers, strict=True):
            try:
                described.append(self._ray.get(answer, timeout=max(0.0, end_s - time.monotonic())))
            except self._ray.exceptions.RayError as error:
                described.append(node)
                failed[node.key] = _failed(error)
        return tuple(described), failed

    def run_plan(
        self, plan: FleetPlan, seeds: Sequence[tuple[Node, Mapping[str, bytes]]]
    ) -> Generator[tuple[str, Message]]:
        """Run the plan on nodes, all at once; yield what they report as (node's key, message).

        A node that other work of the cluster holds for longer than the plan waits counts as failed. Closing the
        iterator ends what still runs.

        Args:
            seeds: each node with what it needs of its run so far.
        """
        remote = self._ray.remote(work)
        streams = {
            remote.options(
                num_returns="streaming", max_retries=0, name=f"tfbench {node.key}", **_all_of(node)
            ).remote(plan, seed): node.key
            for node, seed in seeds
        }
        silent = set(streams.values())
        end_s = time.monotonic() + plan.wait_s
        try:
            while streams:
                ready, _ = self._ray.wait(list(streams), timeout=LOOK_S, fetch_local=False)
                for stream in ready:
                    key = streams.pop(stream)
                    silent.discard(key)
                    try:
                        message = self._ray.get(next(stream))
                    except StopIteration:
                        continue
                    except self._ray.exceptions.RayError as error:
                        yield key, _failed(error)
                        continue
                    # At the end: `wait` names the first one that is ready.
                    streams[stream] = key
                    yield key, message
                if silent and time.monotonic() > end_s:
                    for stream in [stream for stream, key in streams.items() if key in silent]:
                        self._cancel(stream)
                        yield streams.pop(stream), _held(plan.wait_s)
                    silent.clear()
        finally:
            for stream in streams:
                self._cancel(stream)

    def team(self, nodes: Sequence[Node], plan: FleetPlan) -> Team:
        """Return workers on these nodes that train together."""
        return Team(self._ray, nodes, plan)

    def _cancel(self, stream: Any) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.cancel(stream, force=True)


class Team:
    """Workers that train together: a Ray actor on each node, which has all of it.

    Args:
        ray: the package.
        nodes: those to place them on.
        plan: what to prepare.
    """

    def __init__(self, ray: Any, nodes: Sequence[Node], plan: FleetPlan) -> None:
        self._ray = ray
        self._nodes = tuple(nodes)
        self._wait_s = plan.wait_s
        machines = [node.machine for node in nodes]
        remote = ray.remote(TrainingWorker)
        self._workers = [
            remote.options(**_all_of(node)).remote(
                plan, node.address, first=node.machine not in machines[:number]
            )
            for number, node in enumerate(nodes)
        ]

    def prepare(self) -> Run:
        """Make every worker ready at once; return the run that the first one has planned.

        Raises:
            FleetError: one is held by others or cannot do it; the message names its node.
        """
        answers = [worker.free_port.remote() for worker in self._workers]
        ready, _ = self._ray.wait(answers, num_returns=len(answers), timeout=self._wait_s)
        for node, answer in zip(self._nodes, answers, strict=True):
            if answer not in ready:
                raise _error(node, _held(self._wait_s))
        planned: Run = self._all([worker.prepare.remote() for worker in self._workers])[0]
        return planned

    def run(self, trial_id: str, workers: int) -> Sequence[Written]:
        """Have the first `workers` of them run a trial together; return what each recorded.

        Raises:
            FleetError: a node is gone, or refuses.
        """
        chosen = self._workers[:workers]
        addresses = self._all([worker.free_port.remote() for worker in chosen])
        return self._all([worker.run.remote(trial_id, addresses, rank) for rank, worker in enumerate(chosen)])

    def close(self) -> None:
        """End all workers."""
        with suppress(self._ray.exceptions.RayError):
            self._ray.get([worker.close.remote() for worker in self._workers], timeout=CLOSE_S)
        for worker in self._workers:
            self._ray.kill(worker)

    def _all(self, answers: Sequence[Any]) -> list[Any]:
        result = []
        for node, answer in zip(self._nodes, answers, strict=False):
            try:
                result.append(self._ray.get(answer))
            except self._ray.exceptions.RayError as error:
                raise _error(node, _failed(error)) from error
        return result


def alive(raylets: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Return the nodes that Ray lists, in the order of keys, but for those that are dead or can run nothing.

    A head that offers no CPUs, as KubeRay's, cannot even be asked.
    """
    chosen = [
        raylet
        for raylet in raylets
        if raylet["Alive"] and (raylet["Resources"].get("CPU") or raylet["Resources"].get("GPU"))
    ]
    nodes = [
        Node(
            key=key,
            node_id=raylet["NodeID"],
            address=raylet["NodeManagerAddress"],
            resources=dict(raylet["Resources"]),
            labels=dict(raylet.get("Labels") or {}),
        )
        for key, raylet in zip(node_keys(chosen), chosen, strict=True)
    ]
    return tuple(sorted(nodes, key=lambda node: node.key))


def _all_of(node: Node) -> dict[str, Any]:
    """Return the options by which a task or an actor runs on a node and has all of it."""
    cpus, gpus = (node.resources.get(name, 0) for name in ("CPU", "GPU"))
    return {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": _pinned(node)}


def _pinned(node: Node) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - as above

    return NodeAffinitySchedulingStrategy(node_id=node.node_id, soft=False)


def _error(node: Node, error: TfbenchError) -> FleetError:
    return FleetError(f"Node {node.key}: {error.message}", hint=error.hint)


def _held(wait_s: float) -> FleetError:
    return FleetError(
        f"it did not start within {wait_s:g} s: other work in the cluster holds its CPUs.",
        hint="See `ray status`, or raise --wait.",
    )


def _failed(error: BaseException) -> TfbenchError:
    """Say what an error of Ray's, whose text runs to pages, means for a node."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, TfbenchError):
        return cause
    if cause is not None:
        # Ray wraps a failed import in the text of its traceback.
        last = str(cause).strip().rpartition("\n")[2] or type(cause).__name__
        hint = "Its Python needs tfbench[fleet], installed from fleet.lock; then see `tfbench doctor` there."
        return FleetError(f"{last.rstrip('.')}.", hint=hint)
    return FleetError(_first(error), hint="Check `ray status` and Ray's logs on that node.")


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return _SENTENCE_END.split(lines[0])[0] if lines else type(error).__name__
