"""Every rule in each of its three findings, and which verdict comes first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.rules import RULES, primary
from harness.model.analysis import Finding, Verdict
from harness.model.run import Metric, Run, Series
from tests.builders import (
    COMPUTE_BOUND,
    INPUT_BOUND,
    bare_run,
    cpu_run,
    four_gpu_run,
    gpu_run,
    hostile_run,
    run,
)
from tests.builders_parts import CPU_SPEEDS, LAUNCH_BOUND
from tests.builders_telemetry import retold, seconds_of
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED


def verdict(made: Run, rule: str, device: str = "gpu0") -> Verdict:
    return next(one for one in analyse(made).verdicts if (one.rule, one.device) == (rule, device))


def without(made: Run, *variants: str) -> Run:
    """Leave variants out, as a run with --variants does."""
    trials = tuple(
        replace(trial, windows=tuple(one for one in trial.windows if one.variant not in variants))
        for trial in made.trials
    )
    return replace(made, trials=trials)


def blind(made: Run) -> Run:
    """Make waiting invisible, as it is in Keras fit."""
    trials = tuple(
        replace(trial, windows=tuple(replace(one, wait_ns=-1) for one in trial.windows))
        for trial in made.trials
    )
    return replace(made, trials=trials)


def test_launch_bound_card_is_found_with_reason_remedy_and_both_gains() -> None:
    found = verdict(gpu_run(), "launch-bound")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(0.96, abs=0.02)
    assert "loses to the CPU" in found.sentence
    assert found.remedy is not None
    assert found.remedy.code == (
        "# Placeholders: model, optimizer, loss.\n"
        "model.compile(optimizer, loss, steps_per_execution=50, jit_compile=True)"
    )
    assert found.remedy.measured_gain is not None
    assert found.remedy.measured_gain.median == pytest.approx(6.2, rel=0.03)
    assert found.remedy.predicted_gain is not None
    assert found.remedy.predicted_gain > found.remedy.measured_gain.high  # a ceiling


def test_launch_bound_is_not_why_a_card_that_wins_is_slow() -> None:
    fast = {variant: replace(speed, step_s=speed.step_s / 4) for variant, speed in LAUNCH_BOUND.items()}
    found = verdict(gpu_run(speeds=fast), "launch-bound")
    assert found.finding is Finding.FOUND
    assert "loses" not in found.sentence


def test_the_predicted_gain_stops_at_what_the_input_can_feed() -> None:
    slow = {**LAUNCH_BOUND, INPUT_ONLY: replace(LAUNCH_BOUND[INPUT_ONLY], step_s=0.0020)}
    remedy = verdict(gpu_run(speeds=slow), "launch-bound").remedy
    assert remedy is not None and remedy.predicted_gain == pytest.approx(0.0056 / 0.0020, rel=0.05)


def test_launch_bound_is_clear_on_a_busy_card_and_where_input_explains_the_idling() -> None:
    assert verdict(gpu_run(speeds=COMPUTE_BOUND), "launch-bound").finding is Finding.CLEAR
    waits = verdict(gpu_run(speeds=INPUT_BOUND), "launch-bound")
    assert waits.finding is Finding.CLEAR
    assert "waiting for input explains the rest" in waits.sentence


def test_launch_bound_cannot_be_told_without_utilisation_or_without_the_ceilings() -> None:
    assert verdict(retold(gpu_run(), "gpu0", "*"), "launch-bound").finding is Finding.INCONCLUSIVE
    found = verdict(without(blind(gpu_run()), INPUT_ONLY, MODEL_ONLY), "launch-bound")
    assert found.finding is Finding.INCONCLUSIVE
    assert "input-only" in found.sentence


def test_launch_bound_uses_nvmls_utilisation_on_cards_without_gpm() -> None:
    made = retold(gpu_run(), "gpu0", "gpm", graphics_util_pct=None)
    assert verdict(made, "launch-bound").finding is Finding.FOUND


def test_launch_bound_processor_leaves_most_of_its_cores_idle() -> None:
    made = cpu_run()
    series = next(one for one in made.trials[0].telemetry if one.source == "cgroup")
    idle = replace(made, trials=tuple(retold_usage(trial, 1.5) for trial in made.trials))
    others = verdict(idle, "launch-bound", "cpu")
    assert others.finding is Finding.CLEAR, "what the container does not use may be used by others"
    assert "others used most of the rest" in others.sentence
    idle = retold(idle, "cpu", "host", cpu_util_pct=150.0 / 16)
    assert series.columns["cpu_usage_s"][-1] > 0
    found = verdict(idle, "launch-bound", "cpu")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(1 - 1.5 / 16 - 0.04, abs=0.02)
    assert any("batch grows from 32 to 512" in one.metric for one in found.evidence)


def retold_usage(trial, cpus: float):
    """Let the container use so many CPUs."""
    telemetry = tuple(
        replace(one, columns={**one.columns, "cpu_usage_s": seconds_of(one) * cpus})
        if one.source == "cgroup"
        else one
        for one in trial.telemetry
    )
    return replace(trial, telemetry=telemetry)


def test_input_bound_is_found_from_the_wait_that_was_seen() -> None:
    found = verdict(gpu_run(speeds=INPUT_BOUND), "input-bound")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(0.88, abs=0.01)
    assert "highly" in found.sentence and "753 samples/s where the model could take 6,671" in found.sentence
    assert found.remedy is not None and "AUTOTUNE" in found.remedy.code
    assert found.remedy.measured_gain is None  # the tuned variant changed nothing about input


def test_input_bound_is_found_from_the_ceilings_where_waiting_is_invisible() -> None:
    found = verdict(blind(gpu_run(speeds=INPUT_BOUND)), "input-bound")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(1 - 0.0048 / 0.0440, abs=0.01)


def test_input_is_blamed_for_no_more_than_no_overlap_at_all_would_cost() -> None:
    """Baseline loses half against the model alone, but input is a hundred times faster than the model."""
    speeds = {**LAUNCH_BOUND, BASELINE: replace(LAUNCH_BOUND[BASELINE], step_s=0.0106)}
    speeds[INPUT_ONLY] = replace(speeds[INPUT_ONLY], step_s=0.000053)
    found = verdict(blind(gpu_run(speeds=speeds)), "input-bound")
    assert found.finding is Finding.CLEAR
    assert found.cost == pytest.approx(1 / 101, rel=0.1)


def test_the_gain_from_a_faster_pipeline_ends_where_the_processors_do() -> None:
    made = gpu_run(speeds=INPUT_BOUND)
    crowded = verdict(made, "input-bound").remedy
    assert crowded is not None
    used = verdict(made, "input-bound").evidence[-1].observed
    assert used.endswith("of 16")
    assert crowded.predicted_gain == pytest.approx(0.0440 / 0.0425 * 16 / float(used.split()[0]), rel=0.03)
    alone = replace(made, trials=tuple(retold_usage(trial, 1.0) for trial in made.trials))
    found = verdict(alone, "input-bound")
    assert "one sample after another, on 1 of 16 CPUs" in found.sentence
    assert found.remedy is not None
    # The model's own speed would be 9.2 times as fast; waiting took 88 %, and no more can be saved.
    assert found.remedy.predicted_gain == pytest.approx(1 / (1 - 0.88), rel=0.03)
    full = replace(made, trials=tuple(retold_usage(trial, 15.5) for trial in made.trials))
    assert "all CPUs busy" in verdict(full, "input-bound").sentence


def test_input_bound_moderately_from_five_percent() -> None:
    speeds = {**COMPUTE_BOUND, BASELINE: replace(COMPUTE_BOUND[BASELINE], wait_share=0.08)}
    speeds[INPUT_ONLY] = replace(speeds[INPUT_ONLY], step_s=0.288)
    found = verdict(gpu_run(speeds=speeds), "input-bound")
    assert found.finding is Finding.FOUND
    assert "moderately" in found.sentence


def test_input_bound_is_clear_or_cannot_be_told() -> None:
    assert verdict(gpu_run(), "input-bound").finding is Finding.CLEAR
    found = verdict(without(blind(gpu_run()), MODEL_ONLY), "input-bound")
    assert found.finding is Finding.INCONCLUSIVE


def test_input_bound_names_the_slowest_stage() -> None:
    stage = INPUT_BOUND[INPUT_ONLY]
    speeds = {
        **INPUT_BOUND,
        "stage:read": replace(stage, step_s=0.004),
        "stage:decode": replace(stage, step_s=0.034),
        "stage:resize": replace(stage, step_s=0.0425),
    }
    evidence = verdict(gpu_run(speeds=speeds), "input-bound").evidence
    named = next(one for one in evidence if "slowest stage" in one.metric)
    assert named.metric.endswith("decode")
    assert named.observed.endswith("70 % of it")  # 30 of 42.5 ms


def test_compute_bound_card_is_found_with_what_its_parts_did() -> None:
    found = verdict(gpu_run(speeds=COMPUTE_BOUND), "compute-bound")
    assert found.finding is Finding.FOUND
    assert [one.metric for one in found.evidence] == [
        "Compute engine active", "SM activity", "Tensor core activity", "Memory bandwidth used",
    ]  # fmt: skip
    assert found.remedy is not None and found.remedy.measured_gain is not None


def test_memory_bandwidth_bound_found_clear_and_unknown() -> None:
    made = retold(gpu_run(speeds=COMPUTE_BOUND), "gpu0", "gpm", dram_util_pct=72.0)
    found = verdict(made, "memory-bandwidth-bound")
    assert found.finding is Finding.FOUND
    assert "72 %" in found.sentence
    assert rules_found(made) == ["memory-bandwidth-bound"]
    assert verdict(made, "compute-bound").finding is Finding.CLEAR
    assert verdict(gpu_run(speeds=COMPUTE_BOUND), "memory-bandwidth-bound").finding is Finding.CLEAR
    assert verdict(bare_run(), "memory-bandwidth-bound").finding is Finding.INCONCLUSIVE
    assert all(one.rule != "memory-bandwidth-bound" for one in analyse(cpu_run()).verdicts)


def test_compute_bound_with_idle_units() -> None:
    made = retold(gpu_run(speeds=COMPUTE_BOUND), "gpu0", "gpm", dram_util_pct=20.0, sm_util_pct=12.0)
    assert "only 12 % of its compute units" in verdict(made, "compute-bound").sentence


def test_compute_bound_processor_clear_card_and_unknown() -> None:
    assert verdict(cpu_run(), "compute-bound", "cpu").finding is Finding.FOUND
    assert verdict(gpu_run(), "compute-bound").finding is Finding.CLEAR
    assert verdict(bare_run(), "compute-bound").finding is Finding.INCONCLUSIVE


def busy_pct(found: Verdict) -> float:
    return float(found.evidence[0].observed.removesuffix("%"))


def test_compute_bound_processor_is_measured_against_its_quota() -> None:
    made = cpu_run()
    halved = retold(made, "cpu", "cgroup", cpu_limit_cpus=24.0)  # more than there are: no limit
    assert busy_pct(verdict(halved, "compute-bound", "cpu")) == pytest.approx(77, abs=4)
    tight = replace(made, trials=tuple(retold_usage(trial, 1.9) for trial in made.trials))
    tight = retold(tight, "cpu", "cgroup", cpu_limit_cpus=2.0)
    assert busy_pct(verdict(tight, "compute-bound", "cpu")) == pytest.approx(95, abs=1)


def quota(made: Run, ran_out: float) -> Run:
    trials = []
    for trial in made.trials:
        series = next(one for one in trial.telemetry if one.source == "cgroup")
        periods = seconds_of(series) * 10
        one = replace(made, trials=(trial,))
        changed = retold(
            one, trial.device, "cgroup", cpu_periods=periods, cpu_throttled_periods=periods * ran_out
        )
        trials += changed.trials
    return replace(made, trials=tuple(trials))


def test_cpu_quota_found_clear_and_unknown() -> None:
    found = verdict(quota(cpu_run(), 0.4), "cpu-quota", "cpu")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(0.4)
    assert verdict(quota(cpu_run(), 0.1), "cpu-quota", "cpu").finding is Finding.CLEAR
    none = retold(cpu_run(), "cpu", "cgroup", cpu_periods=None, cpu_throttled_periods=None)
    assert verdict(none, "cpu-quota", "cpu").sentence == "The container has no CPU quota."
    assert verdict(bare_run(), "cpu-quota", "cpu").finding is Finding.INCONCLUSIVE


def test_contended_host_by_steal_by_others_clear_and_unknown() -> None:
    stolen = verdict(retold(cpu_run(), "cpu", "host", cpu_steal_pct=12.0), "contended-host", "cpu")
    assert stolen.finding is Finding.FOUND
    assert "12 %" in stolen.sentence and "hypervisor" in stolen.sentence
    others = verdict(retold(cpu_run(), "cpu", "host", cpu_util_pct=98.0), "contended-host", "cpu")
    assert others.finding is Finding.FOUND
    assert "other programs" in others.sentence
    assert verdict(cpu_run(), "contended-host", "cpu").finding is Finding.CLEAR
    assert verdict(bare_run(), "contended-host", "cpu").finding is Finding.INCONCLUSIVE


@pytest.mark.parametrize(
    ("rule", "metric"),
    [
        ("power-capped", "throttle_sw_power_cap"),
        ("thermal", "throttle_sw_thermal"),
        ("thermal", "throttle_hw_thermal"),
    ],
)
def test_power_capped_and_thermal_found_clear_and_unknown(rule: str, metric: str) -> None:
    made = gpu_run(speeds=COMPUTE_BOUND)
    found = verdict(retold(made, "gpu0", "nvml", **{metric: 0.6}, sm_clock_mhz=1485.0), rule)
    assert found.finding is Finding.FOUND
    assert "60 %" in found.sentence and "75 % of its highest clock" in found.sentence
    assert found.cost == pytest.approx(0.6 * 0.25)
    assert verdict(made, rule).finding is Finding.CLEAR
    assert verdict(bare_run(), rule).finding is Finding.INCONCLUSIVE
    assert all(one.rule != rule for one in analyse(cpu_run()).verdicts)


FOUR = "gpu0+gpu1+gpu2+gpu3"


def held_down(made: Run, card: str, **values: float) -> Run:
    """Have one GPU of a run's devices read other values all the time."""

    def told(one: Series) -> Series:
        if (one.source, one.device) != ("nvml", card):
            return one
        columns = {name: np.full(len(one.t_ns), value) for name, value in values.items()}
        return replace(one, columns={**one.columns, **columns})

    return replace(
        made,
        trials=tuple(replace(each, telemetry=tuple(map(told, each.telemetry))) for each in made.trials),
    )


