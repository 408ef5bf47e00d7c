"""Take the scripts out of a finished report, run them bare in its image, and compare their speeds with the page.

    python -m benchmarks.page_scripts runs/<id>/report.html --device gpu0

Each difference is applied to the published script with `patch`. The scripts run without tfbench: a callback that is
written here times the steps of fit. Prints bare speed over the page's speed for each script; use quiet cores.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import typer

from benchmarks.tables import markdown
from harness.analysis import analyse
from harness.engines import ContainerSpec, Mount
from harness.engines.docker import DockerEngine
from harness.engines.gpu_access import choose_access
from harness.model.device import device_kind, is_gpu, positions
from harness.model.run import Run
from harness.paths import paths_here
from harness.run.recording import open_run
from harness.run.scripts import script_text
from harness.system.shared_files import Content
from workloads.cells import NOTEBOOK
from workloads.variants import BASELINE

# How long the script's fit is warmed up, and then measured.
SECONDS = 4.0
# Prints the samples per second of the script's fit.
CLOCK = """
import inspect, runpy, sys, time
import keras, numpy as np, tensorflow as tf
WARM_UP_S = MEASURE_S = {seconds}
for name in {datasets!r}:
    arrays = [np.load(f"/data/{{name}}/{{part}}.npy") for part in ("x_train", "y_train", "x_test", "y_test")]
    if name.startswith("cifar"):
        arrays[1], arrays[3] = arrays[1][:, None], arrays[3][:, None]
    served = ((arrays[0], arrays[1]), (arrays[2], arrays[3]))
    getattr(keras.datasets, name.replace("-", "_")).load_data = lambda *a, served=served, **k: served
class Clock(keras.callbacks.Callback):
    began = first = last = None
    def on_train_batch_begin(self, batch, logs=None):
        now = time.perf_counter()
        self.began = self.began or now
        if now - self.began < WARM_UP_S:
            return
        if self.first is None:
            self.first, self.counted = now, -1
        self.counted += 1
        if now - self.first > MEASURE_S:
            tf.test.experimental.sync_devices()
            rows = int(self.model.clocked_rows)
            print("\\nSPEED", rows * self.counted * self.model.steps_per_execution / (time.perf_counter() - self.first))
            sys.stdout.flush()
            import os
            os._exit(0)
    def on_epoch_end(self, epoch, logs=None):
        if not epoch:  # Keras traces a shorter last call
            self.first = None
fit = keras.Model.fit
def timed(*args, **named):
    more = inspect.signature(fit).bind(*args, **named).arguments
    model, x = more["self"], more.get("x")
    if isinstance(x, tf.data.Dataset):
        rows = tf.nest.flatten(next(iter(x)))[0].shape[0]
    elif isinstance(x, keras.utils.PyDataset):
        rows = len(tf.nest.flatten(x[0])[0])
    else:
        rows = more.get("batch_size") or 32
    object.__setattr__(model, "clocked_rows", rows)
    more["callbacks"] = [*(more.get("callbacks") or []), Clock()]
    more["epochs"] = 10**6
    return fit(**more)
