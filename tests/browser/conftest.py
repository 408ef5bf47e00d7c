"""Open reports in Chromium and record their console messages and requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests import comparisons, report_pages
from tests.picture import ARGUMENTS, executable


@dataclass
class Opened:
    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_report(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def open_(name: str, *, width=1200, height=900, scripts=True, scheme="light") -> Opened:
        path = tmp_path / "page.html"
        kind, _, rest = name.partition(":")
        text = comparisons.page(rest) if kind == "compare" else report_pages.page(name)
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": height}, java_script_enabled=scripts, color_scheme=scheme
        )
        contexts.append(context)
        opened = Opened(page=context.new_page())
        opened.page.on("console", lambda message: opened.messages.append(f"{message.type}: {message.text}"))
        opened.page.on("pageerror", lambda error: opened.messages.append(f"error: {error}"))
        opened.page.on(
            "dialog", lambda each: (opened.messages.append(f"dialog: {each.message}"), each.dismiss())
        )
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.goto(path.as_uri())
        if scripts:
            opened.page.wait_for_selector("html[data-figures=drawn]", state="attached", timeout=120_000)
        return opened

    yield open_
    for context in contexts:
        context.close()
