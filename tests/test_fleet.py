import json
import pickle
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli.bench import raise_for_trials
from harness.errors import FleetError, StoreError, TfbenchError, TrialError, UsageError
from harness.fleet.cluster import alive, connected
from harness.fleet.fleet_folder import FleetFolder, FleetPlan, Message, Node, Written, read_files, write_files
from harness.fleet.node_worker import kind, write_user_files
from harness.fleet.session import choose, collect, lost_nodes, run, user_files
from harness.model.run import Status
from harness.options import Options
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.started import is_own, remember
from harness.run.store import RunFolder, read_run, session_of
from tests.builders import cpu_run
from tests.commands import tfbench
from tests.conftest import ROOT
from tests.errors import user_error
from tests.fakes import RecordingProgress, good_events


def node(key: str, *, kind: str = "one kind") -> Node:
    return Node(key=key, node_id=f"id-{key}", resources={"CPU": 4.0}, kind=kind)


def plan_of(nodes: Sequence[Node] = ()) -> FleetPlan:
    return FleetPlan(
        options=Options(params={"BATCH_SIZE": "8"}), files={"/x/my.py": "pass"}, command="tfbench fleet",
        wait_s=5.0, nodes=tuple(nodes), chosen=tuple(each.key for each in nodes), commit="c",
    )  # fmt: skip


def folder_in(tmp_path: Path, nodes: Sequence[Node] = ()) -> FleetFolder:
    folder = FleetFolder(tmp_path / "runs/fleet-x")
    folder.write_plan(plan_of(nodes))
    return folder


# The run planned by a node: three trials.
RUN = replace(cpu_run(trials=3), trials=())
IDS = [trial.id for trial in RUN.planned]


def done_trial(index: int, scratch: Path, status: Status = Status.OK) -> Written:
    planned = RUN.planned[index]
    folder = RunFolder(scratch / f"{planned.id}-{status}")
    folder.create(RUN)
    trial = folder.open_trial(planned)
    trial.events.write_text("".join(good_events()), encoding="utf-8")
    message = "" if status is Status.OK else "It failed."
    folder.close_trial(replace(planned.trial(status, message), exit_code=0, started_ns=1, ended_ns=2), "log")
    folder.settle(session_of(planned.id))
    note = f"{planned.id}: {status}. {message}" if message else ""
    return Written(folder=f"trials/{planned.id}", files=read_files(trial.path), note=note)


def whole(scratch: Path, indices: Sequence[int] = (0, 1, 2)) -> list[Message]:
    return [
        "preparing",
        RUN,
        *(done_trial(index, scratch) for index in indices),
        Written(folder="", files={"stops.json": b"{}\n"}),
    ]


