"""The cluster files are what Ray's launcher takes; nothing is started."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT

FILES = sorted((ROOT / "examples/cloud").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cluster_files_fit_the_launcher_s_schema(path: Path) -> None:
    import ray  # noqa: PLC0415 - takes a second

    schema = json.loads((Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    document = yaml.safe_load(path.read_text())
    jsonschema.validate(document, schema)
    types = document["available_node_types"]
    assert types[document["head_node_type"]]["resources"] == {"CPU": 0}, "the head measures nothing"
    assert any("--num-cpus=0" in command for command in document["head_start_ray_commands"])
    for name, each in types.items():
        assert name == "head" or each["labels"]["pool"]


def test_each_of_the_big_clouds_has_one() -> None:
    assert {yaml.safe_load(path.read_text())["provider"]["type"] for path in FILES} == {"aws", "gcp", "azure"}
