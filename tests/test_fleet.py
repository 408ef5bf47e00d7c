"""The same plan on every node: choice of nodes, what travels, what is kept, and what a resumed fleet does."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import FleetError, StoreError, TfbenchError, UsageError
from harness.fleet.cluster import alive, connected
from harness.fleet.folder import FleetFolder, read_files, write_files
from harness.fleet.messages import FleetPlan, Message, Node, Written
from harness.fleet.nodes import choose
from harness.fleet.session import Ready, collect, lost_nodes, prepare, run, user_files
from harness.fleet.worker import kind, scratch_folder
from harness.model.options import Options
from harness.model.run import Status
from harness.progress import Silent
from harness.run.store import read_run
from tests.conftest import ROOT
from tests.fakes import RecordingProgress
from tests.fleets import IDS, RUN, done_trial, folder_in, node, plan_of, whole


class TestChoice:
    NODES = (
        replace(node("a", kind="8x H100"), labels={"pool": "x", "zone": "1"}),
        replace(node("b", kind="8x H100"), labels={"pool": "x", "zone": "2"}),
        replace(node("c", kind="1x T4"), labels={"pool": "y", "zone": "1"}),
    )

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ("all", ["a", "b", "c"]),
            ("one-per-kind", ["a", "c"]),
            ("pool=x", ["a", "b"]),
            ("pool=x,zone=2", ["b"]),
            ("c", ["c"]),
            ("a, c", ["a", "c"]),
        ],
    )
    def test_words_and_selectors(self, wanted: str, expected: list[str]) -> None:
        assert [each.key for each in choose(self.NODES, wanted)] == expected

    @pytest.mark.parametrize("wanted", ["pool=z", "pool=", "d"])
    def test_nothing_fits(self, wanted: str) -> None:
        with pytest.raises(UsageError, match=f"--nodes {wanted}") as caught:
            choose(self.NODES, wanted)
        assert "a (pool=x, zone=1)" in caught.value.hint

    def test_nodes_that_live_have_keys_that_are_unique_and_fit_for_a_path(self) -> None:
        def raylet(
            node_id: str, name: str = "10.0.0.1", host: str = "vm", **changes: object
        ) -> dict[str, object]:
            return {
                "NodeID": node_id, "NodeName": name, "NodeManagerHostname": host, "NodeManagerAddress": "10.0.0.1",
                "Alive": True, "Resources": {"CPU": 2.0}, **changes,
            }  # fmt: skip

        raylets = [
            raylet("aaaaaa11"), raylet("bbbbbb22"), raylet("c", name="../x y"), raylet("d", host=""),
            raylet("dead", Alive=False), raylet("head", Resources={}),
        ]  # fmt: skip
        assert [each.key for each in alive(raylets)] == ["node", "vm-aaaaaa", "vm-bbbbbb", "x-y"]


class TestTravelling:
    def test_a_trial_comes_out_as_it_went_in_and_replaces_what_was_there(self, tmp_path: Path) -> None:
        folder, source = folder_in(tmp_path), tmp_path / "source"
        (source / "out").mkdir(parents=True)
        (source / "out/events.jsonl").write_text("{}\n")
        (source / "log.txt").write_bytes(b"\xff\x00")
        (source / "out/link").symlink_to("/etc/passwd")
        before = folder.run("a").trial("t").path / "of-the-attempt-before"
        before.parent.mkdir(parents=True)
        before.touch()
        folder.add("a", Written(folder="trials/t", files=read_files(source)))
        assert read_files(before.parent) == {"log.txt": b"\xff\x00", "out/events.jsonl": b"{}\n"}

    @pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "out/../../../evil"])
    def test_a_node_cannot_write_elsewhere(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(StoreError, match="evil"):
            write_files(tmp_path / "run/trials/t", {"trial.json": b"{}", name: b"x"})
        assert not list(tmp_path.rglob("evil"))
        assert not list(tmp_path.rglob("trial.json")), "what is not whole has no record"

    def test_only_modules_travel_beside_a_workload_file(self, tmp_path: Path) -> None:
        mine = tmp_path / "mine.py"
        for name in ("mine.py", "helper.py", "old version.py", ".hidden.py"):
            (tmp_path / name).write_text("pass")
        (tmp_path / ".#mine.py").symlink_to("user@host.1234")  # an editor's lock
        (tmp_path / "folder.py").mkdir()
        assert {Path(name).name for name in user_files(Options(files=(mine,)))} == {"mine.py", "helper.py"}

    def test_errors_of_a_node_reach_the_driver_with_what_to_try(self) -> None:
        error = pickle.loads(pickle.dumps(StoreError("The disk is full.", hint="Free some space.")))
        assert (type(error), str(error)) == (StoreError, "The disk is full. Free some space.")


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"options": 3})])
def test_another_folder_is_no_fleet(tmp_path: Path, text: str) -> None:
    assert folder_in(tmp_path, [node("a")]).read_plan() == plan_of([node("a")])
    (tmp_path / "fleet.json").write_text(text)
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError, match="is not a fleet") as caught:
            FleetFolder(path).read_plan()
        assert "tfbench fleet" in caught.value.hint


class TestWorker:
    def test_two_nodes_of_one_type_are_of_one_kind(self) -> None:
        gpus = ["NVIDIA H200"] * 2
        each = kind("", gpus, "EPYC", 64, 503 * 2**30)
        assert each == kind("", gpus, "EPYC", 64, 503 * 2**30 + 12345) == "2x NVIDIA H200, 64x EPYC, 504 GiB"
        assert kind("g5.xlarge", [], "", 4, 0) == "g5.xlarge, 4 CPUs"

    def test_what_killed_workers_left_is_removed_and_nothing_else(self, tmp_path: Path) -> None:
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        remains, ours, others = (tmp_path / name for name in (f"fleet-{ended.pid}-x", "fleet-1-x", "data"))
        for folder in (remains, ours, others):
            folder.mkdir()
        with scratch_folder(tmp_path) as made:
            assert made.stat().st_mode & 0o777 == 0o755, "containers may enter it"
            assert set(tmp_path.iterdir()) == {made, ours, others}
        assert not made.exists()


class TestConnecting:
    @pytest.mark.parametrize(
        ("address", "printed", "tried"),
        [
            ("ray://10.0.0.1:10001", "Ray client", "on a node of the cluster"),
            ("127.0.0.1:9", "No Ray cluster answers", "Check host and port"),
            ("nowhere", "No Ray cluster answers at nowhere", "Check host and port"),
        ],
    )
    def test_no_cluster(self, address: str, printed: str, tried: str) -> None:
        with pytest.raises(FleetError, match=printed) as caught, connected(address, ROOT):
            raise AssertionError
        assert tried in caught.value.hint

    @pytest.mark.parametrize(
        ("text", "printed", "tried"),
        [
            # Ray's own word for a missing token, after half a minute.
            ("Failed to connect to Ray cluster at 127.0.0.1:6379", ": Fail", "RAY_AUTH_MODE=token"),
            ("Could not find any running Ray instance.", "No Ray cluster runs on this", "ray start --head"),
        ],
    )
    def test_ray_refuses(self, monkeypatch: pytest.MonkeyPatch, text: str, printed: str, tried: str) -> None:
        def refuse(**_: object) -> None:
            raise ConnectionError(text)

        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=refuse))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            with pytest.raises(FleetError, match=printed) as caught, connected(address, ROOT):
                raise AssertionError
        assert tried in caught.value.hint

    def test_only_the_code_travels(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Ray packs what its rules for leaving out leave of the checkout."""
        packaging = pytest.importorskip("ray._private.runtime_env.packaging")
        for name in ("harness/a.py", "images/cpu.lock", "images/context/x", "workloads/__pycache__/x",
                     "runs/1/manifest.json", ".env", "tests/x.py"):  # fmt: skip
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        given: dict[str, Mapping[str, list[str]]] = {}
        ray = SimpleNamespace(init=lambda **options: given.update(options), shutdown=lambda: None)
        monkeypatch.setitem(sys.modules, "ray", ray)
        with connected("auto", tmp_path):
            excludes = given["runtime_env"]["excludes"]
        travelling: list[Path] = []
        packaging._dir_travel(
            tmp_path, [packaging._get_excludes(tmp_path, excludes)], travelling.append, include_gitignore=True
        )
        files = {str(path.relative_to(tmp_path)) for path in travelling if path.is_file()}
        assert files == {"harness/a.py", "images/cpu.lock"}


