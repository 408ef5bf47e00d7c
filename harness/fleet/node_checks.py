"""What keeps a node out of a fleet, in words that name it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.fleet.messages import Node, Problem
from harness.system.disk_space import Need, needs

# Trials are timed by the node's own monotonic clock, so that this spoils dates alone; certificates of a
# package index fail at about this size.
CLOCKS_APART_S = 5.0
# A container engine that was asked for -> what to do where it is not.
_CONTAINERS: Mapping[str, str] = {
    "docker": "Install one there with `make engine`",
    "podman": "Start podman.socket there, as the user who runs Ray or as root",
}


def problems(
    node: Node, ours: Mapping[str, str], *, engine: str, targets: Sequence[str], build: bool
) -> tuple[Problem, ...]:
    """Return all that is wrong with one node that answered.

    Args:
        ours: the driver's own versions, as in Facts.versions.
        engine: of harness.engines.connect.NAMES, as asked for.
        targets: the images that the plan needs.
        build: whether tfbench builds the images, so that the disk must have room for it.
    """
    return tuple(_problems(node, ours, engine, targets, build))


def _problems(
    node: Node, ours: Mapping[str, str], engine: str, targets: Sequence[str], build: bool
) -> Iterator[Problem]:
    facts = node.facts
    if facts is None:
        return
    for name, label in (("python", "Python"), ("ray", "Ray"), ("tfbench", "tfbench"), ("code", "code")):
        theirs = facts.versions.get(name, "")
        if theirs and theirs != ours[name]:
            yield Problem(
                node=node.key,
                message=f"Node {node.key} has {label} {theirs}, the driver {ours[name]}.",
                hint="Install the same version on all nodes; their figures would not compare.",
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
    to_build = [one for one in targets if one not in facts.images] if build else []
    for need in needs(facts.cache_disk, facts.image_disk, to_build, engine=bool(facts.engine)):
        if not need.met:
            yield _full(node.key, need)
    offset_s = node.clock_offset_s
    if offset_s is not None and abs(offset_s) > CLOCKS_APART_S:
        way = "ahead of" if offset_s > 0 else "behind"
        yield Problem(
            node=node.key,
            message=f"The clock of node {node.key} is {abs(offset_s):.0f} s {way} the driver's.",
            hint="Start NTP there. Speeds are not touched by it; dates and run names are.",
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
