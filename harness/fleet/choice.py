"""Which nodes of a cluster take part. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.errors import UsageError
from harness.fleet.messages import Node

ALL, ONE_PER_KIND = "all", "one-per-kind"


def node_keys(named: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return a name for each node that is fit for a folder and unique.

    Args:
        named: (name that the node was given, host name, Ray's node id) of each.
    """
    plain = [_safe(name) or _safe(host) or "node" for name, host, _ in named]
    return tuple(
        key if plain.count(key) == 1 else f"{key}-{node_id[:6]}"
        for key, (_, _, node_id) in zip(plain, named, strict=True)
    )


def choose(nodes: Sequence[Node], wanted: str) -> tuple[Node, ...]:
    """Return the nodes that `wanted` means: "all", "one-per-kind", or label selectors "name=value,...".

    Raises:
        UsageError: `wanted` is none of these, or no node fits.
    """
    if wanted in (ALL, ONE_PER_KIND):
        found = _one_of_each(nodes) if wanted == ONE_PER_KIND else list(nodes)
    else:
        labels, keys = _selectors(wanted)
        found = [
            node
            for node in nodes
            if (not keys or node.key in keys)
            and all(node.labels.get(name) == value for name, value in labels.items())
        ]
    if not found:
        there = "; ".join(f"{node.key} ({_labels(node)})" for node in nodes) or "none"
        raise UsageError(f"No node fits --nodes {wanted}.", hint=f"Nodes with their labels: {there}.")
    return tuple(found)


def _one_of_each(nodes: Sequence[Node]) -> list[Node]:
    """Take the first node of each kind; one that could not be asked is a kind of its own."""
    kinds: dict[str, Node] = {}
    for node in nodes:
        kinds.setdefault(node.kind or node.key, node)
    return list(kinds.values())


def _selectors(wanted: str) -> tuple[Mapping[str, str], frozenset[str]]:
    """Split "pool=a100,zone=b" and bare node names."""
    labels: dict[str, str] = {}
    keys = set()
    for part in filter(None, (piece.strip() for piece in wanted.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            keys.add(part)
        elif name and value:
            labels[name] = value
        else:
            raise UsageError(
                f"--nodes {wanted} is not a choice of nodes.",
                hint="Write all, one-per-kind, node names, or label selectors such as pool=a100,zone=b.",
            )
    return labels, frozenset(keys)


def _labels(node: Node) -> str:
    own = {name: value for name, value in node.labels.items() if not name.startswith("ray.io/")}
    return ", ".join(f"{name}={value}" for name, value in own.items()) or "no labels"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:60]
