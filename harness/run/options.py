"""`tfbench bench` without its command line: from options to a finished run folder.

options -> entries, devices -> engine -> images, data -> manifest -> runner -> run folder
"""

from __future__ import annotations

import datetime
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import cattrs
import psutil

from harness.cpuset import processors
from harness.data.datasets import MODES
from harness.data.weights import check_weights
from harness.engines.gpu import select_gpus
from harness.errors import GpuError, UsageError
from harness.model.run import Gpu, Manifest, PlannedTrial, target_for
from harness.rounding import counted
from harness.run.catalogue import Entry, built_in, external, select
from harness.run.params import check_axes, check_params
from harness.run.plan import (
    Profile,
    device_words,
    devices_named,
    grid,
    plan_trials,
    profile_named,
    variants_named,
)
from harness.run.prices import read_prices
from harness.system.gpus import discover


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for; see `tfbench bench --help` for each.

    Attributes:
        images: target ("cpu", "cuda") -> reference of an image of the user's own.
        gpus: indices, UUIDs or MIG UUIDs, comma-separated, or "all".
        axes: of a sweep: parameter -> its values, as texts; empty for a plain run.
        interval_s: sampling period in seconds, 0 for none.
        price: as harness.run.prices reads it, "" for none.
        cloud_metadata: ask the cloud's metadata service what this machine is, where the firmware names one.
        cpus: cpuset syntax; memory_bytes, cpu_quota: limits of each container, None for the default.
    """

    profile: str = "quick"
    engine: str = "auto"
    device: str = "auto"
    gpus: str = "0"
    workloads: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    images: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    variants: str = ""
    analysis: bool = True
    params: Mapping[str, str] = field(default_factory=dict)
    trials: int | None = None
    out: Path = Path("runs")
    data: str = "auto"
    weights: Path | None = None
    interval_s: float = 0.1
    cpus: str = ""
    cpu_quota: float | None = None
    memory_bytes: int | None = None
    stall_s: float | None = None
    seed: int = 1
    price: str = ""
    cloud_metadata: bool = True
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """Options held against the catalogue and the machine: what will be run."""

    options: Options
    profile: Profile
    entries: tuple[Entry, ...]
    gpus: tuple[Gpu, ...]
    planned: tuple[PlannedTrial, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The image targets that the planned trials need."""
        return tuple(dict.fromkeys(self.target(trial) for trial in self.planned))

    def target(self, trial: PlannedTrial) -> str:
        """Return the image target that a planned trial runs in."""
        return target_for(self.entry(trial.workload).workload.image, gpu=bool(trial.gpus))

    def entry(self, name: str) -> Entry:
        """Return the entry of a planned workload."""
        return next(entry for entry in self.entries if entry.workload.name == name)


def resolve(options: Options) -> Resolved:
    """Hold the options against the catalogue and this machine's GPUs.

    Raises:
        UsageError: an unknown profile, workload, device, variant, parameter, CPU or data mode, or no usable
            price.
        GpuError: a GPU was asked for by name and none can be used.
    """
    if options.data not in MODES:
        raise UsageError(f"There is no data mode {options.data!r}.", hint=f"Choose from: {', '.join(MODES)}.")
    if options.price:
        read_prices(options.price)
    _check_cpus(options.cpus)
    profile = _profile(options)
    entries = entries_of(options)
    gpus = _gpus(options)
    devices = devices_named(options.device, len(gpus))
    workloads = tuple(entry.workload for entry in entries)
    check_weights(options.weights, workloads)
    params = check_params(options.params, workloads)
    axes = check_axes(options.axes, workloads)
    for name in axes:
        if name in params:
            raise UsageError(f"{name} is both swept and set by --param.", hint="Leave one of the two away.")
    planned = plan_trials(
        workloads,
        devices,
        profile,
        variants_named(options.variants, profile, options.analysis, workloads),
        params,
        grid(axes),
    )
    if not planned:
        raise UsageError("Nothing to run.", hint="Name a workload and a device; see `tfbench list`.")
    return Resolved(options=options, profile=profile, entries=entries, gpus=tuple(gpus), planned=planned)


def _check_cpus(text: str) -> None:
    """Make sure that --cpus names CPUs of this machine, before anything is built."""
    count = psutil.cpu_count() or 1
    named = processors(text)
    if text and (not named or max(named) >= count):
        raise UsageError(
            f"--cpus {text} does not name CPUs of this machine.",
            hint=f"It has {counted(count, 'processor')}, from 0 on: write --cpus 0-{count - 1} or --cpus 0.",
        )


def _gpus(options: Options) -> tuple[Gpu, ...]:
    """Return the chosen GPUs; none when none is asked for, so that a CPU run needs no driver at all."""
    words = device_words(options.device)
    if set(words) <= {"cpu"}:
        return ()
    found, reason = discover()
    if found:
        return select_gpus(found, options.gpus)
    if set(words) <= {"auto", "cpu"}:
        return ()
    raise GpuError(
        f"Device {options.device!r} was asked for and no GPU can be used: {reason.rstrip('.')}.",
        hint="Run `tfbench doctor` to see what is missing, or choose --device cpu.",
    )


def _profile(options: Options) -> Profile:
    profile = profile_named(options.profile)
    changed: dict[str, Any] = asdict(profile)
    if options.trials is not None:
        if options.trials < 1:
            raise UsageError(f"{options.trials} trials cannot be run.", hint="Give --trials 1 or more.")
        changed |= {"trials": options.trials, "max_trials": options.trials}
    if options.stall_s is not None:
        changed["stall_s"] = options.stall_s
    return Profile(**changed)


def entries_of(options: Options) -> tuple[Entry, ...]:
    """Return the workloads that were asked for, the user's own among them.

    Raises:
        UsageError: one does not exist, or is called like another.
    """
    own = tuple(entry for path in options.files for entry in external(path))
    known = built_in()
    taken = {entry.workload.name for entry in known}
    for entry in own:
        if entry.workload.name in taken:
            raise UsageError(
                f"{entry.path} declares {entry.workload.name!r}, which there is already.",
                hint="Give the workload in your file another name.",
            )
        taken.add(entry.workload.name)
    if own and not options.workloads:
        return own
    chosen = select(known + own, options.workloads)
    return (*chosen, *(entry for entry in own if entry not in chosen))


def new_run_id(now: datetime.datetime) -> str:
    """Return a run's folder name: it sorts by time and does not collide."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def commit_of(checkout: Path) -> str:
    """Return the checkout's commit, with "-dirty" when files differ from it; "" outside a repository."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def options_document(options: Options) -> dict[str, Any]:
    """Return options as JSON-serialisable values, from which read_options makes them again."""
    converter = cattrs.Converter()
    converter.register_unstructure_hook(Path, str)
    document: dict[str, Any] = converter.unstructure(options)
    return document


def read_options(document: Mapping[str, Any]) -> Options:
    """Return the options that options_document was made of."""
    converter = cattrs.Converter()
    converter.register_structure_hook(Path, lambda value, _: Path(value))
    return converter.structure(document, Options)


def recorded_profile(profile: Profile, manifest: Manifest) -> Profile:
    """Return a profile with the settings that a run had: those that tfbench still knows."""
    recorded = manifest.parameters.get("settings")
    known = {each.name for each in fields(Profile)}
    settings = {name: value for name, value in dict(recorded or {}).items() if name in known}
    if "variants" in settings:
        settings["variants"] = tuple(settings["variants"])
    return replace(profile, **settings)
