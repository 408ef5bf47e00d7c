"""The checks of `tfbench doctor`: what this host can run, remedies, and a test of its devices."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

import workloads
from harness.engines import OUT_DIR, WORKLOADS_DIR, ContainerSpec, Engine, Exit, GpuAccess, Mount
from harness.engines.docker import DockerEngine
from harness.engines.gpu_access import choose_access
from harness.errors import BusyError, EngineError, GpuError, TfbenchError
from harness.images.builder import ImageBuilder
from harness.images.recipes import TARGETS
from harness.model.device import of_gpus
from harness.model.platform import Gpu, ImageInfo, Level
from harness.paths import Paths, nearest_existing, require_writable
from harness.progress import Progress
from harness.system.gpus import check_driver, discover, reported
from harness.system.machine import GIB, cpu_governor
from harness.system.shared_files import default_path, measuring
from harness.telemetry import Source, Target
from harness.telemetry.sampler import default_sources
from workloads.protocol import CPU_CAPABILITIES, GPU_CAPABILITIES, RATE, Spec, read_events

RUN_BYTES = GIB // 4  # a run folder of the quick profile
# Target -> space in the cache, mostly for wheels, and for its image during the build.
SIZES: Mapping[str, tuple[int, int]] = {"cpu": (GIB, 3 * GIB), "cuda": (4 * GIB, 13 * GIB)}
LIMIT_S, _POLL_S = 300.0, 0.05
# Short: a test need not be exact.
_WINDOW_S = 0.6


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """The result of one check; `remedy` is "" if there is nothing to do.

    Attributes:
        rates: what the device `gpu`, or the CPU, could do: capability -> rate.
    """

    name: str
    level: Level
    fact: str
    remedy: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    gpu: Gpu | None = None


def examine(paths: Paths, environ: Mapping[str, str], progress: Progress) -> Iterator[DoctorCheck]:
    """Check everything that runs depend on."""
    yield from _host_checks()
    yield _check("Cache", lambda: str(require_writable(paths.cache)))
    gpus, no_gpu = discover()
    for gpu in gpus:
        fact = f"{gpu.name}, driver {gpu.driver_version} (CUDA {gpu.cuda_version}), {gpu.uuid}"
        yield DoctorCheck(f"GPU {gpu.index}", Level.OK, fact)
    yield from new_gpu_checks(gpus)
    if gpus:
        yield _check("Driver", lambda: " ".join(("supported by the CUDA 12 image", *check_driver(gpus))))
    else:
        yield DoctorCheck("GPU", Level.ATTENTION, f"none: {no_gpu}", "Not needed for CPU runs.")
    needed = ("cpu", "cuda") if gpus else ("cpu",)
    try:
        engine = DockerEngine.connect(environ)
    except TfbenchError as error:
        isolated = False
        fact = f"none, so workloads would run without isolation: {error.message}"
        yield DoctorCheck("Engine", Level.ATTENTION, fact, error.hint)
        yield from disk_checks(paths.cache, None, needed)
    else:
        isolated, info = True, engine.info
        rootless = ", rootless" if info.rootless else ""
        fact = f"{info.name} {info.version}, cgroup v{info.cgroup_version}{rootless}"
        yield DoctorCheck("Engine", Level.OK, fact)
        builder = ImageBuilder(paths.checkout, paths.cache, engine.client, progress)
        images = {target: builder.existing(target) for target in TARGETS}
        built = (f"{name}: {image.reference if image else 'not built yet'}" for name, image in images.items())
        remedy = (
            "" if all(images.values()) else "Run `make images`; `make bench` also builds the images it needs."
        )
        yield DoctorCheck("Images", Level.OK, "; ".join(built), remedy)
        to_build = [target for target in needed if not images[target]]
        yield from disk_checks(paths.cache, engine.daemon.image_folder, to_build)
        if gpus:
            yield from device_check("GPU access", gpus[0], engine, lambda: builder.ensure("cuda"))
        if cpu := images["cpu"]:
            yield from device_check("CPU speed", None, engine, lambda: cpu)
    yield from _telemetry(gpus, isolated=isolated)
    yield _check("Other runs", _no_other_run, Level.ATTENTION)


def new_gpu_checks(gpus: Sequence[Gpu]) -> Iterator[DoctorCheck]:
    """Yield what is reported of TensorFlow on GPUs that are newer than it, once for each compute capability."""
    for text in dict.fromkeys(filter(None, map(reported, gpus))):
        remedy = "If the test below fails, use an image built for this GPU with --image cuda=REF."
        yield DoctorCheck("TensorFlow on this GPU", Level.ATTENTION, text, remedy)


def _host_checks() -> Iterator[DoctorCheck]:
    governor = cpu_governor()
    unstable = governor not in ("", "performance")
    cpus = f"{len(os.sched_getaffinity(0))} usable, load {os.getloadavg()[0]:.1f}"
    remedy = "For stable results: cpupower frequency-set -g performance"
    yield _note_or_ok(
        "CPUs", f"{cpus}, governor {governor}" if governor else cpus, remedy if unstable else ""
    )
    memory = psutil.virtual_memory()
    remedy = "The published MLPs need about 4 GiB; stop other programs."
    fact = f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB available"
    yield _note_or_ok("Memory", fact, remedy if memory.available < 4 * GIB else "")


def _note_or_ok(name: str, fact: str, remedy: str) -> DoctorCheck:
    return DoctorCheck(name, Level.ATTENTION if remedy else Level.OK, fact, remedy)


def disk_checks(cache: Path, images: Path | None, to_build: Sequence[str]) -> Iterator[DoctorCheck]:
    """Check that there is space for a run and for building the images `to_build`.

    Args:
        cache: folder of wheels, data and the local engine's environments.
        images: the engine's image folder; None without an engine.
    """
    wheels, image = (sum(SIZES[target][part] for target in to_build) for part in range(2))
    in_cache = RUN_BYTES + wheels + (0 if images else image)
    yield _disk_check(cache, in_cache, "set TFBENCH_CACHE to a folder on another disk")
    if images and to_build:
        remedy = "move the engine's images elsewhere (data-root in /etc/docker/daemon.json)"
        yield _disk_check(images, image, remedy)


def _disk_check(folder: Path, needed: int, remedy: str) -> DoctorCheck:
    nearest = nearest_existing(folder)
    if not nearest.is_dir():
        return DoctorCheck("Disk", Level.FAIL, f"{nearest} is not a folder", f"Remove it, or {remedy}.")
    free = shutil.disk_usage(nearest).free
    fact = f"{free / GIB:.1f} GiB free under {folder}"
    if free >= needed:
        return DoctorCheck("Disk", Level.OK, fact)
    return DoctorCheck(
        "Disk", Level.FAIL, fact, f"{needed / GIB:.1f} GiB are needed. Free some space, or {remedy}."
    )


def _check(name: str, get_fact: Callable[[], str], failed: Level = Level.FAIL) -> DoctorCheck:
    """Return a check with the result or the error of `get_fact`."""
    try:
        return DoctorCheck(name, Level.OK, get_fact())
    except TfbenchError as error:
        return DoctorCheck(name, failed, error.message, error.hint)


def device_check(
    name: str, gpu: Gpu | None, engine: Engine, image: Callable[[], ImageInfo]
) -> Iterator[DoctorCheck]:
    """Check a GPU, or the CPU, by measuring with TensorFlow, unless a run measures."""
    try:
        access = choose_access(engine.info, (gpu,)) if gpu else None
        with measuring(default_path()):
            rates = prove_device(engine, image(), access, GPU_CAPABILITIES if gpu else CPU_CAPABILITIES)
    except BusyError as error:
        yield DoctorCheck(name, Level.ATTENTION, f"Not tested. {error.message}", error.hint)
    except TfbenchError as error:
        yield DoctorCheck(name, Level.FAIL, error.message, error.hint)
    else:
        fact = f"{access.kind}; tested in the CUDA image" if access else "tested in the CPU image"
        yield DoctorCheck(name, Level.OK, fact, rates=rates, gpu=gpu)


def _telemetry(gpus: Sequence[Gpu], *, isolated: bool) -> Iterator[DoctorCheck]:
    target = Target(pid=os.getpid(), gpus={of_gpus(gpu.index): gpu.cuda_id for gpu in gpus})
    # A container's cgroup does not exist yet; the local engine's trials have none.
    skipped = ("cgroup", "process") if isolated else ("cgroup",)
    for source in default_sources():
        if source.name not in skipped and (check := _telemetry_check(source, target)):
            yield check


def _telemetry_check(source: Source, target: Target) -> DoctorCheck | None:
    """Read a source once; return None if this machine has nothing for it to read."""
    gaps: dict[str, str] = {}

    def note(_device: str, metric: str, reason: str) -> None:
        gaps.setdefault(reason, metric)

    readable = any(source.start(target, note).values())
    list(source.read())
    source.stop()
    missing = "; ".join(f"{metric}: {reason}" for reason, metric in gaps.items())
    if not (missing or readable):
        return None
    level = Level.ATTENTION if missing else Level.OK
    return DoctorCheck(f"Telemetry {source.name}", level, missing or "readable")


def _no_other_run() -> str:
    with measuring(default_path()):
        return "none on this machine"


def prove_device(
    engine: Engine, image: ImageInfo, access: GpuAccess | None, names: Sequence[str]
) -> Mapping[str, float]:
    """Return the capabilities `names` of GPUs, or of the CPU without `access`; those it lacks are missing.

    Raises:
        GpuError: TensorFlow did not use the device; the message includes the end of the container's log.
    """
    gpus = len(access.uuids) if access else 0
    device = "gpu" if gpus else "cpu"
    spec = Spec(scripts={}, variants=tuple(names), device=device, gpus=gpus, window_s=_WINDOW_S)
    environment = {"PYTHONPATH": str(Path(WORKLOADS_DIR).parent)}
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        out = Path(folder)
        (out / "spec.json").write_text(json.dumps(asdict(spec)), encoding="utf-8")
        files = (f"{OUT_DIR}/spec.json", f"{OUT_DIR}/events.jsonl")
        container = ContainerSpec(
            image=image,
            command=("python3", "-m", "workloads.driver", *files),
            environment=environment if gpus else {**environment, "CUDA_VISIBLE_DEVICES": "-1"},
            out=out,
            mounts=(Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),),
            trial_id="doctor",
            run_id="doctor",
            gpu=access,
        )
        exit_, log = run_to_end(engine, container, LIMIT_S)
        events = _events(out / "events.jsonl")
    if exit_.code != 0:
        errors = [str(event["message"]) for event in events if event["kind"] == "error"]
        text = next(iter(errors), "") or "\n".join(log.strip().splitlines()[-5:]) or "nothing"
        way = f" (GPU access: {access.kind})" if access else ""
        raise GpuError(
            f"TensorFlow failed on a device in the image {image.target}{way}: {text}",
            hint="Check the driver with nvidia-smi on the host, and that no other process uses the GPU."
            if access
            else "Run `make images`, and check that enough memory is free.",
        )
    rates = (event for event in events if event["kind"] == "metric" and event["name"] == RATE)
    return {event["variant"]: event["value"] for event in rates}


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            return list(read_events(file))
    except (OSError, ValueError):
        return []


def run_to_end(engine: Engine, spec: ContainerSpec, limit_s: float) -> tuple[Exit, str]:
    """Run a container to its end, remove it, and return its exit and log.

    Raises:
        EngineError: the engine failed, or the container did not end within `limit_s` seconds.
    """
    container = engine.start(spec)
    try:
        deadline = time.monotonic() + limit_s
        while (exit_ := container.poll()) is None:
            if time.monotonic() > deadline:
                raise EngineError(
                    f"{spec.trial_id} did not end within {limit_s:g} s.",
                    hint="Check the machine's load and the kernel log (dmesg).",
                )
            time.sleep(_POLL_S)
        return exit_, container.log()
    finally:
        container.remove()
