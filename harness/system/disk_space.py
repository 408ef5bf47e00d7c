"""What room a run and the images that it has to build need, and on which disk. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_GIB = 2**30
RUN_BYTES = _GIB // 4  # a run folder of the quick profile
# Of each target: its wheels, in the cache; the image while it is built (context, its copy in a layer, environment
# and the copy of that); the local engine's environment, in the cache.
SIZES: Mapping[str, tuple[int, int, int]] = {
    "cpu": (_GIB, 5 * _GIB, 2 * _GIB),
    "cuda": (4 * _GIB, 20 * _GIB, 7 * _GIB),
    "trees-cpu": (_GIB // 4, 7 * _GIB // 4, _GIB // 2),
    "trees-cuda": (_GIB, 3 * _GIB, _GIB),
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
    wheels, image, environment = (sum(SIZES[target][part] for target in to_build) for part in range(3))
    result: list[Need] = []
    if cache is not None:
        what = f"the wheels of {names}" if engine else f"the local engine's environments for {names}"
        size_bytes = RUN_BYTES + wheels + (0 if engine else environment)
        remedy = "set TFBENCH_CACHE to a folder on another disk"
        whats = ("a run", what) if names else ("a run",)
        result.append(Need(disk=cache, size_bytes=size_bytes, what=whats, remedy=remedy))
    if engine and images is not None and to_build:
        remedy = "move the engine's images elsewhere (Docker: data-root, Podman: graphroot)"
        whats = (f"building the images {names}",)
        result.append(Need(disk=images, size_bytes=image, what=whats, remedy=remedy))
    if len(result) == 2 and result[0].disk.device == result[1].disk.device:
        first, second = result
        size_bytes = first.size_bytes + second.size_bytes
        return (replace(first, size_bytes=size_bytes, what=first.what + second.what),)
    return tuple(result)
