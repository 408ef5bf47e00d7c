import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.model.run import Run
from harness.run.catalogue import Entry, external
from harness.run.events import EventTail, read_log
from harness.run.plan import plan_trials, resolve_variants, spec_for
from harness.run.store import read_run
from tests import builders
from tests.faults.injecting import HOSTILE, damage_line, faults, succeeds_or_user_error, time_limit
from tests.faults.test_damaged_runs import render
from tests.folders import write_run

pytestmark = pytest.mark.slow

OPTIONS = """
from workloads.protocol import Data, Published, Requests, Workload
{names}
workload = Workload(name={name}, title={title}, batch_size={batch_size}, epochs={epochs}, data=Data(name={data},
    shape={shape}, classes={classes}, train={train}, test={test}, dtype={dtype}){more})
"""
GOOD = {
    "name": "'x'", "title": "''", "batch_size": "32", "epochs": "1", "data": "'d'", "shape": "(8, 8, 1)", "classes":
    "4", "train": "512", "test": "128", "dtype": "'uint8'", "more": "", "names": "",
}  # fmt: skip
VALUES = st.one_of(
    st.sampled_from([repr(value) for value in HOSTILE]),
    st.sampled_from([
        "10**15", "10000000000000000", "(" * 300 + ")" * 300, "(" * 50 + "1," + ")" * 50, "-" * 5000 + "1",
        "1+" * 3000 + "1", "[" * 5000,
        "lambda: 1", "__import__('os')", "deep", "wide", "name", "f'{1}'", "'\\ud800'", "b'x'", "...", "1j",
        "(2**31, 2)", "(3, 3, 3, 3)", "Data()", "Workload()", "{'a': {'b': ['c']}}", "{1: 2}", "{(): 1}",
        "{[]: 1}", "'O'",
    ]),
    st.integers().map(repr), st.floats().map(repr), st.text().map(repr), st.lists(st.integers()).map(repr),
)  # fmt: skip
FIELDS = (
    "tuned", "params", "optimizations", "published", "requests", "suite", "task", "image",
    "source", "min_accuracy", "samples_per_epoch", "stages", "model", "optimizer", "loss", "builder",
    "takes_weights", "none",
)  # fmt: skip
# Values that double sixty times.
NAMES = "\n".join(
    ("deep0 = (1,)", *(f"deep{n} = (deep{n - 1}, deep{n - 1})" for n in range(1, 60)), "deep = deep59",
     "wide0 = 'x'", *(f"wide{n} = wide{n - 1} + wide{n - 1}" for n in range(1, 60)), "wide = wide59", "name = name")
)  # fmt: skip


@faults(share=0.1, default=60)
@given(
    changed=st.dictionaries(st.sampled_from(sorted(GOOD.keys() - {"names", "more"})), VALUES, max_size=2),
    more=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=2),
)
def test_hostile_declaration(tmp_path_factory, changed, more):
    file = tmp_path_factory.mktemp("declared") / "own.py"
    extra = "".join(f", {name}={value}" for name, value in more.items())
    text = OPTIONS.format(**{**GOOD, **changed, "more": extra, "names": NAMES})
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    with succeeds_or_user_error():
        plan_and_render(external(file))


@faults(share=0.02, default=10)
@given(content=st.binary(max_size=200))
def test_random_bytes_as_workload_file(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("anything") / "own.py"
    file.write_bytes(content)
    with time_limit(), pytest.raises(UsageError):
        external(file)


def plan_and_render(entries: tuple[Entry, ...]) -> None:
    """Plan trials for the declarations and render a run without trials."""
    declared = [entry.workload for entry in entries]
    profile = PROFILES["smoke"]
    planned = plan_trials(declared, ("cpu",), profile, resolve_variants("", True, declared), {})
    for trial in planned:
        json.dumps(asdict(spec_for(trial, profile, file="own.py", data_dir="/data", seed=1))).encode()
    run = builders.cpu_run(trials=1)
    render(Run(manifest=run.manifest, workloads=tuple(declared), planned=planned, trials=()), html=False)


@pytest.fixture(scope="module")
def run() -> Run:
    return builders.cpu_run(trials=2)


@faults(share=0.05, default=40)
@given(chance=st.randoms(use_true_random=False))
def test_damaged_events(run, tmp_path_factory, chance):
    folder = write_run(tmp_path_factory.mktemp("events") / "run", run)
    file = folder.trial(run.planned[0].id).events
    for _ in range(chance.randint(1, 3)):
        damage_line(file, chance)
    with time_limit():
        EventTail(file).read()
        log = read_log(file)
        repr(log).encode()
        render(read_run(folder.path), html=chance.random() < 0.1)


@pytest.mark.parametrize("count", [50, 2_000])
def test_recorded_warnings_are_limited(tmp_path, count):
    run = builders.cpu_run(trials=1)
    folder = write_run(tmp_path / "run", run)
    file = folder.trial(run.planned[0].id).events
    line = json.dumps({"kind": "warning", "t_ns": 1, "message": "y" * 100_000}) + "\n"
    text = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([*text[:-1], *[line] * count, text[-1]]), encoding="utf-8")
    result = read_run(folder.path)
    assert sum(len(warning) for warning in result.trials[0].warnings) < 300_000
    assert (result.trials[0].windows == run.trials[0].windows) == (count == 50)
