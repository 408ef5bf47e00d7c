import json
import math
import re
from dataclasses import replace

import pytest

from harness.analysis.versus import gate, versus
from harness.model.comparison import Extract, Section, Versus
from harness.model.platform import HOST, HealthCheck, HealthItem, Level
from reports import numbers
from reports.compare_messages import headline, notes, warnings
from reports.compare_page import figures_of, render_html, render_markdown, shown_runs
from reports.exports import comparison_document
from tests.comparisons import COMPARISONS, again, comparison, page, whole
from tests.report_pages import Document


def only(run: Extract, *, trials: int = 3) -> Extract:
    """Return a run with only `trials` trials of the baseline of its first workload on the CPU."""
    first = next(each for each in run.speeds if (each.device, each.variant) == ("cpu", "baseline"))
    return replace(run, speeds=(replace(first, throughput=first.throughput[:trials]),))


def line(compared: Versus) -> str:
    return headline(compared).replace("\u202f", " ")


BASE = only(again(whole(3), 1, label="a", noise=0.001))
SLOW = only(again(whole(3), 2, label="b", noise=0.001, factor=0.8))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((BASE, SLOW),
         r"b is 0\.80× \(.*\) as fast as a, by .* of 1 workload\. Slower: .*, CPU, baseline \(0\.80×\)\."),
        ((BASE, again(BASE, 3, noise=0.001)), r".* No difference: 1 comparison\."),
        ((BASE, again(BASE, 3, noise=0.1)), r".* Undecided: 1 comparison\."),
        ((BASE, SLOW, BASE),
         r"a \(2\), the fastest of the others, is 1\.00× .* as a, by .*\. Slower: b; no difference: 1 of 2 .*\."),
    ],
)  # fmt: skip
def test_headlines(runs: tuple[Extract, ...], expected: str) -> None:
    assert re.fullmatch(expected, line(versus(runs, reference=0)))


def test_warnings_name_smoke_runs_and_decisive_fields() -> None:
    base = whole(3)
    other = {**base.facts, Section.DATA: {**base.facts[Section.DATA], "cifar100-mlp": "other data"}}
    smoke = {**other, Section.SETTINGS: {"profile": "smoke"}}
    compared = versus([replace(base, label="a"), replace(base, label="b", facts=smoke)])
    *_, data, settings = warnings(compared, None)
    assert "Ignore the numbers of b." in headline(compared)
    assert "(cifar100-mlp)" in data
    assert "(profile)" in settings


def test_incomplete_undecided_and_disturbed_runs_are_noted_once() -> None:
    base = whole(3)
    runs = [
        replace(base, label="sweep", swept=4, speeds=()),
        replace(base, label="empty", speeds=()),
        replace(base, label="b", speeds=()),
        replace(base, label="cut", unfinished=True, ok=1, planned=3),
        replace(base, label="whole"),
    ]
    runs = [replace(each, run_id=each.label) for each in runs]
    assert [text.partition(":")[0] for text in notes(versus(runs), None)] == ["sweep", "empty, b", "cut"]
    made = versus([BASE, again(BASE, 3, noise=0.1, trials=5)], reference=0)
    first, second = (text.replace("\u202f", " ") for text in notes(made, gate(made))[:2])
    assert re.search(r"could show a difference of \d+ %", first)
    assert "1 of 1 speed" in second and "5.0 %" in second
    steal = HealthItem(device=HOST, check=HealthCheck.STEAL, level=Level.ATTENTION, facts={"share": 0.07})
    runs = [replace(whole(), label="quiet"), replace(again(whole(), 1), label="shared", health=(steal,))]
    text = Document(render_html(versus(runs), code="")).text.replace(numbers.SPACE, " ")
    assert re.search(r"steal: 7[.]0 % .*[.]\s+shared", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARISONS)
def test_pages_are_well_formed_and_small(name: str) -> None:
    made = Document(page(name))
    assert made.unbalanced == []
    assert len(made.ids) == len(set(made.ids))
    for word in ("None", "nan", "Undefined", "0x"):
        assert f" {word} " not in made.text
    assert len(page(name)) < 3_000_000
    assert len(re.findall(r"\.(?: |$)", line(comparison(name)))) in (1, 2), "sentences of the headline"
    for text in (page(name), render_markdown(comparison(name))):
        assert "<script>alert" not in text and "\u202e" not in text
    drawn = {"two": {"figure-step-time"}, "nothing": set(), "eight": {"figure-step-time", "figure-ratios"}}
    figures = figures_of(comparison(name))
    assert set(figures) == drawn.get(name, set(figures))
    if name == "two":  # the bars of a pair share an axis
        spec = figures["figure-step-time"].spec
        parts = spec["datasets"][spec["vconcat"][0]["layer"][0]["data"]["name"]]
        ends = {row: max(each["end"] for each in parts if each["row"] == row) for row in ("before", "after")}
        assert ends == {"before": pytest.approx(0.93, abs=0.01), "after": pytest.approx(1)}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPARISONS)
def test_the_json_has_every_result_and_null_for_unknown_values(name: str) -> None:
    made = comparison(name)
    made = replace(made, runs=(replace(made.runs[0], duration_s=math.nan), *made.runs[1:]))
    document = json.loads(json.dumps(comparison_document(made, gate(made)), allow_nan=False))
    assert document["runs"][0]["duration_s"] is None
    speeds = [each["speed"]["median"] for each in document["results"]]
    assert speeds == [each.speed.median for each in made.results]
    assert len(document["gate"]["failed"]) == len(gate(made).failed)
    assert comparison_document(made)["gate"] is None


@pytest.mark.slow
def test_columns_show_different_kinds_of_machine_by_which_unnamed_runs_are_labelled() -> None:
    made = comparison("eight")
    shown = shown_runs(made)
    assert len({made.runs[run].machine for run in shown}) == len(shown) == 4
    assert comparison("fleet").runs[shown_runs(comparison("fleet"))[0]].label == "node-000"
    runs = [replace(whole(kind), label=whole(kind).run_id) for kind in (0, 1)]
    alike = [replace(runs[0], machine=f"NVIDIA H200 · {cpu}") for cpu in ("Xeon", "EPYC")]
    for given, names in (
        (runs, ["NVIDIA H200", "NVIDIA A100"]),
        ([again(whole(), 1), again(whole(), 2, label="new")], ["run-1", "new"]),
        (alike, ["NVIDIA H200 · Xeon", "NVIDIA H200 · EPYC"]),
    ):
        assert [run.label for run in versus(given).runs] == names


@pytest.mark.slow
class TestMarkdown:
    @pytest.mark.parametrize("name", ["two", "eight", "fleet"])
    def test_tables_are_valid_markdown(self, name: str) -> None:
        made = comparison(name)
        text = render_markdown(made, gate=gate(made))
        for block in text.split("\n\n"):
            lines = block.splitlines()
            if lines[0].startswith("|"):
                assert {line.count(" | ") for line in lines if "---" not in line} <= {lines[0].count(" | ")}
                assert set(lines[1]) <= set("|-: ")
        assert text.count("❌ ") == len(gate(made).failed)
        base = whole(3)
        made = versus([base, replace(base, speeds=(), label="new")], reference=0)
        checked = gate(made)
        assert checked.is_empty and len(checked.missing) == len(base.speeds)
        assert render_markdown(made, gate=checked).count("**Missing in new**") == 1