def test_a_fleet_of_others_is_resumed_only_with_consent(tmp_path, monkeypatch):
    monkeypatch.setenv("TFBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("API_TOKEN", "s3cr3t")
    private = Options(environment={"API_TOKEN": "s3cr3t"})
    plan = replace(plan_of(), options=private, address="203.0.113.1:6379")
    folder = FleetFolder(tmp_path / "runs/fleet-x")
    folder.write_plan(plan)
    printed = tfbench("fleet", "--resume", folder.path)
    assert printed.code == 2
    for used in ("--address 203.0.113.1:6379", "the scripts /x/my.py", "--env API_TOKEN=***"):
        assert used in printed.err
    assert "Allow this with --yes" in printed.err
    assert "--yes" not in tfbench("fleet", "--resume", folder.path, "--yes", "--address", "127.0.0.1:1").err
    # One that was started here is the same after its nodes have changed, and not with other scripts.
    remember(plan.identity, paths_here())
    folder.write_plan(replace(plan, nodes=(node("a"),), chosen=("a",), commit="d"))
    assert is_own(folder.read_plan().identity, paths_here())
    folder.write_plan(replace(plan, files={"/x/my.py": "other"}))
    assert not is_own(folder.read_plan().identity, paths_here())


@pytest.mark.parametrize("linked", ["a", "a/trials"])
def test_no_file_is_removed_behind_a_link_in_a_fleet_of_others(tmp_path, linked):
    folder, elsewhere = folder_in(tmp_path), tmp_path / "elsewhere"
    names = (f"trials/{IDS[0]}/own.txt", f"{IDS[0]}/own.txt")
    write_files(elsewhere, dict.fromkeys(names, b"own"))
    (folder.path / linked).parent.mkdir(exist_ok=True)
    (folder.path / linked).symlink_to(elsewhere)
    with pytest.raises(StoreError, match=f"{linked} is a link"):
        folder.add("a", done_trial(0, tmp_path))
    assert all((elsewhere / name).exists() for name in names)


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
    def test_selections(self, wanted, expected):
        assert [each.key for each in choose(self.NODES, wanted)] == expected
        for unknown in ("pool=z", "pool=", "d"):
            with user_error(UsageError, f"--nodes {unknown}", hint="a (pool=x, zone=1)"):
                choose(self.NODES, unknown)

    def test_live_nodes_have_unique_and_safe_keys(self):
        plain = {"NodeName": "10.0.0.1", "NodeManagerHostname": "vm", "NodeManagerAddress": "10.0.0.1",
                 "Alive": True, "Resources": {"CPU": 2.0}}  # fmt: skip
        changes = {"aaaaaa11": {}, "bbbbbb22": {}, "c": {"NodeName": "../x y"}, "d": {"NodeManagerHostname": ""},
                   "dead": {"Alive": False}, "head": {"Resources": {}}}  # fmt: skip
        raylets = [{**plain, "NodeID": name, **changed} for name, changed in changes.items()]
        assert [each.key for each in alive(raylets)] == ["node", "vm-aaaaaa", "vm-bbbbbb", "x-y"]
        gpus = ["NVIDIA H200"] * 2
        each = kind("", gpus, "EPYC", 64, 503 * 2**30)
        assert each == kind("", gpus, "EPYC", 64, 503 * 2**30 + 12345) == "2x NVIDIA H200, 64x EPYC, 504 GiB"
        assert kind("g5.xlarge", [], "", 4, 0) == "g5.xlarge, 4 CPUs"


class TestFiles:
    def test_trial_round_trips_and_replaces_an_earlier_attempt(self, tmp_path):
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
        for name in ("../../evil", "/tmp/evil", "out/../../../evil"):
            with pytest.raises(StoreError, match="evil"):
                write_files(tmp_path / "run/trials/t", {"trial.json": b"{}", name: b"x"})
        assert not list(tmp_path.rglob("evil"))
        assert not list(tmp_path.rglob("trial.json")), "an incomplete trial has no record"

    def test_scripts_are_sent_with_the_modules_beside_them(self, tmp_path):
        mine = tmp_path / "my-training.py"
        for name in (mine.name, "helper.py", "old version.py", ".hidden.py"):
            (tmp_path / name).write_text("pass")
        (tmp_path / ".#helper.py").symlink_to("user@host.1234")  # an editor's lock
        (tmp_path / "folder.py").mkdir()
        sent = user_files(Options(workloads=("cifar10-mlp", str(mine))))
        assert sent == {str(mine): "pass", str(tmp_path / "helper.py"): "pass"}
        (tmp_path / "helper.py").write_bytes(b"\xff")
        with user_error(UsageError, "cannot be sent to the nodes", hint="separate folder"):
            user_files(Options(workloads=(str(mine),)))


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"options": 3})])
def test_invalid_fleet_folder(tmp_path, text):
    assert folder_in(tmp_path, [node("a")]).read_plan() == plan_of([node("a")])
    (tmp_path / "fleet.json").write_text(text)
    for path in (tmp_path, tmp_path / "nowhere"):
        with user_error(StoreError, "is not a fleet", hint="tfbench fleet"):
            FleetFolder(path).read_plan()


class TestConnecting:
    @pytest.mark.parametrize(
        ("address", "printed", "tried"),
        [
            ("ray://10.0.0.1:10001", "Ray client", "on a node of the cluster"),
            ("127.0.0.1:9", "No Ray cluster answers", "Check host and port"),
            ("nowhere", "No Ray cluster answers at nowhere", "Check host and port"),
        ],
    )
    def test_no_cluster(self, address, printed, tried):
        with pytest.raises(FleetError, match=printed) as caught, connected(address, ROOT):
            raise AssertionError
        assert tried in caught.value.hint

    @pytest.mark.parametrize(
        ("text", "printed", "tried"),
        [
            # Ray's message for a missing token.
            ("Failed to connect to Ray cluster at 127.0.0.1:6379", ": Fail", "RAY_AUTH_MODE=token"),
            ("Could not find any running Ray instance.", "No Ray cluster runs on this", "ray start --head"),
        ],
    )
    def test_connection_rejected_by_ray(self, monkeypatch, text, printed, tried):
        def refuse(**_: object) -> None:
            raise ConnectionError(text)

        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=refuse))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            with pytest.raises(FleetError, match=printed) as caught, connected(address, ROOT):
                raise AssertionError
        assert tried in caught.value.hint

    def test_only_code_is_sent_to_nodes(self, monkeypatch, tmp_path):
        """Ray applies the exclusions when it packs the checkout."""
        packaging = pytest.importorskip("ray._private.runtime_env.packaging")
        for name in ("harness/a.py", "images/cpu.lock", "images/context/x", "workloads/__pycache__/x",
                     "runs/1/manifest.json", ".env", "tests/x.py"):  # fmt: skip
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        given: dict[str, Mapping[str, list[str]]] = {}

        def init(**options: Any) -> None:
            given.update(options)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None))
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with connected("auto", tmp_path):
            excludes = given["runtime_env"]["excludes"]
        assert signal.signal(signal.SIGTERM, before) == signal.SIG_IGN, "Ray puts its own in its place"
        travelling: list[Path] = []
        packaging._dir_travel(
            tmp_path, [packaging._get_excludes(tmp_path, excludes)], travelling.append, include_gitignore=True
        )
        files = {str(path.relative_to(tmp_path)) for path in travelling if path.is_file()}
        assert files == {"harness/a.py", "images/cpu.lock"}


