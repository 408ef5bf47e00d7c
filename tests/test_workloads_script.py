"""How scripts run, and what is said about those that fail. The driver needs no framework for that."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.folders import write_files
from workloads.driver import script
from workloads.driver.script import ScriptError, Taken
from workloads.protocol import Script

Run = Callable[..., Mapping[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a text as home/train.py; return what it put into `seen`."""

    def execute(text: str, *arguments: str, path: str = "train.py") -> Mapping[str, Any]:
        (tmp_path / "home").mkdir(exist_ok=True)
        seen: dict[str, Any] = {}
        script.run(Script(path=str(tmp_path / "home" / path), text=text), arguments, {"seen": seen})
        return seen

    return execute


def state() -> tuple[Any, ...]:
    handlers = tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM))
    modules = {name for name in sys.modules if name in ("helper", "__main__")}
    return (
        Path.cwd(),
        sys.argv,
        sys.path[:],
        sys.stdout,
        sys.stderr,
        sys.modules["__main__"],
        handlers,
        modules,
    )


UNRULY = """
import io, os, signal, sys, helper
sys.argv.append("x"); sys.path.insert(0, "/x"); sys.stdout = io.StringIO(); os.chdir("/")
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGALRM, lambda *_: None)
seen["helper"] = helper.X
"""


@pytest.mark.parametrize("end", ["", "\nraise RuntimeError('x')", "\nsys.exit(3)", "\nsys.exit()"])
def test_what_a_script_changes_of_the_process_is_restored(run: Run, tmp_path: Path, end: str) -> None:
    write_files(tmp_path / "home", {"helper.py": "X = 1"})
    before = state()
    try:
        run(UNRULY + end)
    except ScriptError:
        assert end not in ("", "\nsys.exit()")
    assert state() == before
    (tmp_path / "home/helper.py").write_text("X = 22")
    assert run("import helper; seen['x'] = helper.X")["x"] == 22, "modules beside a script are its own"


def test_a_script_is_main_with_its_arguments(run: Run) -> None:
    seen = run(
        "import argparse, sys\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--rate', type=float)\n"
        "if __name__ == '__main__':\n"
        "    own = sys.modules['__main__'].seen is seen\n"
        "    seen |= {'rate': parser.parse_args().rate, 'file': __file__, 'main': own}",
        "--rate", "0.5",
    )  # fmt: skip
    assert (seen["rate"], seen["main"], Path(seen["file"]).name) == (0.5, True, "train.py")


def test_files_are_read_beside_the_script_and_written_elsewhere(run: Run, tmp_path: Path) -> None:
    home = write_files(
        tmp_path / "home", {"a.csv": "1", "data/b.csv": "2", "helper.py": "X = open('a.csv').read()"}
    )
    seen = run(
        "import os, pathlib, helper\n"
        "here = pathlib.Path(__file__).parent\n"
        "seen['read'] = [helper.X, open('data/b.csv').read(), (here / 'a.csv').read_text()]\n"
        "open('model.txt', 'w').write('x')\n"
        "os.makedirs('checkpoints/1'); open('checkpoints/1/w', 'w').close()\n"
        "seen['cwd'] = os.getcwd()"
    )
    assert seen["read"] == ["1", "2", "1"]
    assert sorted(path.name for path in home.iterdir() if path.name != "__pycache__") == [
        "a.csv",
        "data",
        "helper.py",
    ]
    assert (Path(seen["cwd"]) / "model.txt").read_text() == "x"


def test_components_are_importable(run: Run) -> None:
    spec = "importlib.util.find_spec('many_steps').origin"
    assert run(f"import importlib.util; seen['x'] = {spec}")["x"].endswith("components/many_steps.py")


def test_functions_have_source_code(run: Run) -> None:
    """As autograph needs."""
    assert run("import inspect\ndef f():\n    return 1\nseen['x'] = inspect.getsource(f)")["x"].startswith(
        "def f"
    )


def test_the_end_of_a_measurement_passes_except_clauses(tmp_path: Path) -> None:
    text = "def fit():\n    raise END\ntry:\n    fit()\nexcept Exception:\n    seen['caught'] = 1\nseen['on'] = 1"
    seen: dict[str, Any] = {}
    script.run(Script(path=str(tmp_path / "train.py"), text=text), (), {"END": Taken, "seen": seen})
    assert seen == {}


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("x = 1\nraise KeyError('no')", "train.py:2: KeyError: 'no'.", ""),
        ("def f():\n    import json\n    json.loads('{')\n\nf()", "train.py:3: JSONDecodeError: Expecting", ""),
        ("assert False", "train.py:1: AssertionError.", ""),
        ("raise RuntimeError('first\\nsecond')", "train.py:1: RuntimeError: first.", ""),
        ("import sys\nsys.exit(3)", "ended by itself: sys.exit(3)", "--arg"),
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('x')\np.parse_args()", "exit(2)", "--arg"),
        ("input('Epochs? ')", "train.py:1: EOFError", "--arg or --param"),
        ("import nothing_like_it.deeply", "ModuleNotFoundError", "pip install nothing_like_it"),
        ("raise Exception('URL fetch failure on http://x')", "URL fetch failure", "--mount PATH"),
        ("import urllib.request as u\nu.urlopen('http://127.0.0.1:9')", "URLError", "Containers have no network"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "ConnectionRefused", "no network"),
        ("open('/data/mine/a.csv')", "No such file", "add --mount /data/mine/a.csv"),
        ("open('mine/a.csv')", "No such file", "from the script's folder"),
        ("import os\nos.listdir('/data/mine')", "No such file", "add --mount /data/mine"),
    ],
)  # fmt: skip
def test_a_failure_is_one_sentence_and_what_to_try(
    run: Run, monkeypatch: pytest.MonkeyPatch, text: str, message: str, advice: str
) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(ScriptError) as caught:
            run(text)
    assert message in str(caught.value)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)
