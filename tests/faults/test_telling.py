"""The report is written whatever happens to terminal, streams, umask and environment."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.rendering import write_outputs
from harness.errors import EngineError, Interrupted, StoreError, TfbenchError, UsageError
from harness.model.run import Status
from harness.run.store import read_run
from tests.builders import cpu_run
from tests.commands import output_of, tfbench
from tests.conftest import ROOT
from tests.endtoend import wait_until
from tests.faults.injecting import LIMIT_S, faults
from tests.folders import write_run

pytestmark = pytest.mark.slow

REDIRECTIONS = ("<&-", ">&-", "2>&-", ">/dev/full", "2>/dev/full", "</dev/null", "| head -c 1")
ENVIRONMENT = {
    "PYTHONOPTIMIZE": ("1", "2"),
    "PYTHONUNBUFFERED": ("1",),
    "PYTHONIOENCODING": ("ascii", "latin-1:strict"),
    "COLUMNS": ("0", "abc", "9" * 30),
    "LINES": ("0", "-1"),
    "TERM": ("dumb", "", "unknown"),
    "FORCE_COLOR": ("1",),
    "NO_COLOR": ("1",),
    "LC_ALL": ("C", "none"),
    "TZ": ("", "none", ":/etc/passwd"),
    "TMPDIR": ("/nowhere",),
    "HOME": ("/proc/nowhere", ""),
    "XDG_CACHE_HOME": ("/dev/null", "relative"),
    "PYTHONWARNINGS": ("error::DeprecationWarning:none",),
    "PYTHONHASHSEED": ("0",),
}
SETTINGS = st.sampled_from([(name, value) for name, values in ENVIRONMENT.items() for value in values])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("recorded") / "run", cpu_run(trials=2)).path


def shell(command: str, *, umask: int = 0o022, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"umask {umask:03o}; {command}"], env={**os.environ, **environment}, cwd=ROOT, timeout=LIMIT_S,
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip


@faults(share=0.015, default=3)
@given(
    redirections=st.sets(st.sampled_from(REDIRECTIONS[:-1]), max_size=3),
    piped=st.booleans(),
    settings=st.lists(SETTINGS, max_size=3).map(dict),
    umask=st.sampled_from((0o022, 0o027, 0o077, 0o377, 0o777)),
)
def test_report_is_written_in_any_environment(
    recorded, tmp_path_factory, redirections, piped, settings, umask
):
    out = tmp_path_factory.mktemp("out")
    words = f"{sys.executable} -m harness report {recorded} --out {out} {' '.join(sorted(redirections))}"
    piping = f" {REDIRECTIONS[-1]}" if piped else ""
    done = shell(words + piping, umask=umask, SOURCE_DATE_EPOCH="abc", **settings)
    assert {path.name for path in out.iterdir()} == {"report.html", "results.json"}, done.stderr
    assert "Traceback" not in done.stderr
    if not piped:
        lost = ">/dev/full" in redirections  # the last one wins
        assert done.returncode == (6 if lost else 0), done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_ends_early_is_told_and_no_part_of_a_page_is_lost(
    recorded: Path, unbuffered: str
) -> None:
    command = [sys.executable, "-m", "harness", "report", str(recorded), "--format", "html", "--out", "-"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as report:
        assert report.stdout is not None  # a pipe
        report.stdout.read(10)
        report.stdout.close()
        assert report.wait(LIMIT_S) == 141
    whole = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True)
    assert whole.stdout.rstrip().endswith(b"</html>")


def test_programs_of_the_system_are_found_whatever_the_path() -> None:
    code = "from harness.cli import prepare_process; prepare_process()"
    output_of(
        sys.executable,
        "-c",
        f"{code}\nimport subprocess; subprocess.run(['chown', '--help'], check=True)",
        PATH="",
    )


def test_removed_working_folder_is_named(tmp_path: Path) -> None:
    tool = Path(sys.executable).with_name("tfbench")
    done = shell(
        f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {tool} bench", PYTHONPATH=str(ROOT)
    )
    assert done.returncode == 6
    assert "working directory no longer exists" in done.stderr


def test_password_of_an_address_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFBENCH_CACHE", str(tmp_path))
    for address in (
        "tcp://user:p@ss-word@host:1",
        "user:pass-word@host",
        "http://:pass-word@h/?token=pass-word",
    ):
        monkeypatch.setenv("DOCKER_HOST", address)
        printed = tfbench("bench", "-e", "docker", "-d", "cpu", "--out", str(tmp_path))
        assert printed.code == EngineError.exit_code
        assert "word" not in printed.err.replace("words", "")


def test_escapes_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    script = tmp_path / "\x1b[31mred\x1b]0;title\x07\u202e.py"
    script.write_text("x = 1\n")
    printed = tfbench("bench", str(script), "--out", str(tmp_path / "\x1b[2Jout"))
    assert printed.code == UsageError.exit_code
    assert "red" in printed.err
    assert not {"\x1b", "\x07", "\u202e"}.intersection(printed.err)


def test_errors_contain_no_secrets() -> None:
    error = TfbenchError(
        "at https://me:secret@host/simple and x?api_key=secret&b=1.", hint="or git+ssh://secret@host"
    )
    assert str(error) == "at https://host/simple and x?api_key=***&b=1. or git+ssh://host"


def test_failure_of_a_renderer_costs_its_own_file(tmp_path: Path) -> None:
    paths = {form: tmp_path / form for form in ("html", "json", "csv")}
    renderers = {"html": lambda: str(1 / 0), "json": lambda: "{}", "csv": lambda: "a"}
    with pytest.raises(StoreError, match="division by zero"):
        write_outputs(renderers, paths)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csv", "json"]


@pytest.mark.parametrize(
    ("limit", "code", "written", "remedy"),
    [
        ("-v 16000000", 1, ["summary.csv"], "ulimit -v unlimited"),
        ("-n 12", 1, [], "ulimit -n 1024"),
        ("-f 64", 6, ["summary.csv"], "ulimit -f unlimited"),
    ],
)
def test_limits_of_the_shell_are_told(
    recorded: Path, tmp_path: Path, limit: str, code: int, written: list[str], remedy: str
) -> None:
    command = (
        f"ulimit {limit}; {sys.executable} -m harness report {recorded} --format html,csv --out {tmp_path}"
    )
    done = shell(command)
    assert (done.returncode, [path.name for path in tmp_path.iterdir()]) == (code, written)
    assert remedy in done.stderr


def faked_run(path: Path, trials: int, seconds: float) -> list[str]:
    return [sys.executable, "-m", "tests.faults.faked_run", str(path), str(trials), str(seconds)]


def finished(path: Path) -> int:
    return sum(1 for _ in path.glob("trials/*/trial.json"))


@pytest.mark.parametrize("hangup", [signal.SIG_DFL, signal.SIG_IGN], ids=["signal", "nohup"])
def test_report_is_written_when_the_terminal_is_closed(tmp_path: Path, hangup: signal.Handlers) -> None:
    path = tmp_path / "run"
    environment = {**os.environ, "TFBENCH_LOCK": str(tmp_path / "lock")}
    pid, terminal = pty.fork()
    if not pid:
        signal.signal(signal.SIGHUP, hangup)
        os.chdir(ROOT)
        os.execve(sys.executable, faked_run(path, 3, 0.8), environment)
    wait_until(lambda: finished(path) == 1)
    time.sleep(0.2)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert (path / "report.html").exists()
    expected = 0 if hangup == signal.SIG_IGN else Interrupted.exit_code
    assert os.waitstatus_to_exitcode(status) == expected
    trials = [trial.status for trial in read_run(path).trials]
    assert trials.count(Status.OK) == (3 if hangup == signal.SIG_IGN else 1)


INTERRUPTED_IMPORT = """
import runpy, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "reports.terminal":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
runpy.run_module("tests.faults.faked_run", run_name="__main__", alter_sys=True)
"""


def test_an_interrupt_before_the_report_says_how_to_write_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, path, "1", "0"], cwd=ROOT, check=False,
        capture_output=True, text=True, env={**os.environ, "TFBENCH_LOCK": str(tmp_path / "lock")}, timeout=60,
    )  # fmt: skip
    assert (done.returncode, finished(path)) == (Interrupted.exit_code, 1)
    assert f"tfbench report {path}" in " ".join(done.stderr.split())


@pytest.mark.parametrize("redirection", ["<&- >/dev/full 2>&-", "</dev/null 2>/dev/full | head -c 1"])
def test_run_is_measured_whatever_the_streams(tmp_path: Path, redirection: str) -> None:
    path = tmp_path / "run"
    done = shell(f"{' '.join(faked_run(path, 2, 0.1))} {redirection}", TFBENCH_LOCK=str(tmp_path / "lock"))
    assert (path / "report.html").exists(), done.stderr
    assert [trial.status for trial in read_run(path).trials] == [Status.OK] * 2
    assert done.returncode == 0, done.stderr
