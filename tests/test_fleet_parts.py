"""What a fleet is put together from: choice of nodes, checks, packing, the journal, the code that travels."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import FleetError, StoreError, UsageError
from harness.fleet import backend, code
from harness.fleet.backend import connected, offset_s
from harness.fleet.folder import JOURNAL, FleetFolder
from harness.fleet.messages import Entry, FleetPlan, Node, Problem, Request, State, Task
from harness.fleet.node_facts import facts as ask
from harness.fleet.node_facts import kind, versions
from harness.fleet.nodes import choose, node_keys, problems
from harness.fleet.packing import pack, pack_run_so_far, unpack
from harness.fleet.session import needed_targets, shipped
from harness.fleet.worker import scratch_folder
from harness.model.options import Options
from tests.conftest import ROOT
from tests.fleets import OURS, disk, facts, node


def keys(nodes: tuple[Node, ...]) -> list[str]:
    return [item.key for item in nodes]


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
        assert keys(choose(self.NODES, wanted)) == expected

    def test_nothing_fits(self) -> None:
        with pytest.raises(UsageError, match="--nodes pool=z") as caught:
            choose(self.NODES, "pool=z")
        assert "a (pool=x, zone=1)" in caught.value.hint

    def test_half_a_selector(self) -> None:
        with pytest.raises(UsageError, match="not a choice"):
            choose(self.NODES, "pool=")

    def test_keys_are_unique_and_fit_for_a_path(self) -> None:
        named = [("", "vm", "aaaaaa11"), ("", "vm", "bbbbbb22"), ("../x y", "vm", "c"), ("", "", "d")]
        assert node_keys(named) == ("vm-aaaaaa", "vm-bbbbbb", "x-y", "node")


def problems_of(asked: Node, **changes: object) -> list[Problem]:
    plain = {"engine": "auto", "targets": ("cpu",), "build": True}
    return list(problems(asked, OURS, **{**plain, **changes}))


class TestChecks:
    def test_a_node_like_the_driver_has_no_problem(self) -> None:
        assert problems_of(node("a")) == []

    @pytest.mark.parametrize("name", ["python", "ray", "tfbench", "code"])
    def test_another_version_keeps_a_node_out_and_is_named(self, name: str) -> None:
        other = facts(node("gpu-7"), versions={**OURS, name: "9.9"})
        (problem,) = problems_of(other)
        assert problem.fatal
        assert problem.node == "gpu-7"
        assert (
            f"gpu-7 has {'Python' if name == 'python' else 'Ray' if name == 'ray' else name} 9.9"
            in problem.message
        )
        assert OURS[name] in problem.message

    def test_a_node_that_has_no_tfbench_of_its_own_runs_the_driver_s(self) -> None:
        assert problems_of(facts(node("a"), versions={**OURS, "tfbench": ""})) == []

    def test_packages_that_are_missing(self) -> None:
        (problem,) = problems_of(facts(node("a"), missing=("docker", "psutil")))
        assert "a lacks the Python packages docker, psutil" in problem.message

    def test_an_engine_is_needed_where_it_is_asked_for(self) -> None:
        without = facts(node("a"), engine="", engine_problem="no such socket")
        assert problems_of(without) == []
        for engine, remedy in (("docker", "make engine"), ("podman", "podman.socket")):
            (problem,) = problems_of(without, engine=engine)
            assert "a has no container engine: no such socket." in problem.message
            assert remedy in problem.hint

    def test_a_full_disk_is_found_before_a_build_fills_it(self) -> None:
        small = facts(node("a"), image_disk=disk("/images", device=2, free_gib=4))
        assert problems_of(small) == [], "the image is there already"
        (problem,) = problems_of(facts(small, images=()))
        assert (
            "The disk of /images on node a is full: 4.0 GiB are free, 5.0 GiB are needed" in problem.message
        )
        assert "data-root" in problem.hint
        assert problems_of(facts(small, images=()), build=False) == []

    def test_the_disk_of_the_cache_needs_room_for_wheels_and_a_run(self) -> None:
        tight = facts(node("a"), images=(), cache_disk=disk("/cache", free_gib=2))
        assert problems_of(tight) == [], "the image comes onto another disk"
        (problem,) = problems_of(facts(tight, cache_disk=disk("/cache", free_gib=1)))
        assert (
            "/cache on node a is full: 1.0 GiB are free, 1.2 GiB are needed for a run and" in problem.message
        )
        assert "TFBENCH_CACHE" in problem.hint

    def test_what_lies_on_one_disk_is_added_up(self) -> None:
        both = facts(node("a"), images=(), image_disk=disk("/images", free_gib=6))
        (problem,) = problems_of(facts(both, cache_disk=disk("/cache", free_gib=6)))
        assert "6.0 GiB are free, 6.2 GiB are needed" in problem.message
        assert problem.message.endswith("for a run and the wheels of cpu and building the images cpu.")

    def test_the_disk_of_an_engine_elsewhere_is_not_asked_and_without_one_the_cache_takes_all(self) -> None:
        bare = facts(node("a"), images=(), image_disk=None, cache_disk=disk("/cache", free_gib=3))
        assert problems_of(bare) == []
        (problem,) = problems_of(facts(bare, engine=""))
        assert "3.2 GiB are needed for a run and the local engine's environments for cpu" in problem.message

    def test_clocks_apart_are_said_and_keep_nobody_out(self) -> None:
        (problem,) = problems_of(replace(node("a"), clock_offset_s=-37.0))
        assert not problem.fatal
        assert "The clock of node a is 37 s behind" in problem.message

    @pytest.mark.parametrize(
        ("theirs", "expected"), [(105.0, 0.0), (99.0, -1.0), (140.0, 30.0), (100.0, 0.0), (110.0, 0.0)]
    )
    def test_a_slow_answer_is_no_wrong_clock(self, theirs: float, expected: float) -> None:
        assert offset_s(100.0, theirs, 110.0) == expected


class TestPacking:
    def test_a_folder_comes_out_as_it_went_in(self, tmp_path: Path) -> None:
        source = tmp_path / "source/trial"
        (source / "out").mkdir(parents=True)
        (source / "out/events.jsonl").write_text("{}\n")
        (source / "log.txt").write_bytes(b"\xff\x00")
        unpack(pack(source), tmp_path / "target/trial")
        assert (tmp_path / "target/trial/out/events.jsonl").read_text() == "{}\n"
        assert (tmp_path / "target/trial/log.txt").read_bytes() == b"\xff\x00"
        assert list((tmp_path / "target").iterdir()) == [tmp_path / "target/trial"]

    def test_a_node_is_told_no_more_than_it_needs_to_go_on(self, tmp_path: Path) -> None:
        for name in ("manifest.json", "plan.json", "trials/t/trial.json", "trials/t/out/events.jsonl",
                     "trials/t/telemetry/host-host.csv", "report.html"):  # fmt: skip
            (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "run" / name).write_text("x")
        unpack(pack_run_so_far(tmp_path / "run"), tmp_path / "seed")
        names = {str(path.relative_to(tmp_path / "seed")) for path in (tmp_path / "seed").rglob("*.*")}
        assert names == {"manifest.json", "plan.json", "trials/t/trial.json", "trials/t/out/events.jsonl"}

    def test_an_archive_cannot_write_elsewhere(self, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            worker = tarfile.TarInfo("../../evil")
            worker.size = 1
            tar.addfile(worker, io.BytesIO(b"x"))
        with pytest.raises(StoreError):
            unpack(buffer.getvalue(), tmp_path / "run/trials/t")
        assert not list(tmp_path.rglob("evil"))

    def test_a_torn_archive_leaves_no_half_a_trial(self, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.mkdir()
        (source / "log.txt").write_bytes(bytes(range(256)) * 400)
        with pytest.raises(StoreError):
            unpack(pack(source)[:-40], tmp_path / "trial")
        assert not (tmp_path / "trial").exists()


class TestFolder:
    PLAN = FleetPlan(
        fleet_id="f", created="now", tfbench_version="1", commit="c",
        request=Request(command="tfbench fleet", wait_s=5.0),
        options={"profile": "quick"}, nodes=(node("a"),), chosen=("a",),
        problems=(Problem(node="a", message="m", hint="h"),), files={"/x/my.py": "pass"},
    )  # fmt: skip

    def test_the_plan_reads_back_as_it_was(self, tmp_path: Path) -> None:
        folder = FleetFolder(tmp_path / "f")
        folder.create(self.PLAN)
        assert folder.read_plan() == self.PLAN

    def test_a_torn_last_line_of_the_journal_is_left_out(self, tmp_path: Path) -> None:
        folder = FleetFolder(tmp_path / "f")
        folder.create(self.PLAN)
        task = Task(folder="a", node="a", kind="k")
        folder.note(Entry(t_s=1.0, task=task, state=State.RUNNING))
        with (folder.path / JOURNAL).open("a") as file:
            file.write('{"t_s":2.0,"task":{"fol')
        assert folder.journal()["a"].state is State.RUNNING
        assert folder.unfinished() == (task,)

    @pytest.mark.parametrize("text", ["", "[]", json.dumps({"fleet_id": 3})])
    def test_any_other_folder_is_no_fleet(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "fleet.json").write_text(text)
        with pytest.raises(StoreError) as caught:
            FleetFolder(tmp_path).read_plan()
        assert "tfbench fleet" in caught.value.hint
        with pytest.raises(StoreError, match="is not a fleet"):
            FleetFolder(tmp_path / "nowhere").read_plan()


class TestProbe:
    def test_a_node_without_packages_can_still_say_so(self) -> None:
        text = ask((), "auto", False, needed=("json", "no_such_package"))
        assert text.missing == ("no_such_package",)
        assert text.versions["code"] == versions()["code"]

    def test_this_machine(self) -> None:
        text = ask((), "auto", False)
        assert text.missing == ()
        assert text.boot_id
        assert f"{text.cpus}" in text.kind
        assert text.cache_disk is not None
        assert text.cache_disk.free_bytes > 0

    def test_two_nodes_of_one_type_are_of_one_kind(self) -> None:
        card = ["NVIDIA H200"] * 2
        one = kind("", card, "EPYC", 64, 503 * 2**30)
        assert one == kind("", card, "EPYC", 64, 503 * 2**30 + 12345) == "2x NVIDIA H200, 64x EPYC, 504 GiB"
        assert kind("g5.xlarge", [], "", 4, 0) == "g5.xlarge, 4 CPUs"


class TestCode:
    def test_what_travels_runs_as_the_checkout_does_and_has_its_digest(self, tmp_path: Path) -> None:
        staged = code.stage(ROOT, tmp_path / "code")
        assert code.digest(staged) == code.digest(ROOT)
        assert (staged / "images/cpu.lock").is_file()
        assert not (staged / "tests").exists()
        (staged / "harness/run/runner.py").write_text("changed = True\n")
        assert code.digest(staged) != code.digest(ROOT)


@pytest.mark.parametrize(
    ("address", "said", "tried"),
    [
        ("ray://10.0.0.1:10001", "Ray client", "on a node of the cluster"),
        ("127.0.0.1:9", "No Ray cluster answers", "Check host and port"),
    ],
)
def test_no_cluster(address: str, said: str, tried: str) -> None:
    with pytest.raises(FleetError, match=said) as caught, connected(address, ROOT):
        raise AssertionError
    assert tried in caught.value.hint


def test_a_cluster_that_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own word for a missing token, after half a minute: "Failed to connect to Ray cluster"."""

    def refuse(**_: object) -> None:
        raise ConnectionError("Failed to connect to Ray cluster at 127.0.0.1:6379")

    monkeypatch.setattr(backend, "_ray", lambda: SimpleNamespace(init=refuse))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(FleetError, match=": Fail") as caught, connected(address, ROOT):
            raise AssertionError
    assert "RAY_AUTH_MODE=token" in caught.value.hint