def reported(scripts: Mapping[str, list[Message]]) -> Iterator[tuple[str, Message]]:
    """Yield what nodes report."""
    return ((key, message) for key, messages in scripts.items() for message in messages)


class TestCollecting:
    def test_a_node_that_dies_keeps_its_trials_and_stops_nobody_else(self, tmp_path: Path) -> None:
        folder, progress = folder_in(tmp_path), RecordingProgress()
        lost = FleetError("the node died.", hint="Look there.")
        scripts = {"a": [RUN, done_trial(0, tmp_path / "s"), lost], "b": whole(tmp_path / "b")}
        assert collect(reported(scripts), folder, progress) == {"a": "Node a: the node died. Look there."}
        assert progress.lines == ["Node a: the node died. Look there."]
        assert {task.label: task.notes for task in progress.tasks} == {
            "a": ["failed"],
            "b": ["preparing", "done"],
        }
        assert [path.name for path in folder.runs()] == ["a", "b"]
        assert (folder.run("a").finished(), folder.done("a"), folder.done("b")) == ({IDS[0]}, False, True)
        trials = read_run(folder.path / "b").trials
        assert {trial.id: trial.status for trial in trials} == dict.fromkeys(IDS, Status.OK)

    def test_a_trial_that_failed_is_shown_and_is_a_result(self, tmp_path: Path) -> None:
        folder, progress = folder_in(tmp_path), RecordingProgress()
        bad = done_trial(0, tmp_path / "s", Status.FAILED)
        assert collect([("a", RUN), ("a", bad)], folder, progress) == {}
        assert progress.lines == [f"a: {IDS[0]}: failed. It failed."]
        assert folder.endings() == {f"a/{IDS[0]}": (Status.FAILED, "It failed.")}


