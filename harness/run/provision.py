"""Make sure of what the trials run in: images for a container engine, an environment for the local one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.engines import Engine
from harness.engines.docker import DockerEngine
from harness.errors import UsageError
from harness.images.builder import ImageBuilder
from harness.images.environment import ensure_environment
from harness.images.recipes import TARGETS
from harness.model.run import ImageInfo
from harness.progress import Progress


def provide_images(
    engine: Engine,
    targets: Sequence[str],
    own: Mapping[str, str],
    base: str | None,
    checkout: Path,
    cache: Path,
    progress: Progress,
) -> Mapping[str, ImageInfo]:
    """Return what each target's trials run in, built if it is not there yet.

    Args:
        own: target -> reference of an image of the user's own.

    Raises:
        ImageError: it cannot be built, or the user's image is not there.
        UsageError: a target that there is not, or an image for the local engine, which has none.
    """
    for target in own:
        if target not in TARGETS:
            raise UsageError(
                f"There is no image target {target!r}.",
                hint=f"Write --image TARGET=REF; targets are: {', '.join(TARGETS)}.",
            )
    if not isinstance(engine, DockerEngine):
        if own:
            raise UsageError("The local engine cannot run images.", hint="Use --engine docker with --image.")
        return {target: ensure_environment(target, checkout, cache, progress) for target in targets}
    builder = ImageBuilder(checkout, cache, engine.client, progress)
    return {
        target: builder.own(target, own[target]) if target in own else builder.ensure(target, base)
        for target in targets
    }
