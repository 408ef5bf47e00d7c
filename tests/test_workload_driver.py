import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.run.catalogue import folder_sha256
from harness.run.events import read_log
from tests.commands import output_of
from tests.conftest import ROOT
from tests.folders import write_files
from workloads.driver import edits, measuring, script
from workloads.driver.advice import advice
from workloads.driver.measuring import Needless, measure_each, report
from workloads.driver.needless import needless, unmet
from workloads.driver.remedies import candidates, worth_trying
from workloads.driver.results import Results
from workloads.driver.script import ScriptError, variables_at_import
from workloads.driver.timing import Completions
from workloads.protocol import (
    BETWEEN_EPOCHS,
    LONGEST_MESSAGE,
    OPENED,
    Aim,
    Edit,
    EventWriter,
    Fix,
    Script,
    Spec,
    read_events,
    reason_of,
)
from workloads.variants import (
    BASELINE,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    TUNED,
    WITHOUT_COPY,
    WITHOUT_EPOCHS,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    together,
)

Run = Callable[..., Mapping[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a text as home/train.py; return what it put into `seen`."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def execute(text: str, *arguments: str, **seen: Any) -> Mapping[str, Any]:
        (tmp_path / "home").mkdir(exist_ok=True)
        answer = tmp_path / "answer"
        answer.unlink(missing_ok=True)
        if (child := os.fork()) == 0:  # a script has a process of its own
            try:
                script.run(Script(path=str(tmp_path / "home/train.py"), text=text), arguments, {"seen": seen})
                answer.write_bytes(pickle.dumps(seen))
            except ScriptError as error:
                answer.write_bytes(pickle.dumps(error))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        result = pickle.loads(answer.read_bytes())
        if isinstance(result, ScriptError):
            raise result
        return result

    return execute


@pytest.mark.parametrize("real", ["real", "home/inner"])
def test_a_script_that_is_a_link_imports_from_where_it_leads(run: Run, tmp_path: Path, real: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / real).mkdir()
    (tmp_path / real / "train.py").touch()
    (tmp_path / real / "helper.py").write_text("UNITS = 7\n")
    (tmp_path / "home/train.py").symlink_to(tmp_path / real / "train.py")
    (tmp_path / "home/own.txt").touch()
    text = "import helper, pathlib\nhere = pathlib.Path(__file__)\nseen['units'] = helper.UNITS\n"
    text += "seen['beside'] = [(here.parent / 'own.txt').exists(), (here.resolve().parent / 'helper.py').exists()]\n"
    assert run(text) == {"units": 7, "beside": [True, True]}


def test_folders_beside_a_script_may_be_deep(run: Run, tmp_path: Path) -> None:
    deep = tmp_path / "home" / ("d/" * 1200)
    subprocess.run(["mkdir", "-p", deep], check=True)
    (deep / "x").write_text("1")
    first = folder_sha256(tmp_path / "home")
    (deep / "x").write_text("2")
    assert folder_sha256(tmp_path / "home") != first
    assert run("seen['x'] = open('d/' * 1200 + 'x').read()")["x"] == "2"
    subprocess.run(["rm", "-r", *tmp_path.iterdir()], check=True)


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


def test_a_script_may_await_as_notebooks_do(run: Run) -> None:
    text = "import asyncio\nasync def made():\n    await asyncio.sleep(0)\n    return 3\nseen['x'] = await made()\n"
    assert run(text)["x"] == 3
    with pytest.raises(ScriptError, match=r"^train.py:2: ValueError: wrong"):
        run("await __import__('asyncio').sleep(0)\nraise ValueError('wrong')\n")


def test_annotations_of_a_script_are_values(run: Run) -> None:
    assert run("def f(x: int): pass\nseen['x'] = f.__annotations__['x']\n")["x"] is int


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
    assert {path.name for path in home.iterdir()} - {"__pycache__"} == {"a.csv", "data", "helper.py"}
    assert (Path(seen["cwd"]) / "model.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("write", "written"),
    [
        ("open('log.csv', 'w').write('new')", "new"),
        ("os.write(os.open('log.csv', os.O_WRONLY), b'N')", "Nld"),
        ("os.chdir('data'); open('../log.csv', 'w').write('new'); os.chdir('..')", "new"),
        ("(here / 'log.csv').unlink(); open('log.csv', 'x').write('new')", "new"),
    ],
)
def test_files_beside_the_script_stay_as_they_are(run: Run, tmp_path: Path, write: str, written: str) -> None:
    write_files(tmp_path / "home", {"log.csv": "old", "data/b.csv": "2"})
    seen = run(
        f"import os, pathlib\nhere = pathlib.Path(__file__).parent\n{write}\n"
        "seen['read'] = open('log.csv').read()"
    )
    assert seen["read"] == written
    assert (tmp_path / "home/log.csv").read_text() == "old"


def test_a_large_file_and_a_folder_elsewhere_can_be_written_too(run: Run, tmp_path: Path) -> None:
    home = write_files(
        tmp_path / "home",
        dict.fromkeys(
            ("small.csv", "data/a.csv", "__pycache__/x.pyc", "runs/1/plan.json", "runs/1/manifest.json"), ""
        ),
    )
    logs = write_files(tmp_path / "elsewhere", {"hist.csv": "history"})
    for name in ("large.bin", "larger.bin"):
        with (home / name).open("wb") as file:
            file.truncate(40 << 20)
    for name, target in (
        ("logs", str(logs)),
        ("same", "data"),
        ("to-large", "large.bin"),
        ("circle", "circle"),
        ("up", ".."),
    ):
        (home / name).symlink_to(target)
    seen = run(
        "import os\n"
        "number = os.open('to-large', os.O_WRONLY | os.O_TRUNC)\nos.write(number, b'new'); os.close(number)\n"
        "open('larger.bin', 'r+b').write(b'!')\n"
        "open('logs/hist.csv', 'w').write('new')\nopen('logs/more', 'w').write('2')\n"
        "open('same/b.csv', 'w').write('2')\n"
        "seen['read'] = [open('large.bin').read(), os.path.getsize('larger.bin'), open('data/b.csv').read()]\n"
        "seen['files'] = sorted(os.listdir()), os.listdir('runs/1')"
    )
    assert seen["read"] == ["new", 40 << 20, "2"]
    names = "circle data large.bin larger.bin logs runs same small.csv to-large train.py up"
    assert seen["files"] == (names.split(), [])
    assert {path.name: path.read_text() for path in logs.iterdir()} == {"hist.csv": "history"}
    assert [path.name for path in (home / "data").iterdir()] == ["a.csv"]
    assert (home / "large.bin").stat().st_size == (home / "larger.bin").stat().st_size == 40 << 20


READS = """
import os, subprocess, ctypes
import helper
open("data/python.csv").read()
os.close(ctypes.CDLL(None).open(b"native.csv", os.O_RDONLY))
subprocess.run(["cat", "child.csv"], stdout=subprocess.DEVNULL)
os.close(ctypes.CDLL(None).open(b"large.bin", os.O_RDONLY))
open("to-linked").read()
open("new.csv", "w").write("1")
os.listdir("data"); os.stat("stated.csv")
"""


def test_what_a_script_opens_is_noted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files = "data/python.csv native.csv child.csv linked.csv stated.csv unread.csv data/unread.csv"
    code = "helper.py unused.py __pycache__/helper.cpython-311.pyc"
    write_files(home, dict.fromkeys(files.split(), "1") | dict.fromkeys(code.split(), ""))
    for name in ("large.bin", "unread.bin"):
        with (home / name).open("wb") as file:
            file.truncate(40 << 20)
    (home / "to-linked").symlink_to("linked.csv")
    (home / "train.py").write_text(READS)
    opened = tmp_path / "opened.txt"
    code = (
        "import os, sys; from workloads.driver import script; from workloads.protocol import Script\n"
        "for _ in range(2):\n"
        "    if (child := os.fork()) == 0:\n"
        "        script.run(Script(path=sys.argv[1], text=open(sys.argv[1]).read()), (), {})\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run(
        [sys.executable, "-c", code, home / "train.py"], check=True, cwd=ROOT,
        env={**os.environ, OPENED: str(opened), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    read = {"helper.py", "data/python.csv", "native.csv", "child.csv", "large.bin", "linked.csv"}
    lines = opened.read_text().splitlines()
    assert set(lines) == read and len(lines) == len(read)


def test_a_file_that_cannot_be_read_hides_no_other() -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o777)
        write_files(Path(top), {"read.csv": "1", "private.env": "1", "train.py": "open('read.csv').read()"})
        (Path(top) / "private.env").chmod(0)
        code = (
            "import os, sys; from workloads.driver import script; from workloads.protocol import Script\n"
            "os.geteuid() or os.seteuid(10_001)\n"
            "script.run(Script(path=sys.argv[1], text=open(sys.argv[1]).read()), (), {})"
        )
        opened = Path(top, "opened.txt")
        subprocess.run(
            [sys.executable, "-c", code, Path(top, "train.py")], check=True, cwd=ROOT,
            env={**os.environ, OPENED: str(opened), "TMPDIR": top},
        )  # fmt: skip
        assert opened.read_text().split() == ["read.csv"]


def test_folders_of_very_many_files_are_linked_as_a_whole(tmp_path: Path) -> None:
    beside = write_files(
        tmp_path / "home",
        {f"pictures/{number % 3}/{number}.jpg": "x" for number in range(60)} | {"notes/a.txt": "a"},
    )
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    links = script._mirror(beside, mirror, most=32)
    assert {str(link.relative_to(mirror)) for link in links if link.is_dir()} == {"pictures/1", "pictures/2"}
    assert len(links) == 1 + 20 + 2
    files = [path.relative_to(beside) for path in beside.rglob("*") if path.is_file()]
    assert all((mirror / file).read_text() == (beside / file).read_text() for file in files)


def test_a_neighbour_hides_what_only_the_driver_has_imported(tmp_path: Path) -> None:
    write_files(tmp_path / "home", dict.fromkeys(["statistics.py", "os.py"], "mine = 1"))
    # Not the script itself, which would run once more.
    (tmp_path / "home/csv.py").write_text(
        "import statistics\nprint(statistics.mine)\nimport os\nos.getpid()\nimport csv\ncsv.reader\n"
    )
    code = (
        "import csv, statistics, sys; from workloads.driver import script; from workloads.protocol import Script\n"
        "script.run(Script(path=sys.argv[1], text=open(sys.argv[1]).read()), (), {})\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "home/csv.py"], check=True, cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("def f():\n    import json\n    json.loads('{')\n\nf()", "train.py:3: JSONDecodeError: Expecting", ""),
        ("raise RuntimeError('first\\nsecond')", "train.py:1: RuntimeError: first.", ""),
        ("import sys\nsys.exit(3)", "ended by itself: sys.exit(3)", "--arg"),
        ("from argparse import *\np = ArgumentParser()\np.add_argument('x')\np.parse_args()", "required: x", "=VALUE"),
        ("breakpoint()\nx = 1", "BdbQuit", "leave breakpoint() out"),
        ("raise RuntimeError(__loader__.get_source(__name__)[:5])", "RuntimeError: raise", ""),
        ("input('Epochs? ')", "train.py:1: EOFError", "--arg or --param"),
        ("import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')", "BrokenPipeError", "Broken pipe.@"),
        ("import os\nr, w = os.pipe()\nos.get_terminal_size(w)", "train.py:3: OSError", "no terminal"),
        ("import os\nraise BlockingIOError(11, os.strerror(11))", "BlockingIOError", "start fewer"),
        ("raise PermissionError(13, 'Permission denied', '/etc/shadow')", "'/etc/shadow'", "no rights of root"),
        (
            "from multiprocessing.connection import answer_challenge\n"
            "class Gone:\n    def recv_bytes(self, most):\n        raise ConnectionResetError(104, 'reset')\n"
            "answer_challenge(Gone(), b'')",
            "ConnectionResetError", "reset.@",
        ),
        ("open('/tmp/none/x')", "FileNotFoundError", "nor a library has made"),
        ("import workloads\nworkloads.mine", "AttributeError", "rename yours"),
        ("from workloads import mine", "cannot import name 'mine'", "rename yours"),
        (
            "try:\n    open('/data/x.csv')\nexcept OSError as error:\n    raise RuntimeError('no data') from error",
            "train.py:4: RuntimeError: no data, from FileNotFoundError: ", "/data/x.csv",
        ),
        (
            "class RemoteTraceback(Exception):\n    pass\nraise ValueError('bad') from RemoteTraceback('\"\"\"')",
            "train.py:3: ValueError: bad.", "",
        ),
        (
            "import multiprocessing, sys\nraise ValueError(sys.modules['__mp_main__'] is sys.modules['__main__'])",
            "ValueError: True", "",
        ),
        ("raise ExceptionGroup('two', [OSError(2, 'no file', '/data/y')])", "from FileNot", "/data/y"),
        ("x = (1)" + ".real" * 200 + "\nx.none", "train.py:2: AttributeError", ""),
        ("import workloads.mine", "No module named 'workloads.mine'", "rename yours"),
        ("import nothing_like_it.deeply", "ModuleNotFoundError", "--with nothing-like-it"),
        ("import xgboost as xgb", "No module named 'xgboost'", '# image = "trees"'),
        (
            "raise ValueError('Exception encountered when calling A.call().\\n\\nBad shape.\\nArguments: 1')",
            "train.py:1: ValueError: Bad shape.", "",
        ),
        ("raise Exception('URL fetch failure on http://x')", "URL fetch failure", "--mount PATH"),
        ("import socket\nraise socket.gaierror(-3, 'name resolution')", "gaierror", "Containers have no network"),
        ("import tf_keras", "tf_keras", "Keras 2 and not measured"),
        ("open('/tmp/data/n.txt')", "FileNotFoundError", "-m FOLDER.NAME"),
        ("import urllib.request as u\nu.urlopen('http://127.0.0.1:9')", "URLError", "Containers have no network"),
        ("raise Exception('TensorBoard is not installed, missing')", "TensorBoard", "--with tensorboard"),
        ("raise ValueError('\\ttf2xla conversion failed while converting f[].')", "tf2xla", "jit_compile=False"),
        ("open('/data/mine/a.csv')", "No such file", "add --mount /data/mine/a.csv"),
        (
            "raise ValueError('{{node a_device_/job:b/device:CPU:0}} /data/a.rec; No such file or directory')",
            "No such file", "add --mount /data/a.rec.@",
        ),
        ("raise ValueError('No files matched pattern: /data/mine/*.jpg')", "No files", "add --mount /data/mine.@"),
        ("raise ValueError('In:\\n/b.py\\nNo files match `a*.csv`.')", "No files", "path from the script's"),
        ("import os\nopen(os.path.abspath('a/b.csv'))", "No such file", "folder has no a/b.csv: put it there"),
        ("import os\nos.symlink('/gone/x', 'logs')\nopen('logs/a', 'w')", "No such file", "logs is a link to /gone/x"),
        ("import errno\nraise OSError(errno.ENOSPC, 'No space left on device')", "No space", "is full"),
        ("raise OSError(27, 'File too large', '/tmp/weights.h5')", "File too large", "ulimit -f"),
        ("import errno\nraise OSError(errno.EROFS, 'Read-only file system')", "Read-only", "Write to a new file"),
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
    assert advice in f"{caught.value}@"  # the end
    assert "\n" not in str(caught.value)


def test_children_may_become_other_programs(run: Run) -> None:
    text = (
        "import os\nchild = os.fork()\nif child == 0:\n    os.execvp('sh', ['sh', '-c', 'exit 5'])\n"
        "seen['code'] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "seen['spawned'] = os.spawnlp(os.P_WAIT, 'sh', 'sh', '-c', 'exit 7')\n"
    )
    assert {**run(text)} == {"code": 5, "spawned": 7}


def test_links_to_files_of_the_kernel_stay_links(tmp_path: Path, run: Run) -> None:
    (tmp_path / "home").mkdir()
    for name, target in {"kernel": "/proc", "pages": "/proc/self/pagemap", "devices": "/sys"}.items():
        (tmp_path / "home" / name).symlink_to(target)
    text = "import os\nseen['links'] = [name for name in sorted(os.listdir()) if os.path.islink(name)]\n"
    assert run(text, links=None)["links"] == ["devices", "kernel", "pages"]


def test_a_full_disk_does_not_hide_that_a_script_has_finished() -> None:
    code = (
        "import tempfile\nfrom workloads.driver.processes import Processes\ntempfile.tempdir = '/nowhere'\n"
        "print(Processes(['x'], lambda: 0, 0, print).run(lambda end: None, ''))"
    )
    assert output_of(sys.executable, "-c", code).strip() == "None"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('os.environ["OMP_NUM_THREADS"] = "1"\nimport numpy\n', {"OMP_NUM_THREADS": "1"}),
        ('environ.setdefault("KMP_BLOCKTIME", "0")\nfrom tensorflow import keras\n', {"KMP_BLOCKTIME": "0"}),
        ('import keras.ops\nos.environ["OMP_NUM_THREADS"] = "1"\n', {}),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\nos.environ["MKL_X"] = x\n', {}),
        ('if x:\n    os.environ["OMP_NUM_THREADS"] = "1"\nother["OMP_NUM_THREADS"] = "2"\n', {}),
    ],
)
def test_variables_that_libraries_read_at_import_are_those_before_it(
    text: str, found: Mapping[str, str]
) -> None:
    assert variables_at_import(f"import os\nfrom os import environ\n{text}") == found


def test_a_limit_of_processes_is_told(tmp_path: Path) -> None:
    """The kernel counts what could not start; here, the script does."""
    refused = tmp_path / "pids.events"
    code = (
        "import os, pathlib\nfrom workloads.driver import processes\n"
        f"refused = pathlib.Path({str(refused)!r}); refused.write_text('max 3')\nprocesses._PIDS_FILES = (refused,)\n"
        "def work(end): refused.write_text('max 4'); os.abort()\n"
        "one = processes.Processes(['x'], __import__('itertools').count().__next__, 0, print)\n"
        "print(one.run(work, '').sentence('baseline', ''))\n"
        "print(one.run(lambda end: os.abort(), '').sentence('baseline', ''))"
    )
    limited, other = output_of(sys.executable, "-c", code).splitlines()
    assert "SIGABRT" in limited and "Processes and threads are limited" in limited
    assert "SIGABRT" in other and "limited" not in other


@pytest.mark.slow
def test_a_container_that_stood_still_is_told() -> None:
    code = (
        "import os, signal, time\nfrom workloads.driver.processes import Processes\n"
        "def work(end):\n"
        "    time.sleep(0.3)\n"
        "    os.kill(os.getppid(), signal.SIGSTOP)\n    time.sleep(2.5)\n    os.kill(os.getppid(), signal.SIGCONT)\n"
        "    time.sleep(0.2)\n"
        "Processes(['x'], lambda: 0, 1.0, lambda start, end: print(round((end - start) / 1e9))).run(work, '')"
    )
    assert output_of(sys.executable, "-c", code).split() in (["2"], ["3"])


def test_a_limit_of_file_sizes_is_told(tmp_path: Path) -> None:
    """That of a script, which can then not say that it has finished, and the driver's own."""
    code = (
        "import resource\nfrom workloads.driver.processes import Processes\n"
        "def work(end): resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "one = Processes(['x'], __import__('itertools').count().__next__, 0, print)\n"
        "print(one.run(work, '').sentence('baseline', ''))"
    )
    told = output_of(sys.executable, "-c", code)
    assert "RLIMIT_FSIZE" in told and "Leave that out of the script." in told
    driver = (
        f"ulimit -f 0; {sys.executable} -m workloads.driver spec.json {tmp_path}/events.jsonl 2>&1; echo $?"
    )
    assert output_of("sh", "-c", driver).split("\n")[-3:-1] == [
        "The engine limits the size of files: raise RLIMIT_FSIZE, in Docker's default-ulimits.", "1",
    ]  # fmt: skip


def test_what_a_script_closes_is_opened_again(tmp_path: Path) -> None:
    """The descriptors are then those of a file of the script."""
    code = (
        "import os\nfrom workloads.driver.processes import Processes\nfrom workloads.protocol import EventWriter\n"
        "events = EventWriter(open('events.jsonl', 'a'))\n"
        "def work(end):\n"
        "    events.write('start')\n    os.closerange(3, 1000)\n    os.chdir('/')\n"
        f"    own = [open({str(tmp_path / 'own')!r}, 'a') for _ in range(9)]\n    events.write('end')\n"
        "size = lambda: os.path.getsize('events.jsonl')\n"
        "print(Processes(['x'], size, 9, print).run(work, ''))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        stdout=-1,
    ).stdout
    assert told.strip() == "None"
    with (tmp_path / "events.jsonl").open(encoding="utf-8") as file:
        assert [event["kind"] for event in read_events(file)] == ["start", "warning", "end"]
    assert (tmp_path / "own").read_bytes() == b""


TRAINING = {"epochs": 1}
ALL = {
    INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, HOST_FED, "batch:4", "calls:10", WITHOUT_FRAMEWORK, WITHOUT_LAUNCH,
    WITHOUT_INPUT, WITHOUT_EPOCHS, STAGES, WITHOUT_COPY, "threads:1",
}  # fmt: skip
GPU_ONLY, PIPELINE = {HOST_FED, WITHOUT_COPY}, {STAGES, "threads:1", WITHOUT_COPY}


def job(
    arguments=TRAINING,
    *,
    pipeline=True,
    python=False,
    step_ms=None,
    waits=None,
    eager=False,
    steps=0,
    new_tokens=0,
    samples=1000,
    between_ms=0.0,
    validates=False,
    **spec,
):
    """Return a job as far as the choice of variants reads it."""
    fields = {"device": "gpu", "gpus": 1, "steps": steps, **spec}
    results, step_ms = Results(), {**(step_ms or {})}
    if waits is not None:
        step_ms.setdefault(CUSTOM_LOOP, step_ms[BASELINE])
    for name, value in step_ms.items():
        wait_ns = round(value * 1e6 * waits) if name == CUSTOM_LOOP and waits is not None else -1
        window = {"index": 0, "start_ns": 0, "end_ns": round(value * 1e6), "steps": 1, "samples": 1}
        results.add({"kind": "window", "variant": name, **window, "wait_ns": wait_ns})
    results.add(
        {
            "kind": "variant",
            "variant": BASELINE,
            "params": {
                "python_input": python, "batch_size": 32, "samples_per_epoch": samples, "validates": validates,
                "run_eagerly": eager,
            },
        }
    )  # fmt: skip
    results.add({"kind": "metric", "variant": BASELINE, "name": BETWEEN_EPOCHS, "value": between_ms / 1e3})
    return SimpleNamespace(
        spec=Spec(scripts={}, **fields), gpu=fields["device"] == "gpu", results=results,
        call=SimpleNamespace(
            arguments=arguments, is_pipeline=pipeline, in_python=python, samples_per_epoch=0, steps_per_epoch=None,
            trains="epochs" in arguments, new_tokens=new_tokens,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        (job(), set()),
        (job(device="cpu", gpus=0), GPU_ONLY),
        (job(pipeline=False), PIPELINE),
        (job(pipeline=False, python=True), PIPELINE - {STAGES} | {WITHOUT_EPOCHS}),
        (job(gpus=4), ALL - {INPUT_ONLY, MODEL_ONLY, WITHOUT_INPUT, STAGES, "threads:1"}),
        (job({}), {"calls:10", WITHOUT_EPOCHS}),
        (job({}, pipeline=False, requests={}), ALL - {MODEL_ONLY, "batch:4"}),
        (job({}, pipeline=False, requests={}, new_tokens=8), ALL - {MODEL_ONLY}),
    ],
)
def test_what_applies_to_a_call_and_a_device(made, missing):
    assert {variant for variant in ALL if unmet(made, variant)} == missing


@pytest.mark.parametrize(
    ("variant", "made", "measured"),
    [
        (WITHOUT_INPUT, job(step_ms={BASELINE: 10, MODEL_ONLY: 5}, waits=0.4), True),
        (WITHOUT_INPUT, job(step_ms={BASELINE: 10, MODEL_ONLY: 10}, waits=0.01), False),
        (STAGES, job(step_ms={BASELINE: 10, MODEL_ONLY: 10}, waits=0.01, steps=4), True),
        (STAGES, job(step_ms={BASELINE: 10, CUSTOM_LOOP: 10, MODEL_ONLY: 5}, waits=0.01), True),
        ("batch:4", job(step_ms={BASELINE: 500, MODEL_ONLY: 400}, device="cpu"), False),
        ("batch:2", job(step_ms={BASELINE: 500, MODEL_ONLY: 400}, device="cpu"), True),
        ("calls:10", job(step_ms={BASELINE: 120, MODEL_ONLY: 90}), True),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 200, MODEL_ONLY: 150}), False),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 9, "calls:10": 3}), True),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 9, "calls:10": 8.9}), False),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 9}, eager=True), False),
        (WITHOUT_COPY, job(step_ms={BASELINE: 10, MODEL_ONLY: 9, HOST_FED: 9.1}), False),
        (WITHOUT_FRAMEWORK, job(step_ms={BASELINE: 10, MODEL_ONLY: 9}), False),
        (WITHOUT_FRAMEWORK, job(step_ms={BASELINE: 10, MODEL_ONLY: 9}, eager=True), True),
    ],
)
def test_what_earlier_results_leave_to_ask(variant, made, measured):
    assert (needless(made, variant) == "") is measured


