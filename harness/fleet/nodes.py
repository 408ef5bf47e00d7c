"""Name, describe and select the nodes of a cluster. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.fleet.fleet_plan import Node

ALL, ONE_PER_KIND = "all", "one-per-kind"


def node_keys(raylets: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a unique name for each node that is safe as a folder name."""
    names = []
    for raylet in raylets:
        # Ray names nodes after their address by default; the host name is more useful.
        name = raylet["NodeName"] if raylet["NodeName"] != raylet["NodeManagerAddress"] else ""
        names.append(_safe(name) or _safe(raylet["NodeManagerHostname"]) or "node")
    return tuple(
        key if names.count(key) == 1 else f"{key}-{raylet['NodeID'][:6]}"
        for key, raylet in zip(names, raylets, strict=True)
    )


def kind(instance: str, gpus: Sequence[str], cpu: str, cpus: int, memory_bytes: int) -> str:
    """Describe a kind of machine. Memory is rounded up to 4 GiB, because kernels reserve varying amounts."""
    memory = f"{4 * -(-memory_bytes // (4 * 2**30))} GiB" if memory_bytes else ""
    gpu_words = [f"{gpus.count(name)}x {name}" for name in dict.fromkeys(gpus)]
    cpu_words = f"{cpus}x {cpu}" if cpu else f"{cpus} CPUs"
    return ", ".join(filter(None, (instance, *gpu_words, cpu_words, memory)))


def choose(nodes: Sequence[Node], selection: str) -> tuple[Node, ...]:
    """Select nodes by "all", "one-per-kind", names, or label selectors "name=value,...".

    Raises:
        UsageError: no node matches.
    """
    if selection == ALL:
        result = tuple(nodes)
    elif selection == ONE_PER_KIND:
        kinds: dict[str, Node] = {}
        for node in nodes:
            # A node of unknown kind counts as a separate kind.
            kinds.setdefault(node.kind or node.key, node)
        result = tuple(kinds.values())
    else:
        parts = [part.strip().partition("=") for part in selection.split(",") if part.strip()]
        keys = {name for name, equals, _ in parts if not equals}
        labels = {name: value for name, equals, value in parts if equals}
        result = tuple(
            node for node in nodes if (not keys or node.key in keys) and labels.items() <= node.labels.items()
        )
    if not result:
        available = "; ".join(f"{node.key} ({_labels(node)})" for node in nodes) or "none"
        raise UsageError(
            f"No node matches --nodes {selection}.",
            hint="Use all, one-per-kind, node names, or label selectors such as pool=a100,zone=b. "
            f"Nodes and their labels: {available}.",
        )
    return result


def select_team(nodes: Sequence[Node], counts: Sequence[int]) -> tuple[Node, ...]:
    """Return enough nodes for the largest count, all of the most frequent kind.

    Raises:
        UsageError: there are too few nodes of one kind.
    """
    kinds = Counter(node.kind for node in nodes).most_common()
    if not kinds or kinds[0][1] < max(counts):
        available = ", ".join(f"{count} of {kind or 'an unknown kind'}" for kind, count in kinds)
        raise UsageError(
            f"{max(counts)} workers need {max(counts)} nodes of one kind, but there are {available or 'none'}.",
            hint="Use fewer --workers, or start more nodes.",
        )
    return tuple([node for node in nodes if node.kind == kinds[0][0]][: max(counts)])


def _labels(node: Node) -> str:
    own = {name: value for name, value in node.labels.items() if not name.startswith("ray.io/")}
    return ", ".join(f"{name}={value}" for name, value in own.items()) or "no labels"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:60]
