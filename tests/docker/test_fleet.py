import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import __version__
from harness.model.run import Status
from harness.run.store import read_run
from harness.system.shared_files import LOCK_ENV
from tests.commands import output_of
from tests.endtoend import TREES_SCRIPT, Tfbench, script, wait_until
from tests.folders import write_files

# Detect dead nodes within a few seconds; Ray's default is about half a minute.
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 4,
}  # fmt: skip
STORE_BYTES = 80 * 2**20


class Nodes:
    def __init__(self, cluster: Any, nodes: Mapping[str, Any]) -> None:
        self.address: str = cluster.address
        self._cluster = cluster
        self._nodes = nodes
        self.alive = set(nodes)

    def kill(self, name: str) -> None:
        """Kill a node's processes, as in a power failure."""
        self._cluster.remove_node(self._nodes[name], allow_graceful=False)
        self.alive.discard(name)


@contextmanager
def cluster(names: Mapping[str, Mapping[str, str]], cpus: int = 2) -> Iterator[Nodes]:
    """Start a head without CPUs and one node per name, with additional environment variables."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - takes a second, needed only by these tests

    # Tests must not use the network.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    shared = {"object_store_memory": STORE_BYTES}
    ray_cluster = Cluster(
        initialize_head=True,
        head_node_args={**shared, "num_cpus": 0, "include_dashboard": False, "_system_config": HEALTH_CHECKS},
    )
    try:
        nodes = {
            name: ray_cluster.add_node(
                wait=False, num_cpus=cpus, node_name=name, labels={"pool": name}, env_vars=dict(environment),
                **shared,
            )
            for name, environment in names.items()
        }  # fmt: skip
        ray_cluster.wait_for_nodes(timeout=120)
        yield Nodes(ray_cluster, nodes)
    finally:
        ray_cluster.shutdown()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("fleet")
    older = write_files(folder / "old", {"harness/__init__.py": '__version__ = "0.0.1"\n'})
    # The machine lock and temporary files are private to these tests.
    shared = {"TMPDIR": str(folder), LOCK_ENV: str(folder / "tfbench.lock"), "PYTHONPATH": str(older)}
    bare = {**shared, "DOCKER_HOST": "unix:///nowhere.sock"}
    with cluster({"a": shared, "b": shared, "bare": bare}) as ray_cluster:
        yield ray_cluster


def fleet(nodes: Nodes, folder: Path, *arguments: str | Path) -> Tfbench:
    options = ("--address", nodes.address, *arguments)
    return Tfbench(folder=folder, engine="docker", command="fleet", arguments=options)


def fleet_folder(fleet: Tfbench) -> Path:
    return next((fleet.folder / "runs").glob("fleet-*"))


def running(path: Path) -> list[str]:
    run_ids = [json.loads(manifest.read_text())["run_id"] for manifest in path.glob("*/manifest.json")]
    filters = (("--filter", f"label=tfbench.run={run_id}") for run_id in run_ids)
    return [line for words in filters for line in output_of("docker", "ps", "--quiet", *words).split()]


@pytest.mark.docker
def test_fleet_is_resumed_after_loss_of_a_node_and_the_driver(nodes: Nodes, tmp_path: Path) -> None:
    file = script(tmp_path / "files", "good", text=TREES_SCRIPT)
    done = "trials/good.cpu.0/trial.json"
    options = (file, "--variants", "baseline", "--trials", "2", "--nodes", "all")
    with fleet(nodes, tmp_path, *options) as first:
        # All nodes share this machine's lock, so they run one after another. The first one is killed.
        first.wait_for(lambda: any(tmp_path.glob(f"runs/fleet-*/*/{done}")))
        path = fleet_folder(first)
        (record,) = path.glob(f"*/{done}")
        dead = record.parents[2].name
        content = record.read_bytes()
        nodes.kill(dead)
        assert any(f"Node {dead}: " in line for line in first.process.stderr)
        (other,) = {"a", "b"} - {dead}
        first.wait_for((path / other / done).exists)
        first.signal(signal.SIGKILL)
        first.finish()
    wait_until(lambda: running(path) == [])

    with fleet(nodes, tmp_path, "--resume", path) as resumed:
        code, out, err = resumed.finish()
    assert code == 11, err
    assert "Node bare: " in err
    assert "nowhere.sock" in err
    assert f"Node {dead} has left the cluster" in err
    assert "2 nodes missing, first: " in err, err
    assert record.read_bytes() == content
    runs = {item.name: read_run(item) for item in path.iterdir() if (item / "manifest.json").exists()}
    assert set(runs) == {"a", "b"}
    statuses = {trial.id: trial.status for trial in runs[other].trials}
    assert statuses == {"good.cpu.0": Status.OK, "good.cpu.1": Status.OK}
    assert other in out
    # Nodes use the driver's code, not the installed version.
    assert runs[dead].manifest.tfbench_version == __version__
