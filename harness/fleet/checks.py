"""What keeps a node out of a fleet, in words that name it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.fleet.model import Node, Problem

# Trials are timed by the node's own monotonic clock, so that this spoils dates alone; certificates of a
# package index fail at about this size.
CLOCKS_APART_S = 5.0
# A run folder of the quick profile; an image with its wheels, unpacked, while it is being built.
RUN_BYTES = 2**30 // 4
IMAGE_BYTES: Mapping[str, int] = {
    "cpu": 6 * 2**30,
    "cuda": 24 * 2**30,
    "trees-cpu": 2 * 2**30,
    "trees-cuda": 4 * 2**30,
}
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
    yield from _disk(node, facts.free_disk_bytes, [one for one in targets if one not in facts.images], build)
    offset_s = node.clock_offset_s
    if offset_s is not None and abs(offset_s) > CLOCKS_APART_S:
        way = "ahead of" if offset_s > 0 else "behind"
        yield Problem(
            node=node.key,
            message=f"The clock of node {node.key} is {abs(offset_s):.0f} s {way} the driver's.",
            hint="Start NTP there. Speeds are not touched by it; dates and run names are.",
            fatal=False,
        )


def _disk(node: Node, free_bytes: int, to_build: Sequence[str], build: bool) -> Iterator[Problem]:
    need = RUN_BYTES + (sum(IMAGE_BYTES.get(target, 0) for target in to_build) if build else 0)
    if free_bytes < need:
        what = f" and to build the images {', '.join(to_build)}" if build and to_build else ""
        yield Problem(
            node=node.key,
            message=f"The disk of node {node.key} is full: {free_bytes / 2**30:.1f} GiB are free, "
            f"{need / 2**30:.1f} GiB are needed for a run{what}.",
            hint="Free some space there, or set TFBENCH_CACHE on that node to another disk.",
        )
