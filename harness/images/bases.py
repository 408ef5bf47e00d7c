"""Get a base image: the pinned one where a registry answers, else one made of distribution packages."""

from __future__ import annotations

import io
import queue
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from harness.errors import ImageError
from harness.images.build import run_shown
from harness.images.build_context import Base
from harness.progress import Progress

# A registry that has not said a word by then does not count as answering.
ANSWER_S = 10.0
# Between two words of a download that has begun.
_STALL_S = 120.0


def exists(client: docker.DockerClient, reference: str) -> bool:
    """Tell whether the engine holds an image of this name."""
    try:
        client.images.get(reference)
    except ImageNotFound:
        return False
    return True


def obtain(
    client: docker.DockerClient, pinned: Base, bootstrapped: Base, script: Path, progress: Progress
) -> Base:
    """Return the first of the two bases that is here or can be had, in this order.

    Args:
        script: images/base.sh, which makes the second.

    Raises:
        ImageError: neither can.
    """
    for base in (pinned, bootstrapped):
        if exists(client, base.reference):
            return base
    try:
        pull_missing(client, pinned.reference, progress)
    except ImageError as error:
        progress.line(
            f"{error.message} A base image is made of this host's distribution packages instead, by "
            "mmdebstrap, which apt installs if it is missing."
        )
        _bootstrap(client, bootstrapped.reference, script, progress)
        return bootstrapped
    return pinned


def _bootstrap(client: docker.DockerClient, reference: str, script: Path, progress: Progress) -> None:
    repository, _, tag = reference.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="tfbench-base-") as folder:
        tar = Path(folder) / "base.tar"
        log = io.StringIO()
        with progress.task("base image from distribution packages", None) as spinner:
            if run_shown([str(script), str(tar)], log, spinner) != 0:
                last = [line.strip() for line in log.getvalue().splitlines() if line.strip()][-8:]
                raise ImageError(
                    f"No image registry answers, and no base image could be made here: {' / '.join(last)[-600:]}",
                    hint="Pull or load a Python 3.13 image yourself and name it with --base.",
                )
            spinner.note("importing")
            client.api.import_image_from_file(
                str(tar), repository=repository, tag=tag, changes=['CMD ["python3"]']
            )


def pull_missing(
    client: docker.DockerClient, reference: str, progress: Progress, answer_s: float = ANSWER_S
) -> str:
    """Return the content id of an image, after pulling it if the engine does not hold it.

    Raises:
        ImageError: the registry does not answer in time, or has no such image.
    """
    try:
        return str(client.images.get(reference).id)
    except ImageNotFound:
        pass
    layers: dict[str, tuple[int, int]] = {}
    with progress.task(f"pulling {reference.partition('@')[0]}", None) as spinner:
        for event in _pull_events(client, reference, answer_s):
            if "error" in event:
                raise _pull_error(reference, str(event["error"]))
            detail = event.get("progressDetail") or {}
            if "total" in detail and event.get("status") == "Downloading":
                layers[str(event.get("id"))] = (int(detail["current"]), int(detail["total"]))
                done, total = (sum(values) / 1e6 for values in zip(*layers.values(), strict=True))
                spinner.note(f"{done:,.0f} of {total:,.0f} MB", minor=True)
    try:
        return str(client.images.get(reference).id)
    except ImageNotFound as error:
        raise _pull_error(reference, "the engine does not have it after the pull") from error


def _pull_events(client: docker.DockerClient, reference: str, answer_s: float) -> Iterator[dict[str, Any]]:
    """Yield the engine's words on a pull.

    The engine's own time-outs run to minutes where a firewall drops packets, and its API has no option
    for them: a thread listens, and is left behind when nothing comes.
    """
    events: queue.Queue[dict[str, Any] | None] = queue.Queue()
    repository, tag = reference, None
    if "@" not in reference and ":" not in reference.rpartition("/")[2]:
        tag = "latest"

    def listen() -> None:
        try:
            for event in client.api.pull(repository, tag=tag, stream=True, decode=True):
                events.put(event)
        except (DockerException, OSError) as error:
            explanation = error.explanation if isinstance(error, APIError) else None
            events.put({"error": explanation or str(error)})
        events.put(None)

    threading.Thread(target=listen, name="pull", daemon=True).start()
    patience_s = answer_s
    while True:
        try:
            event = events.get(timeout=patience_s)
        except queue.Empty:
            yield {"error": f"no answer for {patience_s:.0f} s"}
            return
        if event is None:
            return
        yield event
        patience_s = _STALL_S


def _pull_error(reference: str, reason: str) -> ImageError:
    return ImageError(
        f"The image {reference.partition('@')[0]} could not be pulled: {reason.strip().rstrip('.')}.",
        hint="Check its name and the engine's access to the registry, or load it with `docker load`.",
    )
