"""What the variants show that only serve the verdict: waits around next(), batches, copies, epochs, calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.remedies import missed
from harness.cpuset import cpu_numbers
from harness.model.analysis import Estimate, Finding, Verdict
from harness.model.run import Run, VariantInfo
from harness.model.variants import variant_name
from tests.builders import COMPUTE_BOUND, LAUNCH_BOUND, VariantSpeed, cpu_run, gpu_run, run
from tests.builders_parts import CPU_SPEEDS
from tests.builders_telemetry import CPUS, retold, seconds_of, under_quota
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED_INPUT, Change

Speeds = Mapping[str, VariantSpeed]


def verdict(made: Run, rule: str, device: str = "cpu") -> Verdict:
    return next(one for one in analyse(made).verdicts if (one.rule, one.device) == (rule, device))


def first(made: Run, device: str = "cpu") -> Verdict:
    return next(one for one in analyse(made).verdicts if one.device == device)


def variants(**step_ms: float) -> Speeds:
    """Give variants by how many milliseconds a step of 32 samples takes; underscores stand for other marks."""
    names = {name.replace("__", ":").replace("_", "-"): value for name, value in step_ms.items()}
    return {
        name: VariantSpeed(step_s=value / 1e3, batch=32 * int(name[6:]) if name.startswith("batch:") else 32)
        for name, value in names.items()
    }


def waiting(speeds: Speeds, share: float) -> Speeds:
    """Let the loop that sees its waits wait for a share of its time."""
    return {**speeds, "custom-loop": replace(speeds["custom-loop"], wait_share=share)}


def played(speeds: Speeds, *, cpus: float | None = None, device: str = "cpu") -> Run:
    """Play a run whose container, alone on the machine, uses so many CPUs."""
    made = run({device: speeds}, trials=3, accuracy=0.3)
    if cpus is None:
        return made
    trials = tuple(
        replace(
            trial,
            telemetry=tuple(
                replace(one, columns={**one.columns, "cpu_usage_s": seconds_of(one) * cpus})
                if one.source == "cgroup" else one
                for one in trial.telemetry
            ),
        )
        for trial in made.trials
    )  # fmt: skip
    return retold(replace(made, trials=trials), device, "host", cpu_util_pct=100 * cpus / CPUS)


ACCELERATOR = variants(
    baseline=10, custom_loop=10, input_only=1, model_only=9.8, batch__2=19.6, batch__4=39.2
)


def test_a_device_that_works_while_the_processor_idles_is_the_limit_itself() -> None:
    """As with any accelerator that no telemetry speaks of: the step grows with the batch."""
    made = played(waiting(ACCELERATOR, 0.0), cpus=0.3)
    assert verdict(made, "launch-bound").finding is Finding.CLEAR
    assert verdict(made, "input-bound").finding is Finding.CLEAR
    assert first(made).rule == "compute-bound"
    assert "4 times" in first(made).evidence[2].threshold


@pytest.mark.parametrize("fixed_ms", [3, 6, 9])
def test_launch_bound_costs_what_does_not_grow_with_the_batch(fixed_ms: float) -> None:
    grows = 10 - fixed_ms
    speeds = variants(
        baseline=10, custom_loop=10, input_only=0.2, model_only=10,
        batch__2=fixed_ms + 2 * grows, batch__4=fixed_ms + 4 * grows,
    )  # fmt: skip
    found = verdict(played(waiting(speeds, 0.0), cpus=0.5), "launch-bound")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(fixed_ms / 10, rel=0.08)
    assert found.remedy is not None and found.remedy.at_least


def test_what_does_not_grow_with_the_batch_may_be_work_of_a_busy_processor() -> None:
    """An optimiser's pass over large weights costs the same whatever the batch, and launches nothing."""
    speeds = waiting(
        variants(baseline=10, custom_loop=10, input_only=0.2, model_only=10, batch__2=11, batch__4=13), 0.0
    )
    assert verdict(played(speeds, cpus=15.5), "launch-bound").finding is Finding.CLEAR
    assert verdict(played(speeds, cpus=15.5), "compute-bound").finding is Finding.FOUND
    saved = {**speeds, **variants(calls__10=6)}
    found = verdict(played(saved, cpus=15.5), "launch-bound")
    assert found.cost == pytest.approx(0.4, rel=0.08)


