"""Readings beside other programs do not count where the same variant was read without them."""

from dataclasses import replace

import numpy as np

from harness.analysis import analyse
from harness.analysis.disturbance import disturbed, uncounted
from harness.model.analysis import Cause, CaveatKind
from harness.model.run import Run, Series, Status, Trial
from harness.run.store import read_run
from tests.builders import cpu_run
from tests.recordings import NEIGHBOUR, recording
from tests.test_analysis_readings import trial_of
from workloads.variants import BASELINE, CUSTOM_LOOP, FIX, MODEL_ONLY

CPUS = 2
FASTER = FIX.of("xla")


def beside(trial: Trial, ends_s: float, *, taken: float = 0.5, free: float = 0.0) -> Trial:
    """Return a trial with telemetry of saturated CPUs, of which another program takes a share until `ends_s`."""
    t_ns = np.arange(0, 200_000_000_000, 100_000_000)
    others = np.where(t_ns < ends_s * 1e9, taken, 0.0)
    used_s = np.cumsum((1 - free - others) * CPUS * 0.1)
    host = {"cpu_util_pct": np.full(t_ns.shape, 100.0 * (1 - free))}
    return replace(
        trial,
        telemetry=(
            Series(source="host", device="host", t_ns=t_ns, columns=host),
            Series(source="cgroup", device="container", t_ns=t_ns, columns={"cpu_usage_s": used_s}),
        ),
    )


def run_of(*trials: Trial) -> Run:
    run = cpu_run(trials=1)
    return replace(run, manifest=replace(run.manifest, host_facts={"cpus": CPUS}), trials=trials)


# A reading every 10 s; the neighbour leaves after the third.
HALF = beside(
    trial_of(0, (BASELINE, 50), (MODEL_ONLY, 60), (CUSTOM_LOOP, 55), (CUSTOM_LOOP, 110), (BASELINE, 100), (FASTER, 150),
             (BASELINE, 100), apart_s=20.0), 59.0,
)  # fmt: skip


def speed(run: Run, variant: str) -> float:
    return analyse(run).cases[0].variants[variant].throughput.median


def test_readings_beside_a_neighbour_are_found():
    run = run_of(HALF)
    assert disturbed(run) == {HALF.id: {(BASELINE, 0), (MODEL_ONLY, 0), (CUSTOM_LOOP, 0)}}
    assert uncounted(HALF, disturbed(run)[HALF.id]) == {(BASELINE, 0), (CUSTOM_LOOP, 0)}


def test_the_undisturbed_readings_are_the_speed():
    run = run_of(HALF)
    assert round(speed(run, BASELINE)) == 100
    assert round(speed(run, CUSTOM_LOOP)) == 110
    assert round(speed(run, FASTER)) == 150
    (caveat,) = [each for each in analyse(run).caveats if each.kind is CaveatKind.OTHER_PROGRAMS]
    assert caveat.value == 2


def test_what_was_read_beside_a_neighbour_only_is_compared_with_the_baseline_beside_it():
    assert round(speed(run_of(HALF), MODEL_ONLY)) == 120, "60 is 1.2 times the baseline of that moment"


def test_other_programs_all_the_time_stay():
    always = run_of(beside(HALF, 1000.0))
    assert round(speed(always, BASELINE)) == 100, "the median of three"
    assert not [each for each in analyse(always).caveats if each.kind is CaveatKind.OTHER_PROGRAMS]


def test_of_a_failed_trial_whose_parts_alone_were_measured_nothing_is_left_out():
    parts = tuple(each for each in HALF.windows if each.variant in (MODEL_ONLY, CUSTOM_LOOP))
    run = run_of(replace(HALF, windows=parts, status=Status.FAILED))
    assert uncounted(run.trials[0], disturbed(run)[HALF.id])
    assert not [each for each in analyse(run).caveats if each.kind is CaveatKind.OTHER_PROGRAMS]


def test_other_programs_cost_nothing_on_free_cpus():
    assert disturbed(run_of(beside(HALF, 1000.0, taken=0.3, free=0.2))) == {}


def test_the_harness_itself_is_no_other_program():
    assert disturbed(run_of(beside(HALF, 1000.0, taken=0.05))) == {}


def test_without_telemetry_nothing_is_left_out():
    assert disturbed(run_of(replace(HALF, telemetry=()))) == {}
    assert disturbed(replace(run_of(HALF), manifest=replace(run_of(HALF).manifest, host_facts={}))) == {}


def test_a_neighbour_that_leaves_does_not_change_the_answer(tmp_path):
    """The recorded run; its first trial was beside the neighbour until after the breakdown."""
    run = read_run(recording(NEIGHBOUR, tmp_path))
    (case,) = analyse(run).cases
    assert case.limit is not None and case.limit.cause is Cause.COMPUTE
    assert (BASELINE, 0) in disturbed(run)["convnet.cpu.0"]
