"""Runs recorded on an H200, replayed: the same figures, findings and pages as on the machine itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.compare import GPU_OVER_CPU, SCALING, TUNED_OVER_BASELINE
from harness.analysis.energy import energy_per_sample
from harness.analysis.findings import primary
from harness.analysis.results import results_document
from harness.model.analysis import INPUT_PARTS, Analysis, Cause, CaveatKind, Estimate, Part
from harness.model.run import Run, Series, Status, Trial
from harness.run.store import read_run
from reports.fixes import fixes
from reports.page import render_html
from tests.recordings import DATA, NAMES, PUBLISHED, SEVERAL, SUFFIX, SUITE, recording
from tests.report_pages import Document, javascript
from workloads.protocol import BASELINE

pytestmark = pytest.mark.slow

PAGE_BYTES = 1_500_000
ON_CARD = ("sm_util_pct", "sm_occupancy_pct", "tensor_util_pct", "dram_util_pct")
Folders = Callable[[str], Path]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Unpack each recording once for each process of the test run."""
    into = tmp_path_factory.mktemp("recordings")

    def unpacked(name: str) -> Path:
        path = into / name
        return path if path.exists() else recording(name, into)

    return unpacked


@cache
def replay(path: Path) -> Analysis:
    return analyse(read_run(path))


def ratios(analysis: Analysis, kind: str) -> dict[str, Estimate]:
    return {each.numerator: each.ratio for each in analysis.comparisons if each.kind == kind}


def on_gpu(run: Run) -> list[Trial]:
    trials = [trial for trial in run.trials if trial.device != "cpu"]
    assert trials
    return trials


def series(trial: Trial, source: str) -> Series:
    (found,) = (one for one in trial.telemetry if (one.source, one.device) == (source, "gpu0"))
    return found


