import json
import re
import shutil
import struct
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from reports import compare_page
from reports.page import figures_of
from tests import picture
from tests.commands import output_of
from tests.comparisons import comparison
from tests.conftest import ROOT
from tests.report_pages import RUNS, analysis

pytestmark = pytest.mark.browser

COMPARED = ("compare:two", "compare:fleet", "compare:eight", "compare:hostile")
# Six screens hold these, and the overview of a report is on the first.
SHORT = {"suite", *COMPARED[:-1]}
ACCESSIBLE = ("suite", "serving")
CHARTS = ("optimizations", "gpu", "sweep")


def figures(name):
    kind, _, rest = name.partition(":")
    return compare_page.figures_of(comparison(rest)) if kind == "compare" else figures_of(analysis(name))


# The others have no more than parts of these.
@pytest.mark.parametrize(
    "name", [*(name for name in RUNS if name not in ("cpu", "unhealthy", "bare")), *COMPARED]
)
def test_pages_are_drawn_without_messages_dialogs_or_requests(open_report, name):
    opened = open_report(name, width=1280)
    assert opened.messages == []
    assert len(opened.requests) == 1 and opened.requests[0].startswith("file:")
    page = opened.page
    if name in SHORT:
        assert page.evaluate("document.documentElement.scrollHeight") <= 6 * 900
        assert page.evaluate("document.body.innerText.split(/\\s+/).length") <= 3000
    if name == "suite":
        overview = page.locator(".overview").bounding_box()
        assert overview["y"] + overview["height"] < 900
    unfold(page)
    if name in CHARTS:
        assert overlapping(page) == {}
    if name in ACCESSIBLE:
        assert violations(page) == []
    for id_, figure in figures(name).items():
        live = page.locator(f"#{id_} .live")
        marks = live.locator("svg g.mark-rect path, svg g.mark-line path, svg g.mark-symbol path")
        assert marks.count() >= len(figure.spec["vconcat"])
        box = live.locator("svg").bounding_box()
        assert box["width"] > 300
        assert box["height"] > 40
        assert not page.locator(f"#{id_} .still").is_visible()


def unfold(page):
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")


OVERLAPS = """figure => {
    const texts = [...figure.querySelectorAll(".live svg text")]
        .filter(text => text.textContent.trim() && text.getAttribute("opacity") !== "0")
        .map(text => [text.textContent, text.getBoundingClientRect()])
        .filter(([, box]) => box.width > 0);
    const overlaps = [];
    texts.forEach(([first, a], index) => texts.slice(index + 1).forEach(([second, b]) => {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) overlaps.push([first, second]);
    }));
    return overlaps;
}"""


def overlapping(page):
    figures = page.locator("figure").all()
    return {each.get_attribute("id"): texts for each in figures if (texts := each.evaluate(OVERLAPS))}


@pytest.mark.parametrize("name", ["suite", "four-gpus", "serving"])
def test_texts_of_charts_do_not_overlap_on_a_small_screen(open_report, name):
    page = open_report(name, width=800).page
    unfold(page)
    assert overlapping(page) == {}


def test_the_crosshair_shows_all_gpus_at_the_same_time(open_report):
    page = open_report("four-gpus").page
    unfold(page)
    figure = page.locator("figure:has(.tools)").filter(has_text="on 4 GPUs").first
    live = figure.locator(".live svg")
    live.evaluate("svg => svg.scrollIntoView()")
    box = live.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 80)
    readings = live.locator("g.mark-text text").filter(has_text=re.compile(r"^[\d.]+ s: "))
    readings.first.wait_for()
    texts = readings.all_text_contents()
    assert len(texts) > 3
    assert len({text.partition(":")[0] for text in texts}) == 1
    assert all(f"GPU {index} " in texts[0] for index in range(4))


