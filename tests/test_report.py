import base64
import gzip
import hashlib
import html
import json
import re
from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.cli.rendering import charts_code
from harness.model.run import Status
from harness.run.recording import pack_for_page
from reports import numbers
from reports.charts import still
from reports.frame import environment
from reports.messages import limit
from reports.overview import rows
from reports.page import figures_of, render_html
from reports.speed_charts import sweep_figure
from tests import builders, special_runs
from tests import report_pages as pages
from tests.report_pages import RUNS, analysis, page
from workloads.variants import BASELINE

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", RUNS)
def test_pages_are_well_formed_safe_and_whole(name):
    """In one test, so that each page is rendered by one process."""
    check_markup(name)
    check_security_policy(name)
    check_figures(name)
    check_embedded_data(name)


def check_markup(name):
    document = pages.document(name)
    assert document.unbalanced == []
    assert len(document.ids) == len(set(document.ids))
    assert len(document.all("h1")) == 1
    assert document.elements[0] == ("html", {"lang": "en"})
    targets = {attributes["href"] for attributes in document.all("a")}
    assert targets
    assert targets <= {f"#{id_}" for id_ in document.ids}


def check_security_policy(name):
    """It allows only the page itself."""
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
    # The policy applies only to elements after it.
    assert page(name).index("Content-Security-Policy") < page(name).index("<style")


def check_figures(name):
    """Each can be drawn, and has a label and a table."""
    document = pages.document(name)
    figures = figures_of(analysis(name))
    assert sorted(str(each["id"]) for each in document.all("figure")) == sorted(figures)
    drawings = [each for each in document.all("div") if each.get("role") == "img"]
    assert len(drawings) == len(figures)
    assert all(len(each["aria-label"] or "") > 40 for each in drawings)
    for figure in figures.values():
        assert figure.table.rows
        assert {len(row) for row in figure.table.rows} == {len(figure.table.header)}
        assert still(figure).startswith("<svg")


def check_embedded_data(name):
    data = json.loads(unpacked(name, "tfbench-analysis"))
    run = analysis(name).run
    assert data["run"]["manifest"]["run_id"] == run.manifest.run_id
    assert [trial["id"] for trial in data["run"]["trials"]] == [trial.id for trial in run.trials]
    assert [case["device"] for case in data["cases"]] == [case.device for case in analysis(name).cases]
    assert set(json.loads(unpacked(name, "tfbench-figures"))) == set(figures_of(analysis(name)))


def frame_hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_pages_are_small():
    record, shown = pack_for_page(analyse(builders.long_run()), whole=True)
    text = render_html(shown, record=record, code=pages.javascript())
    assert 500_000 < len(text.encode()) <= 3_000_000
    words = " ".join(pages.document("suite").shown).split()
    assert 300 < len(words) <= 1_300, "of the default report, without folded parts"


def test_hostile_names_are_escaped():
    document = pages.document("hostile")
    assert builders.HOSTILE.replace("\u202e", "\ufffd") in document.text
    assert "49" not in {word for word in document.words if word.strip() == "49"}
    assert not any("<" in text for attributes, text in document.code if "type" in attributes)
    assert "\u202e" not in page("hostile")


@pytest.mark.parametrize("name", ["suite", "cpu", "gpu", "four-gpus"])
def test_the_overview_has_a_row_for_each_workload_and_device(name):
    result = analysis(name)
    pairs = {(each.workload, each.device) for each in result.cases}
    on_gpu = {workload for workload, device in pairs if device != "cpu"}
    own = rows(result)
    assert {(row.case.workload, row.case.device) for row in own} == {
        pair for pair in pairs if pair[1] != "cpu" or pair[0] not in on_gpu
    }
    shown = " ".join(pages.document(name).shown)
    for row in own:
        assert (
            (row.cpu is None)
            == (row.over_cpu is None)
            == ((row.case.workload, "cpu") not in pairs or row.case.device == "cpu")
        )
        assert (row.scaling is None) == (row.tuned_scaling is None) == ("+" not in row.case.device)
        assert numbers.speed(row.baseline) in shown
        assert numbers.gain(row.best.gain if row.best else row.gain) in shown


def test_the_overview_leaves_out_what_was_not_measured():
    whole = analysis("suite")
    kept = tuple(
        replace(case, variants={name: each for name, each in case.variants.items() if name != BASELINE})
        if case.workload == "cats-dogs"
        else case
        for case in whole.cases
    )
    partial = replace(whole, cases=kept)
    assert {row.baseline is None for row in rows(partial)} == {True, False}
    head = render_html(partial, code="").partition("<header>")[2].partition("</header>")[0]
    assert "None" not in head