def messages_of(scripts: Mapping[str, list[Message]]) -> Iterator[tuple[str, Message]]:
    return ((key, message) for key, messages in scripts.items() for message in messages)


class TestCollecting:
    def test_dead_node_keeps_its_trials_and_does_not_stop_others(self, tmp_path):
        folder, progress = folder_in(tmp_path), RecordingProgress()
        lost = pickle.loads(pickle.dumps(FleetError("the node died.", hint="Look there.")))
        scripts = {"a": [RUN, done_trial(0, tmp_path / "s"), lost], "b": whole(tmp_path / "b")}
        assert collect(messages_of(scripts), folder, progress) == {"a": "Node a: the node died. Look there."}
        assert progress.lines == ["Node a: the node died. Look there."]
        notes = {task.label: task.notes for task in progress.tasks}
        assert notes == {"a": ["failed"], "b": ["preparing", "done"]}
        assert [path.name for path in folder.runs()] == ["a", "b"]
        assert (folder.done("a"), folder.done("b")) == (False, True)
        trials = read_run(folder.path / "b").trials
        assert {trial.id: trial.status for trial in trials} == dict.fromkeys(IDS, Status.OK)

    def test_failed_trials_are_results_but_sweep_points_without_enough_memory_no_failures(self, tmp_path):
        first = replace(RUN.planned[0], point=(("BATCH_SIZE", 8),))
        folder = folder_in(tmp_path)
        too_large = done_trial(0, tmp_path / "s", Status.OUT_OF_MEMORY)
        for planned_run, fails in ((replace(RUN, planned=(first,)), False), (RUN, True)):
            shutil.rmtree(folder.path / "a", ignore_errors=True)
            collect([("a", planned_run), ("a", too_large)], folder, Silent())
            with pytest.raises(TrialError) if fails else nullcontext():
                raise_for_trials(folder.trials())
        progress, bad = RecordingProgress(), done_trial(0, tmp_path / "s", Status.FAILED)
        assert collect([("a", RUN), ("a", bad)], folder, progress) == {}
        assert progress.lines == [f"a: {IDS[0]}: failed. It failed."]
        with pytest.raises(TrialError, match=f"1 of 1 trial failed, first a/{IDS[0]}: It failed."):
            raise_for_trials(folder.trials())


@dataclass
class FakeCluster:
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
        yield from messages_of(self.scripts)


class TestResuming:
    def test_only_unfinished_nodes_are_resumed(self, tmp_path):
        nodes = (node("a"), node("b"), node("c"))
        folder = folder_in(tmp_path, nodes)
        cut = [RUN, done_trial(0, tmp_path / "s")]
        collect(messages_of({"a": whole(tmp_path / "a"), "b": cut}), folder, Silent())
        rest = {"b": whole(tmp_path / "t", (1, 2)), "c": ["preparing"]}
        silent = FleetError("it is silent.", hint="Look there.")
        cluster = FakeCluster((*nodes, node("d")), {"d": silent}, rest)
        missing = run(cluster, folder, folder.read_plan(), Silent())
        assert missing == {"d": "Node d: it is silent. Look there."}
        assert set(cluster.sent) == {"b", "c"}
        done = f"trials/{IDS[0]}"
        needed = {"manifest.json", "plan.json", f"{done}/trial.json", f"{done}/out/events.jsonl"}
        assert cluster.sent["b"].keys() == needed
        assert cluster.sent["c"] == {}
        assert {trial.id for trial in read_run(folder.path / "b").trials} == set(IDS)
        assert set(lost_nodes(folder, plan_of(nodes), [])) == {"c"}, "a finished node may leave"
        with user_error(
            FleetError, "No node of the cluster is usable", hint="Node d: it is silent. Look there."
        ):
            run(FakeCluster((node("d"),), {"d": silent}), folder_in(tmp_path / "none"), plan_of(), Silent())

    def test_new_nodes_replace_lost_ones_of_the_same_kind(self, tmp_path):
        folder = folder_in(tmp_path, [node("a", kind="T4"), node("b", kind="H100")])
        bad = FleetError("No module named 'docker'", hint="Install it.")
        cluster = FakeCluster((node("c", kind="T4"), node("bad", kind="T4")), {"bad": bad})
        for _ in range(2):
            missing = run(cluster, folder, folder.read_plan(), Silent())
            assert cluster.sent.keys() == {"c"}
            assert set(missing) == {"b", "bad"}, "node c replaces node a"
            assert "No module named 'docker'. Install it." in missing["bad"]
            assert folder.read_plan().chosen == ("b", "c", "bad")
            assert {each.key for each in folder.read_plan().nodes} == {"a", "b", "c", "bad"}


def test_users_files_are_not_written_again_for_another_node(tmp_path):
    files = {"/x/my.py": "pass"}
    written = write_user_files(files, tmp_path, Silent()) / "x/my.py"
    before = written.stat()
    write_user_files(files, tmp_path, Silent())
    assert written.stat() == before
    written.write_text("other")
    write_user_files(files, tmp_path, Silent())
    assert written.read_text() == "pass"