def test_a_processor_that_others_use_is_not_idle() -> None:
    speeds = waiting(
        variants(baseline=10, custom_loop=10, input_only=0.2, model_only=10, batch__2=11, batch__4=13), 0.0
    )
    made = retold(played(speeds, cpus=2.0), "cpu", "host", cpu_util_pct=100.0)
    assert verdict(made, "launch-bound").finding is Finding.CLEAR
    assert verdict(made, "contended-host").cost == pytest.approx(14 / 16, rel=0.02)


@pytest.mark.parametrize(("others_pct", "told"), [(100.0, Finding.INCONCLUSIVE), (50.0, Finding.FOUND)])
def test_starting_steps_is_not_told_from_waiting_for_a_processor(others_pct: float, told: Finding) -> None:
    """Many steps in one call save half of the time: the program's doing, or others have the CPUs."""
    speeds = waiting(
        variants(
            baseline=10, custom_loop=10, input_only=0.2, model_only=10,
            batch__2=11, batch__4=13, calls__10=5,
        ),
        0.0,
    )  # fmt: skip
    made = retold(played(speeds, cpus=8.0), "cpu", "host", cpu_util_pct=others_pct)
    found = verdict(made, "launch-bound")
    assert found.finding is told
    assert ("other load on the machine took 50 %" in found.sentence) == (told is Finding.INCONCLUSIVE)


def test_input_that_is_slower_than_the_model_costs_all_that_is_lost_against_it() -> None:
    """A pipeline that holds Python's lock slows the step itself down: the loop sees half of the wait."""
    speeds = waiting(variants(baseline=10, custom_loop=10, input_only=8, model_only=2), 0.4)
    found = verdict(played(speeds, cpus=1.0), "input-bound")
    assert found.cost == pytest.approx(0.8, rel=0.02)
    assert "40 % that the model waits and the rest by slowing its steps down" in found.sentence
    fast = waiting(variants(baseline=10, custom_loop=10, input_only=1.9, model_only=2), 0.4)
    assert verdict(played(fast, cpus=1.0), "no-overlap").cost == pytest.approx(0.4, rel=0.05)


def test_a_saturated_host_is_told_to_do_less_not_more_at_once() -> None:
    speeds = waiting(variants(baseline=10, custom_loop=10, input_only=10, model_only=2), 0.8)
    busy = verdict(played(speeds, cpus=0.95 * CPUS), "input-bound").remedy
    assert busy is not None and busy.predicted_gain is None
    assert "no more to give" in busy.text and ".cache()" in busy.code
    idle = verdict(played(speeds, cpus=1.0), "input-bound").remedy
    assert idle is not None and idle.predicted_gain == pytest.approx(5, rel=0.05)


def test_others_cost_nothing_while_processors_are_free() -> None:
    made = retold(played(waiting(ACCELERATOR, 0.0), cpus=1.0), "cpu", "host", cpu_util_pct=50.0)
    found = verdict(made, "contended-host")
    assert found.finding is Finding.CLEAR
    assert "free ones left" in found.sentence


def test_steal_is_found_beside_others_that_cost_nothing() -> None:
    """The hypervisor took an eighth while others used a fifth of CPUs that were free besides."""
    made = played(waiting(ACCELERATOR, 0.0), cpus=0.3 * CPUS)
    made = retold(made, "cpu", "host", cpu_util_pct=62.0, cpu_steal_pct=12.0)
    found = verdict(made, "contended-host")
    assert found.finding is Finding.FOUND
    assert "hypervisor" in found.sentence
    assert found.cost == pytest.approx(0.12 / (0.12 + 0.3), rel=0.03)


def shares(found: Verdict) -> dict[str, float]:
    return {
        one.metric.removeprefix("CPU time "): float(one.observed.removesuffix("%")) for one in found.evidence
    }


def test_what_others_used_and_what_was_free_are_shares_of_the_same_processors() -> None:
    """Under a quota of half a CPU of sixteen, of which others use eight."""
    made = played(waiting(ACCELERATOR, 0.0), cpus=0.5)
    made = retold(made, "cpu", "host", cpu_util_pct=100 * 8.5 / CPUS, cpu_steal_pct=2.0)
    made = retold(made, "cpu", "cgroup", cpu_limit_cpus=0.5)
    found = verdict(made, "contended-host")
    assert found.finding is Finding.CLEAR
    told = shares(found)
    assert told == pytest.approx(
        {
            "taken by the hypervisor (steal)": 2.0, "used by other programs": 48.0,
            "used by this workload": 3.1, "free": 47.0,
        },
        abs=0.6,
    )  # fmt: skip
    assert sum(told.values()) == pytest.approx(100, abs=1)
    # 15 % of half a CPU, of sixteen.
    assert found.evidence[-1].threshold == "below 0.47 %, 15 % of what its limit lets it use"


