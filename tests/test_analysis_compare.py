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
    cpu_run,
    failed_run,
    four_gpu_run,
    gpu_run,
    run,
)
from tests.builders_parts import CPU_SPEEDS
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED, Published


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


def test_published_numbers_stand_beside_the_same_kind_of_device_in_their_own_unit() -> None:
    found = analyse(gpu_run()).published
    assert [(one.device, one.value, one.unit) for one in found] == [
        ("cpu", 1075, "s"),
        ("gpu0", 343, "s"),
        ("gpu0", 3.1, "ratio"),
    ]
    cpu, card, ratio = found
    assert cpu.measured is not None and cpu.measured.unit == "s"
    assert cpu.measured.median == pytest.approx(1563 * 0.003 * 100, rel=0.05)
    assert "projected" in cpu.measured_label
    assert card.measured is not None and card.measured.median > 343
    assert ratio.measured is not None and ratio.measured.median == pytest.approx(0.54, rel=0.06)


def test_a_published_speed_is_in_samples_a_second() -> None:
    found = next(one for one in analyse(four_gpu_run()).published if one.unit == "samples/s")
    assert found.device == "gpu0"
    assert found.measured is not None and found.measured.median == pytest.approx(256 / 0.29, rel=0.05)


def test_published_numbers_with_nothing_to_match_are_kept() -> None:
    found = analyse(cpu_run()).published
    assert [one.measured is None for one in found] == [False, True, True]
    assert found[1].measured_label == "not measured in this run"


def test_an_unknown_unit_is_said_not_guessed() -> None:
    made = cpu_run()
    odd = Published(source="x", system="y", device="cpu", value=1, unit="furlongs")
    made = replace(made, workloads=(replace(made.workloads[0], published=(odd,)),))
    found = analyse(made).published[0]
    assert found.measured is None
    assert "furlongs" in found.measured_label


def test_which_slice_of_a_card_was_used_makes_no_other_machine() -> None:
    run = gpu_run(trials=1)
    (card,) = run.manifest.gpus
    slices = [replace(card, gpu_instance_id=number, compute_instance_id=number) for number in (1, 2)]
    one, other = (facts(replace(run, manifest=replace(run.manifest, gpus=(each,)))) for each in slices)
    assert one == other