@pytest.mark.parametrize(
    ("aim", "made", "tried"),
    [
        (Aim.INPUT, job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 10}, waits=0.4), True),
        (Aim.INPUT, job(step_ms={BASELINE: 10, MODEL_ONLY: 10, CUSTOM_LOOP: 10}, waits=0.0), False),
        (Aim.LOADER, job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 10}, waits=0.4), False),
        (
            Aim.LOADER,
            job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 10}, waits=0.4, python=True),
            True,
        ),
        (Aim.FRAMEWORK, job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 6}), True),
        (Aim.LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 10, CUSTOM_LOOP: 10, "calls:10": 5}), True),
        (Aim.LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 10, CUSTOM_LOOP: 10, "calls:10": 10}), False),
        (Aim.LAUNCH, job(step_ms={BASELINE: 2, MODEL_ONLY: 2, CUSTOM_LOOP: 10}, between_ms=8), True),
        (
            Aim.LAUNCH,
            job(step_ms={BASELINE: 2, MODEL_ONLY: 2, CUSTOM_LOOP: 10}, between_ms=8, validates=True),
            False,
        ),
        (Aim.EAGER, job(step_ms={BASELINE: 10, MODEL_ONLY: 5}, eager=True), True),
        (Aim.BATCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 10, "batch:4": 12}), True),
        (Aim.BATCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 10, "batch:4": 40}), False),
        (Aim.BATCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 10, "batch:4": 12}, samples=10), False),
        (Aim.LOADER, job(), False),
        (Aim.EAGER, job(), False),
        (Aim.INPUT, job(gpus=2), False),
        (Aim.INPUT, job(), True),
    ],
)
def test_remedies_aimed_at_a_part_of_the_step(aim, made, tried):
    assert (aim in worth_trying(made.spec, made.results)) is tried


