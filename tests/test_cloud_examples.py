"""The example cluster files match the schema of Ray's launcher; nothing is started."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT

FILES = sorted((ROOT / "examples/cloud").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cluster_files_match_launcher_schema(path: Path) -> None:
    import ray  # noqa: PLC0415 - takes a second

    schema = json.loads((Path(ray.__file__).parent / "autoscaler/ray-schema.json").read_text())
    document = yaml.safe_load(path.read_text())
    jsonschema.validate(document, schema)
    types = document["available_node_types"]
    assert types[document["head_node_type"]]["resources"] == {"CPU": 0}, "no benchmarks on the head"
    assert any("--num-cpus=0" in command for command in document["head_start_ray_commands"])
    for name, node_type in types.items():
        assert name == "head" or node_type["labels"]["pool"]


def test_supported_clouds() -> None:
    assert {yaml.safe_load(path.read_text())["provider"]["type"] for path in FILES} == {"aws", "gcp", "azure"}
