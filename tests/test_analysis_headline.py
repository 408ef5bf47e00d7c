"""The first paragraph: it answers what a buyer asks, for every kind of run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.words import interval, listed, percent, significant, times
from harness.model.analysis import Estimate
from harness.model.run import Run
from tests.builders import (
    COMPUTE_BOUND,
    INPUT_BOUND,
    bare_run,
    cpu_run,
    empty_run,
    failed_run,
    four_gpu_run,
    gpu_run,
    interrupted_run,
    long_run,
    run,
)
from tests.builders_parts import CPU_RESNET, CPU_SPEEDS, LAUNCH_BOUND


def merged(*runs: Run) -> Run:
    """Put several workloads into one run."""
    first = runs[0]
    return replace(
        first,
        workloads=tuple(one for each in runs for one in each.workloads),
        planned=tuple(one for each in runs for one in each.planned),
        trials=tuple(one for each in runs for one in each.trials),
    )


def test_a_card_that_loses_is_called_slower_with_the_reason_and_the_cure() -> None:
    said = analyse(gpu_run()).headline
    assert said.startswith(
        "As published, GPU 0 (NVIDIA H200) trains cifar100-mlp 1.86 times slower than the "
    )
    assert "95 % interval" in said
    assert "launch-bound" in said and "loses to the CPU" in said
    assert "With the remedies applied (tuned: steps_per_execution, jit_compile) it runs 6.23 times" in said
    assert "Tuned on both sides it is 1.12 times as fast as the CPU" in said
    assert said.index("slower") < said.index("launch-bound") < said.index("remedies")


def test_a_card_that_wins() -> None:
    said = analyse(run({"cpu": CPU_RESNET, "gpu0": COMPUTE_BOUND}, name="resnet50")).headline
    assert "times as fast as the CPU" in said
    assert "slower" not in said
    assert "the GPU itself is the limit" in said.replace("The", "the")


def test_a_difference_within_the_noise_is_no_difference() -> None:
    made = run({"cpu": CPU_SPEEDS, "gpu0": CPU_SPEEDS}, noise=0.03)
    assert "about as fast as the CPU" in analyse(made).headline


def test_a_machine_without_a_card() -> None:
    said = analyse(cpu_run()).headline
    assert said.startswith("As published, the CPU (AMD EPYC 9354) trains cifar100-mlp at 10,")
    assert "times the speed published for NC4as T4 v3, 4 vCPU (Azure blog, 2023)" in said
    assert "GPU" not in said


def test_within_a_published_range_it_is_as_fast_as_published() -> None:
    made = cpu_run()
    (declared,) = made.workloads
    number = replace(declared.published[0], device="cpu", value=10_000.0, upto=12_000.0, unit="samples/s")
    ranged = replace(made, workloads=(replace(declared, published=(number,)),))
    found = analyse(ranged)
    (one,) = found.published
    assert one.factor is not None and one.factor.median == 1
    assert "That is 1 times the speed published" in found.headline


def test_one_published_speed_among_several_workloads_names_its_own() -> None:
    other = run({"cpu": CPU_SPEEDS}, name="cifar10-mlp")
    unpublished = replace(other, workloads=(replace(other.workloads[0], published=()),))
    assert "For cifar100-mlp that is 2.28 times" in analyse(merged(cpu_run(), unpublished)).headline


def test_several_workloads_are_grouped_by_who_wins_and_by_cause() -> None:
    made = merged(
        gpu_run(),
        run({"cpu": CPU_SPEEDS, "gpu0": LAUNCH_BOUND}, name="cifar10-mlp"),
        run({"cpu": CPU_RESNET, "gpu0": COMPUTE_BOUND}, name="resnet50"),
    )
    said = analyse(made).headline
    assert "slower than the CPU on cifar100-mlp (1.86 times) and cifar10-mlp" in said
    assert "faster than the CPU on resnet50" in said
    assert said.count("launch-bound") == 1
    assert "cifar100-mlp 6.23, cifar10-mlp 6.2" in said


def test_several_cards_say_how_they_scale() -> None:
    said = analyse(four_gpu_run()).headline
    assert "4 GPUs together reach 8" in said and "of 4 times one GPU's speed on resnet50, tuned" in said
    assert analyse(long_run(seconds=200)).headline.startswith("As published, 8 GPUs (NVIDIA H200) train ")


def test_a_device_without_result_is_said_with_the_reason() -> None:
    said = analyse(failed_run()).headline
    assert said.endswith("GPU 0 (NVIDIA H200) gave no result: TensorFlow registered 0 of 1 GPUs.")


def test_nothing_measured() -> None:
    assert analyse(empty_run()).headline == "No trial finished, so nothing was measured."
    made = failed_run()
    only = replace(made, trials=tuple(one for one in made.trials if one.device != "cpu"))
    assert "3 of 6 planned trials ended early; the first: TensorFlow registered" in analyse(only).headline


def test_without_telemetry_the_cause_is_not_guessed() -> None:
    assert "could not be told from what was recorded" in analyse(bare_run()).headline


def test_single_trials_have_no_interval() -> None:
    assert "interval" not in analyse(interrupted_run()).headline


@pytest.mark.parametrize("speeds", [INPUT_BOUND, COMPUTE_BOUND, LAUNCH_BOUND])
def test_it_reads_as_sentences(speeds: dict) -> None:
    said = analyse(gpu_run(speeds=speeds)).headline
    assert said.endswith(".")
    assert "  " not in said and ".." not in said and " ." not in said and "None" not in said


def test_variants_without_baseline_are_still_told() -> None:
    made = cpu_run()
    trials = tuple(
        replace(one, windows=tuple(each for each in one.windows if each.variant == "tuned"))
        for one in made.trials
    )
    assert "cifar100-mlp (tuned) 31," in analyse(replace(made, trials=trials)).headline


def test_words() -> None:
    assert [percent(share) for share in (0, 0.0004, 0.012, 0.123, 1)] == [
        "0 %",
        "0.04 %",
        "1.2 %",
        "12 %",
        "100 %",
    ]
    assert [significant(value) for value in (0.5376, 6.2333, 14.72, 10593.4)] == [
        "0.538",
        "6.23",
        "14.7",
        "10,593",
    ]
    assert times(2.0) == "2 times"
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    one = Estimate(median=2.0, low=1.5, high=2.5, n=3, unit="")
    assert interval(one) == " (95 % interval 1.5 to 2.5)"
    assert interval(replace(one, n=1)) == ""


def test_remedies_that_change_nothing_beyond_the_noise_are_not_called_a_gain() -> None:
    made = run({"cpu": {**CPU_SPEEDS, "tuned": CPU_SPEEDS["baseline"]}})
    assert "it runs about as fast (95 % interval" in analyse(made).headline
