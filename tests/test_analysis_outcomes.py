"""One line for each workload and device: its speed and what holds it back."""

from __future__ import annotations

from dataclasses import replace

from harness.analysis import analyse
from harness.analysis.outcomes import outcomes
from harness.model.run import Run
from tests.builders import INPUT_BOUND, bare_run, cpu_run, empty_run, gpu_run
from tests.builders_requests import serving_run
from tests.builders_telemetry import under_quota
from workloads.protocol import TUNED


def smoke(made: Run) -> Run:
    return replace(made, manifest=replace(made.manifest, parameters={"profile": "smoke"}))


def test_a_quota_is_named_also_by_a_run_that_only_tries_out() -> None:
    for made in (under_quota(cpu_run(), 1.0, 1.0), smoke(under_quota(cpu_run(trials=1), 1.0, 1.0))):
        (line,) = outcomes(analyse(made))
        assert line.startswith("cifar100-mlp on cpu: baseline 1")
        assert line.endswith("held back by: the container's CPU quota, about 50 % of the time (cpu-quota)")
        assert "\n" not in line


def test_every_workload_and_device_has_a_line() -> None:
    cpu, gpu = outcomes(analyse(gpu_run(speeds=INPUT_BOUND)))
    assert cpu.startswith("cifar100-mlp on cpu: ")
    assert "samples/s (95 % interval" in gpu and "the input pipeline, about 88 % of the time" in gpu
    assert outcomes(analyse(empty_run())) == ()


def test_what_was_not_looked_into_or_cannot_be_told_is_said_so() -> None:
    assert "could not be told" in outcomes(analyse(bare_run()))[0]
    made = cpu_run()
    left = {**made.manifest.parameters, "options": {"analysis": False}}
    bare = replace(bare_run(), manifest=replace(bare_run().manifest, parameters=left))
    assert "--no-analysis" in outcomes(analyse(bare))[0]
    tuned = tuple(
        replace(each, windows=tuple(one for one in each.windows if one.variant == TUNED))
        for each in made.trials
    )
    (line,) = outcomes(analyse(replace(made, trials=tuned)))
    assert ": tuned " in line and "baseline was not run" in line


def test_a_service_says_how_many_requests_it_serves_within_the_least_bound() -> None:
    cpu, gpu = outcomes(analyse(serving_run()))
    assert "; baseline serves 13.0 requests/s" in cpu and ", 99 % of them within 100 ms;" in cpu
    assert gpu.count("requests/s") == 1 and ", 99 % of them within 15 ms;" in gpu
