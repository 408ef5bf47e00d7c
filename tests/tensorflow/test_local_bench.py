from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from harness.analysis import analyse
from harness.run.store import read_run
from tests.endtoend import Tfbench, script
from workloads.variants import BASELINE, INPUT_ONLY, MODEL_ONLY

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def environment(tf_python: Path, tmp_path: Path) -> Mapping[str, str]:
    return {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}


def options(folder: Path, body: str = "", *arguments: str) -> tuple[str | Path, ...]:
    return (script(folder / "files", "good", body), *arguments)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return the processes with a working directory below a folder; trials run in the harness's TMPDIR."""
    processes = psutil.process_iter(["cwd"])
    return [process for process in processes if (process.info["cwd"] or "").startswith(str(folder))]


def test_auto_falls_back_to_local_with_a_warning_about_isolation(tmp_path, environment):
    arguments = options(tmp_path, "", "--variants", ",".join((BASELINE, INPUT_ONLY, MODEL_ONLY)))
    with Tfbench(folder=tmp_path, engine="auto", arguments=arguments, environment=environment) as bench:
        code, out, err = bench.finish()
    assert code == 0, err
    assert "NOT ISOLATED" in err
    assert "none.sock" in err, "the reason for the fallback"
    (trial,) = bench.read().trials
    assert {variant.variant for variant in trial.variants} == {BASELINE, INPUT_ONLY, MODEL_ONLY}
    manifest = bench.read().manifest
    assert (manifest.engine.name, manifest.engine.isolated) == ("local", False)
    assert "isolated" in (bench.run_path / "report.html").read_text(encoding="utf-8")
    assert str(bench.run_path / "report.html") in out
    assert processes_in(tmp_path) == []
    assert list((tmp_path / "tmp").glob("tfbench-*")) == []
    page = bench.run_path / "report.html"
    with Tfbench(
        folder=tmp_path, engine="local", command="rerun", arguments=(page,), environment=environment
    ) as rerun:
        code, _, err = rerun.finish()
    assert code == 0, err
    (path,) = (tmp_path / "again").iterdir()
    again = read_run(path)
    assert again.planned == bench.read().planned
    assert analyse(again).cases[0].speed(BASELINE), "it was measured again"
