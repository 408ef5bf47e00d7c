"""Ratios, scaling, and measured beside published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.facts import facts
from harness.model.analysis import Comparison
from harness.model.run import Run, Status
from tests.builders import (
    LAUNCH_BOUND,
    failed_run,
    four_gpu_run,
    gpu_run,
    run,
)
from tests.builders_parts import CPU_SPEEDS
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED


def ratios(made: Run, kind: str) -> dict[str, Comparison]:
    return {one.numerator: one for one in analyse(made).comparisons if one.kind == kind}


def test_gpu_over_cpu_is_told_for_each_variant_that_uses_the_gpu() -> None:
    found = ratios(gpu_run(), "gpu-over-cpu")
    assert list(found) == [f"gpu0/{variant}" for variant in (BASELINE, MODEL_ONLY, TUNED)]
    assert found["gpu0/baseline"].denominator == "cpu/baseline"
    assert found["gpu0/baseline"].ratio.median == pytest.approx(0.0030 / 0.0056, rel=0.06)
    assert found["gpu0/baseline"].ratio.high < 1
    assert f"gpu0/{INPUT_ONLY}" not in found


def test_tuned_over_baseline_for_each_device() -> None:
    found = ratios(gpu_run(), "tuned-over-baseline")
    assert list(found) == ["cpu/tuned", "gpu0/tuned"]
    assert found["gpu0/tuned"].ratio.median == pytest.approx(0.0056 / 0.0009, rel=0.02)


def test_what_both_variants_of_a_trial_share_cancels_out() -> None:
    """The builders give each trial a pace of its own; variants of one trial have it in common."""
    made = run({"cpu": CPU_SPEEDS}, trials=5, noise=0.2, seed=3)
    throughput = next(one.throughput for one in analyse(made).summaries if one.variant == TUNED)
    ratio = ratios(made, "tuned-over-baseline")["cpu/tuned"].ratio
    assert (ratio.high - ratio.low) / ratio.median < (
        throughput.high - throughput.low
    ) / throughput.median / 2


def test_optimizations_are_compared_with_baseline() -> None:
    speeds = {**LAUNCH_BOUND, "opt:xla": replace(LAUNCH_BOUND[TUNED], step_s=0.0028)}
    found = ratios(run({"gpu0": speeds}), "optimization-over-baseline")
    assert found["gpu0/opt:xla"].ratio.median == pytest.approx(2.0, rel=0.02)


def test_scaling_is_throughput_over_that_of_so_many_single_cards() -> None:
    found = ratios(four_gpu_run(), "scaling")
    assert set(found) == {
        f"{device}/{variant}"
        for device in ("gpu0+gpu1", "gpu0+gpu1+gpu2+gpu3")
        for variant in (BASELINE, TUNED)
    }
    assert found["gpu0+gpu1/baseline"].ratio.median == pytest.approx(0.95, rel=0.06)
    assert found["gpu0+gpu1+gpu2+gpu3/baseline"].ratio.median == pytest.approx(0.90, rel=0.06)
    assert found["gpu0+gpu1/baseline"].denominator == "gpu0/baseline"


def test_no_comparison_without_the_other_side() -> None:
    kinds = {one.kind for one in analyse(failed_run()).comparisons}
    assert kinds == {"tuned-over-baseline"}


def test_pairs_need_both_trials_of_an_index_to_have_gone_well() -> None:
    made = gpu_run(trials=4)
    lost = tuple(
        replace(trial, status=Status.FAILED) if (trial.device, trial.index) == ("cpu", 2) else trial
        for trial in made.trials
    )
    found = ratios(replace(made, trials=lost), "gpu-over-cpu")
    assert found["gpu0/baseline"].ratio.n == 3


def test_which_slice_of_a_card_was_used_makes_no_other_machine() -> None:
    run = gpu_run(trials=1)
    (card,) = run.manifest.gpus
    slices = [replace(card, gpu_instance_id=number, compute_instance_id=number) for number in (1, 2)]
    one, other = (facts(replace(run, manifest=replace(run.manifest, gpus=(each,)))) for each in slices)
    assert one == other
