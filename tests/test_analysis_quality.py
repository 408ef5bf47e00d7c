"""What a reader is warned of, and that a quiet machine is warned of nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.analysis.quality import CHECKS
from harness.analysis.quality_host import HOST_CHECKS
from harness.model.analysis import Quality
from harness.model.run import DataInfo, Run, Series, Stop, Trial
from tests.builders import (
    bare_run,
    cpu_run,
    empty_run,
    failed_run,
    gpu_run,
    hostile_run,
    interrupted_run,
    run,
)
from tests.builders_parts import CPU_SPEEDS
from tests.builders_telemetry import retold


def facts(made: Run) -> list[str]:
    return [one.fact for one in analyse(made).quality]


def about(made: Run, words: str) -> Quality:
    found = [one for one in analyse(made).quality if words in one.fact]
    assert len(found) == 1, facts(made)
    return found[0]


def on_host(made: Run, **changed: str | float | bool) -> Run:
    return replace(made, manifest=replace(made.manifest, host_facts={**made.manifest.host_facts, **changed}))


def test_a_quiet_machine_with_enough_trials_is_warned_of_nothing() -> None:
    assert facts(cpu_run()) == []
    assert facts(gpu_run()) == []


def test_the_local_engine() -> None:
    made = cpu_run()
    engine = replace(made.manifest.engine, name="local", isolated=False)
    found = about(replace(made, manifest=replace(made.manifest, engine=engine)), "isolates nothing")
    assert found.severity == "warning" and "make engine" in found.remedy


def test_trials_that_did_not_go_well_are_counted_with_their_reason() -> None:
    found = about(failed_run(), "3 trials left out: no-gpu")
    assert "TensorFlow registered 0 of 1 GPUs." in found.fact
    for cut_off, words in (
        (interrupted_run(), "1 trial left out: interrupted"),
        (empty_run(), "stopped before"),
    ):
        remedy = about(cut_off, words).remedy
        assert "--resume" in remedy
        assert "runs/" not in remedy, "--out and fleets keep runs elsewhere"


def test_few_trials_and_wide_intervals() -> None:
    assert sum("Only 1 trial" in one for one in facts(cpu_run(trials=1))) == 2
    assert sum("Only 2 trials" in one for one in facts(cpu_run(trials=2))) == 2
    noisy = run({"cpu": CPU_SPEEDS}, trials=4, noise=0.2)
    noisy = replace(
        noisy, stops=(Stop(workload="cifar100-mlp", device="cpu", trials=4, reason="time budget spent"),)
    )
    wide = [one for one in facts(noisy) if "interval is wide" in one]
    assert len(wide) == 2
    assert "time budget spent" in wide[0]


def slowed(made: Run, factors: list[float]) -> Run:
    """Stretch the windows of each trial by a factor."""

    def stretched(trial: Trial, factor: float) -> Trial:
        windows = tuple(
            replace(one, end_ns=one.start_ns + int((one.end_ns - one.start_ns) * factor))
            for one in trial.windows
        )
        return replace(trial, windows=windows, ended_ns=trial.ended_ns + 10**10)

    trials = tuple(stretched(trial, factor) for trial, factor in zip(made.trials, factors, strict=True))
    return replace(made, trials=trials)


def test_a_machine_that_becomes_slower() -> None:
    made = run({"cpu": CPU_SPEEDS}, trials=6, noise=0.001)
    found = [one for one in facts(slowed(made, [1, 1.02, 1.04, 1.06, 1.08, 1.1])) if "slower from" in one]
    assert len(found) == 2
    assert re.search(r"became (8|9|10)(\.\d)? % slower", found[0])


def test_a_trial_that_is_far_off_is_named_and_kept() -> None:
    made = run({"cpu": CPU_SPEEDS}, trials=6, noise=0.002)
    found = [one for one in analyse(slowed(made, [1, 1, 1, 1.5, 1, 1])).quality if "Far off" in one.fact]
    assert [one.fact for one in found] == ["Far off the others, though not left out: cifar100-mlp-cpu-3."] * 2
    assert {one.severity for one in found} == {"note"}


def test_procedural_data_and_changed_parameters_and_the_smoke_profile() -> None:
    made = cpu_run()
    data = DataInfo(workload="cifar100-mlp", name="cifar100", kind="procedural", sha256="", why="no network")
    about(replace(made, manifest=replace(made.manifest, data=(data,))), "procedural data")
    parameters = {"profile": "smoke", "params": {"batch_size": 64}}
    changed = replace(made, manifest=replace(made.manifest, parameters=parameters))
    about(changed, "smoke profile")
    about(changed, "batch_size=64")


def test_a_busy_machine_before_and_while_measuring() -> None:
    made = cpu_run()
    blind = replace(made, trials=tuple(replace(trial, telemetry=()) for trial in made.trials))
    assert about(on_host(blind, load_1min=12.0), "not quiet").severity == "warning"
    assert about(on_host(blind, load_1min=2.0), "not quiet").severity == "note"
    # What was seen while it measured says more than the minute before.
    assert not [one for one in analyse(on_host(made, load_1min=12.0)).quality if "not quiet" in one.fact]
    about(retold(cpu_run(), "cpu", "host", cpu_steal_pct=3.0), "steal")


@pytest.mark.parametrize(
    ("metric", "words", "steady"),
    [
        ("foreign_processes", "not part of this run", False),
        ("xid_errors", "XID", True),
        ("ecc_uncorrected", "could not be corrected", True),
    ],
)
def test_what_happens_on_a_card_beside_the_run(metric: str, words: str, steady: bool) -> None:
    made = gpu_run()
    slow = next(one for one in made.trials[1].telemetry if one.source == "nvml_slow")
    rising = np.minimum(np.arange(len(slow.t_ns)), 1.0)
    found = about(retold_one(made, metric, rising), words)
    assert found.subject == "gpu0"
    before = facts(retold_one(made, metric, np.ones(len(slow.t_ns))))
    assert (before == []) is steady  # errors from before the run are not this run's


def retold_one(made: Run, metric: str, values: np.ndarray) -> Run:
    """Change a column of the second trial only, the first on the GPU."""
    trial = made.trials[1]
    telemetry = tuple(
        replace(one, columns={**one.columns, metric: values}) if one.source == "nvml_slow" else one
        for one in trial.telemetry
    )
    return replace(made, trials=(made.trials[0], replace(trial, telemetry=telemetry), *made.trials[2:]))


def test_settings_of_a_card() -> None:
    made = gpu_run()
    card = replace(made.manifest.gpus[0], power_limit_w=500.0, mig_enabled=True, ecc_enabled=False)
    made = replace(made, manifest=replace(made.manifest, gpus=(card,)))
    assert about(made, "below the default").remedy.endswith("nvidia-smi -i 0 -pl 700")
    about(made, "MIG")
    about(made, "ECC")
    unknown = replace(card, power_limit_w=None, mig_enabled=None, ecc_enabled=None)
    assert facts(replace(made, manifest=replace(made.manifest, gpus=(unknown,)))) == []


def test_clocks_of_the_processor() -> None:
    about(on_host(cpu_run(), cpu_governor="powersave"), '"powersave"')
    assert any("throttled by heat" in one for one in facts(rising_throttle(cpu_run())))
    made = cpu_run(trials=3)
    trial = made.trials[1]
    last = max(one.start_ns for one in trial.windows if one.variant == "baseline")
    telemetry = tuple(
        replace(one, columns={"cpu_freq_mhz": np.where(one.t_ns < last, 3700.0, 2200.0)})
        if one.source == "cpufreq" else one
        for one in trial.telemetry
    )  # fmt: skip
    dropped = replace(made, trials=(made.trials[0], replace(trial, telemetry=telemetry), made.trials[2]))
    about(dropped, "more than a tenth")


def rising_throttle(made: Run) -> Run:
    def risen(series: Series) -> Series:
        events = np.arange(len(series.t_ns), dtype=np.float64)
        return replace(series, columns={**series.columns, "cpu_throttle_events": events})

    trials = tuple(
        replace(
            trial,
            telemetry=tuple(risen(one) if one.source == "cpufreq" else one for one in trial.telemetry),
        )
        for trial in made.trials
    )
    return replace(made, trials=trials)


def test_a_container_whose_clock_is_not_the_hosts() -> None:
    made = cpu_run(trials=3)
    trial = made.trials[0]
    shifted = tuple(
        replace(one, start_ns=one.start_ns + 10**12, end_ns=one.end_ns + 10**12) for one in trial.windows
    )
    about(replace(made, trials=(replace(trial, windows=shifted), *made.trials[1:])), "do not line up")


def test_missed_ticks() -> None:
    made = cpu_run()
    few = replace(
        made,
        trials=tuple(replace(one, sampling={"ticks": 100.0, "missed_ticks": 9.0}) for one in made.trials),
    )
    assert "8.3 %" in about(few, "missed").fact


def test_gaps_are_told_once_with_their_reason() -> None:
    assert facts(bare_run()).count("Not available (all of it): NVML is not installed.") == 1


def test_warnings_of_containers_and_harness_are_passed_on_once() -> None:
    found = [one for one in analyse(hostile_run()).quality if one.fact.startswith("<script>")]
    assert [one.severity for one in found] == ["warning", "note", "note"]


def test_warnings_come_first() -> None:
    severities = [one.severity for one in analyse(hostile_run()).quality]
    assert severities == sorted(severities, reverse=True)


def test_every_check_is_said_to_do_something() -> None:
    assert all(check.__doc__ for check in (*CHECKS, *HOST_CHECKS))
