"""Where a machine stands among known machines of its kind, and its own file for others to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from harness.analysis.capabilities import gpu_of, kind_of
from harness.analysis.quantities import values
from harness.model.analysis import Analysis, Condition, Standing, Value
from harness.model.comparison import KnownDevice, KnownMachine
from harness.model.workload import SCRIPTS

# Values closer than this need no explanation.
ALIKE = 0.02
# They depend on the disk, on what is mounted, and on the machine's state, not on its kind.
_OWN = frozenset({"capability.read", "health"})


def known_machine(analysis: Analysis) -> KnownMachine:
    """Return what others may compare their machines with; nothing in it identifies this one."""
    manifest = analysis.run.manifest
    facts, system = manifest.host_facts, manifest.system
    devices: dict[str, KnownDevice] = {}
    # Only built-in workloads are the same everywhere, and names of scripts are their owner's.
    scripts = any(each.endswith(SCRIPTS) for each in manifest.options.workloads)
    private = (
        {each.name for each in analysis.run.workloads} - set(manifest.options.workloads) if scripts else set()
    )
    found = [
        each
        for each in values(analysis, kept=True)
        if each.name not in _OWN and private.isdisjoint(each.name.split("."))
    ]
    for device in dict.fromkeys(each.device for each in found):
        gpu = gpu_of(manifest, device)
        devices[device] = KnownDevice(
            kind=kind_of(manifest, device),
            driver=gpu.driver_version if gpu else "",
            power_limit_w=gpu.power_limit_w if gpu else None,
            values={
                each.name: float(f"{each.estimate.median:.4g}") for each in found if each.device == device
            },
            mhz={
                f"capability.{each.name}": float(round(each.mhz))
                for each in analysis.capabilities
                if each.device == device and each.mhz
            },
        )
    cloud = (str(facts.get(name, "")) for name in ("cloud_provider", "cloud_instance_type"))
    cpus = system.get("host_processor_vcpu_count", "")
    return KnownMachine(
        date=manifest.created[:10],
        host=f"{system.get('host_processor_model_name', 'unknown CPU')}, {cpus} vCPU",
        cloud=" ".join(filter(None, cloud)),
        framework=analysis.run.framework,
        devices=devices,
    )


def others(analysis: Analysis, machines: Sequence[KnownMachine]) -> list[KnownMachine]:
    """Return the machines without this run's own, which a folder of all machines has too."""
    own = known_machine(analysis)
    return [each for each in machines if replace(each, name="") != own]


def standings(analysis: Analysis, machines: Sequence[KnownMachine]) -> tuple[Standing, ...]:
    """Return each value beside those of the known devices of its kind; without any, it is left out."""
    own, machines = known_machine(analysis), others(analysis, machines)
    result = []
    for value in values(analysis, kept=True):
        here = own.devices.get(value.device)
        if here and value.name in here.values:
            peers = list(_peers(machines, here.kind, value.name))
            if peers:
                result.append(_standing(value, own, here, peers))
    return tuple(result)


_Peer = tuple[KnownMachine, KnownDevice]


def _peers(machines: Sequence[KnownMachine], kind: str, name: str) -> Iterator[_Peer]:
    for machine in machines:
        for device in machine.devices.values():
            if device.kind == kind and name in device.values:
                yield machine, device


def _standing(value: Value, machine: KnownMachine, device: KnownDevice, peers: Sequence[_Peer]) -> Standing:
    others = tuple(sorted(each.values[value.name] for _, each in peers))
    difference = math.log(value.estimate.median / median(others))
    explained, unshared = [], []
    if abs(difference) > ALIKE:
        own_mhz = device.mhz.get(value.name)
        clocks = [each.mhz[value.name] for _, each in peers if value.name in each.mhz]
        if own_mhz and clocks and abs(difference - math.log(own_mhz / median(clocks))) < abs(difference) / 2:
            explained.append(Condition.CLOCK)
        for condition, of in _CONDITIONS.items():
            here = of(machine, device)
            there = [(of(*each), each[1].values[value.name]) for each in peers]
            same = [other for what, other in there if what == here]
            if not here or len(same) == len(there):
                continue
            if not same:
                unshared.append(condition)
            elif abs(math.log(value.estimate.median / median(same))) < abs(difference) / 2:
                explained.append(condition)
    return Standing(
        value=value, kind=device.kind, others=others, explained=tuple(explained), unshared=tuple(unshared)
    )


_CONDITIONS: dict[Condition, Callable[[KnownMachine, KnownDevice], object]] = {
    Condition.DRIVER: lambda machine, device: device.driver,
    Condition.POWER_LIMIT: lambda machine, device: device.power_limit_w,
    Condition.HOST: lambda machine, device: machine.host,
    Condition.FRAMEWORK: lambda machine, device: machine.framework,
}
