"""Get a base image: pulled by digest, or bootstrapped from distribution packages."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound
from docker.models.images import Image
from requests.exceptions import ReadTimeout

from harness.errors import ImageError, last_lines
from harness.images.recipes import PYTHON_VERSION
from harness.progress import Progress

# Timeout of a registry's first response.
RESPONSE_S = 10


def obtain(
    client: docker.DockerClient, pinned: str, bootstrapped: str, script: Path, progress: Progress
) -> str:
    """Return the pinned base or, if it cannot be pulled, the one that `script` (images/base.sh) builds."""
    for base in (pinned, bootstrapped):
        with suppress(ImageNotFound):
            client.images.get(base)
            return base
    try:
        pull_missing(client, pinned, progress)
    except ImageError as error:
        progress.line(
            f"{error.message} Building a base image from this host's distribution packages instead, with "
            "mmdebstrap; apt installs it if it is missing."
        )
        _bootstrap(client, bootstrapped, script, progress)
        return bootstrapped
    return pinned


def _bootstrap(client: docker.DockerClient, reference: str, script: Path, progress: Progress) -> None:
    repository, _, tag = reference.rpartition(":")
    with (
        tempfile.TemporaryDirectory(prefix="tfbench-base-") as folder,
        progress.task("base image from distribution packages", None),
    ):
        tar = str(Path(folder) / "base.tar")
        result = subprocess.run([script, tar], capture_output=True, text=True, errors="replace", check=False)
        if result.returncode != 0:
            raise ImageError(
                f"The base image could be neither pulled nor built:\n{last_lines(result.stderr)}",
                hint=f"Pull or load a Python {PYTHON_VERSION} image and name it in images/Dockerfile (ARG BASE).",
            )
        client.api.import_image_from_file(tar, repository=repository, tag=tag, changes=['CMD ["python3"]'])


def pull_missing(
    client: docker.DockerClient, reference: str, progress: Progress, response_s: int = RESPONSE_S
) -> Image:
    """Return an image, pulled if the engine does not have it.

    Raises:
        ImageError: the registry does not respond in time, or does not have the image.
    """
    with suppress(ImageNotFound):
        return client.images.get(reference)
    api, name = client.api, reference.partition("@")[0]
    default_timeout = api.timeout
    try:
        # A pull takes minutes to time out if a firewall drops packets. Podman does not support this request.
        api.timeout = response_s
        with suppress(APIError):
            api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        api.timeout = default_timeout
        with progress.task(f"pulling {name}", None) as spinner:
            for event in api.pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise _pull_error(name, str(event["error"]))
                spinner.note(f"{event.get('status')} {event.get('progress', '')}")
    except ReadTimeout as error:
        raise _pull_error(name, f"no response for {response_s} s") from error
    except APIError as error:
        raise _pull_error(name, str(error.explanation or error)) from error
    finally:
        api.timeout = default_timeout
    return client.images.get(reference)


def _pull_error(name: str, reason: str) -> ImageError:
    return ImageError(
        f"Could not pull the image {name}: {reason.strip().rstrip('.')}.",
        hint="Check the name and the engine's access to the registry, or load the image with `docker load`.",
    )
