"""Resolve options against the catalogue and this machine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import msgspec
import psutil

from harness.data.datasets import MODES
from harness.defaults import MAX_PLANNED, MOST_TRIALS, PROFILES, Profile
from harness.engines import ENGINES
from harness.errors import UsageError, check_names, unknown
from harness.images.extra import check_packages
from harness.images.recipes import TARGETS
from harness.model.device import CPU, cpu_numbers
from harness.model.platform import Gpu, target_for
from harness.model.run import PlannedTrial, Prices
from harness.model.workload import Workload
from harness.options import DEFAULTS, OPTIONS, Options, given
from harness.run.catalogue import Entry, select
from harness.run.plan import (
    grid,
    machine_trials,
    no_gpus,
    not_applicable,
    plan_trials,
    resolve_devices,
    resolve_variants,
    soak_trials,
    with_cpu_to_compare,
)
from harness.run.scripts import check_params
from harness.secrets import (
    private_arguments,
    recorded_arguments,
    recorded_environment,
    searched,
    variable_of,
)
from harness.system.gpus import discover, select_gpus
from harness.system.machine import numa_nodes
from harness.untrusted import printable
from harness.wording import counted
from workloads.hiding import HIDDEN, names_secret, without_secrets
from workloads.protocol import KERAS, MACHINE, TENSORFLOW
from workloads.variants import BASELINE

# Folders with the container's Python, which a mount would hide; those below them may be mounted.
_SYSTEM_FOLDERS = [
    Path(f"/{name}")
    for name in ("usr", "usr/lib", "usr/local", "opt", "lib", "lib64", "bin", "etc", "tmp", "run", "var")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be run: the options, what they select on this machine, and the trials in order.

    Attributes:
        remarks: what was asked for and is not planned, with the reason.
    """

    options: Options
    profile: Profile
    entries: tuple[Entry, ...]
    gpus: tuple[Gpu, ...]
    planned: tuple[PlannedTrial, ...]
    remarks: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The image targets needed by the planned trials."""
        return tuple(dict.fromkeys(self.target(trial) for trial in self.planned))

    def target(self, trial: PlannedTrial) -> str:
        """Return the image target of a planned trial."""
        return target_for(self.entry(trial.workload).workload.image, gpu=bool(trial.gpus))

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The declarations of the entries."""
        return tuple(entry.workload for entry in self.entries)

    def entry(self, name: str) -> Entry:
        """Return the entry of a workload; for MACHINE one whose image and data its trials use."""
        if name == MACHINE:
            return max(
                _tensorflow(self.entries),
                key=lambda entry: sum(data.train * math.prod(data.shape) for data in entry.workload.datasets),
            )
        return next(entry for entry in self.entries if entry.workload.name == name)


def resolve(options: Options) -> Plan:
    """Resolve the options against the catalogue and this machine's GPUs.

    Raises:
        UsageError: unknown engine, profile, workload, device, variant, parameter, CPU, image target or data mode, or
            invalid price.
        GpuError: a GPU was requested but none is usable.
    """
    options = revealed(options, os.environ)
    _check(options)
    # A CPU run does not query the driver.
    available, no_gpu = ((), "") if options.device == CPU else discover()
    profile = _profile(options)
    gpus = select_gpus(available, options.gpus) if available else ()
    if not available and options.device != CPU and options.gpus != DEFAULTS.gpus:
        raise no_gpus(f"--gpus {options.gpus}", no_gpu)
    devices = resolve_devices(options.device, len(gpus), no_gpu)
    entries = select(options.workloads, on_gpus=bool(gpus))
    planned, remarks = _planned(options, profile, entries, devices, gpus)
    if not planned:
        raise UsageError(
            " ".join(("Nothing to run.", *remarks)),
            hint="Choose --device gpu0."
            if remarks
            else "Select a workload and a device; see `tfbench list`.",
        )
    if options.time_s is None:
        measured = {
            (trial.workload, trial.device, trial.point) for trial in planned if trial.workload != MACHINE
        }
        profile = replace(profile, budget_s=profile.budget_s * max(1, len(measured)))
    return Plan(
        options=options, profile=profile, entries=entries, gpus=gpus, planned=planned, remarks=remarks
    )


