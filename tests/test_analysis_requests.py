"""Latencies, and the rate within a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.requests import REQUESTS_GPU_OVER_CPU, capacities, latencies, request_ratios
from harness.model.analysis import NoRate
from harness.model.run import RequestTimes, Run
from tests.builders_requests import BATCHES, offered, serving_run, single
from workloads.protocol import BASELINE, SERVER, SINGLE_STREAM


def only(run: Run, *requests: RequestTimes) -> Run:
    """Give the run with one trial on the CPU, which served these."""
    first = replace(run.trials[0], requests=requests)
    return replace(run, trials=(first,))


def rate(run: Run, bound_s: float) -> float | None:
    one = next(one for one in capacities(run) if (one.device, one.bound_s) == ("cpu", bound_s))
    return one.rate_per_s.median if one.rate_per_s else None


class TestLatency:
    def test_quantiles_are_those_of_all_requests_of_all_trials(self) -> None:
        run = serving_run()
        one = next(one for one in latencies(run) if (one.device, one.batch_size) == ("cpu", 4))
        pooled = np.concatenate(
            [each.latency_ns for trial in run.trials if trial.device == "cpu" for each in trial.requests[1:2]]
        )
        assert one.requests == 600
        assert one.quantiles_s["p99"] == pytest.approx(np.percentile(pooled, 99) / 1e9)
        assert one.samples_per_s.n == 3
        assert one.samples_per_s.median == pytest.approx(4 / (pooled.mean() / 1e9), rel=0.01)

    def test_a_quantile_needs_requests_beyond_it(self) -> None:
        run = serving_run(1)
        for count, names in (
            (5, {"p50"}),
            (10, {"p50", "p90"}),
            (99, {"p50", "p90"}),
            (100, {"p50", "p90", "p99"}),
        ):
            (one,) = latencies(only(run, single(BASELINE, 1, 3.0, count)))
            assert set(one.quantiles_s) == names

    def test_each_batch_is_one_row_and_each_series_of_the_server_another(self) -> None:
        found = latencies(serving_run(2))
        card = [one for one in found if one.device == "gpu0"]
        assert [one.batch_size for one in card if one.scenario == SINGLE_STREAM] == [*BATCHES]
        served = [one for one in card if one.scenario == SERVER]
        assert len(served) == 6
        assert sum(one.requests < one.planned for one in served) == 2

    def test_the_points_of_a_sweep_are_left_out(self) -> None:
        run = serving_run()
        points = tuple(replace(trial, point=(("batch_size", trial.index),)) for trial in run.trials)
        swept = replace(run, trials=points)
        assert latencies(swept) == capacities(swept) == request_ratios(swept) == ()


class TestCapacity:
    def test_it_is_the_largest_rate_within_the_bound_trial_by_trial(self) -> None:
        by_bound = {one.bound_s: one for one in capacities(serving_run()) if one.device == "gpu0"}
        assert by_bound[0.1].rate_per_s is not None
        assert (by_bound[0.1].rate_per_s.median, by_bound[0.1].rate_per_s.n) == (901.0, 3)
        assert by_bound[0.015].rate_per_s is not None
        assert by_bound[0.015].rate_per_s.median == 901.0, "two of two hundred may be late"

    def test_beyond_the_least_bound_to_which_a_rate_kept_it_is_a_lower_limit(self) -> None:
        found = {(one.device, one.bound_s): one.at_least for one in capacities(serving_run())}
        assert found == {
            ("cpu", 0.015): False, ("cpu", 0.1): False, ("gpu0", 0.015): False, ("gpu0", 0.1): True,
        }  # fmt: skip

    def test_more_than_one_in_a_hundred_late_is_too_many(self) -> None:
        run = serving_run(1)
        fine, late = [10.0] * 200, [*[10.0] * 197, *[50.0] * 3]
        assert rate(only(run, offered(BASELINE, 5, fine)), 0.015) == 5
        assert rate(only(run, offered(BASELINE, 5, late)), 0.015) is None
        assert rate(only(run, offered(BASELINE, 5, late)), 0.1) == 5

    def test_samples_that_were_never_served_are_late(self) -> None:
        run = serving_run(1)
        assert rate(only(run, offered(BASELINE, 5, [10.0] * 198, planned=200)), 0.1) == 5
        assert rate(only(run, offered(BASELINE, 5, [10.0] * 190, planned=200)), 0.1) is None

    def test_fewer_than_a_hundred_tell_nothing(self) -> None:
        run = serving_run(1)
        assert rate(only(run, offered(BASELINE, 5, [10.0] * 99)), 0.1) is None

    def test_too_few_requests_are_no_service_that_failed(self) -> None:
        run = serving_run(1)
        few = replace(
            run,
            trials=tuple(
                replace(trial, requests=(single(BASELINE, 1, 9.0), offered(BASELINE, 5, [10.0] * 48)))
                for trial in run.trials
            ),
        )
        found = {(one.device, one.bound_s): one.why for one in capacities(few)}
        assert found["cpu", 0.1] is NoRate.FEW_REQUESTS

    def test_it_says_why_there_is_none(self) -> None:
        (first, _) = (one for one in capacities(serving_run()) if one.device == "cpu")
        assert first.bound_s == 0.015
        assert first.rate_per_s is None
        assert first.why is NoRate.ALONE and first.alone_s == pytest.approx(0.041, abs=0.001)

    def test_it_is_that_of_most_trials_and_says_of_how_many(self) -> None:
        for well, told in ((3, 3), (2, 2), (1, None), (0, None)):
            run = serving_run()
            trials = tuple(
                replace(trial, requests=(offered(BASELINE, 5, [10.0 if trial.index < well else 50.0] * 200),))
                for trial in run.trials
            )
            found = capacities(replace(run, trials=trials))
            (one,) = (one for one in found if (one.device, one.bound_s) == ("cpu", 0.015))
            assert (one.rate_per_s.n if one.rate_per_s else None) == told
            assert len(one.trial_ids) == 3
            assert one.kept == well
            assert (one.why is NoRate.FEW_TRIALS) == (well == 1)
            assert (one.why is None) == (told is not None)

    def test_the_gpu_is_not_compared_at_a_bound_to_which_few_trials_kept(self) -> None:
        run = serving_run()
        fine, late = offered(BASELINE, 5, [10.0] * 200), offered(BASELINE, 4, [50.0] * 200)
        trials = tuple(
            replace(trial, requests=(late,) if trial.device == "cpu" and trial.index else (late, fine))
            for trial in run.trials
        )
        (one,) = request_ratios(replace(run, trials=trials))
        assert one.ratio.n == 3, "at 0.1 s, which all of the CPU's trials keep to"

    def test_the_gpu_is_compared_at_the_least_bound_that_both_keep_to(self) -> None:
        analysis = analyse(serving_run())
        (one,) = (one for one in analysis.comparisons if one.kind == REQUESTS_GPU_OVER_CPU)
        assert one.ratio.median == pytest.approx(901 / 13)
        (published,) = analysis.published
        assert published.measured == one.ratio
        assert published.factor is not None
        assert published.factor.median == pytest.approx(901 / 13 / 8.04)
