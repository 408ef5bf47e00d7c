"""The software bill of materials of an image, as CycloneDX 1.5.

Written with the standard library: cyclonedx-python-lib would bring six packages to every installation for these
few fields. The tests check the result with its strict schema.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from harness import __version__
from harness.images.wheels import Pin
from harness.model.platform import ImageInfo

_INSTALLED = "install ok installed"


def sbom(image: ImageInfo, wheels: Mapping[Pin, str], packages: str, distribution: str) -> bytes:
    """Return the same document for the same contents: it has no time, and its number is derived from them.

    Args:
        wheels: each pin of the image's lock, with the SHA-256 of its wheel, "" if unknown.
        packages: /var/lib/dpkg/status of the image, "" if there is none.
        distribution: its ID in os-release, such as "debian".
    """
    components = [_base(image.base), *map(_wheel, wheels.items()), *_packages(packages, distribution)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "tools": {"components": [_component("application", "tfbench", __version__, "tool")]},
            "component": {
                **_component("container", image.reference.partition(":")[0], image.contents, "image"),
                "properties": [
                    {"name": "tfbench:target", "value": image.target},
                    {"name": "tfbench:lock-sha256", "value": image.lock_sha256},
                ],
            },
        },
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document))
    return (json.dumps({"serialNumber": f"urn:uuid:{number}", **document}, indent=1) + "\n").encode()


def _component(kind: str, name: str, version: str, reference: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": reference, "name": name, "version": version}


def _base(reference: str) -> dict[str, Any]:
    """Return the base image; its name ends with a digest, or with a tag that is a hash of its recipe."""
    name, _, version = reference.partition("@") if "@" in reference else reference.rpartition(":")
    return _component("container", name, version, "base")


def _wheel(item: tuple[Pin, str]) -> dict[str, Any]:
    pin, sha256 = item
    purl = f"pkg:pypi/{re.sub('[-_.]+', '-', pin.name).lower()}@{quote(pin.version)}"
    hashes = {"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {}
    return {**_component("library", pin.name, pin.version, purl), **hashes, "purl": purl}


def _packages(status: str, distribution: str) -> Iterator[dict[str, Any]]:
    for fields in _paragraphs(status):
        if fields.get("Status") == _INSTALLED and fields.keys() >= {"Package", "Version", "Architecture"}:
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/{distribution}/{quote(name)}@{quote(version, safe=':~')}?arch={fields['Architecture']}"
            yield {**_component("library", name, version, purl), "purl": purl}


def _paragraphs(status: str) -> Iterable[dict[str, str]]:
    """Parse a Debian control file, without the continuation lines of its fields."""
    for paragraph in status.split("\n\n"):
        yield dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
