"""Runs through time: trends, and changes that are told from chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from harness.analysis.changes import splits
from harness.analysis.history import history
from harness.model.comparison import Extract
from tests.comparisons import again, whole


def runs(factors: Sequence[float], *, noise: float = 0.01, images: Sequence[str] = ()) -> list[Extract]:
    """Give a run a day, each `factor` times as fast as the machine is."""
    made = []
    for day, factor in enumerate(factors):
        created = (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)).isoformat()
        run = replace(again(whole(3), day, noise=noise, factor=factor), created=created)
        if images:
            run = replace(run, facts={**run.facts, "images": {"cpu": images[day]}})
        made.append(run)
    return made


class TestSplits:
    def test_one_level_has_none(self) -> None:
        random = np.random.default_rng(3)
        quiet = sum(not splits(random.normal(0, 1, 30), 0.05) for _ in range(40))
        assert quiet >= 34

    def test_steps_are_found_where_they_are(self) -> None:
        random = np.random.default_rng(3)
        values = np.concatenate([random.normal(level, 0.1, 12) for level in (0, 2, 1)])
        assert [one.at for one in splits(values, 0.05)] == [12, 24]

    @pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 9.0, 9.0, 9.0]])
    def test_too_few_say_nothing(self, values: list[float]) -> None:
        assert splits(values, 0.05) == ()

    def test_values_all_alike_say_nothing(self) -> None:
        assert splits([2.0] * 20, 0.05) == ()


class TestHistory:
    def test_a_run_that_has_not_ended_is_left_out_and_said_to_be(self) -> None:
        first, second, third = runs([1.0, 1.0, 0.5])
        made = history([first, second, replace(third, unfinished=True, source="runs/third", ok=2, planned=6)])
        assert made.runs == (first, second)
        assert {len(trend.points) for trend in made.trends} == {2}
        (skipped,) = made.skipped
        assert skipped.path == "runs/third"
        assert "still being measured or was cut short, 2 of 6 planned trials ended well" in skipped.why

    def test_a_sweep_is_left_out_and_said_to_be(self) -> None:
        first, second, third = runs([1.0, 1.0, 1.0])
        made = history([first, replace(second, speeds=(), swept=4, source="runs/sweep"), third])
        assert made.runs == (first, third)
        assert [(one.path, "points of a sweep" in one.why) for one in made.skipped] == [("runs/sweep", True)]

    def test_runs_are_put_in_the_order_of_time(self) -> None:
        made = history(list(reversed(runs([1.0] * 4))))
        assert [run.created[:10] for run in made.runs] == [f"2026-03-0{day}" for day in (1, 2, 3, 4)]
        assert all([point.run for point in trend.points] == [0, 1, 2, 3] for trend in made.trends)

    def test_a_change_is_dated_measured_and_explained(self) -> None:
        made = history(runs([1.0] * 10 + [0.9] * 8, images=["aaa"] * 10 + ["bbb"] * 8))
        assert made.trends
        for trend in made.trends:
            (change,) = trend.changes
            assert trend.points[change.at].created.startswith("2026-03-11")
            assert change.ratio.median == pytest.approx(0.9, abs=0.01)
            assert change.ratio.low < change.ratio.median < change.ratio.high < 1
            assert change.along == ("images, cpu: aaa → bbb",)
        assert "2026-03-11" in made.headline
        assert "−10 %" in made.headline

    def test_a_point_has_the_image_of_its_workloads_family(self) -> None:
        images = {"cpu": "aaa", "trees-cpu": "bbb"}
        made = history(
            [
                replace(run, facts={**run.facts, "images": images}, families={"resnet50": "trees"})
                for run in runs([1.0])
            ]
        )
        found = {(trend.workload, point.image) for trend in made.trends for point in trend.points}
        assert found == {("cifar100-mlp", "aaa"), ("resnet50", "bbb")}

    def test_noise_alone_is_no_change(self) -> None:
        made = history(runs([1.0] * 24, noise=0.03))
        assert [change for trend in made.trends for change in trend.changes] == []
        assert "No change of speed could be shown" in made.headline

    def test_other_machines_profiles_and_data_are_other_trends(self) -> None:
        base = runs([1.0] * 3)
        profile = {**base[1].facts["profile and parameters"], "profile": "full"}
        other = [
            base[0],
            replace(base[1], facts={**base[1].facts, "profile and parameters": profile}),
            replace(base[2], machine="another"),
        ]
        alone = history(other)
        assert {len(trend.points) for trend in alone.trends} == {1}
        assert len(alone.trends) == 3 * len(history(base).trends)

    def test_few_runs_say_that_they_are_few(self) -> None:
        assert "6 runs" in history(runs([1.0, 0.5, 0.5])).headline

    def test_of_nothing(self) -> None:
        made = history([replace(whole(), speeds=())])
        assert made.trends == ()
        assert made.headline