@dataclass
class FakeCluster:
    """Answer as a cluster of these nodes, of which some cannot be used, and keep what was sent to each."""

    nodes: tuple[Node, ...] = ()
    failed: Mapping[str, TfbenchError] = field(default_factory=dict)
    scripts: Mapping[str, list[Message]] = field(default_factory=dict)
    sent: dict[str, Mapping[str, bytes]] = field(default_factory=dict)

    def describe_nodes(self, *, cloud: bool) -> tuple[tuple[Node, ...], Mapping[str, TfbenchError]]:
        return self.nodes, self.failed

    def run_plan(
        self, plan: FleetPlan, previous_runs: list[tuple[Node, Mapping[str, bytes]]]
    ) -> Iterator[tuple[str, Message]]:
        self.sent.update({each.key: previous_run for each, previous_run in previous_runs})
        yield from reported(self.scripts)


class TestResuming:
    def test_only_what_is_not_done_is_run_on_and_from_where_it_was(self, tmp_path: Path) -> None:
        nodes = (node("a"), node("b"), node("c"))
        folder = folder_in(tmp_path, nodes)
        cut = [RUN, done_trial(0, tmp_path / "s")]
        collect(reported({"a": whole(tmp_path / "a"), "b": cut}), folder, Silent())
        rest = {"b": whole(tmp_path / "t", (1, 2)), "c": ["preparing"]}
        cluster = FakeCluster(scripts=rest)
        ready = Ready(folder=folder, plan=folder.read_plan(), nodes=nodes, missing={"d": "Node d is ill."})
        assert run(cluster, ready, Silent()) == {"d": "Node d is ill."}
        assert set(cluster.sent) == {"b", "c"}
        done = f"trials/{IDS[0]}"
        needed = {"manifest.json", "plan.json", f"{done}/trial.json", f"{done}/out/events.jsonl"}
        assert cluster.sent["b"].keys() == needed
        assert cluster.sent["c"] == {}
        assert {trial.id for trial in read_run(folder.path / "b").trials} == set(IDS)

    def test_nodes_that_came_since_take_part_and_those_that_left_are_missing(self, tmp_path: Path) -> None:
        folder = folder_in(tmp_path, [node("a", kind="T4"), node("b", kind="H100")])
        ill = FleetError("No module named 'docker'", hint="Install it.")
        cluster = FakeCluster((node("c", kind="T4"), node("ill", kind="T4")), {"ill": ill})
        for _ in range(2):
            ready = prepare(cluster, folder, folder.read_plan(), Silent())
            assert [each.key for each in ready.nodes] == ["c"]
            assert set(ready.missing) == {"b", "ill"}, "another T4 has come for a"
            assert "No module named 'docker' Install it." in ready.missing["ill"]
            assert folder.read_plan().chosen == ("b", "c", "ill")
            assert {each.key for each in folder.read_plan().nodes} == {"a", "b", "c", "ill"}

    def test_a_node_that_was_through_may_leave(self, tmp_path: Path) -> None:
        nodes = [node("a"), node("b")]
        folder = folder_in(tmp_path, nodes)
        collect(reported({"a": whole(tmp_path / "a")}), folder, Silent())
        assert lost_nodes(folder, plan_of(nodes), [node("b")]) == {}
        assert set(lost_nodes(folder, plan_of(nodes), [])) == {"b"}

    def test_no_node_can_be_used(self, tmp_path: Path) -> None:
        cluster = FakeCluster((node("a"),), {"a": FleetError("it is silent.", hint="Look there.")})
        with pytest.raises(FleetError, match="No node of the cluster is usable") as caught:
            prepare(cluster, folder_in(tmp_path), plan_of(), Silent())
        assert "Node a: it is silent. Look there." in caught.value.hint
