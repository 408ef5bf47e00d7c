"""`tfbench images`: build the images, or only prepare their build contexts."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.console import Terminal, err, out
from harness.engines.docker import DockerEngine
from harness.errors import EngineError, UsageError, check_names
from harness.images.builder import ImageBuilder
from harness.images.extra import IMPORTED
from harness.images.recipes import TARGETS
from harness.options import split
from harness.paths import paths_here


def command(
    target: Annotated[
        list[str] | None, typer.Argument(help="cpu, cuda (default: both), trees-cpu, trees-cuda.")
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--with", help="Libraries to add, e.g. pandas,scikit-learn. Use the image by the same --with."
        ),
    ] = None,
    fetch_only: Annotated[
        bool,
        typer.Option(
            "--fetch-only", help="Only prepare build contexts for docker-compose build; needs no engine."
        ),
    ] = False,
) -> None:
    """Download and verify wheels on this host, then build the images without network."""
    check_names("image target", target or (), TARGETS)
    progress = Terminal(err())
    try:
        client = DockerEngine.connect().client
    except EngineError:
        if not fetch_only:
            raise
        client = None
    paths = paths_here()
    names = split(packages or ())
    if IMPORTED in names:
        raise UsageError(
            "--with auto needs a script.", hint="Name the libraries, or use: tfbench bench SCRIPT --with auto"
        )
    builder = ImageBuilder(paths.checkout, paths.cache, client, progress, names)
    # The default suite needs these; the others are built when a workload first needs them.
    targets = target or [name for name in ("cpu", "cuda") if builder.recipes.supports(name)]
    if fetch_only and names:
        raise UsageError("--with has no effect on docker-compose build.", hint="Leave out --fetch-only.")
    if fetch_only:
        for name in targets:
            out().print(f"{name}: {builder.fetch(name)}", soft_wrap=True)
        return
    for name in targets:
        image = builder.ensure(name)
        out().print(f"{image.target}: {image.reference}  {image.digest}", soft_wrap=True)
        if added := builder.recipes.added(name):
            out().print(f"  with {', '.join(added)}", soft_wrap=True)