def _planned(
    options: Options, profile: Profile, entries: Sequence[Entry], devices: Sequence[str], gpus: Sequence[Gpu]
) -> tuple[tuple[PlannedTrial, ...], tuple[str, ...]]:
    """Return the trials, and what was asked for and is not planned."""
    workloads = tuple(entry.workload for entry in entries)
    values = check_params(options.params, workloads)
    axes = {name: given for name, given in values.items() if len(given) > 1}
    if axes and len(workloads) > 1:
        raise UsageError(
            "A parameter with several values needs exactly one workload.",
            hint="Select one, for example: tfbench bench cifar100-mlp --param BATCH_SIZE=32,64,128",
        )
    points = math.prod(len(axis) for axis in axes.values())
    if points * len(workloads) * len(devices) * profile.max_trials > MAX_PLANNED:
        raise UsageError(
            f"The run would have more than {MAX_PLANNED} trials.",
            hint="Use fewer values of --param, or fewer --trials.",
        )
    # A sweep measures only baseline by default.
    variants = resolve_variants(options.variants or (BASELINE if axes else ""), options.analysis, workloads)
    planned = plan_trials(
        workloads,
        devices,
        profile,
        variants,
        {name: given[0] for name, given in values.items() if name not in axes},
        grid(axes),
    )
    if not options.workloads:
        gpus_only = {workload.name for workload in workloads if workload.suite == "gpu"}
        planned = tuple(trial for trial in planned if trial.gpus or trial.workload not in gpus_only)
    everything = not (options.variants or axes)
    if gpus and options.device == "auto" and everything:
        planned = with_cpu_to_compare(planned, workloads)
    if options.machine and options.analysis and everything and _tensorflow(entries):
        measured = machine_trials(devices, profile, numa_nodes(options.cpus))
        # The machine first, so that each round of trials begins alike.
        planned = tuple(sorted((*measured, *planned), key=lambda trial: trial.index))
    if options.soak_s and not _tensorflow(entries):
        raise UsageError(
            "With these workloads, --soak would have no effect: TensorFlow saturates devices, and none uses it.",
            hint="Add a workload that does; see `tfbench list`.",
        )
    # Last, because it leaves the machine hot.
    soaks = soak_trials(devices, options.soak_s) if options.soak_s else ()
    return (*planned, *soaks), not_applicable(workloads, devices, variants)


def recorded(options: Options) -> Options:
    """Return the options as a run records them."""
    hidden = searched(options.environment, options.arguments)
    return replace(
        options,
        environment=recorded_environment(options.environment),
        arguments=recorded_arguments(options.arguments, hidden),
    )


def private_values(options: Options) -> Mapping[str, str]:
    """Return variable -> value of what `recorded` leaves out and `revealed` needs."""
    kept = recorded(options)
    arguments = dict(private_arguments(options.arguments, kept.arguments))
    return arguments | {
        name: value for name, value in options.environment.items() if kept.environment[name] != value
    }


def revealed(options: Options, values: Mapping[str, str]) -> Options:
    """Return recorded options with what they leave out, from these variables.

    Raises:
        UsageError: a variable is missing.
    """
    hidden = {name: name for name, value in options.environment.items() if value == HIDDEN}
    places = {
        position: variable_of(options.arguments, position)
        for position, word in enumerate(options.arguments)
        if HIDDEN in word
    }
    if missing := [name for name in (*hidden, *places.values()) if name not in values]:
        raise UsageError(
            f"Runs do not record secrets such as the value of {', '.join(missing)}.",
            hint=f"In this shell: export {' '.join(f'{name}=...' for name in missing)} "
            "To have values recorded, use --env-public.",
        )
    arguments = list(options.arguments)
    for position, name in places.items():
        option, sign, _ = arguments[position].partition("=")
        arguments[position] = f"{option}={values[name]}" if sign else values[name]
    environment = {**options.environment, **{name: values[name] for name in hidden}}
    return replace(options, environment=environment, arguments=tuple(arguments))


def _tensorflow(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.workload.image == TENSORFLOW]


def _check(options: Options) -> None:
    """Check what does not depend on workloads and GPUs."""
    check_names("engine", (options.engine,), ENGINES)
    check_names("profile", (options.profile,), PROFILES)
    check_names("data mode", (options.data,), MODES)
    check_names("image target", options.images, TARGETS)
    check_packages(options.packages)
    read_prices(options.price)
    _check_cpus(options)
    _check_keras(options.variables)
    _check_public(options)
    _check_mounts(options)
    for name, value in given(options).items():
        if OPTIONS[name].least is not None:
            OPTIONS[name].check(value)


