"""Limits: their names, their file, what a run's intervals say of them, and how a reader learns it."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from junitparser import JUnitXml

from benchmarks import schema
from harness.analysis import analyse, judged
from harness.analysis.acceptance import accepted, more_readings
from harness.analysis.quantities import CAPABILITIES, QUANTITIES, quantity_of, values
from harness.defaults import PROFILES
from harness.errors import StoreError, UsageError
from harness.intervals import estimate
from harness.model.analysis import Advice, Analysis, Limit, LimitOutcome
from harness.model.platform import HealthCheck
from harness.model.run import PlannedTrial, Run, Series, Trial
from harness.run.limits import check_planned, limits_text, parse_limit, read_limits
from harness.run.machines import shipped_machines
from harness.run.plan import machine_trials, soak_trials
from reports import acceptance
from reports.exports import render_acceptance, results_document
from reports.page import render_markdown
from tests import builders, report_pages, special_runs
from tests.commands import Printed
from tests.conftest import ROOT
from tests.errors import user_error
from tests.folders import write_run
from tests.report_pages import recorded
from tests.test_cli import tfbench_here
from workloads.variants import BASELINE, TUNED

__all__ = ["tfbench_here"]
MET, MISSED, UNDECIDED, NOT_MEASURED = (
    LimitOutcome.MET,
    LimitOutcome.MISSED,
    LimitOutcome.UNDECIDED,
    LimitOutcome.NOT_MEASURED,
)


@cache
def measured(scale: float = 1.0) -> Analysis:
    return analyse(special_runs.measured_machine_run(scale=scale))


def outcomes(analysis: Analysis, *texts: str) -> list[LimitOutcome]:
    return [each.outcome for each in accepted(analysis, map(parse_limit, texts))]


def test_the_table_of_names_in_the_documentation_is_the_registry() -> None:
    text = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    for each in QUANTITIES:
        names = (each.pattern.replace("CAPABILITY", name) for name in CAPABILITIES)
        units = " or ".join(dict.fromkeys(unit for name in names for unit in each.units(name)))
        assert f"| `{each.pattern}` | {units} | {each.meaning} | {each.needs} | `{each.example}` |" in text
        assert parse_limit(each.example).text == each.example
    assert f"CAPABILITY is {', '.join(CAPABILITIES)}." in text
    (block,) = (part.split("```")[0] for part in text.split("```toml\n")[1:])
    known = shipped_machines()
    assert len([parse_limit(each, known) for each in tomllib.loads(block)["limits"]]) == 7


@pytest.mark.parametrize("name", report_pages.RUNS)
def test_every_number_of_a_run_has_a_documented_name_and_unit(name: str) -> None:
    analysis = report_pages.analysis(name)
    for each in values(analysis):
        quantity = quantity_of(each.name)
        assert quantity is not None, each.name
        assert each.estimate.unit in quantity.units(each.name), each.name
    document = results_document(analysis)
    named = {(each["name"], each["device"]) for each in document["values"]}
    assert named == {(each.name, each.device) for each in values(analysis)}


def test_the_schema_of_the_json_is_in_the_tree_and_holds_for_every_run() -> None:
    assert schema.FILE.read_text(encoding="utf-8") == schema.text(), "run: python -m benchmarks.schema"
    validator = jsonschema.Draft202012Validator(json.loads(schema.FILE.read_text(encoding="utf-8")))
    for name in report_pages.RUNS:
        assert [
            each.message for each in validator.iter_errors(results_document(report_pages.analysis(name)))
        ] == []
    document = results_document(measured())
    for field in ("values", "capabilities", "acceptance"):
        without = {name: each for name, each in document.items() if name != field}
        assert not validator.is_valid(without), field


class TestOutcomes:
    def test_the_whole_interval_decides(self) -> None:
        value = next(each.value for each in measured().capabilities if each.name == "bf16")
        low, high = value.low, value.high
        bounds = [low * 0.999, high * 1.001, (low + high) / 2]
        assert outcomes(measured(), *(f"capability.bf16 >= {each:g}" for each in bounds)) == [
            MET,
            MISSED,
            UNDECIDED,
        ]
        assert outcomes(measured(), *(f"capability.bf16 <= {each:g}" for each in bounds)) == [
            MISSED,
            MET,
            UNDECIDED,
        ]

    def test_gpus_come_before_cpus_unless_one_is_named(self) -> None:
        assert outcomes(measured(), "capability.memory >= 4 TB/s", "capability.memory on cpu >= 4 TB/s") == [
            MET,
            MISSED,
        ]
        (result,) = accepted(measured(), [parse_limit("capability.jpeg >= 7 kpictures/s")])
        assert [each.device for each in result.checks] == ["cpu"]

    def test_every_gpu_has_to_meet_it(self) -> None:
        gpu = next(each for each in measured().capabilities if each.name == "bf16")
        slow = replace(gpu, device="gpu1", value=gpu.value.map(lambda value: value / 2, "FLOP/s"))
        two = replace(measured(), capabilities=(gpu, slow))
        (result,) = accepted(two, [parse_limit("capability.bf16 >= 650 TFLOP/s")])
        assert result.outcome is MISSED
        assert {each.device: each.outcome for each in result.checks} == {"gpu0": MET, "gpu1": MISSED}
        said = acceptance.sentence([result])
        assert all(each in said for each in ("GPU 1", "361 of 650", "0 of 1")) and "GPU 0" not in said

    def test_what_has_no_noise_is_decided_by_one_reading_and_nothing_else_is(self) -> None:
        soaked = analyse(special_runs.soaked_run(np.concatenate([np.full(40, 700.0), np.full(80, 600.0)])))
        assert outcomes(
            soaked,
            "soak.sustained / soak.cold >= 0.9",
            "soak.sustained / soak.cold >= 80%",
            "cifar100-mlp.tuned >= 1",
        ) == [MISSED, MET, UNDECIDED]
        assert outcomes(soaked, "soak.cold on cpu >= 1", "scaling.resnet50.4 >= 0.9") == [NOT_MEASURED] * 2

    def test_health_is_that_of_every_device(self) -> None:
        assert outcomes(measured(), "health = ok") == [MET]
        (result,) = accepted(analyse(special_runs.unhealthy_run()), [parse_limit("health = attention")])
        assert {each.device: each.outcome for each in result.checks} == {"gpu0": MISSED, "host": MET}

    def test_so_many_more_readings_decide(self) -> None:
        readings = [98.0, 103.0, 101.0, 96.0]
        value = estimate(readings, "samples/s")
        assert value and value.low < 95 < value.median
        more = more_readings(value, 95.0)
        assert more is not None
        half = np.log(value.high / value.median)
        for count, decided in ((more, True), (more - 1, False)):
            n = value.n + count
            # The same scatter in more readings: Student's t and the square root of their number.
            from scipy.special import stdtrit  # noqa: PLC0415

            narrowed = half * np.sqrt(value.n / n) * stdtrit(n - 1, 0.975) / stdtrit(value.n - 1, 0.975)
            assert (value.median * np.exp(-narrowed) > 95) == decided
        assert more_readings(value, value.median * 1.0001) is None, "no number is enough"
        single = estimate([98.0], "samples/s")
        assert single and more_readings(single, 50.0) == 2


class TestWritten:
    def test_good_runs_meet_their_limits_and_slower_ones_miss_the_right_ones(self) -> None:
        text = limits_text([values(measured(), kept=True)], 0.05, ["good"])
        assert text is not None
        limits = [parse_limit(each) for each in tomllib.loads(text)["limits"]]
        assert {each.outcome for each in accepted(measured(), limits)} == {MET}
        able = [each for each in limits if each.name.startswith("capability.")]
        assert len(able) == len({each.name for each in measured().capabilities})
        slow = accepted(measured(0.9), limits)
        assert {each.limit.name for each in slow if each.outcome is MISSED} == {each.name for each in able}
        assert {each.outcome for each in accepted(measured(0.97), limits)} == {MET}

    def test_of_a_recording_it_keeps_what_the_recording_itself_decides(self) -> None:
        good = analyse(recorded("h200-machine"))
        text = limits_text([values(good, kept=True)], 0.05, ["h200"])
        assert text is not None
        limits = [parse_limit(each) for each in tomllib.loads(text)["limits"]]
        assert {each.outcome for each in accepted(good, limits)} == {MET}
        assert "capability.memory >= 3.897 TB/s" in {each.text for each in limits}
        assert "# capability.launch >=" in text, "its trials scatter too much for a limit"
        other = {
            each.limit.name: each.outcome for each in accepted(analyse(recorded("h100-default")), limits)
        }
        assert other["capability.memory"] is MISSED, "an H100 has less"
        assert other["capability.fp32"] is MET
        assert other["fashion-mnist-mlp.tuned"] is NOT_MEASURED

    def test_the_worst_of_several_runs_counts_and_only_what_all_have(self) -> None:
        runs = [values(measured(scale), kept=True) for scale in (1.0, 0.98)]
        text = limits_text(
            [*runs, [each for each in runs[0] if each.name != "capability.fp16"]], 0.1, ["a", "b", "c"]
        )
        assert text is not None
        (bound,) = (parse_limit(each).bound for each in tomllib.loads(text)["limits"] if "bf16" in each)
        assert bound == pytest.approx(0.9 * 0.98 * 7.2e14 * 1.004, rel=0.001)
        assert "fp16" not in text
        assert limits_text([[]], 0.05, ["empty"]) is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("capability.bf61 >= 1", "Unknown quantity 'capability.bf61'", "Did you mean capability.bf16"),
        ("capability.bf16 >= 650 GB/s", "is in TFLOP/s, not 'GB/s'", "Write the number in TFLOP/s"),
        ("resnet50.tuned >= 90%", "not in %", "97% of H100"),
        ("resnet50.tuned >= many", "'many' is not a positive number", ">= NUMBER UNIT"),
        ("resnet50.tuned >= 0", "not a positive number", "NUMBER UNIT"),
        ("capability.memory <= 1e308 TB/s", "too large for a limit", "NUMBER UNIT"),
        ("resnet50.tuned", "is not a limit", "NAME >= NUMBER UNIT"),
        ("resnet50.tuned = 6400", "'=' does not go with", "Only health takes ="),
        ("health = great", "'great' is not a level of health", "health = attention"),
        ("soak.sustained / resnet50.tuned >= 0.9", "is not a ratio", "docs/limits.md"),
        ("capability.bf16 on gpux >= 1", "'gpux' is not a device", "on gpu0"),
        ("capability.bf16 >= 0.97 of H900", "No known machine is called 'H900'", "two-h100"),
        ("gpt2.tuned.mfu >= 0.97 of H200", "H200 has no value of gpt2.tuned.mfu", "--reference"),
    ],
)  # fmt: skip
def test_a_wrong_limit_is_one_sentence_with_what_to_try(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(f"limits = ['health = ok', {json.dumps(text)}]", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_limits(path, shipped_machines())
    assert message in caught.value.message and hint in caught.value.hint
    assert caught.value.message.startswith(f"{path}, limit 2: ")


@pytest.mark.parametrize(
    "text", ["limits", "limits = 3", "limits = []", "limits = [3]", "other = []", "a" + ".a" * 99_999]
)
def test_other_files_are_no_limits(tmp_path: Path, text: str) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text, encoding="utf-8")
    with user_error(
        UsageError, r"limits\.toml (is not|cannot be read as TOML)", hint='limits = ["health = ok"'
    ):
        read_limits(path, ())
    path.write_bytes(b" " * (2 << 20))
    with pytest.raises(StoreError, match="larger than 1 MiB"):
        read_limits(path, ())


def test_a_limits_file_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text("limits = ['health = ok']", encoding="utf-8-sig")
    assert len(read_limits(path, ())) == 1


@pytest.mark.parametrize("value", ["6.4 ksamples/s", "6400", "6400 samples/s", "0.0064 Msamples/s"])
def test_speeds_take_prefixes_too(value: str) -> None:
    assert parse_limit(f"resnet50.tuned >= {value}", []).bound == pytest.approx(6400)


def test_limits_may_be_relative_to_a_machine_or_to_all_of_a_kind() -> None:
    known = {each.name: each for each in shipped_machines()}
    (two, one) = known["two-h100"], known["h100"]
    all_three = sorted(
        device.values["capability.bf16"]
        for machine in (one, two)
        for device in machine.devices.values()
        if "capability.bf16" in device.values
    )
    gpu, cpu = (one.devices[device].values for device in ("gpu0", "cpu"))
    named = parse_limit("capability.bf16 >= 0.97 of H100", list(known.values()))
    assert named.bound == pytest.approx(0.97 * gpu["capability.bf16"])
    own = [replace(machine, name=f"x{machine.name}") for machine in (one, two)]
    assert parse_limit("capability.bf16 >= 97% of h100", own).bound == pytest.approx(0.97 * all_three[1])
    assert parse_limit("capability.memory on cpu >= 1 of h100", [one]).bound == cpu["capability.memory"]
    ratio = parse_limit("capability.fp16 / capability.fp32 >= 0.5 of h100", [one]).bound
    assert ratio == pytest.approx(0.5 * gpu["capability.fp16"] / gpu["capability.fp32"])


class TestPlanned:
    planned = (
        *machine_trials(("cpu", "gpu0"), PROFILES["quick"]),
        PlannedTrial(
            id="resnet50.gpu0.0", workload="resnet50", device="gpu0", index=0, variants=(BASELINE, TUNED)
        ),
    )

    def check(self, *texts: str, more: tuple[PlannedTrial, ...] = ()) -> None:
        check_planned([parse_limit(each) for each in texts], (*self.planned, *more))

    def test_what_a_plan_measures_may_be_limited(self) -> None:
        self.check(
            "health = ok",
            "capability.bf16 >= 1",
            "resnet50.tuned.mfu >= 0.3",
            "capability.memory on cpu >= 1",
        )
        self.check("soak.sustained / soak.cold >= 0.9", more=soak_trials(("gpu0",), 60.0))
        group = PlannedTrial(
            id="x", workload="resnet50", device="gpu0+gpu1+gpu2+gpu3", index=0, variants=(BASELINE,)
        )
        self.check("scaling.resnet50.4 >= 0.9", more=(group,))

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            ("soak.sustained / soak.cold >= 0.9", "would not measure soak.sustained", "--soak 10m"),
            ("gpt2.tuned >= 1", "would not measure gpt2.tuned", "the workload in the run"),
            ("capability.jpeg on gpu0 >= 1", "is on gpu0, where this run does not", "Choose from: cpu"),
            ("resnet05.tuned >= 1", "Unknown quantity 'resnet05.tuned'", "resnet50.tuned"),
        ],
    )
    def test_what_it_does_not_is_refused_before_anything_runs(
        self, text: str, message: str, hint: str
    ) -> None:
        with pytest.raises(UsageError) as caught:
            self.check(text)
        assert message in caught.value.message and hint in caught.value.hint


def missed(run: Run, text: str) -> tuple[Advice | None, HealthCheck | None]:
    (result,) = accepted(analyse(run), [parse_limit(text)])
    (check,) = result.checks
    assert check.outcome is MISSED
    assert acceptance.action(result.limit, check)
    return check.advice, check.check.check if check.check else None


def test_what_to_do_comes_from_health_and_telemetry_of_the_moment() -> None:
    run = special_runs.measured_machine_run()
    copies, compute = "capability.to-device-pinned >= 60 GB/s", "capability.bf16 >= 900 TFLOP/s"
    assert missed(run, copies) == (Advice.OTHER_SLOT, None)
    assert missed(run, compute) == (Advice.RETURN, None)
    narrow = replace(run, health=special_runs.health(power_limit_w=400.0))
    assert missed(narrow, compute) == (Advice.HEALTH, HealthCheck.POWER_LIMIT)

    def hot(trial: Trial) -> Trial:
        return replace(trial, telemetry=tuple(map(heated, trial.telemetry)))

    def heated(series: Series) -> Series:
        if series.source != "nvml":
            return series
        count = len(series.t_ns)
        columns = {"throttle_hw_thermal": np.ones(count), "sm_clock_mhz": np.full(count, 1200.0)}
        return replace(series, columns={**series.columns, **columns})

    assert missed(replace(run, trials=tuple(map(hot, run.trials))), compute) == (Advice.COOL, None)


@cache
def judged_run() -> Analysis:
    limits: list[Limit] = [
        parse_limit(each)
        for each in (
            "health = ok", "capability.to-device-pinned >= 60 GB/s", "capability.bf16 >= 650 TFLOP/s",
            "soak.cold >= 1 TFLOP/s", "cifar100-mlp.tuned <= 1",
        )
    ]  # fmt: skip
    return judged(measured(), (), limits)


class TestReport:
    def test_the_first_screen_and_the_table_say_it(self) -> None:
        text = render_markdown(judged_run())
        assert all(each in text for each in ("55.2 of 60.0", "2 of 5 limits", "another slot", "--soak 10m"))
        assert acceptance.level(judged_run().acceptance) == "alert"
        assert (acceptance.sentence([]), acceptance.level([])) == ("", "good")

    def test_junit_has_a_case_for_each_limit_and_device(self) -> None:
        (suite,) = JUnitXml.fromstring(render_acceptance(judged_run()).encode())
        assert (suite.tests, suite.failures, suite.skipped) == (6, 2, 1)
        results = {case.name: [type(each).__name__ for each in case.result] for case in suite}
        assert results["capability.to-device-pinned >= 60 GB/s"] == ["Failure"]
        assert results["soak.cold >= 1 TFLOP/s"] == ["Skipped"]
        assert results["health = ok"] == []


class TestCommands:
    @pytest.fixture
    def good(self, tmp_path: Path) -> Path:
        run = builders.cpu_run(trials=5)
        return write_run(tmp_path / "good", run).path

    @pytest.mark.slow
    def test_write_limits_then_accept(
        self, tfbench: Callable[..., Printed], good: Path, tmp_path: Path
    ) -> None:
        printed = tfbench("compare", "--write-limits", good, "--margin", "10%")
        assert (printed.code, printed.out.split()[0]) == (0, "limits:"), printed.err
        text = (tmp_path / "limits.toml").read_text(encoding="utf-8")
        assert "cifar100-mlp.tuned >= " in text
        (tmp_path / "limits.toml").write_text(edited := f"{text}# ours\n", encoding="utf-8")
        again = tfbench("compare", "--write-limits", good)
        assert again.code == 2 and "may have edited it" in again.err
        assert (tmp_path / "limits.toml").read_text(encoding="utf-8") == edited
        printed = tfbench("report", good, "--accept", "limits.toml", "-f", "json,junit")
        assert printed.code == 0, printed.err
        assert "Accepted: 2 of 2 limits." in printed.out
        document = json.loads((good / "results.json").read_text(encoding="utf-8"))
        assert [each["checks"][0]["outcome"] for each in document["acceptance"]] == ["met", "met"]
        (tmp_path / "strict.toml").write_text('limits = ["cifar100-mlp.tuned >= 1 GB/s"]')
        assert tfbench("report", good, "--accept", "strict.toml").code == 2
        (tmp_path / "strict.toml").write_text('limits = ["cifar100-mlp.tuned >= 1e9", "health = ok"]')
        printed = tfbench("report", good, "--accept", "strict.toml", "-f", "json")
        assert printed.code == 13 and "Missed: CPU, cifar100-mlp.tuned" in printed.err
        (tmp_path / "open.toml").write_text('limits = ["soak.cold >= 1"]')
        printed = tfbench("report", good, "--accept", "open.toml", "-f", "json")
        assert printed.code == 14 and "soak.cold" in printed.err
        assert "docs/limits.md" in printed.err and "--trials" not in printed.err
        assert (tmp_path / "good/report.html").exists() is False

    @pytest.mark.parametrize(
        ("arguments", "code", "printed"),
        [
            ("report {good} --accept none.toml", 6, "none.toml"),
            ("report {good} -f junit", 2, "--accept limits.toml"),
            ("report {good} --reference {good}", 6, "machine.json"),
            ("bench -d cpu --accept none.toml", 6, "none.toml"),
            ("bench cifar10-mlp -d cpu --accept {limits}", 2, "--soak 10m"),
            ("compare --write-limits {good} -o x.html", 2, "End its name with .toml"),
            ("compare --write-limits {good} --margin 5", 2, "Write it as 5% or 0.05"),
            ("compare {good} {good} --margin 5%", 2, "--margin would have no effect"),
            ("compare --write-limits {good} --baseline {good}", 2, "--baseline would have no effect"),
        ],
    )
    def test_bad_input_is_refused_before_anything_runs(
        self,
        tfbench: Callable[..., Printed],
        good: Path,
        tmp_path: Path,
        arguments: str,
        code: int,
        printed: str,
    ) -> None:
        limits = tmp_path / "soak.toml"
        limits.write_text('limits = ["soak.cold >= 1 TFLOP/s"]', encoding="utf-8")
        done = tfbench(*arguments.format(good=good, limits=limits).split())
        assert (done.code, done.out) == (code, "")
        assert printed in done.err and "Traceback" not in done.err
        assert not (tmp_path / "runs").exists()
