"""Get a base image: pulled by its digest, or else bootstrapped from distribution packages."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image
from requests.exceptions import ReadTimeout

from harness.errors import ImageError
from harness.images.recipes import Base, last_lines
from harness.progress import Progress

# Time-out for a registry's first answer.
ANSWER_S = 10


def obtain(
    client: docker.DockerClient, pinned: Base, bootstrapped: Base, script: Path, progress: Progress
) -> Base:
    """Return the pinned base or, if no registry answers, the one that `script` (images/base.sh) makes."""
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
        progress.task("base image from distribution packages", None),
    ):
        tar = str(Path(folder) / "base.tar")
        made = subprocess.run([script, tar], capture_output=True, text=True, errors="replace", check=False)
        if made.returncode != 0:
            raise ImageError(
                f"No image registry answers, and no base image could be made here:\n{last_lines(made.stderr)}",
                hint="Pull or load a Python 3.13 image yourself and name it with --base.",
            )
        client.api.import_image_from_file(tar, repository=repository, tag=tag, changes=['CMD ["python3"]'])


def pull_missing(
    client: docker.DockerClient, reference: str, progress: Progress, answer_s: int = ANSWER_S
) -> Image:
    """Return an image, pulled if the engine does not have it.

    Raises:
        ImageError: the registry does not answer in time, or has no such image.
    """
    with suppress(ImageNotFound):
        return client.images.get(reference)
    api, name = client.api, reference.partition("@")[0]
    usual_s = api.timeout
    try:
        # A pull itself takes minutes to time out where a firewall drops packets. Podman has no such request.
        api.timeout = answer_s
        with suppress(APIError):
            api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        api.timeout = usual_s
        with progress.task(f"pulling {name}", None) as spinner:
            for event in api.pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise _pull_error(name, str(event["error"]))
                spinner.note(f"{event.get('status')} {event.get('progress', '')}")
    except ReadTimeout as error:
        raise _pull_error(name, f"no answer for {answer_s} s") from error
    except APIError as error:
        raise _pull_error(name, str(error.explanation or error)) from error
    finally:
        api.timeout = usual_s
    return client.images.get(reference)


def _pull_error(name: str, reason: str) -> ImageError:
    return ImageError(
        f"The image {name} could not be pulled: {reason.strip().rstrip('.')}.",
        hint="Check its name and the engine's access to the registry, or load it with `docker load`.",
    )
