"""`make picture` draws the first screen of a recorded run's report, for README."""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from harness.analysis import analyse
from reports.page import render_html
from tests.recordings import PROCESSES
from tests.report_pages import javascript, recorded

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTH_PX = 1280


def executable() -> str:
    """Return the path of Chromium."""
    path = next((path for name in NAMES if (path := shutil.which(name))), None)
    assert path, f"install one of {', '.join(NAMES)}"
    return path


def draw(picture: Path) -> None:
    """Draw everything above the table of contents of the recording's page."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder, "report.html")
        path.write_text(render_html(analyse(recorded(PROCESSES)), code=javascript()), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        tab = browser.new_page(viewport={"width": WIDTH_PX, "height": 1000}, color_scheme="light")
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-figures=drawn]", state="attached", timeout=120_000)
        box = tab.locator(".contents").bounding_box()
        assert box is not None
        clip = {"x": 0.0, "y": 0.0, "width": float(WIDTH_PX), "height": box["y"]}
        tab.screenshot(path=picture, clip=clip)  # type: ignore[arg-type]  # a TypedDict of playwright's
        browser.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