def test_capping_of_one_card_among_four_is_not_averaged_away() -> None:
    made = held_down(four_gpu_run(), "gpu2", throttle_hw_thermal=0.12)
    assert verdict(made, "thermal", FOUR).finding is Finding.FOUND


def test_the_remedy_of_power_capped_is_for_the_card_that_was_capped_as_nvml_counts_it() -> None:
    made = held_down(four_gpu_run(), "gpu2", throttle_sw_power_cap=0.6, sm_clock_mhz=1485.0)
    chosen = tuple(replace(gpu, index=gpu.index + 4) for gpu in made.manifest.gpus)
    remedy = verdict(replace(made, manifest=replace(made.manifest, gpus=chosen)), "power-capped", FOUR).remedy
    assert remedy and remedy.code == "nvidia-smi -i 6 -pl WATTS"


def test_not_learning_found_clear_unknown_and_silent() -> None:
    made = hostile_run()
    assert verdict(made, "not-learning", "cpu").finding is Finding.CLEAR
    strict = replace(made, workloads=(replace(made.workloads[0], min_accuracy=0.5),))
    found = verdict(strict, "not-learning", "cpu")
    assert found.finding is Finding.FOUND
    assert "24 %" in found.sentence and "50 %" in found.sentence
    assert verdict(bare_run(), "not-learning", "cpu").finding is Finding.INCONCLUSIVE
    assert all(one.rule != "not-learning" for one in analyse(four_gpu_run()).verdicts)


