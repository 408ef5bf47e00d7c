"""`tfbench images`: build the images, or only prepare their build contexts."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import Terminal, err, out
from harness.engines.docker import DockerEngine
from harness.errors import EngineError, check_names
from harness.images.builder import ImageBuilder
from harness.images.recipes import TARGETS
from harness.paths import paths_here


def command(
    target: Annotated[
        list[str] | None, typer.Argument(help="cpu, cuda (default: both), trees-cpu, trees-cuda.")
    ] = None,
    fetch_only: Annotated[
        bool,
        typer.Option(
            "--fetch-only", help="Only prepare build contexts for docker-compose build; needs no engine."
        ),
    ] = False,
) -> None:
    """Download and verify wheels on this host, then build the images without network."""
    progress = Terminal(err())
    try:
        client = DockerEngine.connect().client
    except EngineError:
        if not fetch_only:
            raise
        client = None
    paths = paths_here()
    builder = ImageBuilder(paths.checkout, paths.cache, client, progress)
    # The default suite needs these; the others are built when a workload first needs them.
    targets = target or [name for name in ("cpu", "cuda") if builder.recipes.supports(name)]
    check_names("image target", targets, TARGETS)
    if fetch_only:
        for name in targets:
            out().print(f"{name}: {builder.fetch(name)}", soft_wrap=True)
        return
    for name in targets:
        image = builder.ensure(name)
        out().print(f"{image.target}: {image.reference}  {image.digest}", soft_wrap=True)
