import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jsonschema import validate
from rich.console import Console

from harness.analysis import analyse
from harness.analysis.versus import gate, versus
from harness.cli.console import Terminal
from harness.model.analysis import Analysis, Estimate
from harness.model.device import CPU
from harness.progress import LoggedTask
from harness.run.store import read_run
from reports import numbers
from reports.exports import (
    cell,
    render_bencher,
    render_csv,
    render_github,
    render_junit,
    render_mlperf,
    render_openmetrics,
    results_document,
)
from reports.messages import caveat_lines
from reports.numbers import speed
from reports.overview import rows
from reports.page import render_html, render_markdown
from reports.terminal import summary
from reports.text import code_block, coded, escape_markdown, harmless
from tests import builders
from tests.comparisons import COMPARISONS, again, comparison, whole
from tests.recordings import NAMES, SUITE, TWO_GPUS, recording
from tests.report_pages import RUNS, analysis
from workloads.protocol import MACHINE
from workloads.variants import BASELINE, TUNED, Part


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_csv_has_a_row_for_each_workload_device_and_variant(name: str) -> None:
    result = list(csv.DictReader(io.StringIO(render_csv(analysis(name)))))
    wanted = [(case.workload, case.device, variant) for case, variant, _ in analysis(name).variants]
    points = [(sweep, point) for sweep in analysis(name).sweeps for point in sweep.points]
    wanted += [(sweep.workload, sweep.device, sweep.variant) for sweep, _ in points]
    wanted += [(MACHINE, each.device, each.name) for each in analysis(name).capabilities]
    if name != "hostile":
        assert [(row["workload"], row["device"], row["variant"]) for row in result] == wanted
    assert len(result) == len(wanted)
    for row, (_, _, each) in zip(result, analysis(name).variants, strict=False):
        assert float(row["samples_per_s"]) == each.throughput.median
        assert (row["samples_per_s_low"] == "") == (each.throughput.n == 1)
        assert row["trial_ids"] == harmless(" ".join(each.trial_ids))
        assert (int(row["trials"]), int(row["readings"])) == (len(each.trial_ids), each.readings)


def test_csv_has_the_parameters_and_speed_of_each_point_of_a_sweep() -> None:
    (sweep,) = analysis("sweep").sweeps
    rows = list(csv.DictReader(io.StringIO(render_csv(analysis("sweep")))))
    for row, point in zip(rows, sweep.points, strict=True):
        assert {name: row[f"param_{name}"] for name in sweep.axes} == {
            name: str(value) for name, value in point.point
        }
        assert row["samples_per_s"] == (str(point.throughput.median) if point.throughput else "")
        assert row["may_be_fastest"] == {True: "yes", False: "no", None: ""}[point.tied]
        assert row["message"] == point.message


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, SUITE, TWO_GPUS])
def test_a_quantity_has_one_value_in_all_formats(name: str, tmp_path: Path) -> None:
    result = analyse(read_run(recording(name, tmp_path)))
    table = render_html(result, code="").partition('aria-label="All variants"')[2].partition("</table>")[0]
    cells = [re.split(r"</t[hd]>\s*", row) for row in table.split("<tr>")[2:]]
    shown = [[re.sub(r"<br>.*|<[^>]*>", "", cell) for cell in row] for row in cells]
    stored = [each for case in results_document(result)["cases"] for each in case["variants"].values()]
    written = [row for row in csv.DictReader(io.StringIO(render_csv(result))) if row["samples_per_s"]]
    markdown = render_markdown(result)
    served = {each.workload for each in result.cases if each.serves}  # shown as requests within a latency
    parts = [f"step_{part.value.replace(' ', '_')}_s" for part in Part]
    for row, document, page in zip(written, stored, shown, strict=True):
        rate, step_s = float(row["samples_per_s"]), float(row["step_s"])
        low, high = (float(row[f"samples_per_s_{end}"] or rate) for end in ("low", "high"))
        said = speed(Estimate(median=rate, low=low, high=high, n=int(row["readings"]), unit="samples/s"))
        assert (document["throughput"]["median"], document["step_time"]["median"]) == (rate, step_s)
        assert page[1:4] == [said, row["batch_size"], numbers.duration(step_s)]
        joules = row["energy_j_per_sample"]
        assert page[9] == (numbers.energy(float(joules)) if joules else "–")
        # The last batch of an epoch is short.
        assert int(row["batch_size"]) / rate == pytest.approx(step_s, rel=0.02)
        if row["step_compute_s"]:
            assert sum(float(row[part] or 0) for part in parts) == pytest.approx(step_s)
        if row["variant"] in (BASELINE, TUNED) and row["device"] != CPU and row["workload"] not in served:
            assert said in markdown


