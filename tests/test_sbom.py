"""The bill of materials of an image, held against CycloneDX's strict schema."""

import json
from dataclasses import replace

import pytest

from harness.images.sbom import sbom
from harness.images.wheels import Pin, read_lock
from tests.builders import manifest
from tests.conftest import ROOT

(IMAGE,) = manifest().images
IMAGE = replace(IMAGE, contents="sha256:" + "9" * 64)
ALPHA, BETA = (Pin(name=name, version="1.0+local", sha256=frozenset()) for name in ("al_pha", "beta"))
STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.37-2+b10
Description: GNU Bourne Again SHell
 Version: in the text

Package: util-linux
Status: install ok installed
Architecture: amd64
Version: 1:2.41.5~rc1

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
DOCUMENTS = {
    "small": sbom(IMAGE, {ALPHA: "ab" * 32, BETA: ""}, STATUS, "debian"),
    "without packages": sbom(replace(IMAGE, base="tfbench-base:0123"), {ALPHA: ""}, "", "unknown"),
    "real lock": sbom(
        IMAGE, dict.fromkeys(read_lock((ROOT / "images/cuda.lock").read_text()), "cd" * 32), STATUS, "debian"
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_has_the_schema_of_cyclonedx(name: str) -> None:
    pytest.importorskip("cyclonedx")
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    validator, text = JsonStrictValidator(SchemaVersion.V1_5), DOCUMENTS[name].decode()
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"container"', '"box"')) is not None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_references_are_unique_and_complete(name: str) -> None:
    document = json.loads(DOCUMENTS[name])
    references = [each["bom-ref"] for each in document["components"]]
    assert len(set(references)) == len(references)
    assert document["dependencies"] == [{"ref": "image", "dependsOn": references}]


def test_wheels_and_packages_are_listed() -> None:
    base, alpha, beta, bash, util_linux = json.loads(DOCUMENTS["small"])["components"]
    assert (base["name"], base["version"]) == ("python:3.13-slim-trixie", "sha256:" + "cd" * 32)
    assert alpha["purl"] == "pkg:pypi/al-pha@1.0%2Blocal"
    assert alpha["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert "hashes" not in beta
    assert bash["purl"] == "pkg:deb/debian/bash@5.2.37-2%2Bb10?arch=amd64"
    assert util_linux["purl"] == "pkg:deb/debian/util-linux@1:2.41.5~rc1?arch=amd64"


def test_equal_contents_give_the_same_document() -> None:
    again = sbom(IMAGE, {ALPHA: "ab" * 32, BETA: ""}, STATUS, "debian")
    other = sbom(IMAGE, {ALPHA: "ac" * 32, BETA: ""}, STATUS, "debian")
    assert again == DOCUMENTS["small"]
    assert json.loads(other)["serialNumber"] != json.loads(again)["serialNumber"]
