"""The only module that uses Ray: join a cluster, ask its nodes for facts, and run orders on them.

An order is one Ray task pinned to its node. It asks for all CPUs and GPUs that Ray may give away
there, so that nothing else of the cluster runs beside a measurement, and streams its messages back. A task
ends with the driver: Ray kills it, its containers' standard input closes, and they end too.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import FleetError, TfbenchError
from harness.fleet import code, node_facts
from harness.fleet.messages import Begun, Failed, Lost, Message, Node, Order, Problem, Task
from harness.fleet.nodes import node_keys
from harness.fleet.training_worker import Result, TrainingWorker, shares
from harness.fleet.worker import work

START = (
    "Start one with `ray start --head` and `ray start --address=HOST:6379` on each node, or name one with "
    "--address; see docs/fleet.md and examples/cloud/."
)
ELSEWHERE = (
    "Check host and port: `ray status` on the cluster's head says whether it runs. To start one: `ray start "
    "--head` there and `ray start --address=HOST:6379` on each node; see docs/fleet.md."
)
LOCKED = (
    "Something listens there but refuses this machine. A cluster with token authentication "
    "(Ray turns it on where the head has ~/.ray/auth_token) needs RAY_AUTH_MODE=token here, and the head's "
    "token in ~/.ray/auth_token or RAY_AUTH_TOKEN. Otherwise the cluster has another version of "
    "Ray, or a firewall passes only the first port."
)
PROBE_S = 120.0
CONNECT_S = 5.0
CLOSE_S = 10.0
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_NODE_LABEL = "ray.io/node-id"


@contextmanager
def connected(address: str, checkout: Path) -> Iterator[None]:
    """Join the cluster at `address` as a driver, with the harness' own code on its way to every node.

    Raises:
        FleetError: Ray is not installed, no cluster answers, or it is of another version.
    """
    if address.startswith("ray://"):
        raise FleetError(
            f"{address} is the address of a Ray client server, which cannot stream trials.",
            hint="Run tfbench on a node of the cluster, e.g. by `ray job submit` or `ray attach`.",
        )
    ray = _ray()
    _check_listening(address)
    with tempfile.TemporaryDirectory(prefix="tfbench-code-") as folder:
        staged = code.stage(checkout, Path(folder) / "code")
        try:
            ray.init(
                address=address,
                runtime_env={"working_dir": str(staged)},
                log_to_driver=False,
                logging_level="error",
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            text = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise FleetError(
                f"The Ray cluster at {address!r} refuses this machine: {text}", hint=LOCKED
            ) from error
        _silence_logs(ray)
        try:
            yield
        finally:
            ray.shutdown()


def _silence_logs(ray: Any) -> None:
    """Keep Ray from printing pages of a dead node's log over what a fleet shows and into its --json.

    log_to_driver=False does not cover them, and Ray 2.60 has no other way than the one its debugger goes.
    Where another version has none at all, they are printed.
    """
    with suppress(AttributeError):
        if ray._private.worker._worker_logs_enabled:
            ray._private.worker._worker_logs_enabled = False


def _check_listening(address: str) -> None:
    """Make sure that something listens at the cluster's head: Ray itself waits minutes for one that is gone.

    Raises:
        FleetError: nothing does.
    """
    named = address != "auto"
    if not named:
        # Where Ray itself keeps it.
        folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
        last = Path(folder) / "ray/ray_current_cluster"
        started = last.read_text(encoding="utf-8").strip() if last.is_file() else ""
        address = os.environ.get("RAY_ADDRESS") or started
        if not address:
            raise FleetError("No Ray cluster runs on this machine.", hint=START)
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_S):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else ""
        raise FleetError(
            f"No Ray cluster answers at {address}: {why or error or 'no answer'}.",
            hint=ELSEWHERE if named else START,
        ) from error


def alive_nodes() -> tuple[Node, ...]:
    """Return the nodes that are alive and offer CPUs, not asked anything yet, in the order of keys."""
    # A head that offers no CPUs, as KubeRay's, cannot run a task, so that it cannot even be asked.
    result = [
        raylet
        for raylet in _ray().nodes()
        if raylet["Alive"] and (raylet["Resources"].get("CPU") or raylet["Resources"].get("GPU"))
    ]
    # A node that nobody named bears its address; its host name says more.
    named = [
        (
            "" if raylet["NodeName"] == raylet["NodeManagerAddress"] else raylet["NodeName"],
            raylet["NodeManagerHostname"],
            raylet["NodeID"],
        )
        for raylet in result
    ]
    nodes = [
        Node(
            key=key,
            node_id=raylet["NodeID"],
            address=raylet["NodeManagerAddress"],
            resources=dict(raylet["Resources"]),
            labels=dict(raylet.get("Labels") or {}),
        )
        for key, raylet in zip(node_keys(named), result, strict=True)
    ]
    return tuple(sorted(nodes, key=lambda node: node.key))


def ask(
    nodes: Sequence[Node], targets: Sequence[str], *, engine: str, cloud: bool
) -> tuple[tuple[Node, ...], tuple[Problem, ...]]:
    """Ask all nodes at once what they are; return them with their facts, and a problem for each silent one.

    Args:
        targets: images that the plan needs.
        engine: the one that was asked for.
        cloud: whether nodes may ask their cloud's metadata service.
    """
    ray = _ray()
    sent_s = time.time()
    remote = ray.remote(node_facts.facts)
    answers = [
        remote.options(num_cpus=0, max_retries=0, scheduling_strategy=_pinned(node)).remote(
            tuple(targets), engine, cloud
        )
        for node in nodes
    ]
    asked: list[Node] = []
    silent: list[Problem] = []
    for node, answer in zip(nodes, answers, strict=True):
        try:
            left_s = max(0.0, sent_s + PROBE_S - time.time())
            facts = ray.get(answer, timeout=left_s)
            offset = offset_s(sent_s, facts.wall_s, time.time()) if facts.wall_s else None
            asked.append(replace(node, facts=facts, clock_offset_s=offset))
        except ray.exceptions.RayError as error:
            asked.append(node)
            silent.append(
                Problem(
                    node=node.key,
                    message=f"Node {node.key} ({node.address}) does not answer: {_words(error)}",
                    hint="Check `ray status` and Ray's logs there; its Python needs tfbench[fleet].",
                )
            )
    return tuple(asked), tuple(silent)


def offset_s(sent_s: float, theirs_s: float, got_s: float) -> float:
    """Return the least by which a clock is off that showed `theirs_s` between `sent_s` and `got_s`."""
    return min(theirs_s - sent_s, 0.0) + max(theirs_s - got_s, 0.0)


class RayBackend:
    """A Backend of Ray tasks.

    Args:
        nodes: those that orders are sent to, by key.
        job: what a node does with its order.
    """

    def __init__(self, nodes: Mapping[str, Node], job: Callable[[Order], Iterator[Message]] = work) -> None:
        self._nodes = nodes
        self._job = job
        self._streams: dict[Any, str] = {}

    def start(self, task: Task, node: Node, order: Order) -> None:
        """Send `order` to `node`, which must be free of all other work of the cluster."""
        remote = _ray().remote(self._job)
        stream = remote.options(
            num_returns="streaming",
            num_cpus=node.resources.get("CPU", 0),
            num_gpus=node.resources.get("GPU", 0),
            max_retries=0,
            scheduling_strategy=_pinned(node),
            name=f"tfbench {task.folder}",
        ).remote(order)
        self._streams[stream] = task.folder

    def wait(self, timeout_s: float) -> Sequence[tuple[str, Message]]:
        """Return what nodes said, oldest first of each."""
        if not self._streams:
            time.sleep(timeout_s)
            return ()
        ray = _ray()
        streams = list(self._streams)
        ready, rest = ray.wait(streams, num_returns=1, timeout=timeout_s, fetch_local=False)
        more, _ = ray.wait(rest, num_returns=len(rest), timeout=0, fetch_local=False) if rest else ([], [])
        messages: list[tuple[str, Message]] = []
        for stream in [*ready, *more]:
            folder = self._streams[stream]
            message = self._next(stream)
            if message is not None:
                messages.append((folder, message))
        return messages

    def stop(self, folder: str) -> None:
        """Kill the task's process."""
        ray = _ray()
        for stream, task_folder in list(self._streams.items()):
            if task_folder == folder:
                del self._streams[stream]
                with suppress(ray.exceptions.RayError):
                    ray.cancel(stream, force=True)

    def present(self) -> frozenset[str]:
        """Return the keys of the nodes that are alive."""
        alive = {raylet["NodeID"] for raylet in _ray().nodes() if raylet["Alive"]}
        return frozenset(key for key, node in self._nodes.items() if node.node_id in alive)

    def _next(self, stream: Any) -> Message | None:
        ray = _ray()
        try:
            message: Message = ray.get(next(stream))
        except StopIteration:
            del self._streams[stream]
            return None
        except ray.exceptions.TaskUnschedulableError as error:
            del self._streams[stream]
            return Lost(message=_words(error))
        except ray.exceptions.RuntimeEnvSetupError as error:
            del self._streams[stream]
            hint = "See Ray's logs on that node."
            return Failed(
                message=f"Its environment cannot be set up: {_words(error)}",
                hint=hint,
                exit_code=FleetError.exit_code,
            )
        except ray.exceptions.RayError as error:
            del self._streams[stream]
            return Lost(message=_words(error))
        return message


