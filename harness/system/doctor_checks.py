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
from harness.engines.gpu import check_driver, choose_access
from harness.errors import TfbenchError
from harness.images.builder import ImageBuilder
from harness.images.recipes import TARGETS
from harness.model.run import EngineInfo, Gpu
from harness.paths import Paths
from harness.progress import Progress, Silent
from harness.system.disk_space import Disk, needs
from harness.system.file_locks import default_path, measuring
from harness.system.gpu_proof import prove_gpu
from harness.system.gpus import discover
from harness.system.hardware import text
from harness.system.machine import disk_of
from harness.telemetry import Target
from harness.telemetry.sources import default_sources

GIB = 2**30


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at: `remedy` is "" where nothing needs doing."""

    name: str
    state: State
    fact: str
    remedy: str = ""


# What these read is a trial's own, and there is none yet.
_OF_A_TRIAL = ("cgroup", "process")
_CONTAINERS = Check(name="Telemetry cgroup", state=State.OK, fact="of each running container")


def examine(paths: Paths, environ: Mapping[str, str], progress: Progress) -> tuple[Check, ...]:
    """Look at everything that a run depends on; each check stands for itself and none raises."""
    engine = DockerEngine(environ)
    engine_check, info = _engine(engine)
    result, reason = discover()
    images_check, built = _images(engine, info, paths)
    folder = engine.daemon.image_folder if info is not None else ""
    images = disk_of(Path(folder)) if folder else None
    checks = [_python(), _cpus(), _memory()]
    to_build = [target for target in ("cpu", "cuda")[: 2 if result else 1] if target not in built]
    checks += disk_checks(disk_of(paths.cache), images, to_build, engine=info is not None)
    checks += [engine_check, images_check]
    checks += _gpus(result, reason, engine, info, paths, progress)
    checks += _telemetry(result, contained=info is not None)
    checks.append(_exclusive())
    return tuple(checks)


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    local = sys.version_info[:2] <= (3, 13)
    return Check(
        name="Python",
        state=State.OK if local else State.NOTE,
        fact=f"{version} runs the harness",
        remedy="" if local else "The local engine needs Python 3.11 to 3.13: make PYTHON=python3.13 bench",
    )


def _cpus() -> Check:
    usable = len(os.sched_getaffinity(0))
    governor = text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
    slow = governor not in ("", "performance")
    return Check(
        name="CPUs",
        state=State.NOTE if slow else State.OK,
        fact=f"{usable} usable, load {os.getloadavg()[0]:.1f}"
        + (f", governor {governor}" if governor else ""),
        remedy="For stable results: cpupower frequency-set -g performance" if slow else "",
    )


def _memory() -> Check:
    memory = psutil.virtual_memory()
    short = memory.available < 4 * GIB
    return Check(
        name="Memory",
        state=State.NOTE if short else State.OK,
        fact=f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB available",
        remedy="The published MLPs need about 4 GiB; stop other programs." if short else "",
    )


def disk_checks(
    cache: Disk, images: Disk | None, to_build: Sequence[str], *, engine: bool
) -> tuple[Check, ...]:
    """Check that each disk has room for what is still to be built.

    Args:
        cache: where the cache is.
        images: where the engine keeps images; None without one, and where its disk cannot be asked.
        to_build: targets whose image is not there.
        engine: whether a container engine answers.
    """
    checks = []
    for need in needs(cache, images, to_build, engine=engine):
        folders = dict.fromkeys(
            disk.folder for disk in (cache, images) if disk and disk.device == need.disk.device
        )
        remedy = (
            f"{need.size_bytes / GIB:.1f} GiB are needed for {' and '.join(need.what)}. "
            f"Free some, or {need.remedy}."
        )
        checks.append(
            Check(
                name="Disk",
                state=State.OK if need.met else State.FAIL,
                fact=f"{need.disk.free_bytes / GIB:.1f} GiB free under {' and '.join(folders)}",
                remedy="" if need.met else remedy,
            )
        )
    return tuple(checks)


def _engine(engine: DockerEngine) -> tuple[Check, EngineInfo | None]:
    try:
        info = engine.connect()
    except TfbenchError as error:
        fact = f"none answers, so workloads would run without isolation: {error.message}"
        return Check(name="Engine", state=State.NOTE, fact=fact, remedy=error.hint), None
    fact = f"{info.name} {info.version}, cgroup v{info.cgroup_version}" + (
        ", rootless" if info.rootless else ""
    )
    return Check(name="Engine", state=State.OK, fact=fact), info


def _images(engine: DockerEngine, info: EngineInfo | None, paths: Paths) -> tuple[Check, tuple[str, ...]]:
    """Return the check, and the targets whose image is there."""
    if info is None:
        return Check(name="Images", state=State.NOTE, fact="unknown without an engine"), ()
    try:
        builder = ImageBuilder(paths.checkout, paths.cache, engine.client, Silent())
        have = {target: builder.existing(target) for target in TARGETS}
    except TfbenchError as error:
        return Check(name="Images", state=State.FAIL, fact=error.message, remedy=error.hint), ()
    facts = [f"{target}: {image.reference if image else 'not built yet'}" for target, image in have.items()]
    remedy = "" if all(have.values()) else "The first `make bench` builds what it needs; or: make images"
    check = Check(name="Images", state=State.OK, fact="; ".join(facts), remedy=remedy)
    return check, tuple(target for target, image in have.items() if image)


def _gpus(
    gpus: Sequence[Gpu],
    reason: str,
    engine: DockerEngine,
    info: EngineInfo | None,
    paths: Paths,
    progress: Progress,
) -> list[Check]:
    if not gpus:
        return [Check(name="GPU", state=State.NOTE, fact=f"none: {reason}", remedy="CPU runs need none.")]
    checks = [
        Check(
            name=f"GPU {gpu.index}",
            state=State.OK,
            fact=f"{gpu.name}, driver {gpu.driver_version} (CUDA {gpu.cuda_version}), {gpu.uuid}",
        )
        for gpu in gpus
    ]
    checks.append(_checked("Driver", lambda: _driver(gpus)))
    if info is not None:
        checks.append(_checked("GPU access", lambda: _access(gpus, engine, info, paths, progress)))
    return checks


def _driver(gpus: Sequence[Gpu]) -> str:
    return " ".join(("supported by the CUDA 12 image", *check_driver(gpus)))


def _access(
    gpus: Sequence[Gpu], engine: DockerEngine, info: EngineInfo, paths: Paths, progress: Progress
) -> str:
    access = choose_access(info, gpus[:1])
    image = ImageBuilder(paths.checkout, paths.cache, engine.client, progress).ensure("cuda")
    proof = prove_gpu(engine, image, access)
    return f"by {access.kind}; tested in the CUDA image: {proof}"


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name=name, state=State.OK, fact=look())
    except TfbenchError as error:
        return Check(name=name, state=State.FAIL, fact=error.message, remedy=error.hint)


def _telemetry(gpus: Sequence[Gpu], *, contained: bool) -> list[Check]:
    gaps: dict[str, dict[str, str]] = {}
    readable: dict[str, bool] = {}

    def note(source: str, device: str, metric: str, reason: str) -> None:
        gaps.setdefault(source, {}).setdefault(reason, metric)

    target = Target(pid=os.getpid(), gpus={f"gpu{gpu.index}": gpu.mig_uuid or gpu.uuid for gpu in gpus})
    for source in default_sources():
        if contained and source.name in _OF_A_TRIAL:
            continue
        columns = source.start(target, note)
        list(source.read())
        source.stop()
        readable[source.name] = any(columns.values())
    # Only one of these two is read in a trial: the cgroup of a container, or else the process itself.
    readable.pop("process" if readable.get("cgroup") else "", None)
    checks = [_source(name, there, gaps.get(name, {})) for name, there in readable.items()]
    return [_CONTAINERS, *checks] if contained else checks


def _source(name: str, there: bool, missing: Mapping[str, str]) -> Check:
    name = f"Telemetry {name}"
    if not there and not missing:
        return Check(name=name, state=State.NOTE, fact="nothing here to read")
    fact = "; ".join(f"{metric}: {why}" for why, metric in missing.items())
    return Check(name=name, state=State.NOTE if missing else State.OK, fact=fact or "readable")


def _exclusive() -> Check:
    try:
        with measuring(default_path()):
            return Check(name="Other runs", state=State.OK, fact="none on this machine")
    except TfbenchError as error:
        return Check(name="Other runs", state=State.NOTE, fact=error.message, remedy=error.hint)
