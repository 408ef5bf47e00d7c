"""What keeps a node out of a fleet, in words that name it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.fleet.model import Disk, Facts, Node, Problem

# Trials are timed by the node's own monotonic clock, so that this spoils dates alone; certificates of a
# package index fail at about this size.
CLOCKS_APART_S = 5.0
# A run folder of the quick profile; an image's wheels, in the cache; an image, unpacked, while it is built.
RUN_BYTES = 2**30 // 4
WHEEL_BYTES: Mapping[str, int] = {
    "cpu": 2**30,
    "cuda": 4 * 2**30,
    "trees-cpu": 2**30 // 4,
    "trees-cuda": 2**30,
}
IMAGE_BYTES: Mapping[str, int] = {
    "cpu": 5 * 2**30,
    "cuda": 20 * 2**30,
    "trees-cpu": 7 * 2**30 // 4,
    "trees-cuda": 3 * 2**30,
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
    to_build = [one for one in targets if one not in facts.images] if build else []
    for need in _needs(facts, to_build):
        if need.disk.free_bytes < need.size_bytes:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The room that is needed on a disk: what for, in words, and what else may help than to free some."""

    disk: Disk
    size_bytes: int
    what: tuple[str, ...]
    remedy: str


def _needs(facts: Facts, to_build: Sequence[str]) -> tuple[_Need, ...]:
    """Return what each disk of a node needs; what lies on the same disk is added up."""
    names = ", ".join(to_build)
    found: list[_Need] = []
    if facts.cache_disk is not None:
        found.append(
            _Need(
                disk=facts.cache_disk,
                size_bytes=RUN_BYTES + sum(WHEEL_BYTES.get(target, 0) for target in to_build),
                what=("a run", *([f"the wheels of {names}"] if names else [])),
                remedy="set TFBENCH_CACHE on that node to another disk",
            )
        )
    # Without an engine the local one unpacks as much into the cache; another machine's disk nobody can ask.
    place = facts.image_disk if facts.engine else facts.cache_disk
    if place is not None and to_build:
        found.append(
            _Need(
                disk=place,
                size_bytes=sum(IMAGE_BYTES.get(target, 0) for target in to_build),
                what=(f"building the images {names}",),
                remedy="have its engine keep images elsewhere (Docker: data-root, Podman: graphroot)",
            )
        )
    if len(found) == 2 and found[0].disk.device == found[1].disk.device:
        first, second = found
        size_bytes = first.size_bytes + second.size_bytes
        return (replace(first, size_bytes=size_bytes, what=first.what + second.what),)
    return tuple(found)


def _full(key: str, need: _Need) -> Problem:
    have, want = (f"{size / 2**30:.1f} GiB are" for size in (need.disk.free_bytes, need.size_bytes))
    return Problem(
        node=key,
        message=f"The disk of {need.disk.folder} on node {key} is full: {have} free, {want} needed for "
        f"{' and '.join(need.what)}.",
        hint=f"Free some space there, or {need.remedy}.",
    )
