from dataclasses import replace
from pathlib import Path

import pytest

from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.fleet.fleet_folder import FleetFolder
from harness.fleet.fleet_plan import Written
from harness.fleet.multi_node_training import measure, parse_counts, placement, runs_by_workers
from harness.fleet.nodes import select_team
from harness.model.run import Placement, Status
from tests.fakes import RecordingProgress
from tests.fleets import IDS, RUN, done_trial, folder_in, node

NODES = (node("a", machine="vm"), node("b", machine="vm"))


@pytest.mark.parametrize(("text", "counts"), [("1,2,4", (1, 2, 4)), (" 2, 1,2", (1, 2)), ("8", (8,))])
def test_parse_counts(text: str, counts: tuple[int, ...]) -> None:
    assert parse_counts(text) == counts
    for wrong in ("", f"{text},", f"{text},0", f"-{text}", f"{text},two"):
        with pytest.raises(UsageError, match="not a list of numbers"):
            parse_counts(wrong)


def test_workers_are_of_the_most_frequent_kind() -> None:
    nodes = [node("a", kind="T4"), node("b", kind="H100"), node("c", kind="H100")]
    assert [item.key for item in select_team(nodes, (1, 2))] == ["b", "c"]
    with pytest.raises(UsageError, match=r"3 workers .* 2 of H100, 1 of T4"):
        select_team(nodes, (1, 3))


def train(folder: FleetFolder, scratch: Path, fails: str = "") -> tuple[list[tuple], RecordingProgress]:
    """Train a plan of three trials, of which the profile runs two; return what ran."""
    ran, progress = [], RecordingProgress()

    def run(trial_id: str, workers: int) -> tuple[Written, ...]:
        ran.append((trial_id, workers))
        status = Status.FAILED if trial_id == fails else Status.OK
        ranks = (scratch / f"{len(ran)}-{rank}" for rank in range(workers))
        return tuple(done_trial(IDS.index(trial_id), rank, status) for rank in ranks)

    profile = replace(PROFILES["quick"], trials=2)
    planned = replace(RUN, manifest=replace(RUN.manifest, profile=profile))
    measure(folder, planned, NODES, (1, 2), run, progress)
    return ran, progress


def test_worker_counts_alternate_and_all_results_are_stored(tmp_path: Path) -> None:
    folder = folder_in(tmp_path, NODES)
    ran, progress = train(folder, tmp_path)
    first, second = IDS[:2]
    assert ran == [(first, 1), (first, 2), (second, 1), (second, 2)]
    assert (progress.tasks[0].total, progress.tasks[0].done) == (4, 4)
    teams = runs_by_workers(folder)
    assert sorted(teams) == [1, 2]
    assert [trial.id for trial in teams[2].trials] == [first, second]
    assert (folder.path / f"workers-2/trials/{first}/workers/1-b/trial.json").is_file()
    assert teams[2].manifest.placement == Placement(nodes=("a", "b"), machines=(0, 0), cpus=4)


def test_successful_trials_are_not_repeated(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    second = IDS[1]
    _, progress = train(folder, tmp_path / "1", fails=second)
    assert any("failed. " in line for line in progress.lines)
    assert train(folder, tmp_path / "2")[0] == [(second, 1), (second, 2)]


def test_placement() -> None:
    assert placement(NODES, 2).oversubscribed
    spread = placement([node("a"), node("b")], 2)
    assert (spread.machines, spread.oversubscribed) == ((0, 1), False)
