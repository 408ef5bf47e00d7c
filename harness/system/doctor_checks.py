"""What this host can and cannot do, as typed values: each a fact, and what to do about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from harness.engines.docker import DockerEngine
from harness.engines.gpu_access import choose_access
from harness.errors import TfbenchError
from harness.images.builder import ImageBuilder
from harness.images.recipes import TARGETS
from harness.model.platform import Gpu
from harness.paths import Paths
from harness.progress import Progress
from harness.system.driver import check_driver
from harness.system.file_locks import default_path, measuring
from harness.system.gpu_proof import prove_gpu
from harness.system.gpus import discover
from harness.system.machine import GIB, free_bytes, text
from harness.telemetry import Target
from harness.telemetry.sources import default_sources


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `remedy` is "" where nothing needs doing."""

    name: str
    state: State
    fact: str
    remedy: str = ""


RUN_BYTES = GIB // 4  # a run folder of the quick profile
# Of each target: what it takes in the cache, most of it wheels; the image while it is built.
SIZES: Mapping[str, tuple[int, int]] = {"cpu": (GIB, 3 * GIB), "cuda": (4 * GIB, 13 * GIB)}
# What these read is a trial's own, and there is none yet.
_OF_A_TRIAL = ("cgroup", "process")


def examine(paths: Paths, environ: Mapping[str, str], progress: Progress) -> tuple[Check, ...]:
    """Look at everything that a run depends on; each check stands for itself and none raises."""
    engine = DockerEngine(environ)
    gpus, no_gpu = discover()
    built: list[str] = []
    images = ""
    try:
        info = engine.connect()
    except TfbenchError as error:
        isolated = False
        without = f"none answers, so workloads would run without isolation: {error.message}"
        checks = [
            Check("Engine", State.NOTE, without, error.hint),
            Check("Images", State.NOTE, "unknown without an engine"),
        ]
    else:
        isolated = True
        rootless = ", rootless" if info.rootless else ""
        fact = f"{info.name} {info.version}, cgroup v{info.cgroup_version}{rootless}"
        builder = ImageBuilder(paths.checkout, paths.cache, engine.client, progress)
        checks = [Check("Engine", State.OK, fact), _checked("Images", lambda: _images(builder, built))]
        images = engine.daemon.image_folder
    checks += [Check(f"GPU {gpu.index}", State.OK, _described(gpu)) for gpu in gpus]
    if gpus:
        checks.append(_checked("Driver", lambda: _driver(gpus)))
    else:
        checks.append(Check("GPU", State.NOTE, f"none: {no_gpu}", "CPU runs need none."))
    if gpus and isolated:
        checks.append(_checked("GPU access", lambda: _access(gpus, engine, builder)))
    to_build = [target for target in ("cpu", "cuda")[: 2 if gpus else 1] if target not in built]
    return (
        *_host_checks(),
        *disk_checks(paths.cache, Path(images) if images else None, to_build, engine=isolated),
        *checks,
        *_telemetry(gpus, contained=isolated),
        _exclusive(),
    )


def _host_checks() -> tuple[Check, ...]:
    version = ".".join(map(str, sys.version_info[:3]))
    new = sys.version_info[:2] > (3, 13)
    governor = text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
    slow = governor not in ("", "performance")
    cpus = f"{len(os.sched_getaffinity(0))} usable, load {os.getloadavg()[0]:.1f}"
    memory = psutil.virtual_memory()
    short = memory.available < 4 * GIB
    return (
        _noted(
            "Python",
            f"{version} runs the harness",
            "The local engine needs Python 3.11 to 3.13: make PYTHON=python3.13 bench" if new else "",
        ),
        _noted(
            "CPUs",
            f"{cpus}, governor {governor}" if governor else cpus,
            "For stable results: cpupower frequency-set -g performance" if slow else "",
        ),
        _noted(
            "Memory",
            f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB available",
            "The published MLPs need about 4 GiB; stop other programs." if short else "",
        ),
    )


def _noted(name: str, fact: str, remedy: str) -> Check:
    return Check(name, State.NOTE if remedy else State.OK, fact, remedy)