def test_charts_zoom_by_keyboard_follow_the_window_size_and_save_their_data(open_report, tmp_path):
    page = open_report("gpu").page
    figure = page.locator("figure:has(.tools)").first
    axis = figure.locator(".live svg g.role-axis-label text")

    def labels() -> tuple[str, ...]:
        page.wait_for_timeout(300)
        return tuple(axis.all_text_contents())

    for key in ("Enter", " "):
        opened = labels()
        figure.get_by_role("button", name="Zoom in").focus()
        page.keyboard.press(key)
        zoomed = labels()
        figure.get_by_role("button", name="Whole trial").focus()
        page.keyboard.press(key)
        whole = labels()
        assert zoomed not in (opened, whole)
        assert key == " " or opened != whole, "it opens on measured phases"
    before = page.locator("#figure-step-time .live svg").bounding_box()["width"]
    page.set_viewport_size({"width": 600, "height": 900})
    page.wait_for_selector("#figure-step-time .live svg[width]")
    page.wait_for_timeout(1500)
    assert page.locator("#figure-step-time .live svg").bounding_box()["width"] < before
    assert page.evaluate("document.documentElement.scrollWidth") <= 600
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the data").click()
    download.value.save_as(path := tmp_path / "saved.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["run"]["manifest"]["run_id"] == analysis("gpu").run.manifest.run_id
    findings = [len(case.findings) for case in analysis("gpu").cases]
    assert [len(case["findings"]) for case in data["cases"]] == findings


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("suite", 390), ("four-gpus", 320), ("hostile", 320), ("sweep", 390), ("compare:fleet", 320),
    ],
)  # fmt: skip
def test_small_screens_do_not_scroll_sideways(open_report, name, width):
    page = open_report(name, width=width, height=844).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for svg in page.locator(".live svg").all():
        box = svg.bounding_box()
        assert box["x"] + box["width"] <= width + 1


def test_dark_mode_applies_to_page_and_figures(open_report):
    shades = {}
    for scheme in ("light", "dark"):
        page = open_report("gpu", scheme=scheme).page
        shades[scheme] = page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.querySelector("#figure-speeds .live g.mark-text text")).fill]"""
        )
    light, dark = shades["light"], shades["dark"]
    assert brightness(light[0]) > 240 > 110 > brightness(light[1])
    assert brightness(dark[0]) < 40 < 160 < brightness(dark[1])


def brightness(colour: str) -> float:
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


@pytest.mark.parametrize(
    ("name", "scheme", "width", "media"),
    [
        ("cpu", "dark", 390, "screen"), ("gpu", "dark", 1280, "print"), ("compare:two", "dark", 1200, "screen"),
    ],
)  # fmt: skip
def test_axe_finds_no_accessibility_problems_in_the_dark_on_paper_and_on_phones(
    open_report, name, scheme, width, media
):
    page = open_report(name, scheme=scheme, width=width).page
    unfold(page)
    page.emulate_media(media=media, color_scheme=scheme)
    assert violations(page) == []


def violations(page):
    """Return what axe finds on a page."""
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
    result = Axe().run(page, options={"runOnly": rules})
    return [
        (each["id"], each["nodes"][0]["html"][:120])
        for each in result.response["violations"]
        if each["impact"] in ("serious", "critical", "moderate")
    ]


def test_static_figures_are_shown_without_scripts(open_report):
    page = open_report("compare:two", scripts=False).page
    still = page.locator("#figure-step-time .still svg")
    assert still.is_visible()
    assert still.locator("g.mark-rect path").count() >= 2
    assert page.locator(".tools:visible").count() == 0


def test_the_printed_page_is_short_and_has_static_figures(open_report, tmp_path):
    opened = open_report("suite", scheme="dark")
    path = tmp_path / "report.pdf"
    opened.page.pdf(path=path, format="A4")
    assert shutil.which("pdftotext"), "install pdftotext (poppler-utils) for the browser tests"
    text = output_of("pdftotext", "-layout", path, "-")
    assert 2 <= text.count("\f") <= 12
    flat = " ".join(text.split())
    for button in ("Zoom", "Copy ", "Save the data"):
        assert button not in flat
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert brightness(opened.page.evaluate("getComputedStyle(document.body).backgroundColor")) == 255
    assert opened.page.locator("#figure-step-time .still").is_visible()
    assert not opened.page.locator("#figure-step-time .live").is_visible()


def test_make_picture_draws_the_first_screen(tmp_path: Path) -> None:
    output_of("make", "--no-print-directory", "picture", f"PICTURE={tmp_path / 'drawn.png'}")
    sizes = {
        struct.unpack(">II", path.read_bytes()[16:24])
        for path in (tmp_path / "drawn.png", ROOT / "docs/report.png")
    }
    assert {width for width, _ in sizes} == {picture.WIDTH_PX}
    assert all(200 < height <= 1000 for _, height in sizes), "one screen"
    assert max(height for _, height in sizes) - min(height for _, height in sizes) < 60, (
        "README's is of this design"
    )