def test_pinned_processors_are_looked_at_alone() -> None:
    made = played(waiting(ACCELERATOR, 0.0), cpus=0.5)
    cores = next(one for one in made.trials[0].telemetry if one.device == "cores")
    assert "core0_util_pct" in cores.columns
    options = {"options": {"cpus": "0"}}
    pinned = replace(made, manifest=replace(made.manifest, parameters=options))
    trials = tuple(
        replace(
            trial,
            telemetry=tuple(
                replace(one, columns={**one.columns, "core0_util_pct": 0 * one.t_ns + 100.0})
                if one.device == "cores" else one
                for one in trial.telemetry
            ),
        )
        for trial in pinned.trials
    )  # fmt: skip
    found = verdict(replace(pinned, trials=trials), "contended-host")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", (0,)), ("0-3,8", (0, 1, 2, 3, 8)), (" 1, 1 ", (1,)), ("", ()), ("all", ()), ("1-", (1,))],
)
def test_cpusets(text: str, found: tuple[int, ...]) -> None:
    assert cpu_numbers(text) == found


def test_quota_costs_the_processor_time_that_was_withheld() -> None:
    found = verdict(under_quota(cpu_run(), 0.5, 0.5), "cpu-quota")
    assert found.cost == pytest.approx(0.5, rel=0.02)
    assert found.remedy is not None and found.remedy.predicted_gain == pytest.approx(2, rel=0.04)


def test_quota_costs_nothing_while_the_device_computes() -> None:
    """Three quarters of the CPU time are withheld, but half of a step is the device's own."""
    speeds = variants(baseline=20, custom_loop=20, input_only=20, model_only=15, calls__10=10)
    made = under_quota(run({"cpu": speeds}, trials=3), 0.25, 0.75, calls__10=0.0)
    assert verdict(made, "cpu-quota").cost == pytest.approx(0.5, rel=0.06)


def test_input_bound_by_the_wait_around_next_scaled_to_keras_fit() -> None:
    speeds = variants(baseline=12.5, custom_loop=10, input_only=8, model_only=4.5, batch__2=9, batch__4=18)
    found = verdict(played(waiting(speeds, 0.8)), "input-bound")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(8 / 12.5, rel=0.05)
    assert any("against Keras fit" in one.metric and "1.25" in one.observed for one in found.evidence)


def test_baseline_waits_for_no_more_than_it_loses() -> None:
    """A loop that is held up while baseline is not."""
    speeds = variants(baseline=10, custom_loop=13, input_only=8, model_only=10, batch__2=20, batch__4=40)
    assert verdict(played(waiting(speeds, 0.3)), "input-bound").finding is Finding.CLEAR


def test_no_overlap_is_found_where_the_pipeline_by_itself_is_fast_enough() -> None:
    speeds = variants(baseline=15, custom_loop=15, input_only=5, model_only=10, batch__2=20, batch__4=40)
    made = played(waiting(speeds, 5 / 15), cpus=0.5)
    found = first(made)
    assert (found.rule, found.finding) == ("no-overlap", Finding.FOUND)
    assert found.cost == pytest.approx(1 / 3, rel=0.05)
    assert found.remedy is not None and "prefetch" in found.remedy.code
    assert found.remedy.predicted_gain == pytest.approx(1.5, rel=0.05)
    assert verdict(made, "input-bound").finding is Finding.CLEAR
    assert "lack of overlap" in verdict(made, "input-bound").sentence
    hidden = played(waiting(ACCELERATOR, 0.0))
    assert verdict(hidden, "no-overlap").finding is Finding.CLEAR
    assert verdict(played(variants(baseline=15)), "no-overlap").finding is Finding.INCONCLUSIVE


@pytest.mark.parametrize(
    ("share", "finding"), [(0.055, Finding.INCONCLUSIVE), (0.20, Finding.FOUND), (0.03, Finding.CLEAR)]
)
def test_no_overlap_explains_no_more_than_taking_turns_costs(share: float, finding: Finding) -> None:
    """Input by itself a hundred times as fast as the model: in turns it costs 1 % of the time."""
    speeds = variants(baseline=13, custom_loop=13, input_only=0.1, model_only=10, batch__2=20, batch__4=40)
    found = verdict(played(waiting(speeds, share), cpus=0.5), "no-overlap")
    assert found.finding is finding
    assert ("no more than noise" in found.sentence) is (finding is Finding.INCONCLUSIVE)
    assert ("held up while the model computes" in found.sentence) is (finding is Finding.FOUND)


