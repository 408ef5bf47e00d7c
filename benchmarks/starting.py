"""From the command to the first training step: `tfbench bench` against a plain `docker run` of the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.sampling import rotated
from benchmarks.tables import markdown
from harness.analysis.stats import estimate
from harness.engines import OUT_DIR
from harness.model.options import Options
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.events import read_log
from harness.run.prepare import prepare
from harness.run.resolve import resolve
from workloads.protocol import BASELINE, FIRST_STEP

FOLDER = Path("build/overhead/start")


def measure(rounds: int, workload: str) -> Iterator[str]:
    """Yield a Markdown table with the added seconds and their interval, from interleaved pairs."""
    plain, ours = pairs(lambda: _plain(workload), lambda: _ours(workload), rounds)
    added = estimate([b - a for a, b in zip(plain, ours, strict=True)], "s")
    assert added is not None
    yield f"Start, {workload}, {rounds} interleaved pairs, command to first training step:"
    yield ""
    yield from markdown(
        ("", "seconds, median"),
        (
            ("plain docker run", f"{median(plain):.2f}"),
            ("tfbench bench", f"{median(ours):.2f}"),
            ("added by tfbench", f"{added.median:.2f} ({added.low:.2f} to {added.high:.2f})"),
        ),
    )


def pairs(
    one: Callable[[], float], other: Callable[[], float], rounds: int
) -> tuple[list[float], list[float]]:
    """Call both in each round, alternating which is first, and return what each gave, round by round."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for call, values in rotated(((one, found[0]), (other, found[1])), number):
            values.append(call())
    return found


def _first_step_s(events: Path, began_ns: int) -> float:
    phases = [phase for phase in read_log(events).phases if phase.name == FIRST_STEP]
    if not phases:
        raise RuntimeError(f"no training step in {events}")
    return (phases[0].start_ns - began_ns) / 1e9


def _ours(workload: str) -> float:
    runs = FOLDER / "ours"
    shutil.rmtree(runs, ignore_errors=True)
    command = [sys.executable, "-m", "harness", "bench", "--quiet", "--profile", "smoke"]
    command += ["--device", "cpu", "--workload", workload, "--variants", BASELINE, "--out", str(runs)]
    began_ns = time.monotonic_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (events,) = runs.glob("*/trials/*/out/events.jsonl")
    return _first_step_s(events, began_ns)


def _plain(workload: str) -> float:
    """Run the same driver, spec, data and image by the docker command line, without the harness."""
    out, plan = (FOLDER / "plain").absolute(), FOLDER / "plan"
    shutil.rmtree(out, ignore_errors=True)
    options = Options(profile="smoke", device="cpu", workloads=(workload,), variants=BASELINE, out=plan)
    prepared = prepare(resolve(options), paths_here(), Silent())
    prepared.engine.close()
    shutil.rmtree(plan, ignore_errors=True)
    job = prepared.jobs[0]
    out.mkdir(parents=True)
    out.chmod(0o777)
    (out / "spec.json").write_text(json.dumps(asdict(job.spec)), encoding="utf-8")
    command = ["docker", "run", "--rm", "--network", "none", "--volume", f"{out}:{OUT_DIR}"]
    for mount in job.container.mounts:
        command += ["--volume", f"{mount.host}:{mount.container}:ro"]
    for name, value in job.container.environment.items():
        command += ["--env", f"{name}={value}"]
    command += [job.container.image.reference, *job.container.command]
    began_ns = time.monotonic_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _first_step_s(out / "events.jsonl", began_ns)
