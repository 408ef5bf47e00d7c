"""The typeset report, read back from the PDF as a reader's program finds it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reports.pdf import render_pdf
from tests.report_pages import analysis

pytestmark = pytest.mark.browser  # like what a browser prints, it takes poppler to read it


def pages_of(pdf: bytes, folder: Path) -> str:
    path = folder / "report.pdf"
    path.write_bytes(pdf)
    tool = shutil.which("pdftotext")
    assert tool, "install poppler-utils for these tests"
    return subprocess.run(
        [tool, "-layout", str(path), "-"], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("name", ["gpu", "bare", "empty", "hostile"])
def test_pdf_says_what_the_page_says(name: str, tmp_path: Path) -> None:
    text = re.sub(r"[\s\u200b]+", " ", pages_of(render_pdf(analysis(name)), tmp_path))
    assert "Can these figures be trusted?" in text
    assert "Run it again" in text
    assert analysis(name).headline.split()[0] in text
    if name == "gpu":
        assert "Speed in steady state" in text
        assert "GPU 0 tuned" in text
    if name == "hostile":
        assert "alert(1)" in text, "shown as text"