@pytest.mark.parametrize("name", RUNS)
def test_markdown_has_the_caveats_and_valid_tables(name):
    text = render_markdown(analysis(name))
    for caveat, _ in caveat_lines(analysis(name).caveats, notes=False):
        assert escape_markdown(caveat) in text
    assert name == "hostile" or analysis(name).run.manifest.command in text
    assert "None" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    width = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if width and cells:
            assert cells == width, line
        width = cells


def test_hostile_names_have_no_effect_in_markdown():
    text = render_markdown(analysis("hostile"))
    outside_code = re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL)
    assert re.findall(r"<(?!/?(?:details|summary)>|!-- written by tfbench -->)", outside_code) == []
    assert "\u202e" not in text
    assert builders.HOSTILE.split("\u202e")[0][:8] not in outside_code


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("*x* _y_ `z`", r"\*x\* \_y\_ \`z\`"),
        ("[a](http://b)", "\\[a\\](http:\u200d//b)"),
        ("line\nbreak", "line break"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("3.1× faster", "3.1× faster"),
        ("@someone #12", "@\u200dsomeone \\#12"),
        ("www.evil.com", "www\u200d.evil.com"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
    ],
)
def test_escapes(raw, escaped):
    assert escape_markdown(raw) == escaped
    assert code_block("```\nx").startswith("````\n"), "longer than those in the code"
    assert coded("<b>: `pip install x`") == "&lt;b&gt;: <code>pip install x</code>"
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"):  # formulas in CSV
        assert cell(text)[0] in "'\ufffd"
    assert [cell(value) for value in ("cpu", -1.5, None, True)] == ["cpu", -1.5, "", "yes"]


def schema(required: list[str], **properties: str) -> dict[str, object]:
    """Return the schema of an object with properties of these types and no others."""
    types = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": types, "required": required, "additionalProperties": False}


GITHUB = {"type": "array", "items": schema(
    ["name", "unit", "value"], name="string", unit="string", value="number", range="string", extra="string",
)}  # fmt: skip
METRIC = schema(["value"], value="number", lower_value="number", upper_value="number")
MEASURES = {"type": "object", "additionalProperties": METRIC, "minProperties": 1}
BENCHER = {"type": "object", "additionalProperties": MEASURES}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_other_programs_get_each_speed_and_the_machine(name: str) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    speeds = [each.throughput.median for _, _, each in analysis(name).variants]
    github, bencher = json.loads(render_github(analysis(name))), json.loads(render_bencher(analysis(name)))
    validate(github, GITHUB)
    validate(bencher, BENCHER)
    assert [each["value"] for each in github] == speeds
    assert [each["throughput"]["value"] for each in bencher.values()] == speeds
    metrics = parser.text_string_to_metric_families(render_openmetrics(analysis(name)))
    samples = {each.name: each.samples for each in metrics}
    (about,) = samples["tfbench_run"]
    assert about.labels["profile"] == analysis(name).run.manifest.profile.name
    assert [each.value for each in samples.get("tfbench_samples_per_second", ())] == speeds
    document = json.loads(render_mlperf(analysis(name)))
    gpus = analysis(name).run.manifest.gpus
    assert len(document) == 33 and "accelerator_on-chip_memories" in document
    assert all(isinstance(value, str) for value in document.values())
    assert document["accelerators_per_node"] == str(len(gpus))
    assert bool(document["accelerator_model_name"]) == bool(gpus)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARISONS)