STAGES = variants(
    baseline=20, custom_loop=20, input_only=10, model_only=10, batch__2=20, batch__4=40,
    stage__read=1, stage__decode=7, stage__copy=10,
)  # fmt: skip


def declared(made: Run, *stages: str) -> Run:
    return replace(made, workloads=(replace(made.workloads[0], stages=stages),))


def test_stages_are_told_in_order_with_cost_share_and_ceiling() -> None:
    made = declared(played(waiting(STAGES, 0.5)), "read", "decode", "copy")
    (found,) = analyse(made).pipelines
    assert [stage.name for stage in found.stages] == ["read", "decode", "copy"]
    assert [stage.cost_s * 32e3 for stage in found.stages] == pytest.approx([1, 6, 3], rel=0.1)
    assert [stage.share for stage in found.stages] == pytest.approx([0.1, 0.6, 0.3], abs=0.03)
    assert found.stages[1].ceiling == pytest.approx(32 / 7e-3, rel=0.05)
    assert found.stages[1].start_s == found.stages[0].cost_s
    assert found.model == pytest.approx(32 / 10e-3, rel=0.05)
    assert analyse(cpu_run()).pipelines == ()


def test_copy_bound_is_found_by_its_stage() -> None:
    dear = {**STAGES, **variants(stage__read=0.5, stage__decode=1, stage__copy=10)}
    made = declared(played(waiting(dear, 0.5)), "read", "decode", "copy")
    found = first(made)
    assert (found.rule, found.finding) == ("copy-bound", Finding.FOUND)
    assert found.cost == pytest.approx(0.5, rel=0.03)
    assert verdict(made, "input-bound").finding is Finding.CLEAR
    assert verdict(made, "no-overlap").finding is Finding.CLEAR
    cheap = declared(played(waiting(STAGES, 0.5)), "read", "decode", "copy")
    assert verdict(cheap, "copy-bound").finding is Finding.CLEAR
    assert all(one.rule != "copy-bound" for one in analyse(cpu_run()).verdicts)


def test_copy_bound_on_a_card_is_what_feeding_from_the_host_adds() -> None:
    card = {**COMPUTE_BOUND, "host-fed": replace(COMPUTE_BOUND[MODEL_ONLY], step_s=0.40)}
    card[BASELINE] = replace(card[BASELINE], step_s=0.40)
    found = verdict(gpu_run(speeds=card), "copy-bound", "gpu0")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(1 - 0.286 / 0.40, rel=0.03)
    near = {**card, "host-fed": replace(COMPUTE_BOUND[MODEL_ONLY], step_s=0.287)}
    assert verdict(gpu_run(speeds=near), "copy-bound", "gpu0").finding is Finding.CLEAR
    assert verdict(gpu_run(), "copy-bound", "gpu0").finding is Finding.INCONCLUSIVE


def test_disk_bound_where_the_wait_for_input_is_a_stall_on_io() -> None:
    speeds = waiting(variants(baseline=10, custom_loop=10, input_only=9, model_only=2, batch__2=4), 0.8)
    made = played(speeds)

    def stalled(share: float) -> Run:
        trials = []
        for trial in made.trials:
            seconds = seconds_of(next(one for one in trial.telemetry if one.source == "host"))
            one = replace(made, trials=(trial,))
            trials += retold(one, "cpu", "host", io_pressure_some_s=seconds * share).trials
        return replace(made, trials=tuple(trials))

    found = first(stalled(0.7))
    assert (found.rule, found.finding) == ("disk-bound", Finding.FOUND)
    assert "80 %" in found.sentence
    assert verdict(stalled(0.1), "disk-bound").finding is Finding.CLEAR
    assert first(stalled(0.1)).rule == "input-bound"
    blind = retold(made, "cpu", "host", io_pressure_some_s=None, cpu_iowait_pct=None)
    blind = retold(blind, "cpu", "cgroup", io_pressure_some_s=None)
    assert verdict(blind, "disk-bound").finding is Finding.INCONCLUSIVE
    assert verdict(played(waiting(ACCELERATOR, 0.0)), "disk-bound").finding is Finding.CLEAR


