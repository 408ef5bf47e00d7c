"""From the command to the first training step: `tfbench bench` against a plain `docker run` of the same.

python -m benchmarks.starting [--rounds N] [--workload NAME]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import typer

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


def main(rounds: int = 12, workload: str = "cifar100-mlp") -> None:
    """Print a Markdown table with the added seconds and their interval, from interleaved pairs."""
    starts = {"plain docker run": plain, "tfbench bench": ours}
    seconds: dict[str, list[float]] = {name: [] for name in starts}
    for number in range(rounds):
        for name in rotated(list(starts), number):
            seconds[name].append(starts[name](workload))
    added = estimate([b - a for a, b in zip(*seconds.values(), strict=True)], "s")
    assert added is not None
    rows = [(name, f"{median(values):.2f}") for name, values in seconds.items()]
    rows.append(("added by tfbench", f"{added.median:.2f} ({added.low:.2f} to {added.high:.2f})"))
    print(f"Start, {workload}, {rounds} interleaved pairs, command to first training step:\n")
    print("\n".join(markdown(("", "seconds, median"), rows)))


def ours(workload: str) -> float:
    """Start `tfbench bench`; return the seconds until the first training step."""
    runs = FOLDER / "ours"
    shutil.rmtree(runs, ignore_errors=True)
    command = [sys.executable, "-m", "harness", "bench", "--profile", "smoke"]
    command += ["--device", "cpu", "--workload", workload, "--variants", BASELINE, "--out", str(runs)]
    began_ns = _run(command)
    (events,) = runs.glob("*/trials/*/out/events.jsonl")
    return _first_step_s(events, began_ns)


def plain(workload: str) -> float:
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
    began_ns = _run([*command, job.container.image.reference, *job.container.command])
    return _first_step_s(out / "events.jsonl", began_ns)


def _run(command: Sequence[str]) -> int:
    began_ns = time.monotonic_ns()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return began_ns


def _first_step_s(events: Path, began_ns: int) -> float:
    first = next(phase for phase in read_log(events).phases if phase.name == FIRST_STEP)
    return (first.start_ns - began_ns) / 1e9


if __name__ == "__main__":
    typer.run(main)