def test_junit_has_a_case_for_each_comparison(name: str) -> None:
    made = comparison(name)
    checked = gate(made)
    (suite,) = ET.fromstring(render_junit(made, checked))
    cases = list(suite)
    others = len(checked.missing) + len(checked.copied)
    assert len(cases) == sum(each.ratio is not None for each in made.results) + others + checked.is_empty
    assert all(case.get("name") and case.get("classname") for case in cases)
    failed = [case for case in cases if case.find("failure") is not None]
    assert len(failed) == len(checked.failed) + others == int(suite.get("failures", ""))
    assert int(suite.get("tests", "")) == len(cases)
    # Its consumers read it.
    junitparser = pytest.importorskip("junitparser")
    base = again(whole(3), 1, noise=0.001)
    for factor, noise, kind in ((1.0, 0.3, junitparser.Skipped), (0.5, 0.001, junitparser.Failure)):
        made = versus([base, again(whole(3), 2, factor=factor, noise=noise)], reference=0)
        (suite,) = junitparser.JUnitXml.fromstring(render_junit(made, gate(made)).encode())
        for (result,) in (case.result for case in suite):
            assert isinstance(result, kind) and result.message
        assert suite.tests == len(base.speeds)


def text_of(analysed: Analysis, *, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    console.print(summary(analysed))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_every_run_has_a_summary_that_fits_the_width(name: str) -> None:
    text = text_of(analysis(name), width=80)
    assert text.strip()
    assert not {"…", "\u202e", numbers.SPACE} & set(text)
    assert max(len(line) for line in text.splitlines()) <= 80
    if name != "suite":
        return
    text = text_of(analysis(name))
    assert len(text.splitlines()) <= 31
    for row in rows(analysis(name)):
        (line,) = (
            line for line in text.splitlines() if line.startswith(f"{row.case.workload} ") and "/s" in line
        )
        assert numbers.speed(row.cpu) in line and numbers.speed(row.baseline) in line
        assert numbers.factor(row.gain.median).replace("×", "x") in line


def test_a_very_long_name_leaves_room_for_the_numbers() -> None:
    name = "n" * 200
    run = builders.run({CPU: builders.CPU_RESNET}, name=name)
    text = text_of(analyse(run), width=80)
    assert numbers.speed(rows(analyse(run))[0].baseline) in text


def test_a_workload_without_a_gpu_trial_is_listed_on_the_cpu() -> None:
    on_gpu = builders.gpu_run()
    on_cpu = builders.run({CPU: builders.CPU_RESNET}, name="resnet50")
    both = replace(
        on_gpu, workloads=on_gpu.workloads + on_cpu.workloads, planned=on_gpu.planned + on_cpu.planned,
        trials=on_gpu.trials + on_cpu.trials,
    )  # fmt: skip
    cells = [line.split() for line in text_of(analyse(both)).splitlines()]
    devices = [each[1] for each in cells if each[:1] in (["cifar100-mlp"], ["resnet50"])]
    assert devices == ["GPU", "CPU"]


def test_a_log_has_the_first_note_and_then_a_line_every_twenty_seconds(monkeypatch):
    now, lines = [100.0], list[str]()
    task = LoggedTask(lines.append, "Trials", 4.0, clock=lambda: now[0])
    for _ in range(120):
        task.note(f"tuned, window {now[0] - 100:g}")
        now[0] += 0.5
        task.advance(0.015625)
    assert lines == [
        "Trials:   0 %    0 s  tuned, window 0",
        "Trials:  16 %   20 s  tuned, window 19.5",
        "Trials:  31 %   40 s  tuned, window 39.5",
        "Trials:  47 %   60 s  tuned, window 59.5",
    ]
    for forced in (False, True):  # no control characters even where colour is forced
        monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
        file = io.StringIO()
        with Terminal(Console(file=file, width=20, stderr=True)).task("Trials", 2.0) as started:
            started.note("mlp on cpu: as long as it is")
            started.advance(1)
        assert file.getvalue() == "Trials:   0 %    0 s  mlp on cpu: as long as it is\n"