def _check_cpus(options: Options) -> None:
    """Check that --cpus and --cpu-quota ask for CPUs of this machine."""
    count = psutil.cpu_count() or 1
    numbers = cpu_numbers(options.cpus)
    if options.cpus and (not numbers or max(numbers) >= count):
        raise UsageError(
            f"--cpus {options.cpus} does not name CPUs of this machine.",
            hint=f"It has {counted(count, 'CPU')}, numbered from 0: write --cpus 0-{count - 1} or --cpus 0.",
        )
    if options.cpu_quota is not None:
        replace(OPTIONS["cpu_quota"], most=count).check(options.cpu_quota)


def _check_keras(environment: Mapping[str, str]) -> None:
    """Check that scripts get the Keras that is measured."""
    for name, usual in KERAS.items():
        if environment.get(name, usual) != usual:
            raise UsageError(
                f"Cannot set --env {name}={environment[name]}: tfbench measures Keras 3 on TensorFlow.",
                hint="Leave it out.",
            )


def _check_public(options: Options) -> None:
    """Check that what is recorded is meant to be."""
    if twice := options.environment.keys() & options.public_environment.keys():
        raise UsageError(f"{min(twice)} is given twice.", hint="Use --env or --env-public.")
    for name, value in options.variables.items():
        if value.encode(errors="ignore").decode() != value:
            raise UsageError(
                f"The value of {printable(name)} is not UTF-8, which container engines need.",
                hint="Give it encoded, base64 for example, and let the script decode it.",
            )
    for value in options.arguments:
        if printable(value) != value:
            raise UsageError(
                f"The argument {printable(value, 80)} has characters that a report cannot show.",
                hint="Pass a plain word, and let the script make the text of it.",
            )
    for name, value in options.params.items():
        named = names_secret(name, value.replace(",", "")) and re.search("[a-z]", value, re.IGNORECASE)
        if named or without_secrets(value) != value:
            raise UsageError(
                f"--param {name} looks like a secret, and parameters are recorded.",
                hint=f"Let the script read it with os.environ, and pass it with --env {name}=...",
            )


def _profile(options: Options) -> Profile:
    profile = PROFILES[options.profile]
    if options.time_s is not None:
        profile = replace(profile, trials=1, max_trials=MOST_TRIALS, budget_s=options.time_s)
    # A saturated device takes longer than its time.
    profile = replace(profile, limit_s=max(profile.limit_s, 2 * options.soak_s))
    if options.trials is not None:
        profile = replace(profile, trials=options.trials, max_trials=options.trials)
    return profile if options.stall_s is None else replace(profile, stall_s=options.stall_s)


def _check_mounts(options: Options) -> None:
    """Check that mounts exist and leave the container's own folders alone."""
    for path in options.mounts:
        if not path.exists():
            raise UsageError(
                f"--mount {path} does not exist.", hint="Give a file or a folder that scripts read."
            )
        if hides(path):
            raise UsageError(
                f"Cannot mount {path}: it would hide a folder that the container needs.",
                hint="Give the folder with the data.",
            )


def hides(path: Path) -> bool:
    """Return whether something at this path of a container would hide a folder that the container needs."""
    plain = Path(os.path.normpath(path))
    own = len(plain.parts) < 2 or plain.parts[1] in ("proc", "sys", "dev", "tfbench")
    return own or not plain.is_absolute() or plain in _SYSTEM_FOLDERS


def read_prices(text: str) -> Prices | None:
    """Parse the value of --price, such as "0.526" or "cpu=0.20,gpu=0.526" (docs/cost.md); return None for "".

    Raises:
        UsageError: no amount, or an invalid value.
    """
    if not text:
        return None
    names = {field_.name for field_ in fields(Prices)}
    items = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
    values = {name.replace("-", "_") or "machine": value for name, _, value in items}
    values = {
        "electricity_per_kwh" if name == "electricity" else name: value for name, value in values.items()
    }
    for name in values.keys() - names:
        raise unknown("price", name, ("machine", "cpu", "gpu", "each-gpu", "electricity", "currency"))
    try:
        prices = msgspec.convert(values, Prices, strict=False)
        amounts = [value for name in names if isinstance(value := getattr(prices, name), float)]
        # A decimal comma gives two prices of the machine.
        distinct = len(values) == len(items)
        usable = (
            distinct and prices.currency and amounts and all(0 <= amount < math.inf for amount in amounts)
        )
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"--price {text} is not a valid price.",
            hint="Write --price 0.526 or --price cpu=0.20,gpu=0.526; see docs/cost.md.",
        )
    return prices
