"""The example files match the schemas of their readers; nothing is started."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT

FILES = sorted((ROOT / "examples/cloud").glob("*.yaml"))
CLOUD = ROOT / "examples/cloud/one-machine"
# The commands that copy a report, and that stop the machine for good.
USER_DATA = {
    "aws": ("aws s3 cp", "instance-initiated-shutdown-behavior terminate"),
    "gcp": ("gcloud storage cp", "gcloud compute instances delete"),
    "azure": ("az storage blob", "az vm deallocate"),
}


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


def check_shell(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True, capture_output=True)


@pytest.mark.parametrize("name", USER_DATA)
def test_user_data_runs_tfbench_copies_the_report_and_stops(name: str) -> None:
    text = (CLOUD / f"{name}.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    files = {each["path"]: each["content"] for each in document["write_files"]}
    script = files["/opt/tfbench.sh"]
    for each in files.values():
        check_shell(each)
    assert "make bench" in script and "tfbench rerun --yes" in script and "git clone" in script
    assert USER_DATA[name][0] in script and USER_DATA[name][1] in text
    assert ["timeout", "4h", "/opt/tfbench.sh"] in document["runcmd"]
    assert document["power_state"]["mode"] == "poweroff"


@pytest.mark.parametrize("name", USER_DATA)
def test_user_data_matches_the_schema_of_cloud_init(name: str) -> None:
    if not (program := shutil.which("cloud-init")):
        pytest.skip("cloud-init is not installed")
    subprocess.run(
        [program, "schema", "--config-file", CLOUD / f"{name}.yaml"], check=True, capture_output=True
    )


@pytest.mark.parametrize("name", USER_DATA)
def test_readme_says_how_to_repeat_a_report(name: str) -> None:
    (line,) = re.findall(rf"^ +sed '(.+?)' {name}.yaml", (ROOT / "README.md").read_text(), re.MULTILINE)
    script = subprocess.run(
        ["sed", line, CLOUD / f"{name}.yaml"], text=True, check=True, capture_output=True
    ).stdout
    ((report,),) = [re.findall(r"^ +REPORT=(\S+)$", script, re.MULTILINE)]
    assert report.endswith(".html")


def test_skypilot_task() -> None:
    path = CLOUD / "skypilot.yaml"
    document = yaml.safe_load(path.read_text())
    assert document.keys() == {"name", "resources", "workdir", "envs", "file_mounts", "setup", "run"}
    check_shell(document["setup"])
    check_shell(document["run"])
    sky = pytest.importorskip("sky")
    (resources,) = sky.Task.from_yaml(str(path)).resources
    assert resources.accelerators == {"L4": 1}