keras.Model.fit = timed
sys.path.insert(0, "/work")
sys.argv = ["/work/script.py"]
runpy.run_path("/work/script.py", run_name="__main__")
"""


def scripts_of(run: Run, workload: str, device: str) -> Iterator[tuple[str, str]]:
    """Yield the variants of a workload and their scripts, with the page's differences applied by `patch`.

    Raises:
        subprocess.CalledProcessError: a difference does not apply.
    """
    declared = next(each for each in run.workloads if each.name == workload)
    places = {data.constant: f"/data/{data.name}" for data in declared.datasets if data.constant}
    trial = next(each for each in run.planned if (each.workload, each.device) == (workload, device))
    _, baseline = script_text(declared, BASELINE, device_kind(device), {**places, **trial.params})
    yield BASELINE, baseline
    trials = (each for each in run.trials if (each.workload, each.device) == (workload, device))
    for ran in (script for each in trials for script in each.scripts):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "script.py")
            path.write_text(baseline, encoding="utf-8")
            diff = ran.diff
            for place in places.values():  # the folders of data in this container
                diff = diff.replace(f"/tfbench{place}", place)
            subprocess.run(["patch", "--quiet", str(path)], input=diff, text=True, check=True)
            yield ran.variant, path.read_text(encoding="utf-8")


def bare_speed(
    engine: DockerEngine,
    container: ContainerSpec,
    script: str,
    files: Mapping[str, str],
    data: Mapping[str, Path],
    seconds: float = SECONDS,
) -> float | None:
    """Run a script in a container without tfbench; return its samples per second, None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        datasets = [name for name in data if (data[name] / "x_train.npy").exists()]
        wrapper = CLOCK.format(datasets=datasets, seconds=seconds)
        for name, text in {**files, "script.py": script, "clock.py": wrapper}.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        mounts = (
            Mount(container="/work", host=Path(folder)),
            *(Mount(container=f"/data/{name}", host=path) for name, path in data.items()),
        )
        (out := Path(folder, "out")).mkdir()
        running = engine.start(replace(container, mounts=mounts, out=out))
        try:
            while running.poll() is None:
                time.sleep(0.2)
            output = running.log()
        finally:
            running.remove()
    speeds = [line.split()[1] for line in output.splitlines() if line.startswith("SPEED")]
    if not speeds:
        sys.stderr.write(output[-2000:])
    return float(speeds[-1]) if speeds else None


def container_for(engine: DockerEngine, run: Run, device: str) -> ContainerSpec:
    """Return the container of bare scripts on a device, with the image of the run."""
    target = "cuda" if is_gpu(device) else "cpu"
    gpus = tuple(run.manifest.gpus[position] for position in positions(device))
    growth = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if gpus else {"CUDA_VISIBLE_DEVICES": "-1"}
    return ContainerSpec(
        image=next(each for each in run.manifest.images if each.target == target), environment=growth,
        command=("python3", "/work/clock.py"), out=Path(), mounts=(), trial_id="bare", run_id="bare",
        gpu=choose_access(engine.info, gpus) if gpus else None,
    )  # fmt: skip


def data_folders(run: Run) -> dict[str, Path]:
    """Return the cached folder of each data set of a run, found by its content's hash."""
    folders: dict[str, Path] = {}
    for record in (paths_here().cache / "data").glob("*/.content"):
        with suppress(msgspec.ValidationError):  # of another version
            found = msgspec.json.decode(record.read_bytes(), type=Content).sha256
            folders |= {data.name: record.parent for data in run.manifest.data if data.sha256 == found}
    return folders


def main(report: Path, device: str = "cpu") -> None:
    """Print the ratios."""
    heads = ("workload", "variant", "page, samples/s", "bare, samples/s", "bare / page")
    with closing(DockerEngine.connect()) as engine:
        for line in markdown(heads, _rows(engine, open_run(report), device)):
            print(line, flush=True)


def _rows(engine: DockerEngine, run: Run, device: str) -> Iterator[tuple[str, ...]]:
    analysis, folders, container = analyse(run), data_folders(run), container_for(engine, run, device)
    for workload in run.workloads:
        if workload.file.endswith(NOTEBOOK):
            continue  # its differences are those of cells
        data = {each.name: folders[each.name] for each in workload.datasets}
        cases = (case for case in analysis.cases_of(workload.name) if case.device == device)
        results = next((case.variants for case in cases), {})
        for variant, script in scripts_of(run, workload.name, device):
            speed = bare_speed(engine, container, script, workload.components, data)
            shown = results[variant].throughput.median if variant in results else None
            ratio = f"{speed / shown:.2f}" if speed and shown else "failed"
            yield workload.name, variant, f"{shown or 0:,.0f}", f"{speed or 0:,.0f}", ratio


if __name__ == "__main__":
    typer.run(main)
