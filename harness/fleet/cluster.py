"""The only module that uses Ray: join a cluster, describe its nodes, and run the plan on them.

Each node runs one Ray task, pinned to it. The task reserves all CPUs and GPUs of the node, so that no other Ray
work disturbs a measurement, and streams messages back. When the driver ends, Ray kills the task; this closes the
standard input of its containers, which then exit.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.defaults import FLEET_DESCRIBE_S
from harness.errors import INTERRUPTS, FleetError, TfbenchError
from harness.fleet.fleet_folder import FleetPlan, Message, Node
from harness.fleet.node_worker import describe, work

_START_HINT = (
    "Check `ray status` on the head node. Start a cluster with `ray start --head` there and "
    "`ray start --address=HOST:6379` on each other node; see docs/fleet.md and examples/cloud/."
)
_REFUSED_HINT = (
    "If the cluster uses token authentication (enabled if the head has ~/.ray/auth_token), set RAY_AUTH_MODE=token "
    "here and put the head's token into ~/.ray/auth_token or RAY_AUTH_TOKEN. Otherwise check that the versions of "
    "Ray and Python are the same, and that a firewall does not block the other ports."
)
CONNECT_S = 5.0
POLL_S = 0.5
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@contextmanager
def connected(address: str, checkout: Path) -> Iterator[Cluster]:
    """Join the cluster at `address` as a driver, and send the harness code to its nodes.

    Raises:
        FleetError: Ray is not installed, no cluster answers, or its version differs.
    """
    # Ray is optional and slow to import.
    try:
        import ray  # noqa: PLC0415
    except ImportError as error:
        raise FleetError(
            "Ray is not installed.",
            hint="Install it: pip install 'tfbench[fleet]', in a checkout .venv/bin/pip install --require-hashes "
            "-r fleet.lock",
        ) from error
    _check_listening(address)
    shipped = ("harness", "workloads", "images")
    handlers = {number: signal.getsignal(number) for number in INTERRUPTS}
    excluded = [f"/{path.name}" for path in checkout.iterdir() if path.name not in shipped]
    try:
        ray.init(
            address=address,
            runtime_env={
                "working_dir": str(checkout),
                "excludes": [*excluded, "/images/context", "__pycache__"],
            },
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        if "Could not find" in str(error):
            raise FleetError("No Ray cluster runs on this machine.", hint=_START_HINT) from error
        reason = f"The Ray cluster at {address!r} rejects this machine: {_first_sentence(error)}"
        raise FleetError(reason, hint=_REFUSED_HINT) from error
    # Ray has put its own in their place.
    for number, handler in handlers.items():
        signal.signal(number, handler)
    # Ray 2.60 prints the log of a dead node to standard output; there is no public setting to prevent this.
    with suppress(AttributeError):
        ray._private.worker._worker_logs_enabled = False
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def _check_listening(address: str) -> None:
    """Check that something listens at `address`, because Ray itself waits minutes for a missing head.

    Raises:
        FleetError: nothing listens, or `address` is that of a Ray client server.
    """
    address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    if address == "auto":
        return
    if address.startswith("ray://"):
        raise FleetError(
            f"{address} is the address of a Ray client server, which cannot stream trials.",
            hint="Run tfbench on a node of the cluster, e.g. with `ray job submit` or `ray attach`.",
        )
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_S):
            pass
    except (OSError, ValueError) as error:
        raise FleetError(
            f"No Ray cluster answers at {address}: {error}.", hint=f"Check host and port. {_START_HINT}"
        ) from error


class Cluster:
    """A cluster that this process has joined."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def describe_nodes(self, *, cloud: bool) -> tuple[tuple[Node, ...], Mapping[str, TfbenchError]]:
        """Return the live nodes that offer CPUs or GPUs, sorted by key, and errors of unusable ones.

        Args:
            cloud: whether nodes may query their cloud's metadata service.
        """
        nodes = alive(self._ray.nodes())
        end_s = time.monotonic() + FLEET_DESCRIBE_S
        remote = self._ray.remote(describe)
        pending = [
            remote.options(num_cpus=0, max_retries=0, scheduling_strategy=_pinned(node)).remote(node, cloud)
            for node in nodes
        ]
        described: list[Node] = []
        failed: dict[str, TfbenchError] = {}
        for node, pending_result in zip(nodes, pending, strict=True):
            try:
                described.append(self._ray.get(pending_result, timeout=max(0.0, end_s - time.monotonic())))
            except self._ray.exceptions.RayError as error:
                described.append(node)
                failed[node.key] = _node_error(error)
        return tuple(described), failed

    def run_plan(
        self, plan: FleetPlan, previous_runs: Sequence[tuple[Node, Mapping[str, bytes]]]
    ) -> Generator[tuple[str, Message]]:
        """Run the plan on all nodes in parallel; yield (node key, message).

        A node that is busy for longer than `plan.wait_s` counts as failed. Closing the iterator cancels running tasks.

        Args:
            previous_runs: nodes with the files they need to resume their run.
        """
        remote = self._ray.remote(work)
        streams = {
            remote.options(
                num_returns="streaming",
                max_retries=0,
                name=f"tfbench {node.key}",
                num_cpus=node.resources.get("CPU", 0),
                num_gpus=node.resources.get("GPU", 0),
                scheduling_strategy=_pinned(node),
            ).remote(plan, previous_run): node.key
            for node, previous_run in previous_runs
        }
        unstarted = set(streams.values())
        end_s = time.monotonic() + plan.wait_s
        try:
            while streams:
                ready, _ = self._ray.wait(list(streams), timeout=POLL_S, fetch_local=False)
                for stream in ready:
                    key = streams.pop(stream)
                    unstarted.discard(key)
                    try:
                        message = self._ray.get(next(stream))
                    except StopIteration:
                        continue
                    except self._ray.exceptions.RayError as error:
                        yield key, _node_error(error)
                        continue
                    # Re-inserted at the end for fairness, because `wait` returns the first stream that is ready.
                    streams[stream] = key
                    yield key, message
                if unstarted and time.monotonic() > end_s:
                    for stream in [stream for stream, key in streams.items() if key in unstarted]:
                        self._cancel(stream)
                        yield streams.pop(stream), _busy_error(plan.wait_s)
                    unstarted.clear()
        finally:
            for stream in streams:
                self._cancel(stream)

    def _cancel(self, stream: Any) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.cancel(stream, force=True)