def test_not_learning_looks_at_the_tuned_variant_too() -> None:
    made = cpu_run()
    broken = Metric(variant=TUNED, name="accuracy", value=0.01, unit="share")
    trials = tuple(replace(trial, metrics=(*trial.metrics, broken)) for trial in made.trials)
    found = verdict(replace(made, trials=trials), "not-learning", "cpu")
    assert found.finding is Finding.FOUND
    assert "tuned" in found.sentence


def test_not_learning_is_not_said_of_a_measurement_shorter_than_an_epoch() -> None:
    made = hostile_run()
    strict = replace(made, workloads=(replace(made.workloads[0], min_accuracy=0.5),))

    def trained(steps: float) -> Verdict:
        metric = Metric(variant=BASELINE, name="steps_trained", value=steps, unit="steps")
        trials = tuple(replace(trial, metrics=(*trial.metrics, metric)) for trial in strict.trials)
        return verdict(replace(strict, trials=trials), "not-learning", "cpu")

    assert trained(16).finding is Finding.INCONCLUSIVE
    assert "too short" in trained(16).sentence
    assert trained(50_000 / 32).finding is Finding.FOUND


def test_the_first_verdict_is_the_primary_one() -> None:
    for speeds, rule in (
        (LAUNCH_BOUND, "launch-bound"),
        (INPUT_BOUND, "input-bound"),
        (COMPUTE_BOUND, "compute-bound"),
    ):
        said = analyse(gpu_run(speeds=speeds)).verdicts
        first = next(one for one in said if one.device == "gpu0")
        assert (first.rule, first.finding) == (rule, Finding.FOUND)
        assert primary(said, first.workload, "gpu0") == first
    assert primary(analyse(bare_run()).verdicts, "cifar100-mlp", "gpu0") is None


