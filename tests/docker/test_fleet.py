"""`tfbench fleet` for real: a Ray cluster of several nodes on this machine, containers on each of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import __version__
from harness.model.run import Status
from harness.run.store import read_run
from harness.system.file_locks import LOCK_ENV
from tests.docker.ray_cluster import Nodes, cluster
from tests.endtoend import PATIENCE_S, ROOT, wait_until, workload_file

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


class Fleet:
    """One `tfbench fleet` of the smoke profile on the CPU."""

    def __init__(self, nodes: Nodes, folder: Path, *arguments: str | Path) -> None:
        command = [
            sys.executable, "-m", "harness", "fleet", "--address", nodes.address, "--profile", "smoke",
            "--device", "cpu", "--engine", "docker", "--data", "procedural", "--no-cloud-metadata",
            "--out", folder / "runs", *arguments,
        ]  # fmt: skip
        self._folder = folder
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip

    @property
    def path(self) -> Path:
        return next((self._folder / "runs").glob("fleet-*"))

    def wait_for(self, pattern: str) -> None:
        """Wait until the fleet folder has such a file."""
        wait_until(
            lambda: self._process.poll() is not None or any(self._folder.glob(f"runs/fleet-*/{pattern}"))
        )
        assert self._process.poll() is None, "".join(self._process.communicate())

    def wait_for_line(self, text: str) -> None:
        """Wait until standard error says so."""
        assert self._process.stderr is not None
        printed = ""
        while text not in printed:
            line = self._process.stderr.readline()
            assert line, printed
            printed += line

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def finish(self) -> tuple[int, str, str]:
        out, err = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, out, err


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
    first = Fleet(
        nodes, tmp_path, "--workload-file", own, "--variants", "baseline", "--trials", "2", "--nodes", "all"
    )
    # All nodes are on this machine, so that they take turns at its lock: whoever comes first is to die.
    first.wait_for("*/trials/good.cpu.0/trial.json")
    (record,) = first.path.glob("*/trials/good.cpu.0/trial.json")
    dead = record.parents[2].name
    kept = record.read_bytes()
    nodes.kill(dead)
    first.wait_for_line(f"Node {dead}: ")
    others = sorted({"a", "b", "c"} - {dead})
    wait_until(lambda: any((first.path / name / "trials/good.cpu.0/trial.json").exists() for name in others))
    first.kill()
    wait_until(lambda: running(first.path) == [])

    path = first.path
    again = Fleet(nodes, tmp_path, "--resume", path)
    code, out, err = again.finish()
    assert code == 11, err
    assert "Node bare: " in err
    assert "nowhere.sock" in err
    assert f"Node {dead} is not in the cluster" in err
    assert "Missing: 2 measurements, first: " in err, err
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
    fleet = Fleet(
        nodes, tmp_path, "--workload-file", own, "--variants", "baseline,tuned", "--trials", "1",
        "--nodes", ",".join(nodes.alive - {"bare"}), "--workers", "1,2",
    )  # fmt: skip
    code, out, err = fleet.finish()
    assert code == 0, err
    alone, together = (read_run(fleet.path / f"workers-{count}") for count in (1, 2))
    for run, workers in ((alone, 1), (together, 2)):
        (trial,) = run.trials
        assert trial.status is Status.OK, trial.message
        # Every step takes a batch of each worker.
        assert all(window.samples == window.steps * 32 * workers for window in trial.windows)
        losses = {metric.variant: metric.value for metric in trial.metrics if metric.name == "final_loss"}
        assert losses.keys() == {"baseline", "tuned"}
        assert min(losses.values()) > 0
    (folder,) = (fleet.path / "workers-2/trials/good.cpu.0/workers").iterdir()
    assert folder.name.startswith("1-"), "what the second worker recorded is kept"
    events = (folder / "out/events.jsonl").read_text()
    assert '"kind":"end"' in events
    points = json.loads((fleet.path / "scaling.json").read_text())
    two = next(point for point in points if point["workers"] == 2 and point["variant"] == "baseline")
    assert two["exchange_s"] > 0
    assert two["gradient_bytes"] == 4 * (64 * 4 + 4), "the layer's kernel and bias"
    assert two["efficiency"]["median"] > 0
    (traffic,) = two["traffic"]
    assert len(traffic["nodes"]) == 2, "both workers share this machine"
    assert traffic["sent_bytes_per_s"] > 0
    assert "training together" in out
    page = (fleet.path / "comparison.html").read_text()
    assert "Training over 1 and 2 workers" in page
    assert "2 workers shared 1 machine" in page
    assert running(fleet.path) == []
