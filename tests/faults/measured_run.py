"""A run of short trials in containers, as a process that tests can kill. Arguments: FOLDER IMAGE RUN-ID."""

import sys
from dataclasses import replace
from pathlib import Path

from harness.cli import stop_on_signals
from harness.cli.console import show_error
from harness.defaults import PROFILES
from harness.engines import OUT_DIR, WORKLOADS_DIR, Mount
from harness.engines.docker import DockerEngine
from harness.errors import TfbenchError
from harness.model.run import Run
from harness.options import Options
from harness.progress import Silent
from harness.run.plan import plan_trials
from harness.run.runner import Runner
from harness.run.store import RunFolder
from harness.telemetry.sampler import default_sources
from tests.builders import image, jobs, manifest, small_workload
from workloads.variants import BASELINE

ROOT = Path(__file__).resolve().parents[2]
WORKLOAD = small_workload("short")
PROFILE = replace(PROFILES["smoke"], trials=4, max_trials=4)
PLANNED = plan_trials((WORKLOAD,), ("cpu",), PROFILE, {WORKLOAD.name: (BASELINE,)}, {})
# Serves trials as the driver does.
SERVER = f"""
import time
from pathlib import Path
from workloads.protocol import NEXT, EventWriter
out, done = Path("{OUT_DIR}"), ""
while True:
    name = (out / NEXT).read_text() if (out / NEXT).exists() else ""
    if name == done:
        time.sleep(0.02)
        continue
    done = name
    with (out / name / "events.jsonl").open("a") as file:
        events = EventWriter(file)
        events.write("start")
        events.write("variant", variant="{BASELINE}", params={{}}, changes=[])
        for index in range(3):
            began = time.monotonic_ns()
            time.sleep(0.1)
            events.write("window", variant="{BASELINE}", index=index, start_ns=began, end_ns=time.monotonic_ns(),
                steps=1, samples=32, wait_ns=-1)
        events.write("end")
        events.write("exit", code=0)
"""


def main(path: Path, reference: str, run_id: str) -> None:
    with stop_on_signals():
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        engine = DockerEngine.connect()
        engine.remove_stale()
        folder = RunFolder(path)
        if not folder.exists():
            folder.create(Run(manifest=manifest(), workloads=(WORKLOAD,), planned=PLANNED, trials=()))
        mounts = (Mount(container=WORKLOADS_DIR, host=ROOT / "workloads"),)
        own = jobs(
            PLANNED, WORKLOAD, PROFILE, image=image(reference), command=("python3", "-c", SERVER), mounts=mounts,
            environment={"PYTHONPATH": str(Path(WORKLOADS_DIR).parent)}, run_id=run_id,
        )  # fmt: skip
        runner = Runner(
            engine=engine, folder=folder, options=Options(), profile=PROFILE, sources=default_sources,
            progress=Silent(),
        )  # fmt: skip
        try:
            runner.run(own)
        finally:
            engine.close()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *sys.argv[2:])
    except TfbenchError as error:
        show_error(error)
        sys.exit(error.exit_code)
