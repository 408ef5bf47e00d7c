"""`tfbench fleet` for real: a Ray cluster of several nodes on this machine, containers on each of them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import __version__
from harness.model.run import Status
from harness.run.store import read_run
from harness.system.file_locks import LOCK_ENV
from tests.docker.ray_cluster import Nodes, cluster
from tests.endtoend import Tfbench, wait_until, workload_file

pytestmark = pytest.mark.docker


def old_tfbench(folder: Path) -> Path:
    """Make a folder on whose path an older tfbench is installed."""
    (folder / "harness").mkdir(parents=True)
    (folder / "harness/__init__.py").write_text('__version__ = "0.0.1"\n')
    return folder


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("fleet")
    # The lock of this machine, and what a node keeps to itself, are those of this test.
    old = str(old_tfbench(folder / "old"))
    shared = {"TMPDIR": str(folder), LOCK_ENV: str(folder / "tfbench.lock"), "PYTHONPATH": old}
    settings = {
        "a": shared,
        "b": shared,
        "c": shared,
        "bare": {**shared, "DOCKER_HOST": "unix:///nowhere.sock"},
    }
    with cluster(settings) as made:
        yield made


def fleet(nodes: Nodes, folder: Path, *arguments: str | Path) -> Tfbench:
    options = ("--address", nodes.address, "--no-cloud-metadata", *arguments)
    return Tfbench(folder=folder, engine="docker", command="fleet", arguments=options)


def path_of(fleet: Tfbench) -> Path:
    return next((fleet.folder / "runs").glob("fleet-*"))


def running(path: Path) -> list[str]:
    """Return the containers that runs of a fleet have now."""
    ids = [json.loads(item.read_text())["run_id"] for item in path.glob("*/manifest.json")]
    result = []
    for item in ids:
        command = ["docker", "ps", "--quiet", "--filter", f"label=tfbench.run={item}"]
        result += subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return result


def test_a_node_dies_the_driver_is_killed_and_the_fleet_goes_on(nodes: Nodes, tmp_path: Path) -> None:
    own = workload_file(tmp_path / "files", "good")
    done = "trials/good.cpu.0/trial.json"
    options = ("--workload-file", own, "--variants", "baseline", "--trials", "2", "--nodes", "all")
    with fleet(nodes, tmp_path, *options) as first:
        # All nodes are on this machine, so that they take turns at its lock: whoever comes first is to die.
        first.wait_for(lambda: any(tmp_path.glob(f"runs/fleet-*/*/{done}")))
        path = path_of(first)
        (record,) = path.glob(f"*/{done}")
        dead = record.parents[2].name
        kept = record.read_bytes()
        nodes.kill(dead)
        assert first.process.stderr is not None
        assert any(f"Node {dead}: " in line for line in first.process.stderr)
        others = sorted({"a", "b", "c"} - {dead})
        first.wait_for(lambda: any((path / name / done).exists() for name in others))
        first.signal(signal.SIGKILL)
        first.finish()
    wait_until(lambda: running(path) == [])

    with fleet(nodes, tmp_path, "--resume", path) as again:
        code, out, err = again.finish()
    assert code == 11, err
    assert "Node bare: " in err
    assert "nowhere.sock" in err
    assert f"Node {dead} has left the cluster" in err
    assert "2 nodes missing, first: " in err, err
    assert record.read_bytes() == kept
    runs = {item.name: read_run(item) for item in path.iterdir() if (item / "manifest.json").exists()}
    assert set(runs) == {"a", "b", "c"}
    for name in others:
        assert {trial.id: trial.status for trial in runs[name].trials} == {
            "good.cpu.0": Status.OK,
            "good.cpu.1": Status.OK,
        }
        assert runs[name].manifest.tfbench_version == __version__, "the driver's code, whatever is installed"
        assert name in out


def test_two_workers_train_one_model_together(nodes: Nodes, tmp_path: Path) -> None:
    own = workload_file(tmp_path / "files", "good")
    team = fleet(
        nodes, tmp_path, "--workload-file", own, "--variants", "baseline,tuned", "--trials", "1",
        "--nodes", ",".join(nodes.alive - {"bare"}), "--workers", "1,2",
    )  # fmt: skip
    with team:
        code, out, err = team.finish()
    assert code == 0, err
    path = path_of(team)
    alone, together = (read_run(path / f"workers-{count}") for count in (1, 2))
    for run, workers in ((alone, 1), (together, 2)):
        (trial,) = run.trials
        assert trial.status is Status.OK, trial.message
        # Every step takes a batch of each worker.
        assert all(window.samples == window.steps * 32 * workers for window in trial.windows)
        losses = {metric.variant: metric.value for metric in trial.metrics if metric.name == "final_loss"}
        assert losses.keys() == {"baseline", "tuned"}
        assert min(losses.values()) > 0
    (folder,) = (path / "workers-2/trials/good.cpu.0/workers").iterdir()
    assert folder.name.startswith("1-"), "what the second worker recorded is kept"
    events = (folder / "out/events.jsonl").read_text()
    assert '"kind":"end"' in events
    points = json.loads((path / "scaling.json").read_text())
    two = next(point for point in points if point["workers"] == 2 and point["variant"] == "baseline")
    assert two["exchange_s"] > 0
    assert two["gradient_bytes"] == 4 * (64 * 4 + 4), "the layer's kernel and bias"
    assert two["efficiency"]["median"] > 0
    assert "multi-node training" in out
    page = (path / "comparison.html").read_text()
    assert "Training over 1 and 2 workers" in page
    assert "2 workers shared 1 machine" in page
    assert running(path) == []