def test_beside_a_given_tuned_script_only_the_largest_parts_have_remedies():
    made = job(step_ms={BASELINE: 10, MODEL_ONLY: 3, CUSTOM_LOOP: 10}, waits=0.7)
    assert {Aim.INPUT, Aim.DEVICE} <= worth_trying(made.spec, made.results)
    scripts = {TUNED: Script(path="tuned.py", text="")}
    assert worth_trying(replace(made.spec, scripts=scripts), made.results) == {Aim.INPUT}


TEXT = "model.compile('ädam')\nmodel.fit(x)\n"
PLACE = len("model.compile('ädam'".encode())
XLA, SEVERAL = (
    Fix(edits=(Edit(start=PLACE, end=PLACE, text=each),), aim=Aim.DEVICE)
    for each in (", jit_compile=True", ", steps_per_execution=10")
)
RENAMED = Fix(edits=(Edit(start=0, end=5, text="net"),), aim=Aim.INPUT)


def test_remedies_are_applied_alone_and_together():
    assert edits.applied(TEXT, [XLA]) == TEXT.replace("'ädam'", "'ädam', jit_compile=True")
    first = edits.applied(TEXT, [XLA, SEVERAL]).splitlines()[0]
    assert "jit_compile=True" in first and "steps_per_execution=10" in first
    compile(first, "train.py", "exec")
    assert edits.applied(TEXT, [XLA, XLA]) == edits.applied(TEXT, [XLA])
    other = Fix(edits=(Edit(start=3, end=7, text="x"),), aim=Aim.INPUT)
    with pytest.raises(ValueError, match="same place"):
        edits.applied(TEXT, [RENAMED, other])
    # Those that gained are combined from the largest gain on.
    fixes = {"fix:a": XLA, "fix:b": SEVERAL, "fix:c": RENAMED, "fix:batch": Fix(edits=(), aim=Aim.BATCH)}
    step_ms = {BASELINE: 100.0, "fix:a": 80.0, "fix:b": 50.0, "fix:c": 99.0, "fix:batch": 10.0}
    assert candidates(fixes, job(step_ms=step_ms).results) == ["fix:b", "fix:a"]
    assert together(["fix:b", "fix:a"]) == "fix:b+a"


