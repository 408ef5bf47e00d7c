"""The report in a real browser: drawn, silent, offline, readable by everyone, and fit for paper."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from axe_playwright_python.sync_playwright import Axe

from reports.figures import figures_of
from tests.report_pages import RUNS, analysis

pytestmark = pytest.mark.browser

EVERY = pytest.mark.parametrize("name", RUNS)


@EVERY
def test_page_is_drawn_silently_and_asks_for_nothing(open_report, name):
    opened = open_report(name)
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("file:")] == []
    assert len(opened.asked) == 1
    page = opened.page
    for id_, figure in figures_of(analysis(name)).items():
        live = page.locator(f"#{id_} .live")
        marks = live.locator("svg g.mark-rect path, svg g.mark-line path, svg g.mark-symbol path")
        assert marks.count() >= len(figure.spec["vconcat"])
        box = live.locator("svg").bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 40
        assert not page.locator(f"#{id_} .still").is_visible()


def test_nothing_that_is_brought_in_runs_or_styles(open_report):
    opened = open_report("bare")
    opened.page.evaluate(
        """() => {
            for (const [kind, text] of [["script", "window.brought = 1"], ["style", "body { color: red }"]]) {
                const element = document.createElement(kind);
                element.textContent = text;
                document.body.append(element);
            }
        }"""
    )
    assert opened.page.evaluate("window.brought") is None
    assert opened.page.evaluate("getComputedStyle(document.body).color") != "rgb(255, 0, 0)"
    assert len([text for text in opened.said if "Content Security Policy" in text]) == 2


def test_bars_are_as_long_as_the_speeds_are(open_report):
    page = open_report("gpu").page
    widths = page.eval_on_selector_all(
        "#figure-speed .live g.mark-rect path", "paths => paths.map(path => path.getBBox().width)"
    )
    speeds = [
        each.throughput.median for each in analysis("gpu").summaries if each.variant in ("baseline", "tuned")
    ]
    assert len(widths) == len(speeds)
    for width, speed in zip(widths, speeds, strict=True):
        assert width / max(widths) == pytest.approx(speed / max(speeds), rel=0.02)


def test_hover_reads_all_cards_at_one_instant_in_every_panel(open_report):
    page = open_report("four-gpus").page
    figure = page.locator("figure").filter(has_text="on 4 GPUs").first
    figure.scroll_into_view_if_needed()
    live = figure.locator(".live svg")
    box = live.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    for words in ("at", "GPU 0", "GPU 3"):
        assert words in tip.inner_text()
    lit = live.locator("g.mark-rect path[fill='var(--ink)']")
    assert lit.count() > 3


@pytest.mark.parametrize("key", ["Enter", " "])
def test_time_axis_zooms_in_all_panels_from_the_keyboard(open_report, key):
    page = open_report("gpu").page
    figure = page.locator("figure:has(.tools)").first
    axis = figure.locator(".live svg g.role-axis-label text")
    before = axis.all_inner_texts()
    figure.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press(key)
    figure.locator(".live svg").evaluate("() => new Promise(resume => setTimeout(resume, 200))")
    zoomed = axis.all_inner_texts()
    assert zoomed != before
    figure.get_by_role("button", name="Whole trial").focus()
    page.keyboard.press(key)
    figure.locator(".live svg").evaluate("() => new Promise(resume => setTimeout(resume, 200))")
    assert axis.all_inner_texts() == before


@pytest.mark.parametrize(
    ("name", "width"), [("gpu", 390), ("four-gpus", 320), ("hostile", 320), ("bare", 390)]
)
def test_small_screens_do_not_scroll_sideways(open_report, name, width):
    page = open_report(name, width=width, height=844).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for svg in page.locator(".live svg").all():
        box = svg.bounding_box()
        assert box["x"] + box["width"] <= width + 1


def test_figures_follow_the_window(open_report):
    page = open_report("gpu", width=1200).page
    before = page.locator("#figure-speed .live svg").bounding_box()["width"]
    page.set_viewport_size({"width": 600, "height": 900})
    page.wait_for_selector("#figure-speed .live svg[width]")
    page.wait_for_timeout(1500)
    after = page.locator("#figure-speed .live svg").bounding_box()["width"]
    assert after < before
    assert page.evaluate("document.documentElement.scrollWidth") <= 600


def test_dark_mode_is_dark_in_page_and_figures(open_report):
    shades = {}
    for scheme in ("light", "dark"):
        page = open_report("gpu", scheme=scheme).page
        shades[scheme] = page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.querySelector("#figure-speed .live g.mark-text text")).fill]"""
        )
    light, dark = shades["light"], shades["dark"]
    assert brightness(light[0]) > 240 > 110 > brightness(light[1])
    assert brightness(dark[0]) < 40 < 160 < brightness(dark[1])


