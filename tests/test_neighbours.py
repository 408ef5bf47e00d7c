"""GPUs of one machine compared with each other: four GPUs made from the three trials of a recorded one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.capabilities import capabilities
from harness.analysis.neighbours import outliers
from harness.model.analysis import Analysis
from harness.model.run import Run, Trial
from tests.report_pages import recorded
from workloads.protocol import COPIES, MACHINE, PRECISIONS, RATE


@cache
def measured() -> Run:
    """Return a recording with its machine's trials on the GPU only, without telemetry, which is not compared."""
    run = recorded("h100-default")
    trials = (each for each in run.trials if (each.workload, each.device) == (MACHINE, "gpu0"))
    return replace(run, trials=tuple(replace(each, telemetry=()) for each in trials))


@cache
def bare() -> Analysis:
    return analyse(measured())


def drawn(
    factors: Sequence[float], *, seed: int = 0, noise: float, names: Sequence[str] = (), trials: int = 3
) -> Analysis:
    """Return an analysis of as many GPUs as factors, whose readings scatter by `noise` around the recorded medians.

    Args:
        names: the capabilities that have the factor; all without any.
    """
    random = np.random.default_rng(seed)
    run = measured()
    usual = {each.name: each.value.median for each in bare().capabilities}

    def on(trial: Trial, position: int) -> Trial:
        metrics = (
            replace(
                each,
                value=usual[each.variant]
                * (factors[position] if not names or each.variant in names else 1.0)
                * float(np.exp(random.normal(0, noise))),
            )
            for each in trial.metrics
            if each.name == RATE
        )
        return replace(trial, device=f"gpu{position}", id=f"{position}.{trial.id}", metrics=tuple(metrics))

    played = tuple(on(trial, position) for trial in run.trials[:trials] for position in range(len(factors)))
    gpus = tuple(replace(run.manifest.gpus[0], index=number) for number in range(len(factors)))
    made = replace(run, trials=played, manifest=replace(run.manifest, gpus=gpus))
    return replace(bare(), run=made, capabilities=capabilities(made))


@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("noise", [0.003, 0.01])
def test_a_gpu_that_is_6_percent_slow_among_four_is_named(position: int, noise: float) -> None:
    factors = [0.94 if each == position else 1.0 for each in range(4)]
    for seed in range(4):
        (found,) = outliers(drawn(factors, seed=seed, noise=noise))
        assert (found.device, found.family, found.others) == (f"gpu{position}", "all", 3)
        assert found.ratio == pytest.approx(0.94, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "noise"), [(3, 0.05), (8, 0.05)])
def test_none_of_equal_gpus_is_named_in_100_draws(noise: float, count: int) -> None:
    assert [
        each for seed in range(100) for each in outliers(drawn([1.0] * count, seed=seed, noise=noise))
    ] == []


@pytest.mark.slow
def test_usual_differences_between_gpus_are_not_named() -> None:
    """39 H100s of one operator differ by 0.6 %."""
    random = np.random.default_rng(5)
    named = [
        each
        for seed in range(100)
        for each in outliers(drawn(np.exp(random.normal(0, 0.006, 4)).tolist(), seed=seed, noise=0.01))
    ]
    assert named == []


def test_what_it_is_slow_in_is_said() -> None:
    (copies,) = outliers(drawn([1, 1, 0.57, 1], noise=0.01, names=COPIES))
    assert (copies.device, copies.family) == ("gpu2", "copies")
    (compute,) = outliers(drawn([1, 0.94, 1, 1], noise=0.005, names=PRECISIONS))
    assert (compute.device, compute.family) == ("gpu1", "compute")
    (launch,) = outliers(drawn([0.7, 1, 1, 1], noise=0.01, names=("launch",)))
    assert (launch.device, launch.family) == ("gpu0", "launch")


def test_faster_ones_pairs_and_other_kinds_are_not_named() -> None:
    assert outliers(drawn([1, 1.08, 1, 1], noise=0.005)) == ()
    assert outliers(drawn([1, 0.9], noise=0.005)) == (), "which of two is the odd one cannot be said"
    mixed = drawn([1, 1, 1, 0.5], noise=0.005)
    gpus = (*mixed.run.manifest.gpus[:3], replace(mixed.run.manifest.gpus[3], name="NVIDIA L4"))
    assert (
        outliers(replace(mixed, run=replace(mixed.run, manifest=replace(mixed.run.manifest, gpus=gpus))))
        == ()
    )


def test_single_readings_are_judged_by_their_scatter_within_a_family() -> None:
    (found,) = outliers(drawn([1, 1, 0.85, 1], noise=0.01, trials=1))
    assert (found.device, found.family) == ("gpu2", "all")
    assert outliers(drawn([1, 1, 0.8, 1], noise=0.01, names=("launch",), trials=1)) == ()