HEAD = "Graph execution error:\n\nDetected at node a defined at (most recent call last):\n  File b, line 2\n"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (HEAD + "2 root error(s) found.\n  (0) INTERNAL:  No rank\n\t [[{{node a}}]]\n\t [[b]]\n  (1) CANCELLED: No\n"
         "0 derived errors ignored. [Op:__inference_1]", "INTERNAL:  No rank"),
        (HEAD + "Out of memory.\n\t [[{{node a}}]]\nHint: Add an option.\n [Op:__inference_1]", "Out of memory."),
        ("{{function_node f}} No rank [Op:Sum] name: ", "{{function_node f}} No rank [Op:Sum] name:"),
        ("[Op:Sum]", ""),
        ("in user code:\n\n    File b, line 3, in None  *\n\n    ValueError: Exception encountered when calling "
         "CenterCrop.call().\n\n    \x1b[1mNo height\x1b[0m\n\n    Arguments received by CenterCrop.call():\n"
         "      • inputs=tf.Tensor\n      • training=True", "No height"),
        ("Exception encountered when calling B.call().\n\nNo\n\nArguments received by B.call():\n  • x=3", "No"),
        ("bad setting:\n  rate is 7\n  use 3\n  or 4", "bad setting: rate is 7 use 3"),
        (HEAD + "Failed to analyze:\nHloModule a, entry={}\n\n%b {\n}\n\n\t [[{{node a}}]]", "Failed to analyze:"),
    ],
)  # fmt: skip
def test_the_reason_of_an_error_is_found_in_what_tensorflow_writes_around_it(message, reason):
    assert reason_of(message) == reason