def test_what_killed_workers_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    left, ours, others = (tmp_path / name for name in (f"fleet-{ended.pid}-x", "fleet-1-x", "data"))
    for folder in (left, ours, others):
        folder.mkdir()
    made = scratch_folder(tmp_path)
    assert made.stat().st_mode & 0o777 == 0o755, "containers may enter it"
    assert set(tmp_path.iterdir()) == {made, ours, others}


@pytest.mark.parametrize(
    ("asked", "targets"),
    [
        ({"device": "cpu"}, ("cpu",)),
        ({"device": "auto"}, ("cpu", "cuda")),
        ({"device": "cpu", "workloads": ("higgs-trees",)}, ("trees-cpu",)),
        (
            {"device": "gpu", "workloads": ("higgs-trees", "cifar10-mlp")},
            ("cpu", "cuda", "trees-cpu", "trees-cuda"),
        ),
        ({"engine": "local"}, ()),
    ],
)
def test_nodes_need_the_images_of_the_workloads_families(asked: dict, targets: tuple[str, ...]) -> None:
    assert set(needed_targets(Options(**asked))) == set(targets)


def test_only_modules_travel_beside_a_workload_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    for name in ("mine.py", "helper.py", "old version.py", ".hidden.py"):
        (tmp_path / name).write_text("pass")
    (tmp_path / ".#mine.py").symlink_to("user@host.1234")  # an editor's lock
    (tmp_path / "folder.py").mkdir()
    assert {path.name for path in shipped(Options(files=(mine,)))} == {"mine.py", "helper.py"}
