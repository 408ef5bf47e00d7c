import json
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.page_scripts import bare_speed, container_for, data_folders, scripts_of
from harness.analysis import analyse
from harness.engines.docker import DockerEngine
from harness.model.platform import HealthCheck
from harness.model.run import Run, Status
from harness.run.recording import open_run
from harness.run.store import read_run
from tests.commands import output_of
from tests.docker.unix_proxy import engine_proxy
from tests.endtoend import TREES_SCRIPT, Tfbench, script, wait_until
from tests.folders import write_files
from workloads.protocol import CPU_CAPABILITIES
from workloads.variants import BASELINE, FIX, INPUT_ONLY, MODEL_ONLY, TUNED

pytestmark = pytest.mark.docker


def docker(*words: str) -> list[str]:
    return output_of("docker", *words).split()


def containers(bench: Tfbench, *flags: str) -> list[str]:
    return docker("ps", "--quiet", *flags, "--filter", f"label=tfbench.run={bench.run_id}")


def one_script(folder: Path, *arguments: str) -> tuple[str | Path, ...]:
    file = script(folder / "files", "good", text=TREES_SCRIPT)
    return (file, "--variants", "baseline", *arguments)


def test_published_workload(tmp_path: Path) -> None:
    with Tfbench(folder=tmp_path, engine="docker", machine=True, arguments=("fashion-mnist-mlp",)) as bench:
        code, _, err = bench.finish()
        assert code == 0, err
        assert "Engine: docker" in err
        assert containers(bench, "--all") == []
    run = bench.read()
    machine, trial = run.trials
    assert {metric.variant for metric in machine.metrics if metric.variant} == set(CPU_CAPABILITIES)
    assert {item.check for item in analyse(run).health} >= {HealthCheck.STEAL, HealthCheck.DISK}
    assert {variant.variant for variant in trial.variants} >= {BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED}
    assert {window.variant for window in trial.windows} >= {BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED}
    assert trial.facts["tensorflow"] == "2.21.0"
    assert run.manifest.engine.isolated
    assert run.manifest.images[0].lock_sha256
    assert run.manifest.data[0].kind == "procedural"
    _check_telemetry(run)
    results = json.loads((bench.run_path / "results.json").read_text(encoding="utf-8"))
    assert results["schema"] == "tfbench-results"
    # Apply the page's differences with `patch`, and run the result in the image without tfbench.
    run = open_run(bench.run_path / "report.html")
    scripts = dict(scripts_of(run, "fashion-mnist-mlp", "cpu"))
    ran = {each.variant: each for each in run.trials[-1].scripts}
    assert {BASELINE, *ran} == set(scripts)
    assert any(FIX.has(variant) for variant in ran)
    assert scripts[TUNED] == ran[TUNED].text
    folders = {name: path for name, path in data_folders(run).items() if name == "fashion-mnist"}
    with closing(DockerEngine.connect()) as engine:
        container = container_for(engine, run, "cpu")
        components = run.workloads[0].components
        speed = bare_speed(engine, container, scripts[TUNED], components, folders, seconds=0.5)
    assert speed is not None and speed > 0


def _check_telemetry(run: Run) -> None:
    trial = run.trials[-1]
    series = {(item.source, item.device): item for item in trial.telemetry}
    used = series["cgroup", "container"].columns["mem_used_bytes"]
    assert used.max() > 100e6, "TensorFlow alone needs more"
    ticks = series["host", "host"].t_ns
    assert trial.started_ns <= ticks[0] <= ticks[-1] <= trial.ended_ns
    steady = [window for window in trial.windows if window.variant == BASELINE]
    assert all(trial.started_ns < window.start_ns < window.end_ns < trial.ended_ns for window in steady)


