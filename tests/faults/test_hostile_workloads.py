"""Hostile scripts and metadata: each is a Workload or a UsageError, and nothing else."""

import ast
import json
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.defaults import PROFILES
from harness.model.run import Run
from harness.model.workload import Data, Published, Workload
from harness.options import Options
from harness.run.plan import plan_trials, resolve_variants
from harness.run.scripts import check_params, constants, read_workloads
from harness.run.store import read_run
from harness.run.trial_container import spec_for
from tests import builders
from tests.faults.injecting import faults, succeeds_or_user_error
from tests.faults.test_damaged_runs import render
from tests.folders import write_run
from workloads.protocol import Requests

pytestmark = pytest.mark.slow

# TOML values, valid and not.
TOML = st.one_of(
    st.sampled_from((
        "true", "-1", "0", "1e308", "nan", "-inf", "9" * 400, "10000000000000000", "''", "'default'", "'gpu'", "'s'",
        "'x.py'", "'../x.py'", "'/dev/zero'", "'.'", '"\\u0000"', '"\\ud800"', '"' + "x" * 70_000 + '"', "[]", "{}",
        "[1, 8]", "['x']", "{a = {b = ['c']}}", "{batch_sizes = [1]}", "2020-01-01", "[" * 3_000, "[" * 90 + "]" * 90,
        "1\nx = 2", "1\n[also.b]", "", "=",
    )),
    st.integers().map(str), st.floats().map(str), st.text().map(json.dumps),
)  # fmt: skip
KEYS = st.sampled_from(sorted({
    "title", "suite", "accuracy", "tuned", "components", "cpu", "gpu", "ladder", "also", "also.x", "published",
    "data", "'a b'", "\u202e", "cpu.SIZE",
    *(f"{table}.{each.name}" for table, kind in (("data", Data), ("requests", Requests)) for each in fields(kind)),
    *(each.name for kind in (Workload, Published) for each in fields(kind)),
})) | st.text(max_size=8)  # fmt: skip
LINES = st.lists(
    st.tuples(KEYS, TOML).map(" = ".join) | st.sampled_from(("[also.x]", "[[published]]", "[data]")),
    max_size=8,
)
# Python literals, and what is none.
LITERALS = st.one_of(
    st.sampled_from((
        "10**15", "9" * 5_000, "(" * 300 + ")" * 300, "(" * 50 + "1," + ")" * 50, "-" * 5_000 + "1", "1+" * 3_000 + "1",
        "[" * 5_000, "lambda: 1", "__import__('os').abort()", "f'{1}'", "'\\ud800'", "b'x'", "...", "1j", "1e400",
        "{[]: 1}", "'x' * 10**10", "10**10**10", "yield", "*a", "'\\N{DIGIT ONE}'", "'\x0c'", "0x" + "f" * 5_000,
    )),
    st.integers().map(repr), st.floats().map(repr), st.text().map(repr), st.lists(st.integers()).map(repr),
)  # fmt: skip
STATEMENTS = st.tuples(
    st.sampled_from(("SIZE", "größe", "_x", "A: int", "A.b", "from x import A; A")), LITERALS
)
SCRIPTS = st.lists(STATEMENTS.map(" = ".join), max_size=4)


@faults(share=0.1, default=40)
@given(
    metadata=LINES,
    code=SCRIPTS,
    end=st.sampled_from(("# ///\n", "#///\n", "", "# ///\n# /// tfbench\n# ///\n")),
)
def test_hostile_script(tmp_path_factory, metadata, code, end):
    lines = "\n".join(metadata).splitlines()
    block = "".join(f"# {line}\n" for line in lines)
    text = "# /// tfbench\n" + block + end + "\n".join((*code, ""))
    with succeeds_or_user_error():
        plan_and_render(written(tmp_path_factory, text.encode("utf-8", "surrogatepass")))


@faults(share=0.02, default=30)
@given(content=st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-16")))
def test_random_bytes_as_script(tmp_path_factory, content):
    with succeeds_or_user_error():
        plan_and_render(written(tmp_path_factory, content))


@faults(share=0.02, default=30)
@given(code=LITERALS, text=LITERALS | TOML)
def test_hostile_parameter(tmp_path_factory, code, text):
    with succeeds_or_user_error():
        read = read_workloads(
            written(tmp_path_factory, f"SIZE = {code}\n".encode("utf-8", "surrogatepass")), "own"
        )
        values = check_params({"size": text}, read)
        plan_and_render(read, {name: each[0] for name, each in values.items()})


def written(factory: pytest.TempPathFactory, content: bytes) -> Path:
    file = factory.mktemp("hostile") / "own.py"
    file.write_bytes(content)
    (file.parent / "x.py").write_text("SIZE = 1\n")
    return file


def plan_and_render(script: Path | tuple[Workload, ...], params: dict[str, object] | None = None) -> None:
    """Plan trials of a script and render a run without trials."""
    workloads = read_workloads(script, "own") if isinstance(script, Path) else script
    profile = PROFILES["smoke"]
    devices, params = ("cpu", "gpu0"), params or {}
    planned = plan_trials(workloads, devices, profile, resolve_variants("", True, workloads), params)
    for trial in planned:
        one = next(each for each in workloads if each.name == trial.workload)
        places = {data.name: "/data" for data in one.datasets}
        spec = spec_for(trial, one, profile, Options(), folder="/script", data=places)
        json.dumps(asdict(spec)).encode()
        for each in spec.scripts.values():
            ast.parse(each.text)
        if params:
            assert {
                name: constants(ast.parse(spec.scripts["baseline"].text))[name] for name in params
            } == params
    run = builders.cpu_run(trials=1)
    render(Run(manifest=run.manifest, workloads=workloads, planned=planned, trials=()), html=False)


@pytest.mark.parametrize("count", [50, 2_000])
def test_recorded_warnings_are_limited(tmp_path, count):
    run = builders.cpu_run(trials=1)
    folder = write_run(tmp_path / "run", run)
    file = folder.trial(run.planned[0].id).events
    line = json.dumps({"kind": "warning", "message": "y" * 100_000}) + "\n"
    text = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([*text[:-1], *[line] * count, text[-1]]), encoding="utf-8")
    result = read_run(folder.path)
    assert sum(len(warning) for warning in result.trials[0].warnings) < 300_000
    assert (result.trials[0].windows == run.trials[0].windows) == (count == 50)