@pytest.mark.parametrize(
    ("first_ms", "cached_ms", "said"),
    [(8, 0.5, "in the first epoch only"), (1, 8, "from the second epoch on"), (8, 6, "does not change that")],
)
def test_input_bound_says_in_which_epochs(first_ms: float, cached_ms: float, said: str) -> None:
    speeds = {
        **variants(baseline=10, custom_loop=10, input_only=8, model_only=2, epoch__first=first_ms),
        **variants(epoch__cached=cached_ms),
    }
    found = verdict(played(waiting(speeds, 0.8)), "input-bound")
    assert said in found.sentence
    assert any(one.metric == "input alone, first epoch" for one in found.evidence)


def test_input_remedy_is_measured_by_the_variant_that_changes_nothing_else() -> None:
    speeds = {**waiting(STAGES, 0.5), **variants(input_only=15, tuned_input=15.4)}
    change = Change(what="parallel_maps", before="off", after="on", why="w")
    made = played(speeds, cpus=1.0)
    trials = tuple(
        replace(
            trial,
            variants=tuple(
                VariantInfo(variant=one.variant, params=one.params, changes=(change,))
                if one.variant == TUNED_INPUT
                else one
                for one in trial.variants
            ),
        )
        for trial in made.trials
    )
    found = verdict(replace(made, trials=trials), "input-bound")
    assert found.remedy is not None and found.remedy.measured_gain is not None
    assert found.remedy.measured_variant == TUNED_INPUT
    assert found.remedy.measured_gain.median == pytest.approx(1.3, rel=0.03)
    assert "num_parallel_calls" in found.remedy.code
    assert "also changes" not in found.remedy.text
    assert found.remedy.miss == pytest.approx(1.3 / found.remedy.predicted_gain - 1, rel=0.05)  # type: ignore[operator]
    headline = analyse(replace(made, trials=trials)).headline
    assert "The prediction for cifar100-mlp missed" in headline
    assert headline.endswith(f"was measured ({variant_name(TUNED_INPUT)}).")


@pytest.mark.parametrize(
    ("predicted", "measured", "at_least", "miss"),
    [(2.0, 1.6, False, None), (2.0, 1.4, False, -0.3), (2.0, 3.0, False, 0.5), (2.0, 30.0, True, None),
     (2.0, 1.4, True, -0.3), (None, 2.0, False, None)],
)  # fmt: skip
def test_a_prediction_misses_beyond_a_quarter(
    predicted: float | None, measured: float, at_least: bool, miss: float | None
) -> None:
    gain = Estimate(median=measured, low=measured, high=measured, n=3, unit="ratio")
    found = missed(predicted, gain, at_least=at_least)
    assert found == (None if miss is None else pytest.approx(miss))
    assert missed(predicted, None, at_least=at_least) is None


def test_launch_bound_card_predicts_at_least_that_the_gaps_are_closed_and_names_a_larger_batch() -> None:
    card = {**LAUNCH_BOUND, "batch:4": replace(LAUNCH_BOUND[MODEL_ONLY], step_s=0.0054, batch=128)}
    card |= {"calls:10": replace(LAUNCH_BOUND[MODEL_ONLY], step_s=0.0040)}
    found = verdict(gpu_run(speeds=card), "launch-bound", "gpu0")
    assert found.finding is Finding.FOUND
    assert found.cost == pytest.approx(0.93, abs=0.03)
    assert found.remedy is not None and found.remedy.at_least
    assert found.remedy.predicted_gain == pytest.approx(1 / (1 - found.cost))  # type: ignore[operator]
    assert "A batch 4 times as large" in found.remedy.text


def unseen(made: Run) -> Run:
    """Take away what tells how busy the CPUs were."""
    trials = tuple(
        replace(
            trial, telemetry=tuple(one for one in trial.telemetry if one.source not in ("cgroup", "process"))
        )
        for trial in made.trials
    )
    return replace(made, trials=trials)