def test_what_scripts_read_and_write_and_how_they_fail(tmp_path: Path) -> None:
    data = write_files(tmp_path / "data", {"deep/numbers.csv": "1,2"})
    files = write_files(tmp_path / "files", {"settings.txt": "3", "checkpoints/old": ""})
    bodies = {
        "good": (
            "import subprocess, sys\nfrom pathlib import Path\n"
            "Path('run').write_text('#!/bin/sh\\n')\nPath('run').chmod(0o755)\nsubprocess.check_call('./run')\n"
            f"told = [Path({str(data)!r}, 'deep/numbers.csv').read_text(), Path('settings.txt').read_text()]\n"
            "Path('new.txt').write_text('x')\nPath('checkpoints/new').write_text('x')\n"
            "print('told', *told, sys.argv[1:], os.environ['FLAVOUR'])\n"
        ),
        "raises": "raise RuntimeError('no such layer')",
        "hog": "hog = [b'x' * (64 << 20) for _ in range(100)]",
        "hangs": "time.sleep(3600)",
    }
    arguments: list[str | Path] = ["--variants", "baseline", "--memory", "1.0", "--stall", "8"]
    arguments += ["--mount", str(data), "--arg=--fast", "--env", "FLAVOUR=mild"]
    for name, body in bodies.items():
        arguments.append(script(files, name, body, TREES_SCRIPT))
    for each in (data, data / "deep", files / "checkpoints"):
        each.chmod(0o755)
    with Tfbench(folder=tmp_path, engine="docker", arguments=tuple(arguments)) as bench:
        code, out, err = bench.finish()
        assert containers(bench, "--all") == []
    assert code == 5, err
    assert bench.statuses == {
        "good.cpu.0": Status.OK,
        "raises.cpu.0": Status.FAILED,
        "hog.cpu.0": Status.OUT_OF_MEMORY,
        "hangs.cpu.0": Status.TIMEOUT,
    }
    run = bench.read()
    messages = {trial.workload: trial.message for trial in run.trials}
    assert "raises.py:11: RuntimeError: no such layer." in messages["raises"]
    assert "limit of 1.0 GiB. Raise --memory" in messages["hog"]
    assert "No event for 8 s" in messages["hangs"]
    assert "3 of 4 trials failed" in err
    assert all(message in err for message in messages.values())
    logs = {name: (bench.run_path / f"trials/{name}.cpu.0/log.txt").read_text("utf-8") for name in bodies}
    assert "Traceback" in logs["raises"]
    assert "good" in out, "successful trials are in the summary"
    assert str(bench.run_path / "report.html") in out
    assert "told 1,2 3 ['--fast'] mild" in logs["good"]
    scripts = [f"{name}.py" for name in bodies]
    assert {each.name for each in files.iterdir()} == {"checkpoints", "settings.txt", *scripts}
    assert [each.name for each in (files / "checkpoints").iterdir()] == ["old"]
    assert {"workloads", *bodies, "files beside good", str(data)} <= set(run.manifest.sources)


def test_concurrent_run_is_rejected_and_interrupted_run_is_cleaned_up(tmp_path: Path) -> None:
    file = script(tmp_path / "files", "good", "time.sleep(1.5)", TREES_SCRIPT)
    options = (file, "--variants", "baseline", "--trials", "2")
    with Tfbench(folder=tmp_path, engine="docker", arguments=options) as bench:
        bench.wait_for(lambda: bench.trial_started("good.cpu.0"))
        first = bench.run_path
        with Tfbench(folder=tmp_path, engine="docker", arguments=options) as second:
            code, _, err = second.finish()
        assert code == 7
        assert f"process {bench.process.pid}" in err
        bench.wait_for((first / "trials/good.cpu.1/out/events.jsonl").exists)
        for _ in range(3):  # users press Ctrl-C repeatedly
            bench.signal(signal.SIGINT)
            time.sleep(0.05)
        code, _, err = bench.finish()
    assert code == 130
    assert [trial.status for trial in read_run(first).trials] == [Status.OK, Status.INTERRUPTED]
    assert f"tfbench bench --resume {first}" in err
    assert "Traceback" not in err
    assert docker("ps", "--quiet", "--all", "--filter", f"label=tfbench.run={first.name}") == []
    assert (first / "report.html").exists()
    assert (first / "trials/good.cpu.1/trial.json").exists(), "the cleanup was not interrupted"


def test_lost_engine(tmp_path: Path) -> None:
    options = one_script(tmp_path, "--trials", "2")
    with (
        engine_proxy() as (url, proxy),
        Tfbench(
            folder=tmp_path, engine="docker", arguments=options, environment={"DOCKER_HOST": url}
        ) as bench,
    ):
        bench.wait_for(lambda: bench.trial_started("good.cpu.1"))
        proxy.kill()
        code, _, err = bench.finish()
    assert code == 3, err
    assert "Traceback" not in err
    assert bench.statuses == {"good.cpu.0": Status.OK, "good.cpu.1": Status.ENGINE_LOST}
    assert (bench.run_path / "report.html").exists()
    wait_until(lambda: containers(bench) == [])
    resumed = Tfbench(folder=tmp_path, engine="docker", arguments=("--resume", bench.run_path))
    with resumed:
        assert resumed.finish()[0] == 0
    assert list(resumed.statuses.values()) == [Status.OK] * 2
    assert containers(resumed, "--all") == [], "including those left when the engine was lost"