def alive(raylets: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """Return the live nodes that offer CPUs or GPUs, sorted by key.

    This excludes heads without CPUs, as used by KubeRay.
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
            resources=dict(raylet["Resources"]),
            labels=dict(raylet.get("Labels") or {}),
        )
        for key, raylet in zip(_keys(chosen), chosen, strict=True)
    ]
    return tuple(sorted(nodes, key=lambda node: node.key))


def _keys(raylets: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a unique name for each node that is safe as a folder name."""
    names = []
    for raylet in raylets:
        # Ray names nodes after their address by default; the host name is more useful.
        name = raylet["NodeName"] if raylet["NodeName"] != raylet["NodeManagerAddress"] else ""
        names.append(_safe(name) or _safe(raylet["NodeManagerHostname"]) or "node")
    return tuple(
        key if names.count(key) == 1 else f"{key}-{raylet['NodeID'][:6]}"
        for key, raylet in zip(names, raylets, strict=True)
    )


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:60]


def _pinned(node: Node) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - as above

    return NodeAffinitySchedulingStrategy(node_id=node.node_id, soft=False)


def _busy_error(wait_s: float) -> FleetError:
    return FleetError(
        f"it did not start within {wait_s:g} s, because other work in the cluster uses its CPUs.",
        hint="See `ray status`, or raise --wait.",
    )


def _node_error(error: BaseException) -> TfbenchError:
    """Convert an error of Ray, whose text can be pages long, to a short one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, TfbenchError):
        return cause
    if cause is not None:
        # For a failed import, Ray gives only the text of the traceback.
        last = str(cause).strip().rpartition("\n")[2] or type(cause).__name__
        hint = "Install tfbench[fleet] from fleet.lock on this node, then run `tfbench doctor` there."
        return FleetError(f"{last.rstrip('.')}.", hint=hint)
    return FleetError(_first_sentence(error), hint="Check `ray status` and Ray's logs on that node.")


def _first_sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return _SENTENCE_END.split(lines[0])[0] if lines else type(error).__name__