class RayTeam:
    """A scaling.Team of Ray actors, placed by one placement group: each on a node of its own, all at once.

    Args:
        nodes: those to place them on.
        order: what to prepare.
        wait_s: how long nodes that others use are waited for.
    """

    def __init__(self, nodes: Sequence[Node], order: Order, wait_s: float) -> None:
        self._nodes = tuple(nodes)
        self._order = order
        self._wait_s = wait_s
        self._group: Any = None
        self._workers: list[Any] = []

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The node of each worker."""
        return self._nodes

    def __enter__(self) -> RayTeam:
        from ray.util.placement_group import placement_group  # noqa: PLC0415 - see _ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

        ray = _ray()
        bundles = [
            {name: node.resources[name] for name in ("CPU", "GPU") if node.resources.get(name)}
            for node in self._nodes
        ]
        self._group = placement_group(
            bundles,
            strategy="STRICT_SPREAD",
            bundle_label_selector=[{_NODE_LABEL: node.node_id} for node in self._nodes],
        )
        try:
            ray.get(self._group.ready(), timeout=self._wait_s)
        except ray.exceptions.GetTimeoutError as error:
            self.__exit__(None, None, None)
            names = ", ".join(node.key for node in self._nodes)
            raise FleetError(
                f"Nodes {names} were not all free within {self._wait_s:g} s.",
                hint="See `ray status` for what uses their CPUs, or raise --wait.",
            ) from error
        cpus = {node.machine: node.facts.cpus if node.facts else 0 for node in self._nodes}
        divided = shares([node.machine for node in self._nodes], cpus)
        for number, (node, share, bundle) in enumerate(zip(self._nodes, divided, bundles, strict=True)):
            placed = PlacementGroupSchedulingStrategy(
                placement_group=self._group, placement_group_bundle_index=number
            )
            actor = ray.remote(TrainingWorker).options(
                num_cpus=bundle.get("CPU", 0), num_gpus=bundle.get("GPU", 0), scheduling_strategy=placed
            )
            self._workers.append(actor.remote(self._order, node.address, share))
        return self

    def __exit__(self, *what: object) -> None:
        from ray.util.placement_group import remove_placement_group  # noqa: PLC0415 - see _ray

        ray = _ray()
        with suppress(ray.exceptions.RayError):
            ray.get([worker.close.remote() for worker in self._workers], timeout=CLOSE_S)
        for worker in self._workers:
            ray.kill(worker)
        with suppress(ray.exceptions.RayError):
            remove_placement_group(self._group)

    def prepare(self) -> Begun:
        """Make every worker ready at once; return the first one's plan."""
        return self._all([worker.prepare.remote() for worker in self._workers])[0]  # type: ignore[no-any-return]

    def run(self, trial_id: str, workers: int) -> tuple[Result, ...]:
        """Have the first `workers` run a trial together."""
        chosen = self._workers[:workers]
        addresses = self._all([worker.free_port.remote() for worker in chosen])
        return tuple(
            self._all([worker.run.remote(trial_id, addresses, rank) for rank, worker in enumerate(chosen)])
        )

    def _all(self, answers: Sequence[Any]) -> list[Any]:
        ray = _ray()
        result = []
        for node, answer in zip(self._nodes, answers, strict=False):
            try:
                result.append(ray.get(answer))
            except ray.exceptions.RayTaskError as error:
                cause = error.cause
                hint = cause.hint if isinstance(cause, TfbenchError) else "See Ray's logs on that node."
                text = cause.message if isinstance(cause, TfbenchError) else _words(error)
                raise FleetError(f"Node {node.key}: {text}", hint=hint) from error
            except ray.exceptions.RayError as error:
                hint = "Continue with the other nodes: tfbench fleet --resume, or fewer --workers."
                raise FleetError(f"Node {node.key} died: {_words(error)}", hint=hint) from error
        return result


def _pinned(node: Node) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - see _ray

    return NodeAffinitySchedulingStrategy(node_id=node.node_id, soft=False)


def _ray() -> Any:
    """Return Ray. It is an extra, and importing it takes longer than all of tfbench: only a fleet does."""
    try:
        import ray  # noqa: PLC0415
        import ray.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise FleetError(
            "Ray is not installed.", hint="Install it with: pip install tfbench[fleet]"
        ) from error
    return ray


def _words(error: BaseException) -> str:
    """Return the first sentence of an error of Ray's, whose text runs to pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _SENTENCE_END.split(lines[0])[0] if lines else type(error).__name__