def known(one: Series, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds and the values of a column's readings, without its gaps."""
    values = one.columns[column]
    there = np.isfinite(values)
    return one.t_ns[there] / 1e9, values[there]


class TestRecordings:
    def test_every_archive_is_replayed(self) -> None:
        assert {path.name for path in DATA.iterdir() if path.suffix == ".xz"} == {
            f"{name}{SUFFIX}" for name in (*NAMES, SUITE, SEVERAL, PUBLISHED)
        }

    def test_they_are_small(self) -> None:
        assert sum(path.stat().st_size for path in DATA.iterdir()) < 3 << 20

    @pytest.mark.parametrize("name", NAMES)
    def test_they_are_whole_runs(self, name: str, folder: Folders) -> None:
        run = read_run(folder(name))
        assert [trial.id for trial in run.trials] == [planned.id for planned in run.planned]
        assert {trial.status for trial in run.trials} == {Status.OK}
        assert sum(stop.trials for stop in run.stops) == len(run.trials)
        assert [gpu.name for gpu in run.manifest.gpus] == ["NVIDIA H200"]


@pytest.mark.parametrize("name", NAMES)
class TestReplay:
    def test_figures_are_those_that_the_run_itself_wrote(self, name: str, folder: Folders) -> None:
        live = json.loads((folder(name) / "results.json").read_text(encoding="utf-8"))
        analysis = replay(folder(name))
        assert figures(analysis) == {
            (each["workload"], each["device"], each["variant"]): (
                each["throughput_samples_per_s"]["median"], each["throughput_samples_per_s"]["n"],
                each["step_time_s"]["median"], each["step_time_quantiles_s"], each["batch_size"],
                [(one["phase"], one["duration_s"]) for one in each["cold_start"]], each["trial_ids"],
            )
            for each in live["summaries"]
        }  # fmt: skip
        assert {trial.id: trial.status.value for trial in analysis.run.trials} == {
            trial["id"]: trial["status"] for trial in live["trials"]
        }

    def test_parts_add_up_and_no_gain_is_more_than_its_share(self, name: str, folder: Folders) -> None:
        analysis = replay(folder(name))
        assert analysis.step_times
        for time in analysis.step_times:
            assert sum(part.median for part in time.parts.values()) == pytest.approx(time.total.median)
        for finding in analysis.findings:
            if finding.gain is not None and finding.share is not None:
                assert 0 < finding.share.median < 1
                assert finding.gain == pytest.approx(1 / (1 - finding.share.median))

    def test_results_are_plain_json(self, name: str, folder: Folders) -> None:
        analysis = replay(folder(name))
        results = json.loads(json.dumps(results_document(analysis), allow_nan=False))
        assert len(results["summaries"]) == len(analysis.summaries)
        assert [each["cause"] for each in results["findings"]] == [each.cause for each in analysis.findings]

    def test_the_card_was_seen_from_within(self, name: str, folder: Folders) -> None:
        for trial in on_gpu(read_run(folder(name))):
            gpm = series(trial, "gpm")
            for column in ON_CARD:
                _, values = known(gpm, column)
                assert len(values) > 0.9 * len(gpm.t_ns)
                assert 0 < values.max() <= 100
                assert values.min() >= 0

    def test_energy_adds_up_to_the_cards_counter(self, name: str, folder: Folders) -> None:
        """Over a trial: what its windows are said to have taken, and power readings for all between them."""
        for trial in on_gpu(read_run(folder(name))):
            counted_s, counted_j = known(series(trial, "nvml_slow"), "energy_j")
            power_s, power_w = known(series(trial, "nvml"), "power_instant_w")
            grown = np.concatenate(([0.0], np.cumsum(np.diff(power_s) * (power_w[1:] + power_w[:-1]) / 2)))
            start, end = counted_s[0], counted_s[-1]
            between = np.interp(end, power_s, grown) - np.interp(start, power_s, grown)
            said = 0.0
            for window in trial.windows:
                began, ended = window.start_ns / 1e9, window.end_ns / 1e9
                assert start <= began < ended <= end
                between -= np.interp(ended, power_s, grown) - np.interp(began, power_s, grown)
                each = energy_per_sample(trial, window.variant)
                assert each is not None
                said += each[0] * window.samples
            assert said > 0.1 * (counted_j[-1] - counted_j[0])
            assert said + between == pytest.approx(counted_j[-1] - counted_j[0], rel=0.02)

    def test_the_page_is_small_and_the_same_each_time(self, name: str, folder: Folders) -> None:
        made = (analyse(read_run(folder(name))), replay(folder(name)))
        page, again = (render_html(each, code=javascript) for each in made)
        assert page == again
        assert len(page.encode()) < PAGE_BYTES
        assert Document(page).unbalanced == []
        assert 'class="banner"' not in page


class TestFindings:
    @pytest.mark.parametrize(
        ("name", "cause", "parts", "least"),
        [
            ("h200-launch-bound", Cause.LAUNCH, {Part.LAUNCH}, 0.5),
            ("h200-compute-bound", Cause.COMPUTE, {Part.COMPUTE}, 0.85),
            ("h200-input-bound", Cause.INPUT, set(INPUT_PARTS), 0.8),
            # The article found its GPU at 0 to 10 %: the CPU reads, decodes and augments.
            (PUBLISHED, Cause.INPUT, set(INPUT_PARTS), 0.9),
        ],
    )
    def test_what_was_known_of_the_workload_comes_first(
        self, name: str, cause: Cause, parts: set[Part], least: float, folder: Folders
    ) -> None:
        analysis = replay(folder(name))
        found = primary(analysis.findings, analysis.summaries[0].workload, "gpu0")
        assert found is not None and found.share is not None
        assert (found.cause, set(found.parts)) == (cause, parts)
        assert found.share.median > least

    def test_stages_that_cannot_be_told_apart_are_all_named(self, folder: Folders) -> None:
        (pipeline,) = replay(folder("h200-input-bound")).pipelines
        assert len(pipeline.slowest) > 1

    def test_small_steps_gain_much_by_tuning(self, folder: Folders) -> None:
        analysis = replay(folder("h200-launch-bound"))
        assert ratios(analysis, TUNED_OVER_BASELINE)["gpu0/tuned"].low > 10
        over_cpu = ratios(analysis, GPU_OVER_CPU)
        assert over_cpu["gpu0/baseline"].low < 1.1
        assert over_cpu["gpu0/tuned"].low > 10

    def test_no_code_is_offered_for_what_made_it_slower(self, folder: Folders) -> None:
        """Of a pipeline that lacks parallel maps: 1,624 samples/s for 2,248."""
        (slower,) = fixes(replay(folder("h200-input-bound")))
        assert slower.tried is not None and slower.tried.gain.median == pytest.approx(0.72, abs=0.01)
        assert slower.diff == ()
        faster = next(
            each for each in fixes(replay(folder("h200-launch-bound"))) if each.row.device == "gpu0"
        )
        assert faster.tried is None and faster.diff

    def test_a_fast_pipeline_gains_what_the_card_waited_for(self, folder: Folders) -> None:
        analysis = replay(folder(PUBLISHED))
        baseline = next(each for each in analysis.summaries if each.variant == BASELINE)
        assert 0 < baseline.telemetry["nvml.gpu0.gpu_util_pct"] < 10
        assert ratios(analysis, TUNED_OVER_BASELINE)["gpu0/tuned"].median > 100


class TestSuite:
    def test_only_the_workload_of_files_waits_for_its_input(self, folder: Folders) -> None:
        analysis = replay(folder(SUITE))
        for each in {(one.workload, one.device) for one in analysis.summaries}:
            found = primary(analysis.findings, *each)
            assert found is not None
            assert found.cause is (Cause.INPUT if each[0] == "cats-dogs" else Cause.LAUNCH)

    def test_a_step_is_accounted_for_on_both_devices(self, folder: Folders) -> None:
        times = [one for one in replay(folder(SUITE)).step_times if one.variant == BASELINE]
        assert len(times) == 8
        for time in times:
            assert (Part.COPY in time.parts) == (time.device == "gpu0")
            assert sum(part.median for part in time.parts.values()) == pytest.approx(time.total.median)
            assert abs(time.parts[Part.UNEXPLAINED].median) < 0.2 * time.total.median

    def test_no_copy_costs_much_of_a_step(self, folder: Folders) -> None:
        copies = [one.share(Part.COPY) for one in replay(folder(SUITE)).step_times if Part.COPY in one.parts]
        assert len(copies) == 4
        assert all(share is not None and share < 0.2 for share in copies)


class TestInference:
    def test_each_step_from_baseline_to_tuned_is_there(self, folder: Folders) -> None:
        speeds = {one.variant: one.throughput.median for one in replay(folder("h200-inference")).summaries}
        assert speeds["opt:folded"] > 1.5 * speeds["opt:resident"]
        assert speeds["opt:xla-folded"] > 1.5 * speeds["opt:xla"]
        assert speeds["tuned"] > 15 * speeds[BASELINE]

    def test_a_large_request_is_slower_than_its_batch_on_the_card(self, folder: Folders) -> None:
        """Its images lie in host memory: at batch 512 getting them to the GPU is most of it."""
        analysis = replay(folder("h200-inference"))
        (tuned,) = (one for one in analysis.summaries if one.variant == "tuned")
        (large,) = (one for one in analysis.latencies if (one.variant, one.batch_size) == ("tuned", 512))
        assert large.quantiles_s["p50"] > 5 * 512 / tuned.throughput.median

    def test_a_rate_within_the_least_bound_stands_for_larger_ones_as_a_lower_limit(
        self, folder: Folders
    ) -> None:
        analysis = replay(folder("h200-requests"))
        found = {(one.variant, one.bound_s): one for one in analysis.capacities}
        least, larger = found["tuned", 0.015], found["tuned", 0.05]
        assert least.rate_per_s is not None and larger.rate_per_s is not None
        assert least.rate_per_s.median == larger.rate_per_s.median == pytest.approx(382.1, abs=0.1)
        assert (least.at_least, larger.at_least) == (False, True)
        assert found[BASELINE, 0.015].rate_per_s is None


class TestSeveralCards:
    TOGETHER = "gpu0+gpu1+gpu2+gpu3"

    def test_every_card_has_telemetry_of_its_own(self, folder: Folders) -> None:
        for trial in read_run(folder(SEVERAL)).trials:
            for name in ("nvml", "gpm", "nvml_power", "nvml_slow"):
                seen = {one.device for one in trial.telemetry if one.source == name}
                assert seen == set(trial.device.split("+"))

    def test_energy_is_that_of_all_cards(self, folder: Folders) -> None:
        taken = {one.device: one.energy_j_per_sample for one in replay(folder(SEVERAL)).summaries}
        alone, together = taken["gpu0"], taken[self.TOGETHER]
        assert alone is not None and together is not None
        # Four GPUs take more than one for the same work, and less than if three of them did nothing for it.
        assert alone.median < together.median < 2 * alone.median

    def test_scaling_is_told_with_its_interval(self, folder: Folders) -> None:
        scaling = ratios(replay(folder(SEVERAL)), SCALING)
        pair = scaling["gpu0+gpu1/tuned"]
        assert pair.low < pair.median < pair.high < 1
        four = scaling[f"{self.TOGETHER}/tuned"]
        assert (four.n, round(four.median, 2)) == (1, 0.75)

    def test_the_trial_that_was_stopped_is_a_caveat(self, folder: Folders) -> None:
        analysis = replay(folder(SEVERAL))
        assert [trial.status for trial in analysis.run.trials].count(Status.INTERRUPTED) == 1
        (caveat,) = (each for each in analysis.caveats if each.kind is CaveatKind.FAILED_TRIALS)
        assert (caveat.subject, caveat.value) == (f"resnet50 on {self.TOGETHER}", 1.0)


class TestCutShort:
    FINISHED = "cifar100-mlp.cpu.0"
    CUT = "cifar100-mlp.gpu0.2"

    @pytest.fixture
    def cut(self, folder: Folders, tmp_path: Path) -> Path:
        """Leave of a run what a harness leaves that is killed amid a trial's second round of windows."""
        path = shutil.copytree(folder("h200-launch-bound"), tmp_path / "cut")
        for trial in (path / "trials").iterdir():
            if trial.name not in (self.FINISHED, self.CUT):
                shutil.rmtree(trial)
        for name in (
            "stops.json",
            "results.json",
            f"trials/{self.CUT}/trial.json",
            f"trials/{self.CUT}/log.txt",
        ):
            (path / name).unlink()
        trial = path / "trials" / self.CUT
        end_ns = cut_events(trial / "out" / "events.jsonl")
        for file in (trial / "telemetry").iterdir():
            cut_rows(file, end_ns)
        return path

    def test_the_trial_is_said_to_be_interrupted(self, cut: Path) -> None:
        run = read_run(cut)
        assert {trial.id: trial.status for trial in run.trials} == {
            self.FINISHED: Status.OK,
            self.CUT: Status.INTERRUPTED,
        }
        assert run.stops == ()
        (trial,) = on_gpu(run)
        assert trial.windows
        assert trial.telemetry

    def test_the_finished_trial_keeps_its_figures(self, cut: Path, folder: Folders) -> None:
        (alone,) = (one for one in read_run(cut).trials if one.status is Status.OK)
        (whole,) = (one for one in read_run(folder("h200-launch-bound")).trials if one.id == self.FINISHED)
        assert alone.windows == whole.windows
        summaries = [one for one in replay(cut).summaries if one.device == "cpu"]
        assert {one.variant for one in summaries} == {variant.variant for variant in whole.variants}
        assert {one.trial_ids for one in summaries} == {(self.FINISHED,)}

    def test_the_page_says_so(self, cut: Path) -> None:
        page = render_html(replay(cut), code=javascript)
        assert len(page.encode()) < PAGE_BYTES
        assert page.count('class="banner"') == 1
        assert "1 of 6 planned trials" in Document(page).text


def figures(analysis: Analysis) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Return what was timed, without intervals: how these are drawn is the analysis's to improve."""
    return {
        (each.workload, each.device, each.variant): (
            each.throughput.median, each.throughput.n, each.step_time.median, dict(each.step_quantiles),
            each.batch_size, list(each.cold_start), list(each.trial_ids),
        )
        for each in analysis.summaries
    }  # fmt: skip


def cut_events(path: Path) -> int:
    """Cut an event file in the middle of the line after its first window 1; return that window's end."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    at, event = next(
        (place, event)
        for place, event in enumerate(json.loads(line) for line in lines)
        if event["kind"] == "window" and event["index"] == 1
    )
    following = lines[at + 1]
    path.write_text("".join(lines[: at + 1]) + following[: len(following) // 2], encoding="utf-8")
    return int(event["end_ns"])


def cut_rows(path: Path, end_ns: int) -> None:
    """Keep a telemetry file's readings up to a time."""
    head, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [row for row in rows if int(row.split(",")[0]) <= end_ns]
    path.write_text(head + "".join(kept), encoding="utf-8")
