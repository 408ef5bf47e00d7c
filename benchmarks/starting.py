"""From the command to the first training step: `tfbench bench` against a plain `docker run` of the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.trainer import WORKLOAD
from harness.analysis.stats import estimate
from harness.bench import Options, resolve
from harness.cli.app import places
from harness.events import read_log
from harness.progress import Silent
from harness.session import prepare
from workloads.protocol import FIRST_STEP


def measure(rounds: int, work: Path) -> Sequence[str]:
    """Return a sentence with the added seconds and their interval, from interleaved pairs."""
    plain, ours = [], []
    for _ in range(rounds):
        plain.append(_plain(work))
        ours.append(_ours(work))
    added = estimate([b - a for a, b in zip(plain, ours, strict=True)], "s")
    assert added is not None
    return (
        f"Start, {WORKLOAD}, {rounds} interleaved pairs, command to first training step:",
        "",
        "| | seconds, median |",
        "|---|---|",
        f"| plain docker run | {sorted(plain)[rounds // 2]:.2f} |",
        f"| tfbench bench | {sorted(ours)[rounds // 2]:.2f} |",
        f"| added by tfbench | {added.median:.2f} ({added.low:.2f} to {added.high:.2f}) |",
    )


def _first_step_s(events: Path, began_ns: int) -> float:
    phases = [phase for phase in read_log(events).phases if phase.name == FIRST_STEP]
    if not phases:
        raise RuntimeError(f"no training step in {events}")
    return (phases[0].start_ns - began_ns) / 1e9


def _ours(work: Path) -> float:
    runs = work / "start"
    shutil.rmtree(runs, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("tfbench")), "bench", "--quiet", "--profile", "smoke"]
    command += ["--engine", "docker", "--device", "cpu", "--workload", WORKLOAD, "--legs", "as-written"]
    began_ns = time.monotonic_ns()
    subprocess.run([*command, "--out", str(runs)], check=True, stdout=subprocess.DEVNULL)
    (events,) = runs.glob("*/trials/*/out/events.jsonl")
    return _first_step_s(events, began_ns)


def _plain(work: Path) -> float:
    """Run the same driver, spec, data and image by the docker command line, without the harness."""
    out = (work / "plain").resolve()
    shutil.rmtree(out, ignore_errors=True)
    options = Options(
        profile="smoke",
        engine="docker",
        device="cpu",
        workloads=(WORKLOAD,),
        legs="as-written",
        out=work / "plan",
    )
    prepared = prepare(resolve(options), places(), Silent())
    job = prepared.jobs[0]
    out.mkdir(parents=True)
    out.chmod(0o777)
    (out / "spec.json").write_text(json.dumps(asdict(job.spec)), encoding="utf-8")
    command = ["docker", "run", "--rm", "--network", "none", "--volume", f"{out}:/tfbench/out"]
    for mount in job.container.mounts:
        command += ["--volume", f"{mount.host}:{mount.container}:ro"]
    for name, value in job.container.environment.items():
        command += ["--env", f"{name}={value}"]
    prepared.engine.close()
    shutil.rmtree(work / "plan", ignore_errors=True)
    began_ns = time.monotonic_ns()
    subprocess.run(
        [*command, job.container.image.reference, *job.container.command],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return _first_step_s(out / "events.jsonl", began_ns)
