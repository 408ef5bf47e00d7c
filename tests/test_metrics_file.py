"""The state of a run as a file, read by the parser of its consumers."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.analysis import analyse
from harness.cli.metrics_file import live_metrics
from harness.defaults import PROFILES
from harness.model.run import Metric, Run, Status, Trial, Window
from harness.options import Options
from harness.run.plan import plan_trials
from harness.run.prepare import Prepared
from harness.run.resolve import resolve
from harness.run.stopping import speed_of
from harness.run.store import RunFolder
from tests.builders import jobs, manifest, small_workload
from tests.fakes import FakeEngine, RecordingProgress
from workloads.protocol import BETWEEN_EPOCHS
from workloads.variants import BASELINE

WORKLOAD = small_workload()
THREE = replace(PROFILES["smoke"], trials=3, max_trials=3)
FAST_S = 0.01


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    planned = plan_trials([WORKLOAD], ("cpu",), THREE, {WORKLOAD.name: (BASELINE,)}, {}, ((),))
    recorded = replace(manifest(), profile=THREE)
    folder = RunFolder(tmp_path / "run")
    folder.create(Run(manifest=recorded, workloads=(WORKLOAD,), planned=planned, trials=()))
    options = Options(device="cpu", profile="smoke")
    return Prepared(
        plan=replace(resolve(options), planned=planned),
        engine=FakeEngine(),
        folder=folder,
        manifest=recorded,
        jobs=jobs(planned, WORKLOAD, THREE),
    )


def end_of(prepared: Prepared, number: int) -> Trial:
    window = Window(
        variant=BASELINE, index=0, start_ns=0, end_ns=2 * 10**9, steps=10, samples=500, wait_ns=-1
    )
    return replace(prepared.jobs[number].planned.trial(Status.OK), windows=(window,), ended_ns=1)


def values(path: Path) -> dict[str, Any]:
    """Return name -> (labels, value) of the samples, as node_exporter's textfile collector reads them."""
    parser = pytest.importorskip("prometheus_client.parser")
    openmetrics = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = path.read_text()
    assert list(openmetrics.text_string_to_metric_families(text))
    families = parser.text_string_to_metric_families(text)
    return {each.name: (each.labels, each.value) for family in families for each in family.samples}


def wait_for(path: Path, accepted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if path.exists() and accepted(result := values(path)):
            return result
        time.sleep(FAST_S)
    raise AssertionError(path.read_text() if path.exists() else "not written")


def test_state_of_a_run(prepared: Prepared, tmp_path: Path) -> None:
    path, progress = tmp_path / "tfbench.prom", RecordingProgress()
    with live_metrics(path, prepared.folder, prepared.run, progress, FAST_S) as on_trial_end:
        assert on_trial_end
        job = prepared.jobs[0]
        prepared.folder.open_trial(job.planned)
        prepared.folder.announce(job.planned, job.spec)
        now = wait_for(path, lambda it: "tfbench_trial_seconds" in it)
        labels, seconds = now["tfbench_trial_seconds"]
        assert (labels["trial"], labels["device"]) == (job.planned.id, "cpu")
        assert 0 <= seconds < 10
        assert now["tfbench_run_active"][1] == 1
        assert now["tfbench_trials_planned"][1] == 3
        trial = end_of(prepared, 0)
        prepared.folder.close_trial(trial, "")
        on_trial_end(trial)
        now = wait_for(path, lambda it: "tfbench_trials_ended" in it)
        assert now["tfbench_trials_ended"] == ({"run_id": prepared.manifest.run_id, "status": "ok"}, 1)
        labels, speed = now["tfbench_last_samples_per_second"]
        assert (labels["workload"], labels["device"], labels["variant"]) == (WORKLOAD.name, "cpu", BASELINE)
        assert speed == 250
    ended = values(path)
    assert ended["tfbench_run_active"][1] == 0
    assert "tfbench_trial_seconds" not in ended
    assert progress.lines == []
    assert [each.name for each in tmp_path.iterdir() if "partial" in each.name] == []
    # A resumed run counts earlier trials.
    with live_metrics(tmp_path / "again.prom", prepared.folder, prepared.run, progress, FAST_S):
        now = wait_for(tmp_path / "again.prom", lambda it: "tfbench_trials_ended" in it)
    assert now["tfbench_trials_ended"][0]["status"] == "bad-events"  # as it wrote none


def test_file_that_cannot_be_written_costs_one_line(prepared: Prepared, tmp_path: Path) -> None:
    path, progress = tmp_path / "none" / "tfbench.prom", RecordingProgress()
    with live_metrics(path, prepared.folder, prepared.run, progress, FAST_S):
        time.sleep(10 * FAST_S)
        assert len(progress.lines) == 1
        path.parent.mkdir()
        wait_for(path, lambda it: "tfbench_run" in it)
    assert len(progress.lines) == 1
    assert "--metrics-file" in progress.lines[0]


def test_page_stopping_rule_and_file_have_one_speed(prepared, tmp_path):
    """The ends of epochs belong to a step wherever its speed is told."""
    ended = replace(end_of(prepared, 0), metrics=(Metric(variant=BASELINE, name=BETWEEN_EPOCHS, value=0.05),))
    path = tmp_path / "metrics.prom"
    with live_metrics(path, prepared.folder, prepared.run, RecordingProgress(), FAST_S) as report:
        report(ended)
        time.sleep(5 * FAST_S)
    (_, told) = values(path)["tfbench_last_samples_per_second"]
    run = replace(prepared.run, trials=(ended,))
    page = analyse(run).cases[0].variants[BASELINE].throughput.median
    assert told == pytest.approx(page) == pytest.approx(speed_of(ended, BASELINE)) == pytest.approx(500 / 2.5)
