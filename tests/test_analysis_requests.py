from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.quantities import values
from harness.analysis.requests import capacities, latencies, request_ratios
from harness.model.analysis import RatioKind
from harness.model.run import Metric, RequestTimes, Run
from reports.overview import rows
from reports.page import render_html
from tests.special_runs import measured_machine_run, offered, serving_run, single
from workloads.protocol import FIRST_TOKEN, MACHINE, PER_TOKEN, SEQUENCE_BYTES, STEP_BYTES
from workloads.variants import BASELINE, MODEL_ONLY, TUNED


def only(run: Run, *requests: RequestTimes) -> Run:
    first = replace(run.trials[0], requests=requests)
    return replace(run, trials=(first,))


class TestLatency:
    def test_a_quantile_needs_requests_beyond_it(self):
        run = serving_run(1)
        for count, names in ((5, "p50"), (10, "p50 p90"), (99, "p50 p90"), (100, "p50 p90 p99")):
            ((each,),) = latencies(only(run, single(BASELINE, 1, 3.0, count))).values()
            assert set(each.quantiles_s) == set(names.split())
        points = tuple(replace(trial, point=(("batch_size", trial.index),)) for trial in serving_run().trials)
        swept = replace(run, trials=points)
        assert latencies(swept) == capacities(swept) == request_ratios(swept) == {}


class TestGeneration:
    def test_tokens_are_timed_by_batch_and_their_reads_are_held_against_the_measured_bandwidth(self):
        run, machine = serving_run(1), measured_machine_run()
        first = next(trial for trial in run.trials if trial.device == "gpu0")
        series = (
            replace(single(TUNED, 4, milliseconds), scenario=scenario)
            for scenario, milliseconds in ((FIRST_TOKEN, 20.0), (PER_TOKEN, 2.0))
        )
        needs = (
            Metric(variant=BASELINE, name=STEP_BYTES, value=3e9),
            Metric(variant=BASELINE, name=SEQUENCE_BYTES, value=1e8),
        )
        trials = (
            replace(first, requests=tuple(series), metrics=(*first.metrics, *needs)),
            *(trial for trial in machine.trials if trial.workload == MACHINE),
        )
        analysis = analyse(replace(run, trials=trials))
        ((case, variant, each),) = (
            (case, variant, each) for case, variant, found in analysis.variants for each in found.generation
        )
        assert (variant, each.batch_size) == (TUNED, 4)
        assert each.first_s["p50"] == pytest.approx(0.021, rel=0.01)
        assert each.token_s["p99"] == pytest.approx(0.0022, rel=0.01)
        assert each.tokens_per_s.median == pytest.approx(4 / 0.0021, rel=0.01)
        peak = next(one for one in analysis.capabilities if (one.device, one.name) == ("gpu0", "memory"))
        assert each.bandwidth == pytest.approx(3.4e9 / 0.0021 / peak.value.median, rel=0.01)
        names = {value.name: value.estimate.median for value in values(analysis)}
        assert names[f"{case.workload}.tuned.token"] == each.token_s["p50"]
        assert names[f"{case.workload}.tuned.first-token"] == each.first_s["p50"]
        page = render_html(analysis, code="")
        assert "Generated tokens" in page
        assert 'id="figure-latency"' not in page, "the chart is of whole requests"


class TestCapacity:
    """The declared bounds are 15 and 100 ms."""

    @pytest.mark.parametrize(
        ("milliseconds", "planned", "bound_s"),
        [
            ([10.0] * 200, 0, 0.015),
            ([*[10.0] * 197, *[50.0] * 3], 0, 0.1),  # more than one in a hundred late
            ([10.0] * 198, 200, 0.015),  # requests that were not served are late
            ([10.0] * 190, 200, None),
            ([10.0] * 99, 0, None),  # too few requests
        ],
    )
    def test_late_and_lost_requests_count_against_a_rate(self, milliseconds, planned, bound_s):
        # Requests that only time a variant's own batch are no offers.
        own_batch = single(MODEL_ONLY, 1, 3.0, 200)
        tried = offered(BASELINE, 5, milliseconds, planned=planned)
        ((result,),) = capacities(only(serving_run(1), tried, own_batch)).values()
        assert (result.bound_s if result.rate_per_s else None) == bound_s

    @pytest.mark.parametrize(("fast", "bound_s"), [(3, 0.015), (2, 0.015), (1, None), (0, None)])
    def test_a_bound_must_be_met_in_most_trials(self, fast, bound_s):
        run = serving_run()
        trials = tuple(
            replace(trial, requests=(offered(BASELINE, 5, [10.0 if trial.index < fast else 950.0] * 200),))
            for trial in run.trials
        )
        found = capacities(replace(run, trials=trials))
        (result,) = next(each for key, each in found.items() if key.device == "cpu")
        assert (result.bound_s if result.rate_per_s else None) == bound_s
        assert result.kept == fast

    def test_baseline_and_tuned_are_compared_at_the_tightest_bound_that_both_meet(self) -> None:
        # The baseline meets 15 ms at no rate; tuned at 100/s, and 100 ms at 300/s.
        baseline, strict, loose = (
            offered(BASELINE, 30, [50.0] * 200),
            offered(TUNED, 100, [10.0] * 200),
            offered(TUNED, 300, [50.0] * 200),
        )
        run = only(serving_run(1), baseline, strict, loose)
        found = [
            (key.variant, each.bound_s, each.rate_per_s.median)
            for key, own in capacities(run).items()
            for each in own
        ]
        assert found == [(BASELINE, 0.1, 30), (TUNED, 0.1, 300), (TUNED, 0.015, 100)]
        ((key, ratios),) = request_ratios(run).items()
        (gain,) = ratios.values()
        assert (key.variant, ratios.keys(), gain.median) == (TUNED, {RatioKind.REQUESTS_OVER_BASELINE}, 10)
        (row,) = (each for each in rows(analyse(run)) if each.baseline)
        assert (row.bound_s, row.baseline.median, row.tuned.median) == (0.1, 30, 300)
        assert row.gain == gain

    def test_gpu_and_cpu_are_compared_at_the_tightest_bound_that_both_meet(self) -> None:
        run = serving_run()
        (on_cpu,), (on_gpu,) = capacities(run).values()
        assert (on_cpu.bound_s, on_gpu.bound_s) == (0.1, 0.015)
        assert (on_gpu.rate_per_s.median, on_gpu.rate_per_s.n) == (901.0, 3), (
            "two of 200 requests may be late"
        )
        fine, late = offered(BASELINE, 5, [10.0] * 200), offered(BASELINE, 4, [50.0] * 200)
        trials = tuple(
            replace(trial, requests=(late,) if trial.device == "cpu" and trial.index else (late, fine))
            for trial in run.trials
        )
        ((ratio,),) = (each.values() for each in request_ratios(replace(run, trials=trials)).values())
        assert ratio.n == 3, "at 0.1 s, which all CPU trials meet"
        analysis, kind = analyse(run), RatioKind.REQUESTS_GPU_OVER_CPU
        (ratio,) = (each.ratios[kind] for _, _, each in analysis.variants if kind in each.ratios)
        assert ratio.median == pytest.approx(901 / 13)
        (published,) = analysis.published
        assert published.measured == ratio
        assert published.factor.median == pytest.approx(901 / 13 / 8.04)
