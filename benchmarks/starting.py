"""From the command to the first training step: `tfbench bench` against a plain `docker run` of the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.sampling import in_turn
from benchmarks.settings import Settings
from harness.analysis.stats import estimate
from harness.cli.app import paths
from harness.model.options import Options
from harness.progress import Silent
from harness.run.events import read_log
from harness.run.prepare import prepare
from harness.run.resolve import resolve
from workloads.protocol import BASELINE, FIRST_STEP


def measure(settings: Settings) -> Sequence[str]:
    """Return a Markdown table with the added seconds and their interval, from interleaved pairs."""
    plain, ours = pairs(partial(_plain, settings), partial(_ours, settings), settings.rounds)
    added = estimate([b - a for a, b in zip(plain, ours, strict=True)], "s")
    assert added is not None
    return (
        f"Start, {settings.workload}, {settings.rounds} interleaved pairs, command to first training step:",
        "",
        "| | seconds, median |",
        "|---|---|",
        f"| plain docker run | {median(plain):.2f} |",
        f"| tfbench bench | {median(ours):.2f} |",
        f"| added by tfbench | {added.median:.2f} ({added.low:.2f} to {added.high:.2f}) |",
    )


def pairs(
    one: Callable[[], float], other: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Call both in each round, taking turns at being first, and return what each gave, round by round."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for call, values in in_turn(((one, found[0]), (other, found[1])), number):
            values.append(call())
    return found


def _first_step_s(events: Path, began_ns: int) -> float:
    phases = [phase for phase in read_log(events).phases if phase.name == FIRST_STEP]
    if not phases:
        raise RuntimeError(f"no training step in {events}")
    return (phases[0].start_ns - began_ns) / 1e9


def _options(settings: Settings, out: Path) -> Options:
    return Options(
        profile="smoke",
        engine="docker",
        device="cpu",
        workloads=(settings.workload,),
        images=settings.images,
        variants=BASELINE,
        out=out,
    )


def _ours(settings: Settings) -> float:
    runs = settings.work / "start"
    shutil.rmtree(runs, ignore_errors=True)
    options = _options(settings, runs)
    command = [sys.executable, "-m", "harness", "bench", "--quiet", "--profile", options.profile]
    command += ["--engine", options.engine, "--device", options.device, "--workload", settings.workload]
    command += ["--variants", options.variants, "--out", str(runs)]
    for target, reference in settings.images.items():
        command += ["--image", f"{target}={reference}"]
    began_ns = time.monotonic_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (events,) = runs.glob("*/trials/*/out/events.jsonl")
    return _first_step_s(events, began_ns)


def _plain(settings: Settings) -> float:
    """Run the same driver, spec, data and image by the docker command line, without the harness."""
    out = (settings.work / "plain").absolute()
    shutil.rmtree(out, ignore_errors=True)
    plan = settings.work / "plan"
    prepared = prepare(resolve(_options(settings, plan)), paths(), Silent())
    prepared.engine.close()
    job = prepared.jobs[0]
    out.mkdir(parents=True)
    out.chmod(0o777)
    (out / "spec.json").write_text(json.dumps(asdict(job.spec)), encoding="utf-8")
    volumes: Mapping[str, str] = {
        f"{out}": "/tfbench/out",
        **{f"{mount.host}": f"{mount.container}:ro" for mount in job.container.mounts},
    }
    command = ["docker", "run", "--rm", "--network", "none"]
    for host, inside in volumes.items():
        command += ["--volume", f"{host}:{inside}"]
    for name, value in job.container.environment.items():
        command += ["--env", f"{name}={value}"]
    command += [job.container.image.reference, *job.container.command]
    shutil.rmtree(plan, ignore_errors=True)
    began_ns = time.monotonic_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _first_step_s(out / "events.jsonl", began_ns)