def test_a_small_loss_does_not_hide_that_the_device_is_the_limit_but_a_large_one_comes_first() -> None:
    made = run({"cpu": CPU_SPEEDS, "gpu0": COMPUTE_BOUND})
    capped = retold(made, "gpu0", "nvml", throttle_sw_power_cap=1.0, sm_clock_mhz=1850.0)
    assert rules_found(capped) == ["compute-bound", "power-capped"]
    halved = retold(made, "gpu0", "nvml", throttle_hw_thermal=1.0, sm_clock_mhz=900.0)
    assert rules_found(halved) == ["thermal", "compute-bound"]


def test_training_that_does_not_work_comes_before_everything() -> None:
    made = hostile_run()
    strict = replace(made, workloads=(replace(made.workloads[0], min_accuracy=0.5),))
    assert rules_found(strict)[0] == "not-learning"


def rules_found(made: Run) -> list[str]:
    said = analyse(made).verdicts
    return [one.rule for one in said if one.device == "gpu0" and one.finding is Finding.FOUND]


def test_every_rule_says_where_its_threshold_comes_from_and_has_tests() -> None:
    here = Path(__file__)
    tests = "".join(path.read_text(encoding="utf-8") for path in here.parent.glob(f"{here.stem}*.py"))
    names = {name for made in (gpu_run(), cpu_run()) for name in (one.rule for one in analyse(made).verdicts)}
    assert len(names) == len(RULES)
    for name in names:
        assert re.search(rf"def test_\w*{name.replace('-', '_')}", tests), name
    for rule in RULES:
        assert re.search(r"xprof|MLPerf|DCGM|kubernetes|NVML|required_accuracy", rule.__doc__ or ""), rule


def test_every_finding_has_a_sentence_with_numbers_and_a_remedy() -> None:
    made: Iterable[Run] = (
        gpu_run(), gpu_run(speeds=INPUT_BOUND), gpu_run(speeds=COMPUTE_BOUND), quota(cpu_run(), 0.5),
        retold(cpu_run(), "cpu", "host", cpu_steal_pct=12.0),
    )  # fmt: skip
    found = [one for each in made for one in analyse(each).verdicts if one.finding is Finding.FOUND]
    assert len({one.rule for one in found}) >= 5
    for one in found:
        assert one.sentence.endswith(".") and re.search(r"\d", one.sentence)
        assert one.cause and one.evidence
        assert one.remedy is not None and one.remedy.text.endswith(".")
