"""Which nodes of a cluster take part. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import UsageError
from harness.fleet.messages import Node

ALL, ONE_PER_KIND = "all", "one-per-kind"


def node_keys(raylets: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a name for each node, as Ray lists it, that is fit for a folder and unique."""
    plain = []
    for raylet in raylets:
        # A node that nobody named bears its address; its host name says more.
        given = raylet["NodeName"] if raylet["NodeName"] != raylet["NodeManagerAddress"] else ""
        plain.append(_safe(given) or _safe(raylet["NodeManagerHostname"]) or "node")
    return tuple(
        key if plain.count(key) == 1 else f"{key}-{raylet['NodeID'][:6]}"
        for key, raylet in zip(plain, raylets, strict=True)
    )


def choose(nodes: Sequence[Node], wanted: str) -> tuple[Node, ...]:
    """Return the nodes that `wanted` means: "all", "one-per-kind", names, or label selectors "name=value,...".

    Raises:
        UsageError: `wanted` is none of these, or no node fits.
    """
    if wanted == ALL:
        result = tuple(nodes)
    elif wanted == ONE_PER_KIND:
        kinds: dict[str, Node] = {}
        for node in nodes:
            # One that could not be asked is a kind of its own.
            kinds.setdefault(node.kind or node.key, node)
        result = tuple(kinds.values())
    else:
        parts = [part.strip().partition("=") for part in wanted.split(",") if part.strip()]
        keys = {name for name, equals, _ in parts if not equals}
        labels = {name: value for name, equals, value in parts if equals}
        result = tuple(
            node for node in nodes if (not keys or node.key in keys) and labels.items() <= node.labels.items()
        )
    if not result:
        there = "; ".join(f"{node.key} ({_labels(node)})" for node in nodes) or "none"
        raise UsageError(
            f"No node matches --nodes {wanted}.",
            hint="Write all, one-per-kind, node names, or label selectors such as pool=a100,zone=b. "
            f"Nodes with their labels: {there}.",
        )
    return result


def _labels(node: Node) -> str:
    own = {name: value for name, value in node.labels.items() if not name.startswith("ray.io/")}
    return ", ".join(f"{name}={value}" for name, value in own.items()) or "no labels"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip(".-")[:60]
