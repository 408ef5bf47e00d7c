"""Which nodes of a cluster take part, and what keeps a node out. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from harness.errors import UsageError
from harness.fleet.messages import Node, Problem
from harness.system.disk_space import Need, needs

ALL, ONE_PER_KIND = "all", "one-per-kind"
# Trials are timed by the node's own monotonic clock, so that this spoils dates alone; certificates of a
# package index fail at about this size.
CLOCKS_APART_S = 5.0
# A container engine that was asked for -> what to do where it is not.
_CONTAINERS: Mapping[str, str] = {
    "docker": "Install one there with `make engine`",
    "podman": "Start podman.socket there, as the user who runs Ray or as root",
}


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
        result = _one_of_each(nodes) if wanted == ONE_PER_KIND else list(nodes)
    else:
        labels, keys = _selectors(wanted)
        result = [
            node
            for node in nodes
            if (not keys or node.key in keys)
            and all(node.labels.get(name) == value for name, value in labels.items())
        ]
    if not result:
        there = "; ".join(f"{node.key} ({_labels(node)})" for node in nodes) or "none"
        raise UsageError(f"No node matches --nodes {wanted}.", hint=f"Nodes with their labels: {there}.")
    return tuple(result)


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


def problems(
    node: Node, ours: Mapping[str, str], *, engine: str, targets: Sequence[str], build: bool
) -> Iterator[Problem]:
    """Yield all that is wrong with one node that answered.

    Args:
        ours: the driver's own versions, as in Facts.versions.
        engine: of harness.engines.connect.NAMES, as asked for.
        targets: the images that the plan needs.
        build: whether tfbench builds the images, so that the disk must have room for it.
    """
    facts = node.facts
    if facts is None:
        return
    for name, label in (("python", "Python"), ("ray", "Ray"), ("tfbench", "tfbench"), ("code", "code")):
        theirs = facts.versions.get(name, "")
        if theirs and theirs != ours[name]:
            yield Problem(
                node=node.key,
                message=f"Node {node.key} has {label} {theirs}, the driver {ours[name]}.",
                hint="Install the same version on all nodes; otherwise results are not comparable.",
            )
    if facts.missing:
        yield Problem(
            node=node.key,
            message=f"Node {node.key} lacks the Python packages {', '.join(facts.missing)}.",
            hint="Install tfbench[fleet] from fleet.lock into the Python that runs Ray there.",
        )
        return
    if engine in _CONTAINERS and not facts.engine:
        yield Problem(
            node=node.key,
            message=f"Node {node.key} has no container engine: {facts.engine_problem.rstrip('.')}.",
            hint=f"{_CONTAINERS[engine]}, or choose --engine local for all.",
        )
    to_build = [target for target in targets if target not in facts.images] if build else []
    for need in needs(facts.cache_disk, facts.image_disk, to_build, engine=bool(facts.engine)):
        if not need.met:
            yield _full(node.key, need)
    offset_s = node.clock_offset_s
    if offset_s is not None and abs(offset_s) > CLOCKS_APART_S:
        way = "ahead of" if offset_s > 0 else "behind"
        yield Problem(
            node=node.key,
            message=f"The clock of node {node.key} is {abs(offset_s):.0f} s {way} the driver's.",
            hint="Start NTP there. Speeds are not affected; dates and run names are.",
            fatal=False,
        )


def _full(key: str, need: Need) -> Problem:
    have, want = (f"{size / 2**30:.1f} GiB are" for size in (need.disk.free_bytes, need.size_bytes))
    return Problem(
        node=key,
        message=f"The disk of {need.disk.folder} on node {key} is full: {have} free, {want} needed for "
        f"{' and '.join(need.what)}.",
        hint=f"On that node, free some space or {need.remedy}.",
    )
