"""Ratios between what was measured: GPU over CPU, changes over the baseline, several GPUs over one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.facts import facts
from harness.model.analysis import Estimate, RatioKind
from harness.model.run import Run, Status
from tests.builders import CPU_SPEEDS, LAUNCH_BOUND, failed_run, four_gpu_run, gpu_run, run
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED

PAIR, FOUR = "gpu0+gpu1", "gpu0+gpu1+gpu2+gpu3"


def ratios(made: Run, kind: RatioKind) -> dict[tuple[str, str], Estimate]:
    return {
        (each.device, each.variant): each.ratio for each in analyse(made).comparisons if each.kind is kind
    }


def test_speeds_are_compared_where_the_other_side_was_measured() -> None:
    with_step = {**LAUNCH_BOUND, "opt:xla": replace(LAUNCH_BOUND[TUNED], step_s=0.0028)}
    over_cpu = ratios(gpu_run(), RatioKind.GPU_OVER_CPU)
    assert list(over_cpu) == [("gpu0", variant) for variant in (BASELINE, MODEL_ONLY, TUNED)]
    assert over_cpu["gpu0", BASELINE].median == pytest.approx(0.0030 / 0.0056, rel=0.06)
    assert over_cpu["gpu0", BASELINE].high < 1
    over_baseline = ratios(run({"gpu0": with_step}), RatioKind.OVER_BASELINE)
    assert {key: each.median for key, each in over_baseline.items()} == pytest.approx(
        {("gpu0", TUNED): 0.0056 / 0.0009, ("gpu0", "opt:xla"): 2.0}, rel=0.02
    )
    scaling = {key: each.median for key, each in ratios(four_gpu_run(), RatioKind.SCALING).items()}
    assert scaling == pytest.approx(
        {(PAIR, BASELINE): 0.95, (PAIR, TUNED): 0.95, (FOUR, BASELINE): 0.9, (FOUR, TUNED): 0.9}, rel=0.06
    )
    assert {each.kind for each in analyse(failed_run()).comparisons} == {RatioKind.OVER_BASELINE}


def test_what_both_variants_of_a_trial_share_cancels_out() -> None:
    """The builders give each trial a pace of its own; variants of one trial have it in common."""
    made = run({"cpu": CPU_SPEEDS}, trials=5, noise=0.2, seed=3)
    throughput = next(each.throughput for each in analyse(made).summaries if each.variant == TUNED)
    ratio = ratios(made, RatioKind.OVER_BASELINE)["cpu", TUNED]
    assert ratio.half_width is not None and throughput.half_width is not None
    assert ratio.half_width < throughput.half_width / 2


def test_pairs_need_both_trials_of_an_index_to_have_gone_well() -> None:
    made = gpu_run(trials=4)
    lost = tuple(
        replace(trial, status=Status.FAILED) if (trial.device, trial.index) == ("cpu", 2) else trial
        for trial in made.trials
    )
    assert ratios(replace(made, trials=lost), RatioKind.GPU_OVER_CPU)["gpu0", BASELINE].n == 3


def test_which_slice_of_a_gpu_was_used_makes_no_other_machine() -> None:
    made = gpu_run(trials=1)
    (gpu,) = made.manifest.gpus
    slices = [replace(gpu, mig_uuid=f"MIG-{number}") for number in (1, 2)]
    item, other = (facts(replace(made, manifest=replace(made.manifest, gpus=(each,)))) for each in slices)
    assert item == other
