"""What room a run and the images that it has to build need, and on which disk. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

# A run folder of the quick profile; an image's wheels, in the cache; an image, unpacked, while it is built:
# its context, the copy of that in a layer, the environment and the copy of that.
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
# The same for the local engine, which installs the wheels once.
ENVIRONMENT_BYTES: Mapping[str, int] = {
    "cpu": 2 * 2**30,
    "cuda": 7 * 2**30,
    "trees-cpu": 2**30 // 2,
    "trees-cuda": 2**30,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Where a machine keeps something: folders on the same disk have one `device`."""

    folder: str
    device: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The room that is needed on a disk: what for, in words, and what else may help than to free some."""

    disk: Disk
    size_bytes: int
    what: tuple[str, ...]
    remedy: str

    @property
    def met(self) -> bool:
        """Whether there is room."""
        return self.disk.free_bytes >= self.size_bytes


def needs(
    cache: Disk | None, images: Disk | None, to_build: Sequence[str], *, engine: bool
) -> tuple[Need, ...]:
    """Return what each disk of a machine needs; what lies on the same disk is added up.

    Args:
        cache: where the cache is: wheels, data, the local engine's environments; None where unknown.
        images: where the engine keeps images; None without one, and where its disk cannot be asked.
        to_build: targets whose image is not there.
        engine: whether a container engine answers; the local one makes environments in the cache instead.
    """
    names = ", ".join(to_build)
    result: list[Need] = []
    if cache is not None:
        made = (
            WHEEL_BYTES
            if engine
            else {target: WHEEL_BYTES[target] + ENVIRONMENT_BYTES[target] for target in WHEEL_BYTES}
        )
        what = f"the wheels of {names}" if engine else f"the local engine's environments for {names}"
        result.append(
            Need(
                disk=cache,
                size_bytes=RUN_BYTES + sum(made.get(target, 0) for target in to_build),
                what=("a run", *([what] if names else [])),
                remedy="set TFBENCH_CACHE to a folder on another disk",
            )
        )
    if engine and images is not None and to_build:
        result.append(
            Need(
                disk=images,
                size_bytes=sum(IMAGE_BYTES.get(target, 0) for target in to_build),
                what=(f"building the images {names}",),
                remedy="move the engine's images elsewhere (Docker: data-root, Podman: graphroot)",
            )
        )
    if len(result) == 2 and result[0].disk.device == result[1].disk.device:
        first, second = result
        size_bytes = first.size_bytes + second.size_bytes
        return (replace(first, size_bytes=size_bytes, what=first.what + second.what),)
    return tuple(result)
