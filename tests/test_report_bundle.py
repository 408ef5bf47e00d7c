"""Charts' code and stills come from another process, from what was kept, or from here: all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.bundle import Bundling
from reports.charts import Figure, still
from reports.figures import figures_of
from reports.frame import stills
from tests import report_pages as pages

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return dict(figures_of(pages.analysis("gpu")))


def test_a_still_is_the_same_wherever_it_is_drawn(figures: dict[str, Figure]) -> None:
    with Bundling() as bundling:
        coming = stills(figures, bundling.still)
        assert coming.keys() <= figures.keys()
        for id_ in coming:
            assert coming[id_] == still(figures[id_])


def test_the_code_is_kept_for_the_next_page_and_made_again_when_it_is_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "charts"
    with Bundling(folder) as bundling:
        assert bundling.text() == pages.javascript()
    (kept,) = folder.iterdir()
    content = kept.read_text(encoding="utf-8")
    kept.write_text(content[:-1], encoding="utf-8")
    with Bundling(folder) as bundling:
        assert bundling.text() == pages.javascript(), "what is cut off is not used"
    assert kept.read_text(encoding="utf-8") == content


def test_kept_code_is_what_a_page_gets(tmp_path: Path) -> None:
    with Bundling(tmp_path) as bundling:
        bundling.text()
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    with Bundling(tmp_path) as bundling:
        assert bundling.text() == pages.javascript()
    assert kept.stat().st_mtime_ns == before


def test_a_folder_that_cannot_be_written_does_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with Bundling(tmp_path / "file" / "charts") as bundling:
        assert bundling.text() == pages.javascript()


def test_without_the_other_process_it_is_drawn_here(
    figures: dict[str, Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")  # ends at once
    figure = figures["figure-step-time"]
    with Bundling() as bundling:
        assert bundling.still(figure)() == still(figure)
        assert bundling.text() == pages.javascript()
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with Bundling() as bundling:
        assert bundling.still(figure)() == still(figure)


def test_a_page_that_failed_leaves_no_process_behind(figures: dict[str, Figure]) -> None:
    with pytest.raises(ZeroDivisionError), Bundling() as bundling:
        process = bundling._process
        bundling.still(figures["figure-step-time"])
        raise ZeroDivisionError
    assert process is not None
    assert process.returncode is not None
