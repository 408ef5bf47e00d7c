"""Going on with an interrupted run: the plan that it has, in the surroundings that it had, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.model.options import Options
from harness.model.run import DataInfo
from harness.paths import Paths
from harness.progress import Silent
from harness.run import prepare as session
from harness.run.prepare import Prepared
from harness.run.resolve import resolve
from tests.builders import image
from tests.conftest import ROOT
from tests.endtoend import workload_file
from tests.fakes import FakeEngine, Script


class Surroundings:
    """What a run finds: an engine that answers, an image and data of some digest."""

    def __init__(self, folder: Path) -> None:
        self.file = workload_file(folder, "good", "pass")
        self.paths = Paths(checkout=ROOT, cache=folder / "cache")
        self.options = Options(
            profile="quick", device="cpu", files=(self.file,), out=folder / "runs", cloud_metadata=False
        )
        self.image = image()
        self.data = DataInfo(workload="good", name="d", kind="procedural", sha256="3", why="no network")

    def prepare(self) -> Prepared:
        """Make a run ready, and its folder as if it had been cut off before its first trial ended."""
        prepared = session.prepare(resolve(self.options), self.paths, Silent())
        prepared.folder.create(prepared.run)
        return prepared


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    made = Surroundings(tmp_path)
    engine = FakeEngine(Script())
    monkeypatch.setattr(session, "connect", lambda *_: engine)
    monkeypatch.setattr(session, "_images", lambda *_: {"cpu": made.image})
    monkeypatch.setattr(session, "ensure_data", lambda *_: (tmp_path, made.data))
    return made


def test_a_run_goes_on_by_the_plan_that_it_has(around: Surroundings) -> None:
    """A rerun's plan has the trials that were run before, whatever its options would plan."""
    whole = resolve(around.options)
    cut = replace(
        whole, planned=whole.planned[:2], profile=replace(whole.profile, trials=2, max_trials=2, window_s=0.5)
    )
    prepared = session.prepare(cut, around.paths, Silent())
    prepared.folder.create(prepared.run)
    again = session.resume(prepared.folder.path, around.paths, Silent())
    assert [job.planned for job in again.jobs] == list(cut.planned)
    assert again.resolved.profile == cut.profile
    assert again.jobs[0].spec.window_s == 0.5
    assert again.manifest.run_id == prepared.manifest.run_id


def test_the_free_disk_is_the_one_that_the_run_is_written_to(around: Surroundings) -> None:
    # /proc is a disk without room; nothing is written until a run starts.
    options = replace(around.options, out=Path("/proc/runs"))
    prepared = session.prepare(resolve(options), around.paths, Silent())
    assert prepared.manifest.host_facts["free_disk_bytes"] == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda one: setattr(one, "image", replace(one.image, digest="sha256:9")), "images"),
        (lambda one: setattr(one, "data", replace(one.data, kind="real", sha256="9")), "data"),
        (lambda one: one.file.write_text(one.file.read_text() + "\n# mended\n"), "workload files"),
    ],
)
def test_trials_of_unlike_things_do_not_get_into_one_run(
    around: Surroundings, change: Callable[[Surroundings], None], named: str
) -> None:
    path = around.prepare().folder.path
    change(around)
    with pytest.raises(StoreError, match=f": {named}[.] Start a new run"):
        session.resume(path, around.paths, Silent())
