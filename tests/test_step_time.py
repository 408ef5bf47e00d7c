"""Step-time breakdown: parts always add up, and planted causes appear in their parts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis import analyse
from harness.analysis.step_time import Times, split
from harness.model.analysis import Cause
from harness.model.run import Series
from tests.builders import CPU_SPEEDS, GpuLoad, VariantSpeed, run, taking
from tests.builders_telemetry import counter
from workloads.variants import BASELINE, CUSTOM_LOOP, INPUT_ONLY, MODEL_ONLY, TUNED, Part

seconds = st.floats(1e-6, 10.0).map(lambda value: np.array([value]))
optional = ("loop", "wait", "host_fed", "feed", "from_memory", "launch", "exchange")
times = st.builds(
    Times, baseline=seconds, model=seconds, python=st.just(0.0) | seconds, retracing=st.just(0.0) | seconds,
    host_share=st.floats(0, 1), on_gpu=st.booleans(), **dict.fromkeys(optional, st.none() | seconds),
)  # fmt: skip


@given(times)
def test_parts_add_up_and_only_unexplained_time_can_be_negative(each: Times) -> None:
    parts = split(each)
    total = sum(float(value[0]) for value in parts.values())
    assert total == pytest.approx(float(each.baseline[0]), rel=1e-9)
    assert all(value[0] >= -1e-12 for part, value in parts.items() if part is not Part.UNEXPLAINED)


def _of(**variants: VariantSpeed) -> dict[Part, float]:
    named = {
        name.replace("without_", "without:").replace("_", "-"): speed for name, speed in variants.items()
    }
    (case,) = analyse(run({"gpu0": named}, noise=0.001)).cases
    time = case.breakdown(BASELINE)
    assert time is not None
    assert sum(value.median for value in time.parts.values()) == pytest.approx(time.total.median)
    return {part: time.share(part) for part in time.parts}


NOT_WAITING = taking(40, wait_share=0.0)


@pytest.mark.parametrize(
    ("variants", "part", "planted"),
    [
        ({"custom_loop": taking(40, wait_share=0.75), "input_only": taking(40)}, Part.INPUT_WAIT, 0.75),
        ({"custom_loop": taking(10, wait_share=0.0), "input_only": taking(1)}, Part.FRAMEWORK, 0.75),
        ({"custom_loop": NOT_WAITING, "input_only": taking(35)}, Part.INPUT_SLOWDOWN, 0.75),
        ({"custom_loop": NOT_WAITING, "host_fed": taking(40), "input_only": taking(1)}, Part.COPY, 0.75),
        ({"input_only": taking(40)}, Part.INPUT_WAIT, 0.75),
        # Time saved by buffered batches is input wait too.
        ({"custom_loop": taking(20, wait_share=0.5), "input_only": taking(40)}, Part.INPUT_WAIT, 0.75),
    ],
)
def test_a_planted_cause_gets_its_part(variants: dict[str, VariantSpeed], part: Part, planted: float) -> None:
    parts = _of(baseline=taking(40), model_only=taking(10), **variants)
    assert parts[part] == pytest.approx(planted, abs=0.02)
    assert parts[Part.COMPUTE] == pytest.approx(0.25, abs=0.02)
    assert abs(parts[Part.UNEXPLAINED]) < 0.02


@pytest.mark.parametrize(("on_gpu", "framework", "waited"), [(False, 4.0, 1.5), (True, 2.5, 3.0)])
def test_input_that_goes_on_beside_callbacks_is_not_waited_for(
    on_gpu: bool, framework: float, waited: float
) -> None:
    """On a GPU, callbacks may wait for the step that they read the loss of."""
    measured = {"baseline": 6.5, "model": 1.0, "loop": 4.0, "wait": 3.0, "feed": 3.1}
    parts = split(
        Times(**{name: np.array([s]) for name, s in measured.items()}, callbacks=4.0, on_gpu=on_gpu)
    )
    assert parts[Part.FRAMEWORK] == pytest.approx(framework)
    assert parts[Part.INPUT_WAIT] == pytest.approx(waited)


def test_input_slows_the_loop_of_keras_and_no_step_by_more_than_its_own_time() -> None:
    loop = {"custom_loop": taking(34, wait_share=0.7), "input_only": taking(34)}
    parts = _of(baseline=taking(40), model_only=taking(10), without_input=taking(11), **loop)
    assert parts[Part.FRAMEWORK] == pytest.approx(1 / 40, abs=0.01)
    assert parts[Part.INPUT_WAIT] + parts[Part.INPUT_SLOWDOWN] == pytest.approx(29 / 40, abs=0.02)
    parts = _of(baseline=taking(40), model_only=taking(10), custom_loop=NOT_WAITING, input_only=taking(2))
    assert parts[Part.INPUT_SLOWDOWN] == pytest.approx(0.05, abs=0.01)
    assert parts[Part.UNEXPLAINED] == pytest.approx(0.7, abs=0.02)


def test_a_hiccup_in_one_variant_does_not_hide_the_cause() -> None:
    variants = {BASELINE: taking(40), MODEL_ONLY: taking(10), INPUT_ONLY: taking(40),
                CUSTOM_LOOP: taking(40, wait_share=0.75)}  # fmt: skip
    played = run({"gpu0": variants}, noise=0.001, trials=1)
    (trial,) = played.trials
    *_, last = (each for each in trial.windows if each.variant == INPUT_ONLY)
    slow = {last: replace(last, samples=last.samples // 50)}
    changed = replace(trial, windows=tuple(slow.get(each, each) for each in trial.windows))
    assert analyse(replace(played, trials=(changed,))).cases[0].findings[0].cause is Cause.INPUT


def test_tuned_times_are_for_its_own_batch_size_as_in_the_summary() -> None:
    tuned = VariantSpeed(step_s=0.08, batch=256, wait_share=0.25, load=GpuLoad(util=60, power_w=300))
    speeds = {BASELINE: taking(40), MODEL_ONLY: taking(10), TUNED: tuned}
    (case,) = analyse(run({"gpu0": speeds}, noise=0.001)).cases
    for time in (case.breakdown(BASELINE), case.breakdown(TUNED)):  # rounding errors are no parts
        ends = [end for value in time.parts.values() for end in (value.low, value.median, value.high)]
        assert all(end == 0 or abs(end) > 1e-9 * time.total.median for end in ends)
    time, result = case.breakdown(TUNED), case.variants[TUNED]
    assert time.batch == result.batch_size == 256
    assert time.total.median == pytest.approx(result.step_time.median) == pytest.approx(0.08, rel=0.02)
    assert time.share(Part.INPUT_WAIT) == pytest.approx(0.25, abs=0.01)


def test_a_variant_without_input_certainly_does_not_wait_and_short_batches_count() -> None:
    result = run({"cpu": CPU_SPEEDS}, trials=1)
    windows = tuple(replace(each, samples=each.steps * 3 // 2) for each in result.trials[0].windows)
    analysis = analyse(replace(result, trials=(replace(result.trials[0], windows=windows),)))
    for each in (analysis.cases[0].variants[variant] for variant in (BASELINE, TUNED)):
        assert each.breakdown.total.median == pytest.approx(each.step_time.median)
    variants = {BASELINE: CPU_SPEEDS[BASELINE], TUNED: VariantSpeed(step_s=0.016, batch=512, wait_share=0.0)}
    (case,) = analyse(run({"cpu": variants}, trials=1, noise=0.1)).cases
    assert case.breakdown(BASELINE) is None
    tuned = case.breakdown(TUNED)
    wait = tuned.parts[Part.INPUT_WAIT]
    assert (wait.low, wait.median, wait.high) == (0, 0, 0)


def test_time_taken_by_the_host_is_no_compute_of_baseline_or_tuned() -> None:
    played = run({"cpu": CPU_SPEEDS}, noise=0.001)
    trials = tuple(
        replace(trial, telemetry=tuple(_with_steal(each, 20.0) for each in trial.telemetry))
        for trial in played.trials
    )
    (case,) = analyse(replace(played, trials=trials)).cases
    baseline, tuned = case.breakdown(BASELINE), case.breakdown(TUNED)
    assert baseline.share(Part.HOST) == pytest.approx(20 / 79, abs=0.02)
    assert tuned.share(Part.HOST) == pytest.approx(20 / 79, abs=0.02)


def test_other_programs_take_no_more_than_a_quota_leaves() -> None:
    """The pressure that the kernel reports counts what the quota takes as well."""
    played = run({"cpu": CPU_SPEEDS}, noise=0.001)
    facts = {**played.manifest.host_facts, "cpus": 16}

    def beside(series: Series) -> Series:
        rates = {"cpu_usage_s": 0.45, "cpu_pressure_some_s": 0.9, "cpu_throttled_s": 0.3}
        columns = {
            "cgroup": {
                name: counter(series.t_ns, np.full(series.t_ns.shape, rate)) for name, rate in rates.items()
            }
        }
        columns["cgroup"]["cpu_limit_cpus"] = np.full(series.t_ns.shape, 0.5)
        busy = {"cpu_util_pct": np.full(series.t_ns.shape, 100.0)}
        return replace(series, columns={"host": busy, **columns}.get(series.source, series.columns))

    trials = tuple(
        replace(trial, telemetry=tuple(beside(each) for each in trial.telemetry if each.device != "cores"))
        for trial in played.trials
    )
    manifest = replace(played.manifest, host_facts=facts)
    (case,) = analyse(replace(played, manifest=manifest, trials=trials)).cases
    shares = {finding.cause: finding.share.median for finding in case.findings}
    assert shares.get(Cause.OTHER_PROGRAMS, 0.0) <= 0.11
    assert shares[Cause.QUOTA] > 0.25


def _with_steal(series: Series, percent: float) -> Series:
    columns = {
        name: np.full_like(values, percent) if name == "cpu_steal_pct" else values
        for name, values in series.columns.items()
    }
    return replace(series, columns=columns)