def brightness(colour: str) -> float:
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("gpu", "light"), ("gpu", "dark"), ("interrupted", "light"), ("failed", "dark"), ("bare", "light")],
)
def test_axe_finds_nothing(open_report, name, scheme):
    page = open_report(name, scheme=scheme).page
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    found = Axe().run(
        page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    )
    bad = [
        (each["id"], each["nodes"][0]["html"][:120])
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical", "moderate")
    ]
    assert bad == []


@pytest.mark.parametrize("name", ["gpu", "interrupted"])
def test_without_scripts_the_main_figures_are_still_there(open_report, name):
    page = open_report(name, scripts=False).page
    still = page.locator("#figure-speed .still svg")
    assert still.is_visible()
    assert still.locator("g.mark-rect path").count() >= 2
    assert not page.locator(".tools").first.is_visible()


@pytest.mark.parametrize(("name", "format_"), [("gpu", "A4"), ("four-gpus", "Letter")])
def test_printed_page_has_its_figures_whole(open_report, tmp_path, name, format_):
    opened = open_report(name, scheme="dark")
    path = tmp_path / "report.pdf"
    opened.page.pdf(path=path, format=format_)
    text = subprocess.run(
        [_tool("pdftotext"), "-layout", path, "-"], capture_output=True, text=True, check=True
    )
    pages = text.stdout.split("\f")
    assert 4 < len(pages) < 25
    assert "Speed in steady state" in pages[0]
    flat = " ".join(text.stdout.split())
    assert "Zoom" not in flat
    assert "Copy" not in flat.replace("Copyright", "")
    # A timeline's first and last panel stand on one page, so it was not cut.
    timelines = [page for page in pages if "CPU busy" in page]
    assert timelines
    assert all("seconds since the container started" in page for page in timelines)
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert brightness(opened.page.evaluate("getComputedStyle(document.body).backgroundColor")) == 255
    assert opened.page.locator("#figure-speed .still").is_visible()
    assert not opened.page.locator("#figure-speed .live").is_visible()


def _tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"install {name} (poppler-utils) for the browser tests"
    return found


def test_numbers_can_be_saved(open_report, tmp_path):
    page = open_report("gpu").page
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save the numbers").click()
    path = tmp_path / "saved.json"
    waiting.value.save_as(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["headline"] == analysis("gpu").headline


def test_trial_numbers_lead_to_their_rows(open_report):
    page = open_report("gpu").page
    page.locator("#speed .trials a:visible").first.click()
    row = page.locator("tr:target")
    assert row.count() == 1
    assert row.is_visible()
    assert analysis("gpu").run.trials[0].id in row.inner_text()


def test_hostile_names_run_nothing(open_report):
    opened = open_report("hostile")
    dialogs = []
    opened.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    opened.page.reload()
    opened.drawn()
    assert dialogs == []
    assert "<script>alert(1)</script>" in opened.page.locator("h1").inner_text()
    assert "<script>alert(1)</script>" in opened.page.locator("#figure-speed .live").inner_text()
