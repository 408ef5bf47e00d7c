import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engines import DATA_DIR, WORKLOADS_DIR, ContainerSpec, Exit, GpuAccess, Mount
from harness.engines.container_settings import init_source
from harness.engines.local import LocalEngine
from harness.errors import EngineError
from harness.run.store import write_atomic
from harness.system.doctor_checks import run_to_end
from tests.builders import container_spec, image
from tests.conftest import ROOT
from tests.folders import write_files

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
    deadline = time.monotonic() + 60
    while not all(has_ended(pid) for pid in pids):
        assert time.monotonic() < deadline, f"some of {pids} still run"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -SEGV $$", -11)]
)
def test_exit_status_is_that_of_command(script, code):
    process = start("sh", "-c", f"echo out; cat; echo err >&2; {script}")
    assert process.stdout.read() == "out\nerr\n", "the command has no input"
    assert process.wait() == code


def test_ends_unless_start_is_signalled():
    source = SOURCE.replace("STARTED_S = 30.0", "STARTED_S = 0.2")
    assert start("sleep", "60", source=source).wait(timeout=30) == -9
    signalled = start("sh", "-c", "sleep 0.3; exit 3")
    signalled.stdin.write("\n")
    signalled.stdin.flush()
    assert signalled.wait() == 3
    process = start("sh", "-c", "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.stdout.readline() == "caught\n", "SIGTERM is forwarded"
    assert process.wait() == 5


def test_command_and_orphans_are_killed_with_the_first_process():
    process = start("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    orphan = int(process.stdout.readline())
    assert process.wait() == 0
    assert has_ended(orphan)
    process = start("sh", "-c", "echo $$; exec sleep 1000")
    command = int(process.stdout.readline())
    process.kill()
    process.wait()
    wait_until_ended(command)


IMAGE = image(sys.executable)
WORKLOADS = Mount(container=WORKLOADS_DIR, host=ROOT / "workloads")


@pytest.fixture
def engine(temporary: Path) -> LocalEngine:
    return LocalEngine()


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[..., ContainerSpec]:
    plain = {"image": IMAGE, "out": tmp_path / "out"}
    plain["out"].mkdir()
    return lambda *command, **changes: container_spec(**{**plain, "command": command, **changes})


def test_container_paths_are_replaced_with_host_paths(engine, make_spec, tmp_path, temporary):
    data = write_files(tmp_path / "data", {"x": "payload"})
    code = (
        "import json, os, time, workloads.protocol\n"
        "while not os.path.exists('/tfbench/out/spec.json'):\n    time.sleep(0.01)\n"
        "spec = json.load(open('/tfbench/out/spec.json'))\n"
        "payload = open(spec['data_dir'] + '/x').read()\n"
        "open('/tfbench/out/events.jsonl', 'w').write(payload + os.environ['SAME'])\n"
        "print(spec, os.environ['HOME'] == os.environ['TMPDIR'] == os.getcwd())"
    )
    variables = {"PYTHONPATH": "/tfbench", "SAME": '["/tfbench", "/tfbenchmark:/x/tfbench"]'}
    mounts = (WORKLOADS, Mount(container=DATA_DIR, host=data), Mount(container=str(data), host=data))
    spec = make_spec("python3", "-c", code, environment=variables, mounts=mounts)
    started = engine.start(spec)
    write_atomic(spec.out / "spec.json", json.dumps({"data_dir": started.seen(DATA_DIR), "steps": 3}))
    while (exit_ := started.poll()) is None:
        time.sleep(0.01)
    log = started.log()
    started.remove()
    assert exit_ == Exit(code=0, out_of_memory=False), log
    assert (spec.out / "events.jsonl").read_text() == 'payload["/tfbench", "/tfbenchmark:/x/tfbench"]'
    assert "'steps': 3" in log
    assert log.endswith("True\n")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("folder", [".", 'a"b\\c'])
def test_the_folder_of_temporary_files_may_have_any_name(engine, make_spec, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    exit_, log = run_to_end(engine, make_spec("python3", "-c", "print('ran')"), 60)
    assert (exit_.code, log) == (0, "ran\n")


def test_environment_gpus_and_cpus_of_process(engine, make_spec, monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    cpu = min(os.sched_getaffinity(0))
    code = "import json, os; print(json.dumps([dict(os.environ), list(os.sched_getaffinity(0))]))"
    two = GpuAccess(kind="host", uuids=("GPU-b", "GPU-a"))
    for gpu, visible in ((None, "-1"), (two, "GPU-b,GPU-a")):
        _, log = run_to_end(engine, make_spec("python3", "-c", code, gpu=gpu, cpus=str(cpu)), 60)
        environment, cpus = json.loads(log)
        assert not environment.keys() & {"TF_ENABLE_ONEDNN_OPTS", "KERAS_BACKEND"}
        assert "PATH" in environment
        assert environment["CUDA_VISIBLE_DEVICES"] == visible
        assert cpus == [cpu]


ESCAPE = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
    time.sleep(1000)
time.sleep(0.3)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(1000)
"""


def test_log_is_truncated_and_kill_ends_descendants(engine, make_spec, temporary):
    with pytest.raises(EngineError, match="Could not start trial a-trial"):
        engine.start(make_spec("true", image=replace(IMAGE, reference="/nowhere/python")))
    with pytest.raises(EngineError, match=r"a-trial .* 0\.2 s"):
        run_to_end(engine, make_spec("sleep", "1000"), 0.2)
    assert list(temporary.iterdir()) == []
    script = "yes xxxxxxxxxxxxxxxxxxx | head -c 1000000; setsid sleep 1000 & echo $!; wait"
    container = engine.start(make_spec("sh", "-c", script))
    while not (text := container.log()).endswith("\n") or not text.splitlines()[-1].isdigit():
        time.sleep(0.01)
    assert len(text.encode()) == 64 * 1024
    assert container.poll() is None
    container.kill()
    exit_ = container.poll()
    assert exit_ == Exit(code=-9, out_of_memory=False)
    assert has_ended(int(text.splitlines()[-1]))
    container.remove()
    container.remove()
    container = engine.start(make_spec("python3", "-c", ESCAPE))  # kills its first process
    while container.poll() is None:
        time.sleep(0.01)
    container.kill()
    assert has_ended(int(container.log()))
    container.remove()
    assert list(temporary.iterdir()) == []


HARNESS = """
import sys, time
from pathlib import Path
from harness.engines import ContainerSpec
from harness.engines.local import LocalEngine
from harness.model.platform import ImageInfo
image = ImageInfo(target="cpu", reference=sys.executable, digest="", base="", lock_sha256="")
engine = LocalEngine()
container = engine.start(ContainerSpec(
    image=image, command=("sh", "-c", "trap '' HUP TERM; setsid sleep 1000 & echo $!; wait"), environment={},
    out=Path(sys.argv[1]), mounts=(), trial_id="t", run_id="r"))
while not container.log(): time.sleep(0.01)
print(container.id, container.log(), flush=True)
time.sleep(1000)
"""


def test_trial_of_killed_harness_ends_and_next_harness_removes_its_files(engine, make_spec, temporary):
    command = [sys.executable, "-c", HARNESS, make_spec().out]
    variables = {**os.environ, "TMPDIR": str(temporary)}
    harness = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=variables)
    pids = [int(word) for word in harness.stdout.readline().split()]
    engine.remove_stale()
    assert len(list(temporary.iterdir())) == 1
    harness.kill()
    harness.wait()
    wait_until_ended(*pids)
    unfinished = write_files(temporary / "tfbench-x", {"owner": "{half a reco"})
    engine.remove_stale()
    assert list(temporary.iterdir()) == [unfinished]