@pytest.mark.parametrize(("planned", "errors"), [((BASELINE, "bad"), 0), (("bad", "worse"), 2)])
def test_failed_variants_are_left_out_and_fail_a_trial_without_a_baseline(tmp_path, planned, errors):
    failures = {
        "first": "",
        "bad": "no\nmore",
        "worse": "Graph execution error:\n\nnor this\n\t [[x]]",
        "last": "",
    }
    ran: list[str] = []

    def measure(name: str) -> None:
        if failures[name]:
            raise ValueError(failures[name])
        ran.append(name)

    with (tmp_path / "events").open("w") as file:
        events = EventWriter(file)
        events.planned = planned
        measure_each(tuple(failures), measure, events)
    with (tmp_path / "events").open() as file:
        assert sum(event["kind"] == "error" for event in read_events(file)) == errors
    assert ran == [name for name, failure in failures.items() if not failure]
    assert list(read_log(tmp_path / "events").left_out.values()) == ["ValueError: no", "ValueError: nor this"]
    with (tmp_path / "events").open("w") as file:
        report(EventWriter(file), ValueError("first" + "x" * 10_000_000 + "last"))
    message = read_log(tmp_path / "events").error["message"]
    assert message.startswith("first") and message.endswith("last")
    assert len(message) == LONGEST_MESSAGE and "\n" not in message, "the event of an error is short"