@pytest.mark.parametrize(
    ("batch_4_ms", "calls_ms", "finding", "cost"),
    [
        (14.7, 10.5, Finding.INCONCLUSIVE, None),
        (14.7, 6.0, Finding.FOUND, 0.4),
        (39.0, 9.9, Finding.CLEAR, 0.03),
    ],
)
def test_launch_bound_without_activity_is_what_many_steps_in_a_call_prove(
    batch_4_ms: float, calls_ms: float, finding: Finding, cost: float | None
) -> None:
    """What is the same for any batch may be an optimiser's pass: beyond what was saved nothing tells."""
    speeds = variants(
        baseline=10, custom_loop=10, input_only=0.2, model_only=10, batch__4=batch_4_ms, calls__10=calls_ms
    )
    made = unseen(played(waiting(speeds, 0.0)))
    found = verdict(made, "launch-bound")
    assert found.finding is finding
    assert found.cost == (None if cost is None else pytest.approx(cost, abs=0.03))
    if finding is Finding.INCONCLUSIVE:
        assert "optimiser's pass" in found.sentence and "many steps in one call save 0 %" in found.sentence
        assert verdict(made, "compute-bound").finding is Finding.INCONCLUSIVE


def test_launch_bound_cannot_be_told_where_two_ways_contradict_each_other() -> None:
    """Many steps in a call cannot save more than a step costs whatever its batch."""
    speeds = variants(
        baseline=10, custom_loop=10, input_only=0.2, model_only=10, batch__2=19.5, batch__4=39, calls__10=6
    )
    found = verdict(played(waiting(speeds, 0.0), cpus=0.5), "launch-bound")
    assert found.finding is Finding.INCONCLUSIVE
    assert "contradict each other" in found.sentence and "40 %" in found.sentence
    near = {**speeds, **variants(calls__10=9.7)}
    assert verdict(played(waiting(near, 0.0), cpus=0.5), "launch-bound").finding is Finding.CLEAR


def test_launch_bound_says_noise_that_made_many_steps_slower() -> None:
    speeds = {**ACCELERATOR, **variants(calls__10=10.5)}
    evidence = verdict(played(waiting(speeds, 0.0), cpus=0.3), "launch-bound").evidence
    (saved,) = (one.observed for one in evidence if one.metric.startswith("saved by many steps"))
    assert saved.startswith("-")


def test_compute_bound_processor_names_what_a_larger_batch_would_give() -> None:
    speeds = {**CPU_SPEEDS, **variants(batch__4=6), **waiting(variants(custom_loop=3), 0.0)}
    speeds[INPUT_ONLY] = CPU_SPEEDS[INPUT_ONLY]
    found = verdict(played(speeds, cpus=15.5), "compute-bound")
    assert found.remedy is not None
    assert "only 2.1" in found.remedy.text and "Only a faster" not in found.remedy.text
    assert found.remedy.measured_gain is not None


def test_a_run_without_analysis_says_that_it_was_left_out() -> None:
    made = run({"cpu": {BASELINE: CPU_SPEEDS[BASELINE]}}, trials=1)
    blind = tuple(
        replace(one, telemetry=(), windows=tuple(replace(window, wait_ns=-1) for window in one.windows))
        for one in made.trials
    )
    options = {"options": {"analysis": False, "variants": ""}}
    left_out = replace(made, trials=blind, manifest=replace(made.manifest, parameters=options))
    said = [one.sentence for one in analyse(left_out).verdicts if one.finding is Finding.INCONCLUSIVE]
    assert said and all("--no-analysis" in sentence for sentence in said)
    assert "not looked into" in analyse(left_out).headline


def test_windows_too_short_for_telemetry_are_called_so() -> None:
    made = run({"cpu": CPU_SPEEDS}, trials=1, windows=1, window_s=0.02)
    found = verdict(made, "cpu-quota")
    assert found.finding is Finding.INCONCLUSIVE
    assert "too short to tell" in found.sentence


def test_a_run_without_baseline_says_that_it_was_not_measured() -> None:
    made = run({"cpu": {"tuned": CPU_SPEEDS["tuned"]}}, trials=1)
    said = [one.sentence for one in analyse(made).verdicts if one.finding is Finding.INCONCLUSIVE]
    assert said and all("baseline" in sentence and "not among the variants" in sentence for sentence in said)


def test_much_traffic_between_cards_is_evidence() -> None:
    made = retold(gpu_run(speeds=COMPUTE_BOUND), "gpu0", "gpm", nvlink_send_bytes_per_s=206e9)
    assert any(one.observed == "206 GB/s" for one in verdict(made, "compute-bound", "gpu0").evidence)
    quiet = retold(made, "gpu0", "gpm", nvlink_send_bytes_per_s=1e6)
    assert all("NVLink" not in one.metric for one in verdict(quiet, "compute-bound", "gpu0").evidence)