def test_limits_and_legends_agree_with_the_charts():
    datasets = figures_of(analysis("suite"))["figure-step-time"].spec["datasets"]
    labels = {each.get("long") for records in datasets.values() for each in records}
    limits = [limit(row.case.limit, None) for row in rows(analysis("suite"))]
    assert any(text.startswith("input") for text in limits)
    assert {text.partition(" (")[0].removeprefix("then ") for text in limits} <= labels
    run = builders.gpu_run()
    gpus = tuple(replace(gpu, power_limit_w=None) for gpu in run.manifest.gpus)
    unknown = replace(run, manifest=replace(run.manifest, gpus=gpus))
    for each, shown in ((run, True), (unknown, False)):
        legend = figures_of(analyse(each))["figure-telemetry-1"].legend
        assert ("power limit" in {key.name for key in legend}) is shown


def test_banners_come_first_and_every_section_appears_in_some_report():
    for name, banners in (("gpu", 0), ("interrupted", 1), ("failed", 1), ("empty", 1)):
        text = page(name)
        assert text.count('class="banner"') == banners
        assert text.rfind('class="banner"') < text.index('class="contents"')
    local = pages.local(builders.empty_run())
    assert render_html(analyse(local), code="").count('class="banner"') == 2
    templates = (name for name in environment(html=True).list_templates() if name.startswith("page/"))
    sections = {name.split("_", 1)[1].removesuffix(".html").replace("_", "-") for name in templates}
    assert sections <= {id_ for run in RUNS for id_ in re.findall('<section id="([^"]+)"', page(run))}


@pytest.mark.parametrize(
    ("name", "words", "absent"),
    [
        ("failed", (Status.NO_GPU.predicate, "TensorFlow registered 0 of 1 GPUs."), ()),
        ("bare", ("NVML is not installed",), ("figure-telemetry-1",)),
        ("gpu", ("host_processor_model_name", "sha256:" + "ab" * 32, "Power limit",
                 "ECC", "MIG", "tfbench bench --profile quick"), ("USD", "Latency")),
        ("cpu", ("host_processor_model_name",), ("Power limit",)),
        ("four-gpus", ("USD",), ()),
        ("serving", ("901/s", "offered", "900/s"), ()),
    ],
)  # fmt: skip
def test_pages_show_only_what_a_run_has(name: str, words: tuple[str, ...], absent: tuple[str, ...]) -> None:
    document = pages.document(name)
    assert [word for word in words if word not in document.text] == []
    assert [word for word in absent if word in document.text or word in document.ids] == []


def unpacked(name, id_):
    packed = re.search(rf'id="{id_}"[^>]*>([^<]*)<', page(name)).group(1)
    return gzip.decompress(base64.b64decode(packed)).decode()


def test_chart_code_is_embedded_only_with_charts_and_is_cached(tmp_path):
    assert "vegaEmbed" in pages.javascript()
    assert unpacked("cpu", "tfbench-charts") == pages.javascript()
    assert 'id="tfbench-charts"' not in page("empty")
    folder = tmp_path / "cache" / "charts"
    assert charts_code(folder) == pages.javascript()
    (tmp_path / "file").write_text("")
    assert charts_code(tmp_path / "file" / "charts") == pages.javascript(), "generated if it cannot be cached"


@pytest.mark.parametrize(
    ("axes", "heading", "label", "width_px"),
    [
        ({"BATCH_SIZE": (64, 128), "UNITS": (1, 2)}, "BATCH_SIZE, UNITS", "128, 2", 30),
        ({"MOMENTUM_RATE": (0.001, 0.01)}, "", "MOMENTUM_RATE=0.001", 141),  # as Chromium draws it
    ],
)
def test_the_points_of_a_sweep_can_be_told_apart(axes, heading, label, width_px):
    (sweep,) = analyse(special_runs.sweep_run(axes)).sweeps
    (panel,) = sweep_figure(sweep, "a sweep", 1).spec["vconcat"]
    axis = panel["layer"][0]["encoding"]["y"]["axis"]
    assert panel["title"] == heading
    assert label in str(panel)
    assert axis["labelLimit"] >= width_px


def test_a_script_is_saved_as_it_is_with_characters_that_are_not_shown() -> None:
    script = 'name = "\u202bshalom\u202c"\n\x0cend = "</pre>"\n'
    shown = environment(html=True).get_template("macros.html").module.file("tuned", "tuned.py", script)  # type: ignore[attr-defined]
    (found,) = re.findall('data-exact="([^"]*)"', shown)
    assert json.loads(html.unescape(found)) == script and found.isascii()
    assert "\u202b" not in shown
    assert "data-exact" not in environment(html=True).get_template("macros.html").module.file(
        "a", "a.py", "x = 'é'\n"
    )  # type: ignore[attr-defined]