def disk_checks(
    cache: Path, images: Path | None, to_build: Sequence[str], *, engine: bool
) -> tuple[Check, ...]:
    """Check that there is space for a run, and for what is still to be built.

    Args:
        cache: folder of wheels, data and the local engine's environments.
        images: where the engine keeps images; None without one, and where it does not say.
        to_build: targets whose image is not there.
        engine: whether a container engine answers; the local one makes environments in the cache instead.
    """
    wheels, image = (sum(SIZES[target][part] for target in to_build) for part in range(2))
    needs = [
        (
            cache,
            RUN_BYTES + wheels + (0 if engine else image),
            "set TFBENCH_CACHE to a folder on another disk",
        )
    ]
    if images is not None and to_build:
        remedy = "move the engine's images elsewhere (Docker: data-root, Podman: graphroot)"
        needs.append((images, image, remedy))
    return tuple(_disk_check(*need) for need in needs)


def _disk_check(folder: Path, needed: int, remedy: str) -> Check:
    free = free_bytes(folder)
    fact = f"{free / GIB:.1f} GiB free under {folder}"
    if free >= needed:
        return Check("Disk", State.OK, fact)
    return Check("Disk", State.FAIL, fact, f"{needed / GIB:.1f} GiB are needed. Free some, or {remedy}.")


def _checked(name: str, look: Callable[[], tuple[str, str]]) -> Check:
    """Return the fact and the remedy that `look` gives as a check, or what it fails with."""
    try:
        return Check(name, State.OK, *look())
    except TfbenchError as error:
        return Check(name, State.FAIL, error.message, error.hint)


def _images(builder: ImageBuilder, built: list[str]) -> tuple[str, str]:
    """Look for the images, and add the targets that there are to `built`."""
    have = {target: builder.existing(target) for target in TARGETS}
    built += [target for target, image in have.items() if image]
    facts = [f"{target}: {image.reference if image else 'not built yet'}" for target, image in have.items()]
    remedy = "" if all(have.values()) else "The first `make bench` builds what it needs; or: make images"
    return "; ".join(facts), remedy


def _described(gpu: Gpu) -> str:
    return f"{gpu.name}, driver {gpu.driver_version} (CUDA {gpu.cuda_version}), {gpu.uuid}"


def _driver(gpus: Sequence[Gpu]) -> tuple[str, str]:
    return " ".join(("supported by the CUDA 12 image", *check_driver(gpus))), ""


def _access(gpus: Sequence[Gpu], engine: DockerEngine, builder: ImageBuilder) -> tuple[str, str]:
    access = choose_access(engine.daemon.info, gpus[:1])
    proof = prove_gpu(engine, builder.ensure("cuda"), access)
    return f"by {access.kind}; tested in the CUDA image: {proof}", ""


def _telemetry(gpus: Sequence[Gpu], *, contained: bool) -> list[Check]:
    target = Target(pid=os.getpid(), gpus={f"gpu{gpu.index}": gpu.cuda_id for gpu in gpus})
    checks = [Check("Telemetry cgroup", State.OK, "of each running container")] if contained else []
    separate = contained
    for source in default_sources():
        # Only one of these two is read in a trial: the cgroup of a container, or else the process itself.
        if source.name in _OF_A_TRIAL and separate:
            continue
        gaps: dict[str, str] = {}

        def note(device: str, metric: str, reason: str, gaps: dict[str, str] = gaps) -> None:
            gaps.setdefault(reason, metric)

        readable = any(source.start(target, note).values())
        list(source.read())
        source.stop()
        separate = separate or (source.name == "cgroup" and readable)
        missing = "; ".join(f"{metric}: {reason}" for reason, metric in gaps.items())
        if missing or readable:
            state = State.NOTE if missing else State.OK
            checks.append(Check(f"Telemetry {source.name}", state, missing or "readable"))
    return checks


def _exclusive() -> Check:
    try:
        with measuring(default_path()):
            return Check("Other runs", State.OK, "none on this machine")
    except TfbenchError as error:
        return Check("Other runs", State.NOTE, error.message, error.hint)
