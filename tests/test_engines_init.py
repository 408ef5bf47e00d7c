"""The first process of a trial, run for real on this host."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.engines.container_settings import init_source


def begin(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", init_source(), "", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_ended(*pids: int) -> None:
    while not all(ended(pid) for pid in pids):
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -SEGV $$", -11)]
)
def test_exits_as_the_command_does(script, code):
    process = begin("sh", "-c", script)
    assert process.wait() == code


def test_command_reads_nothing_and_writes_through():
    process = begin("sh", "-c", "echo out; cat; echo err >&2")
    assert process.stdout
    assert process.stdout.read() == "out\nerr\n"
    assert process.wait() == 0


def test_ends_where_nobody_says_that_it_was_started():
    source = init_source().replace("STARTED_S = 30.0", "STARTED_S = 0.2")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source, "", "sleep", "60"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.wait(timeout=30) == -9
    begun = begin("sh", "-c", "sleep 0.3; exit 3")
    assert begun.stdin
    begun.stdin.write("\n")
    begun.stdin.flush()
    assert begun.wait() == 3


def test_orphans_do_not_outlive_the_command():
    process = begin("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    assert process.stdout
    orphan = int(process.stdout.readline())
    assert process.wait() == 0
    assert ended(orphan)


def test_command_dies_with_it():
    process = begin("sh", "-c", "echo $$; exec sleep 1000")
    assert process.stdout
    command = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait_until_ended(command)


def test_passes_a_request_to_stop_on():
    process = begin("sh", "-c", "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "asked\n"
    assert process.wait() == 5
