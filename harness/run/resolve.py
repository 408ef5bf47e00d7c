"""Options held against the catalogue and this machine: what will be run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import psutil

from harness.cpuset import cpu_numbers
from harness.data.datasets import MODES
from harness.data.weights import check_weights
from harness.defaults import (
    MOST_CPUS,
    MOST_MEMORY_GIB,
    MOST_PLANNED,
    MOST_RATE_HZ,
    MOST_SEED,
    MOST_STALL_S,
    MOST_TRIALS,
    PROFILES,
    Profile,
)
from harness.errors import GpuError, UsageError, unknown
from harness.images.recipes import TARGETS
from harness.model.options import Options
from harness.model.platform import Gpu, target_for
from harness.model.run import PlannedTrial
from harness.run.catalogue import Entry, built_in, external, select
from harness.run.params import check_params
from harness.run.plan import (
    device_words,
    devices_named,
    grid,
    plan_trials,
    variants_named,
)
from harness.run.prices import read_prices
from harness.system.gpus import discover, select_gpus
from harness.wording import counted
from workloads.protocol import BASELINE, Workload


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

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """What the entries declare."""
        return tuple(entry.workload for entry in self.entries)

    def entry(self, name: str) -> Entry:
        """Return the entry of a planned workload."""
        return next(entry for entry in self.entries if entry.workload.name == name)


def resolve(options: Options) -> Resolved:
    """Hold the options against the catalogue and this machine's GPUs.

    Raises:
        UsageError: an unknown profile, workload, device, variant, parameter, CPU, image target or data mode, or
            no usable price.
        GpuError: a GPU was asked for by name and none can be used.
    """
    if options.data not in MODES:
        raise unknown("data mode", options.data, MODES)
    for target in options.images:
        if target not in TARGETS:
            raise unknown("image target", target, TARGETS)
    if options.price:
        read_prices(options.price)
    _check_numbers(options)
    _check_cpus(options.cpus)
    profile = _profile(options)
    entries = entries_of(options)
    gpus = _gpus(options)
    devices = devices_named(options.device, len(gpus))
    workloads = tuple(entry.workload for entry in entries)
    check_weights(options.weights, workloads)
    params = check_params(options.fixed_params, workloads)
    axes = {
        name: tuple(dict.fromkeys(check_params({name: text}, workloads)[name] for text in texts))
        for name, texts in options.axes.items()
    }
    if axes and len(workloads) > 1:
        raise UsageError(
            "A parameter with several values needs exactly one workload.",
            hint="Name it, for example: --workload cifar100-mlp --param batch_size=32,64,128",
        )
    points = math.prod(len(values) for values in axes.values())
    if points * len(workloads) * len(devices) * profile.max_trials > MOST_PLANNED:
        raise UsageError(
            f"That is more than {MOST_PLANNED} trials.",
            hint="Give fewer values to --param, or fewer --trials.",
        )
    planned = plan_trials(
        workloads,
        devices,
        profile,
        # A sweep looks for the fastest baseline unless other variants are asked for.
        variants_named(options.variants or (BASELINE if axes else ""), options.analysis, workloads),
        params,
        grid(axes),
    )
    if not planned:
        raise UsageError("Nothing to run.", hint="Name a workload and a device; see `tfbench list`.")
    return Resolved(options=options, profile=profile, entries=entries, gpus=tuple(gpus), planned=planned)


def _check_numbers(options: Options) -> None:
    """Make sure that numbers lie where they mean something, wherever the options come from."""
    for option, value, least, most in (
        ("--seed", options.seed, 0, MOST_SEED),
        ("--trials", options.trials, 1, MOST_TRIALS),
        ("--rate", options.rate_hz, 0, MOST_RATE_HZ),
        ("--stall", options.stall_s, 1, MOST_STALL_S),
        ("--cpu-quota", options.cpu_quota, 0.01, MOST_CPUS),
        ("--memory", options.memory_bytes, 0.1 * 2**30, MOST_MEMORY_GIB * 2**30),
    ):
        if value is not None and not least <= value <= most:
            unit = 2**30 if option == "--memory" else 1
            raise UsageError(
                f"{option} is out of range.",
                hint=f"Give it a value from {least / unit:.10g} to {most / unit:.10g}.",
            )


def _check_cpus(text: str) -> None:
    """Make sure that --cpus names CPUs of this machine, before anything is built."""
    count = psutil.cpu_count() or 1
    named = cpu_numbers(text)
    if text and (not named or max(named) >= count):
        raise UsageError(
            f"--cpus {text} does not name CPUs of this machine.",
            hint=f"It has {counted(count, 'CPU')}, from 0 on: write --cpus 0-{count - 1} or --cpus 0.",
        )


def _gpus(options: Options) -> tuple[Gpu, ...]:
    """Return the chosen GPUs; none when none is asked for, so that a CPU run needs no driver at all."""
    words = device_words(options.device)
    if set(words) <= {"cpu"}:
        return ()
    result, reason = discover()
    if result:
        return select_gpus(result, options.gpus)
    if set(words) <= {"auto", "cpu"}:
        return ()
    raise GpuError(
        f"Device {options.device!r} was requested, but no GPU is usable: {reason.rstrip('.')}.",
        hint="Run `tfbench doctor` to see what is missing, or choose --device cpu.",
    )


def _profile(options: Options) -> Profile:
    if options.profile not in PROFILES:
        raise unknown("profile", options.profile, PROFILES)
    profile = PROFILES[options.profile]
    if options.trials is not None:
        profile = replace(profile, trials=options.trials, max_trials=options.trials)
    return profile if options.stall_s is None else replace(profile, stall_s=options.stall_s)


def entries_of(options: Options) -> tuple[Entry, ...]:
    """Return the workloads that were asked for, the user's own among them.

    Raises:
        UsageError: one does not exist, or is called like another.
    """
    own = tuple(entry for path in options.files for entry in external(path))
    available = built_in()
    taken = {entry.workload.name for entry in available}
    for entry in own:
        if entry.workload.name in taken:
            raise UsageError(
                f"{entry.path} declares {entry.workload.name!r}, which exists already.",
                hint="Give the workload in your file another name.",
            )
        taken.add(entry.workload.name)
    if own and not options.workloads:
        return own
    chosen = select(available + own, options.workloads)
    return (*chosen, *(entry for entry in own if entry not in chosen))
