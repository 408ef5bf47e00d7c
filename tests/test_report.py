"""The HTML report: whole, closed off from the outside, small, and honest about what it rests on."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace

import pytest
from jinja2 import UndefinedError

from harness.analysis import analyse
from harness.model.run import Stop
from harness.run.recording import carried
from reports.bundle import bundle_text
from reports.doubts import doubts
from reports.figures import figures_of
from reports.numbers import estimate, percent
from reports.render import html_environment, render_html, render_markdown
from reports.setup import system_rows
from reports.terms import TERMS
from reports.titles import titles_of
from tests import builders
from tests import report_pages as pages
from tests.report_pages import RUNS, Document, analysis, local, page
from workloads.protocol import TUNED, WITHOUT_INPUT

pytestmark = pytest.mark.slow

SECTIONS = sorted(name for name in html_environment().list_templates() if name.startswith("sections/"))
EVERY = pytest.mark.parametrize("name", RUNS)


@pytest.fixture(scope="module")
def long_page() -> str:
    inside = carried(analyse(builders.long_run()), whole=True)
    return render_html(inside.analysis, record=inside.text, bundle=pages.javascript)


@EVERY
def test_page_is_well_formed(name):
    document = pages.document(name)
    assert document.unbalanced == []
    assert len(document.ids) == len(set(document.ids))
    assert len(document.all("h1")) == 1
    assert document.elements[0] == ("html", {"lang": "en"})


@EVERY
def test_links_lead_somewhere_in_the_page(name):
    document = pages.document(name)
    targets = {attributes["href"] for attributes in document.all("a")}
    assert targets
    assert targets <= {f"#{id_}" for id_ in document.ids}


@EVERY
def test_nothing_refers_to_the_outside(name):
    document = pages.document(name)
    for tag, attributes in document.elements:
        assert tag not in {"link", "iframe", "object", "embed", "img", "base", "form"}
        assert "src" not in attributes
        assert not any(key.startswith("on") for key in attributes), "no inline event handlers"
        if "href" in attributes or "xlink:href" in attributes:
            assert str(attributes.get("href") or attributes.get("xlink:href")).startswith("#")
    for style in document.styles:
        assert "url(" not in style
        assert "@import" not in style


@EVERY
def test_policy_allows_nothing_but_the_page_itself(name):
    metas = pages.document(name).all("meta")
    policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    scripts = [text for attributes, text in pages.document(name).code if "type" not in attributes]
    code = [frame_hash(text) for text in (*scripts, pages.javascript())]
    assert rules["script-src"].split() == (code if figures_of(analysis(name)) else code[:1])
    assert rules["style-src-elem"].split() == [frame_hash(text) for text in pages.document(name).styles]
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    # The policy holds only for what comes after it.
    assert page(name).index("Content-Security-Policy") < page(name).index("<style")


@pytest.mark.parametrize("name", ["cpu", "gpu", "four-gpus", "hostile"])
def test_quick_report_is_small(name):
    assert len(page(name).encode()) < 1_500_000


def test_an_hour_on_eight_cards_stays_under_three_megabytes(long_page):
    assert 500_000 < len(long_page.encode()) <= 3_000_000
    assert Document(long_page).unbalanced == []


def test_the_same_analysis_gives_the_same_page():
    assert render_html(analysis("empty")) == render_html(analysis("empty"))
    assert figures_of(analysis("gpu")) == figures_of(analysis("gpu"))


def test_hostile_names_are_text():
    document = pages.document("hostile")
    assert builders.HOSTILE.replace("\u202e", "\ufffd") in document.text
    assert "49" not in {word for word in document.words if word.strip() == "49"}
    assert len(document.scripts) == len(pages.document("gpu").scripts)
    kinds = [attributes.get("type", "") for attributes in document.all("script")]
    data = [text for kind, text in zip(kinds, document.scripts, strict=True) if kind]
    code = [text for kind, text in zip(kinds, document.scripts, strict=True) if not kind]
    assert not any("alert(1)" in text for text in code)
    for text in data:
        assert "<" not in text
        assert ">" not in text
    assert "\u202e" not in page("hostile")


def test_figures_in_the_page_are_the_specifications():
    figures = json.loads(unpacked("hostile", "tfbench-figures"))
    assert set(figures) == set(figures_of(analysis("hostile")))
    assert "alert(1)" in json.dumps(figures), "hostile names reach the charts as data"


def test_unknown_names_in_templates_are_errors():
    with pytest.raises(UndefinedError):
        html_environment().from_string("{{ no_such_thing }}").render()
    with pytest.raises(UndefinedError):
        html_environment().from_string("{{ page.no_such_thing }}").render(page=object())


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_is_shown_by_some_run(name):
    section = name.split("_", 1)[1].removesuffix(".html").replace("_", "-")
    shown = [run for run in RUNS if f'<section id="{section}"' in page(run)]
    assert shown, f"no builder's run makes {name} say anything"


@EVERY
def test_every_figure_has_words_and_a_table(name):
    document = pages.document(name)
    figures = figures_of(analysis(name))
    assert sorted(str(each["id"]) for each in document.all("figure")) == sorted(figures)
    drawings = [each for each in document.all("div") if each.get("role") == "img"]
    assert len(drawings) == len(figures)
    assert all(len(each["aria-label"] or "") > 40 for each in drawings)
    for figure in figures.values():
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.header)}


@pytest.mark.parametrize("name", ["cpu", "gpu", "four-gpus"])
def test_every_speed_is_shown_and_traced_to_its_trials(name):
    text = page(name)
    document = Document(text)
    for summary in analysis(name).summaries:
        if summary.variant in ("baseline", "tuned"):
            assert estimate(summary.throughput) in document.text
    ids = [trial.id for trial in analysis(name).run.trials]
    for number, trial in enumerate(ids, 1):
        assert f'href="#trial-{number}"' in text
        assert trial in document.text


def test_verdict_comes_before_everything_else():
    text = page("gpu")
    first = analysis("gpu").headline.split(". ")[0]
    assert text.index(first) < text.index('id="speed"') < text.index('id="limits"')


def test_found_limits_come_with_gains_and_code():
    document = pages.document("gpu")
    found = [each for each in analysis("gpu").verdicts if each.finding == "found" and each.remedy]
    assert found
    for verdict in found:
        assert verdict.sentence in document.text
        assert verdict.remedy.text in document.text
        assert " ".join(verdict.remedy.code.split()) in document.text
    assert "predicted gain" in document.text
    assert "measured gain" in document.text


def test_every_measured_gain_names_its_variant():
    analysed = analysis("gpu")
    verdict = next(one for one in analysed.verdicts if one.remedy and one.remedy.measured_gain)
    for variant, said in ((WITHOUT_INPUT, "only the pipeline tuned"), (TUNED, "tuned")):
        remedy = replace(verdict.remedy, measured_variant=variant)
        made = replace(analysed, verdicts=(replace(verdict, remedy=remedy),))
        assert f"measured gain ({said})" in render_html(made, bundle=pages.javascript)
        assert f"measured gain ({said}): " in render_markdown(made)
    unmeasured = replace(verdict.remedy, measured_gain=None, measured_variant="")
    made = replace(analysed, verdicts=(replace(verdict, remedy=unmeasured),))
    assert "measured gain: not measured" in render_markdown(made)
    assert "(tuned: steps_per_execution, jit_compile)" in analysed.headline
    assert re.search(r"<h3>[^<]*: [^<]* \(tuned\)</h3>", page("gpu"))


def test_clean_run_has_no_banner():
    assert 'class="banner' not in page("gpu")


def test_why_repeating_stopped_is_said_of_each_point_of_a_sweep():
    run = replace(builders.empty_run(), stops=tuple(
        Stop(workload="cifar100-mlp", device="cpu", trials=3, reason="narrow", point=(("batch_size", size),))
        for size in (32, 64)
    ))  # fmt: skip
    text = Document(render_html(analyse(run))).text
    for size in (32, 64):
        assert f"batch_size = {size} CPU 3 narrow" in text


def test_local_engine_is_said_at_the_top():
    text = render_html(analyse(local(builders.empty_run())))
    assert "Nothing was isolated" in text
    assert text.index("Nothing was isolated") < text.index('class="lead"')


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("interrupted", "This run was cut short: 3 of 10 planned trials ended well"),
        ("failed", "3 of 6 trials failed"),
        ("empty", "No trial has ended yet"),
    ],
)
def test_partial_runs_say_so_at_the_top(name, words):
    text = page(name)
    assert words in text
    assert text.index(words) < text.index('class="lead"')


def test_failures_are_listed_with_their_message():
    text = pages.document("failed").text
    assert "no-gpu" in text
    assert "TensorFlow registered 0 of 1 GPUs." in text


def test_missing_telemetry_is_listed_with_its_reason_and_never_a_zero():
    text = pages.document("bare").text
    assert "NVML is not installed" in text
    assert not figures_of(analysis("bare")).keys() & {"figure-steps", "figure-timeline-1"}
    assert "not visible" in text


def test_machine_is_in_mlperf_field_names_with_what_mlperf_leaves_out():
    text = pages.document("gpu").text
    for words in (
        "host_processor_model_name",
        "accelerator_model_name",
        "sha256:" + "ab" * 32,
        "Power limit",
    ):
        assert words in text
    assert "ECC" in text
    assert "MIG" in text
    assert analysis("gpu").run.manifest.command in text


def unpacked(name, id_):
    packed = re.search(rf'id="{id_}"[^>]*>([^<]*)<', page(name)).group(1)
    return gzip.decompress(base64.b64decode(packed)).decode()


def frame_hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@EVERY
def test_numbers_behind_the_page_can_be_read_back(name):
    data = json.loads(unpacked(name, "tfbench-analysis"))
    run = analysis(name).run
    assert data["run"]["manifest"]["run_id"] == run.manifest.run_id
    assert [trial["id"] for trial in data["run"]["trials"]] == [trial.id for trial in run.trials]
    assert len(data["summaries"]) == len(analysis(name).summaries)


def test_page_carries_the_charts_code():
    assert "vegaEmbed" in pages.javascript()
    assert unpacked("cpu", "tfbench-charts") == pages.javascript()
    given, made = (render_html(analysis("bare"), bundle=each) for each in (pages.javascript, bundle_text))
    assert given == made, "made before or while it is drawn: the same page"
    assert 'id="tfbench-charts"' not in page("empty"), "a page without figures needs no such code"


def test_terms_are_explained_where_they_stand_and_at_the_end():
    links = [each for each in pages.document("gpu").all("a") if each.get("class") == "term"]
    assert {each["href"].removeprefix("#term-") for each in links} >= {
        "variant",
        "interval",
        "steady",
        "waiting",
    }
    assert all(each["title"] == TERMS[each["href"].removeprefix("#term-")].text for each in links)
    assert all(term.text in pages.document("gpu").text for term in TERMS.values())


def test_a_smoke_run_says_first_that_its_figures_mean_nothing():
    run = builders.cpu_run(trials=1)
    parameters = {**run.manifest.parameters, "profile": "smoke"}
    smoke = analyse(replace(run, manifest=replace(run.manifest, parameters=parameters)))
    text = Document(render_html(smoke, bundle=pages.javascript)).text
    assert "samples/s" not in smoke.headline
    assert "times" not in smoke.headline
    said = "This is a smoke run: it shows whether everything runs, and its figures mean nothing."
    assert text.index(said) < text.index(smoke.headline.split(".")[0])


def test_the_same_doubt_is_said_once():
    found = doubts(analysis("bare"), titles_of(analysis("bare")))
    assert len({(each.severity, each.fact, each.remedy) for each in found}) == len(found)
    assert sum(len(each.subjects) for each in found) <= len(analysis("bare").quality)
    assert not any("`" in word for word in pages.document("gpu").words)


def test_a_host_without_a_card_has_no_accelerator_to_describe():
    assert "accelerator_model_name" not in dict(system_rows(analysis("cpu").run))
    assert "accelerator_model_name" in dict(system_rows(analysis("gpu").run))


def test_efficiency_over_cards_is_what_the_analysis_says():
    text = pages.document("four-gpus").text
    scaling = [each for each in analysis("four-gpus").comparisons if each.kind == "scaling"]
    assert len(scaling) == 4
    for each in scaling:
        assert 0.8 < each.ratio.median < 1.05
        assert percent(each.ratio.median, 3) in text


def test_each_step_from_baseline_to_tuned_is_explained():
    document = pages.document("optimizations")
    assert "XLA fuses kernels" in document.text
    assert {"figure-optimizations", "figure-pipeline"} <= set(document.ids)
    table = figures_of(analysis("optimizations"))["figure-optimizations"].table
    assert [row[2] for row in table.rows] == ["baseline", "xla", "tuned"]


def test_the_input_pipeline_is_a_waterfall_of_its_stages():
    table = figures_of(analysis("optimizations"))["figure-pipeline"].table
    assert [row[2] for row in table.rows] == ["decode", "copy"]
    assert [row[4] for row in table.rows] == ["47\u202f%", "53\u202f%"]  # 20 of 42.5 ms
    document = pages.document("optimizations")
    assert "The input pipeline, stage by stage" in document.text
    first, second = figures_of(analysis("optimizations"))["figure-pipeline"].spec["vconcat"][0]["layer"][0][
        "data"
    ]["values"]
    assert first["a"] == 0 and first["b"] == second["a"] < second["b"]
    assert "figure-pipeline" not in pages.document("cpu").ids


def test_a_prediction_that_missed_is_called_so():
    document = pages.document("gpu")
    assert "at least" in document.text
    analysed = analysis("optimizations")
    verdict = next(one for one in analysed.verdicts if one.remedy is not None)
    remedy = replace(verdict.remedy, predicted_gain=2.0, at_least=False, miss=-0.4)
    missed = replace(analysed, verdicts=(replace(verdict, remedy=remedy),))
    for text in (render_html(missed, bundle=pages.javascript), render_markdown(missed)):
        assert "The prediction missed" in text
        assert re.search("40.%", text)