def test_a_needless_variant_takes_no_time(tmp_path, monkeypatch):
    collected: list[str] = []
    monkeypatch.setattr(measuring.gc, "collect", lambda: collected.append(ran[-1]))
    ran: list[str] = []

    def measure(name: str) -> None:
        if name == "idle":
            raise Needless("nothing to gain")
        ran.append(name)

    with (tmp_path / "events").open("w") as file:
        measure_each((BASELINE, "idle", "last"), measure, EventWriter(file))
    assert ran == collected == [BASELINE, "last"]
    assert read_log(tmp_path / "events").needless == {"idle"}


class Result:
    def __init__(self, error: Exception | None = None) -> None:
        self.done = threading.Event()
        self._error = error

    def numpy(self) -> None:
        self.done.wait(5)
        if self._error:
            raise self._error


def test_the_device_is_idle_after_its_last_result() -> None:
    first, second = Result(), Result()
    with closing(Completions()) as completions:
        assert completions.idle_ns(0, 30) == 0, "no result was tracked"
        completions.follow(first)
        threading.Timer(0.05, first.done.set).start()
        completions.follow(second)
        assert first.done.is_set(), "at most one result is pending"
        began = time.monotonic_ns()
        assert completions.idle_ns(began, time.monotonic_ns()) == 0, "the device is busy"
        second.done.set()
        while not completions.idle_ns(began, time.monotonic_ns()):
            pass
        now = time.monotonic_ns()
        assert completions.idle_ns(now, now + 30) == 30
        assert 0 < completions.idle_ns(began, now) < now - began
        assert completions.idle_ns(began - 30, began) == 0, "the batch arrived while the device was busy"
        failed = Result(ValueError("no kernel"))
        failed.done.set()
        completions.follow(failed)
        with pytest.raises(ValueError, match="no kernel"):
            completions.follow(first)


def test_another_package_is_of_no_other_version_of_tensorflow():
    assert "no such name" in advice(AttributeError("module 'tensorflow.compat.v1' has no attribute 'a'"))
    assert advice(AttributeError("module 'tensorflow_text' has no attribute 'a'")) == ""
