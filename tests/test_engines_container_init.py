import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.engines.container_settings import init_source

SOURCE = init_source()


def start(*command: str, source: str = SOURCE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source, "", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_ended(*pids: int) -> None:
    while not all(has_ended(pid) for pid in pids):
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -SEGV $$", -11)]
)
def test_exit_status_is_that_of_command(script, code):
    process = start("sh", "-c", script)
    assert process.wait() == code


def test_command_has_no_input_and_output_is_passed_through():
    process = start("sh", "-c", "echo out; cat; echo err >&2")
    assert process.stdout.read() == "out\nerr\n"
    assert process.wait() == 0


def test_ends_unless_start_is_signalled():
    source = SOURCE.replace("STARTED_S = 30.0", "STARTED_S = 0.2")
    assert start("sleep", "60", source=source).wait(timeout=30) == -9
    signalled = start("sh", "-c", "sleep 0.3; exit 3")
    signalled.stdin.write("\n")
    signalled.stdin.flush()
    assert signalled.wait() == 3


def test_orphans_are_killed_with_command():
    process = start("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    orphan = int(process.stdout.readline())
    assert process.wait() == 0
    assert has_ended(orphan)


def test_command_is_killed_with_first_process():
    process = start("sh", "-c", "echo $$; exec sleep 1000")
    command = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait_until_ended(command)


def test_sigterm_is_forwarded():
    process = start("sh", "-c", "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "caught\n"
    assert process.wait() == 5
