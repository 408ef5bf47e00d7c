from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import StoreError, UsageError
from harness.model.run import DataInfo, Options
from harness.paths import Paths
from harness.progress import Silent
from harness.run import prepare as session
from harness.run.prepare import Prepared
from harness.run.resolve import Resolved, resolve
from tests.builders import image
from tests.conftest import ROOT
from tests.endtoend import script
from tests.fakes import FakeEngine, Script


class Environment:
    def __init__(self, folder: Path) -> None:
        self.file = script(folder, "good", "keras.datasets.mnist")
        self.paths = Paths(checkout=ROOT, cache=folder / "cache")
        self.options = Options(
            profile="quick",
            device="cpu",
            workloads=(str(self.file),),
            out=folder / "runs",
            cloud_metadata=False,
        )
        self.image = image()
        self.data = DataInfo(workload="good", name="d", kind="procedural", sha256="3", why="no network")

    def prepare(self, resolved: Resolved | None = None) -> Prepared:
        """Prepare a run and create its folder, as if it was interrupted before its first trial ended."""
        prepared = session.prepare(resolved or resolve(self.options), self.paths, Silent())
        prepared.folder.create(prepared.run)
        return prepared


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    made = Environment(tmp_path)
    engine = FakeEngine(Script())
    monkeypatch.setattr(session, "connect", lambda *_: engine)
    monkeypatch.setattr(session, "_images", lambda *_: {"cpu": made.image})
    monkeypatch.setattr(session, "ensure_data", lambda *_: (tmp_path, made.data))
    return made


def test_secrets_are_not_recorded_but_used(environment, monkeypatch):
    given = {"API_TOKEN": "s3cr3t", "PROXY": "http://me:s3cr3t@host", "MODE": "fast"}
    environment.options = replace(environment.options, environment=given)
    prepared = environment.prepare()
    assert prepared.manifest.options.environment == {"API_TOKEN": "***", "PROXY": "***", "MODE": "fast"}
    assert given.items() <= dict(prepared.jobs[0].container.environment).items()
    with pytest.raises(UsageError, match="API_TOKEN, PROXY") as caught:
        session.resume(prepared.folder.path, environment.paths, Silent())
    assert "export API_TOKEN=" in caught.value.hint
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    again = session.resume(prepared.folder.path, environment.paths, Silent())
    assert given.items() <= dict(again.jobs[0].container.environment).items()


def test_resume_uses_the_stored_plan(environment):
    """The plan of a rerun can have fewer trials than its options imply."""
    whole = resolve(environment.options)
    cut = replace(
        whole, planned=whole.planned[:2], profile=replace(whole.profile, trials=2, max_trials=2, window_s=0.5)
    )
    prepared = environment.prepare(cut)
    again = session.resume(prepared.folder.path, environment.paths, Silent())
    assert [job.planned for job in again.jobs] == list(cut.planned)
    assert again.resolved.profile == cut.profile
    assert again.jobs[0].spec.window_s == 0.5
    assert again.manifest.run_id == prepared.manifest.run_id


def test_containers_get_a_plain_list_of_cpus(environment):
    """Docker rejects spaces, which --cpus allows."""
    prepared = environment.prepare(resolve(replace(environment.options, cpus=" 0-0, 0")))
    assert {job.container.cpus for job in prepared.jobs} == {"0"}


def test_a_new_run_needs_a_writable_folder_before_anything_is_built(environment):
    options = replace(environment.options, out=Path("/proc/runs"))
    with pytest.raises(StoreError, match="Cannot write /proc"):
        session.prepare(resolve(options), environment.paths, Silent())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda one: setattr(one, "image", replace(one.image, digest="sha256:9")), "images"),
        (lambda one: setattr(one, "data", replace(one.data, kind="real", sha256="9")), "data"),
        (lambda one: one.file.write_text(one.file.read_text() + "\n# mended\n"), "scripts and mounted files"),
    ],
)
def test_resume_is_rejected_if_inputs_changed(environment, change, named):
    path = environment.prepare().folder.path
    change(environment)
    with pytest.raises(StoreError, match=f": {named}[.] .*tart a new run"):
        session.resume(path, environment.paths, Silent())
