"""How fast GPUs of one machine, and the host, copy to each other: each pair in both directions, beside the topology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from harness.analysis.trust import PCIE_LANE_BYTES_PER_S
from harness.intervals import estimate
from harness.model.analysis import Capability, Pair
from harness.model.device import gpu_names, of_gpus, positions
from harness.model.platform import HOST, Gpu, Health, link_to
from harness.model.run import Manifest, Run
from workloads.protocol import MACHINE, NODE_PREFIX, PEER_ACCESS, PEER_PREFIX, RATE, peers_of

# A pair at this share of the others, or less, is odd. Equal links of one machine differ by a few per cent; a broken
# one by much more: 14 instead of 57 GB/s in NVIDIA/nvbandwidth issue 6.
ODD_SHARE = 0.9
_COPIES = {"to-device-pinned": True, "from-device-pinned": False}
# Where the memory of the host is, if it was copied from one NUMA node.
NODE = f"{HOST}, NUMA node "


def pairs(run: Run, capabilities: Sequence[Capability]) -> tuple[Pair, ...]:
    """Return the copies between GPUs that were measured, and with them those between the host and these GPUs."""
    between = list(_between(run))
    gpus = {name for pair in between for name in (pair.source, pair.target)}
    own = [
        capability for capability in capabilities if capability.name in _COPIES and capability.device in gpus
    ]
    host = [
        Pair(source=HOST, target=capability.device, value=capability.value)
        if _COPIES[capability.name]
        else Pair(source=capability.device, target=HOST, value=capability.value)
        for capability in own
    ]
    host += [
        Pair(
            source=f"{NODE}{capability.name.removeprefix(NODE_PREFIX)}",
            target=capability.device,
            value=capability.value,
        )
        for capability in capabilities
        if capability.name.startswith(NODE_PREFIX) and capability.device in gpus
    ]
    found = [*between, *host]
    return tuple(_compared(pair, found, run.manifest) for pair in found)


def _between(run: Run) -> Iterator[Pair]:
    values: dict[tuple[str, str], list[float]] = {}
    direct: dict[tuple[str, str], bool] = {}
    for trial in run.trials:
        if trial.workload != MACHINE:
            continue
        gpus = gpu_names(trial.device)
        for metric in trial.metrics:
            if not metric.variant.startswith(PEER_PREFIX):
                continue
            try:
                source, target = (gpus[number] for number in peers_of(metric.variant))
            except (ValueError, IndexError):  # reports of others may have any names
                continue
            if metric.name == RATE:
                values.setdefault((source, target), []).append(metric.value)
            elif metric.name == PEER_ACCESS:
                direct[source, target] = bool(metric.value)
    for (source, target), rates in values.items():
        value = estimate(rates, "B/s")
        if value and value.median > 0:
            known = direct.get((source, target))
            link = link_between(run.health, source, target)
            pair = Pair(source=source, target=target, value=value, direct=known, link=link)
            yield replace(pair, pcie=_pcie(run.manifest.gpus, pair))


def _compared(pair: Pair, found: Sequence[Pair], manifest: Manifest) -> Pair:
    kinds = _kinds(pair, manifest)
    others = [other.value.median for other in found if other is not pair and _kinds(other, manifest) == kinds]
    # Another NUMA node may be slower by design.
    compares = others and not pair.source.startswith(NODE)
    ratio = pair.value.median / median(others) if compares else None
    return replace(pair, ratio=ratio, odd=ratio is not None and ratio <= ODD_SHARE)


def _kinds(pair: Pair, manifest: Manifest) -> tuple[str, str]:
    names = {of_gpus(position): gpu.name for position, gpu in enumerate(manifest.gpus)}
    return names.get(pair.source, pair.source), names.get(pair.target, pair.target)


def link_between(health: Health | None, source: str, target: str) -> str:
    """Return what NVML says connects two GPUs; "" if it says nothing."""
    return str(health.before.values.get(source, {}).get(link_to(target), "")) if health else ""


def _pcie(gpus: Sequence[Gpu], pair: Pair) -> float | None:
    """Return the bytes/s that PCIe can carry in one direction between two GPUs; None if unknown."""
    both = [
        gpus[position]
        for name in (pair.source, pair.target)
        for position in positions(name)
        if position < len(gpus)
    ]
    limits = [
        PCIE_LANE_BYTES_PER_S[gpu.pcie_gen] * gpu.pcie_width
        for gpu in both
        if gpu.pcie_gen in PCIE_LANE_BYTES_PER_S and gpu.pcie_width
    ]
    return min(limits) if len(limits) == 2 else None
