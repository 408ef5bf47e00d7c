"""Get a base image: the pinned one where a registry answers, else one made of distribution packages."""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound

from harness.engines.calls import LOST
from harness.errors import ImageError
from harness.images.recipes import Base
from harness.progress import Progress

# A registry that is silent for so long does not count as answering.
ANSWER_S = 10.0
# Between two events of a download that has begun.
_STALL_S = 120.0


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
        with suppress(ImageNotFound):
            client.images.get(base.reference)
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
    with (
        tempfile.TemporaryDirectory(prefix="tfbench-base-") as folder,
        progress.task("base image from distribution packages", None) as spinner,
    ):
        tar = str(Path(folder) / "base.tar")
        made = subprocess.run([script, tar], capture_output=True, text=True, errors="replace", check=False)
        if made.returncode != 0:
            raise ImageError(
                f"No image registry answers, and no base image could be made here: {made.stderr.strip()[-600:]}",
                hint="Pull or load a Python 3.13 image yourself and name it with --base.",
            )
        spinner.note("importing")
        client.api.import_image_from_file(tar, repository=repository, tag=tag, changes=['CMD ["python3"]'])


def pull_missing(
    client: docker.DockerClient, reference: str, progress: Progress, answer_s: float = ANSWER_S
) -> str:
    """Return the content id of an image, after pulling it if the engine does not hold it.

    Raises:
        ImageError: the registry does not answer in time, or has no such image.
    """
    with suppress(ImageNotFound):
        return str(client.images.get(reference).id)
    # The engine's own time-outs run to minutes where a firewall drops packets, and its API has no option for them: a
    # thread listens, and is left behind when nothing comes.
    events: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(client, reference, events), name="pull", daemon=True).start()
    name = reference.partition("@")[0]
    patience_s = answer_s
    with progress.task(f"pulling {name}", None) as spinner:
        try:
            while (event := events.get(timeout=patience_s)) is not None:
                if "error" in event:
                    raise _pull_error(name, str(event["error"]))
                spinner.note(f"{event.get('status')} {event.get('progress', '')}")
                patience_s = _STALL_S
        except queue.Empty as error:
            raise _pull_error(name, f"no answer for {patience_s:.0f} s") from error
    return str(client.images.get(reference).id)


def _listen(client: docker.DockerClient, reference: str, events: queue.Queue[dict[str, Any] | None]) -> None:
    try:
        for event in client.api.pull(reference, stream=True, decode=True):
            events.put(event)
    except LOST as error:
        events.put({"error": (isinstance(error, APIError) and error.explanation) or str(error)})
    events.put(None)


def _pull_error(name: str, reason: str) -> ImageError:
    return ImageError(
        f"The image {name} could not be pulled: {reason.strip().rstrip('.')}.",
        hint="Check its name and the engine's access to the registry, or load it with `docker load`.",
    )
