import importlib.util
import json
import re
import socket
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import jsonschema
import pytest
import yaml

from harness.system.cloud import cloud_facts, provider_of, watching_for_end
from tests.commands import output_of, serve
from tests.conftest import ROOT
from tests.folders import write_files

DMI = {
    "aws": {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"},
    "gcp": {"sys_vendor": "Google", "product_name": "Google Compute Engine"},
    "azure": {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"},
    "hyper-v at home": {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
    "lab": {"sys_vendor": "Dell Inc.", "product_name": "PowerEdge"},
}


def firmware(root: Path, name: str) -> Path:
    return write_files(root, {f"sys/class/dmi/id/{file}": f"{text}\n" for file, text in DMI[name].items()})


AZURE = "/metadata/instance/compute/{}?api-version=2021-02-01&format=text"
ACTION = "/latest/meta-data/spot/instance-action"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
ANSWERS = {
    "aws": {
        "/latest/meta-data/instance-type": "g5.xlarge",
        "/latest/meta-data/placement/availability-zone": "eu-central-1b",
        "/latest/meta-data/instance-life-cycle": "spot",
        "/latest/meta-data/ami-id": "ami-0abc",
    },
    "gcp": {
        "/computeMetadata/v1/instance/machine-type": "projects/1/machineTypes/a2-highgpu-1g",
        "/computeMetadata/v1/instance/zone": "projects/1/zones/europe-west4-a",
        "/computeMetadata/v1/instance/scheduling/preemptible": "FALSE",
        "/computeMetadata/v1/instance/image": "projects/p/global/images/debian-13-gpu",
        PREEMPTED: "FALSE",
    },
    "azure": {
        **{AZURE.format(name): text for name, text in {
            "vmSize": "Standard_NC4as_T4_v3", "location": "westeurope", "zone": "", "priority": "Regular",
            "publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "22.04.1", "name": "vm-1",
        }.items()},
        EVENTS: '{"DocumentIncarnation": 1, "Events": []}',
    },
}  # fmt: skip
HEADERS = {
    "/latest/": ("X-aws-ec2-metadata-token", "a-token"),
    "/computeMetadata/": ("Metadata-Flavor", "Google"),
    "/metadata/": ("Metadata", "true"),
}
FACTS = {
    "aws": ("g5.xlarge", "eu-central-1b", "spot", "ami-0abc"),
    "gcp": ("a2-highgpu-1g", "europe-west4-a", "on-demand", "debian-13-gpu"),
    "azure": ("Standard_NC4as_T4_v3", "westeurope", "on-demand", "microsoft-dsvm:ubuntu-hpc:2204:22.04.1"),
}


class Metadata(BaseHTTPRequestHandler):
    """All three services at one address; requests without the required header fail."""

    answers: ClassVar[Mapping[str, str]] = {
        path: text for each in ANSWERS.values() for path, text in each.items()
    }

    def do_PUT(self) -> None:
        lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._respond("a-token" if self.path == "/latest/api/token" and lifetime else None)

    def do_GET(self) -> None:
        ((header, value),) = (needs for start, needs in HEADERS.items() if self.path.startswith(start))
        self._respond(self.answers.get(self.path) if self.headers.get(header) == value else None)

    def _respond(self, text: str | None) -> None:
        self.send_response(200 if text is not None else 404)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *words: object) -> None:
        pass


def answering(changes: Mapping[str, str]) -> type[Metadata]:
    return type("Changed", (Metadata,), {"answers": {**Metadata.answers, **changes}})


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_each_cloud(tmp_path: Path, name: str) -> None:
    with serve(Metadata) as address:
        result = cloud_facts(firmware(tmp_path, name), address)
    facts = ("cloud_instance_type", "cloud_zone", "cloud_lifecycle", "cloud_image")
    assert result == {"cloud_provider": name, **dict(zip(facts, FACTS[name], strict=True))}
    with serve(answering(dict.fromkeys(Metadata.answers, "<html>log in here</html>"))) as address:
        assert cloud_facts(firmware(tmp_path, name), address) == {"cloud_provider": name}
    assert cloud_facts(firmware(tmp_path, name), "http://127.0.0.1:9") == {"cloud_provider": name}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        result = cloud_facts(firmware(tmp_path, name), address, timeout_s=0.2)
        assert time.monotonic() - begun < 0.9
    assert result == {"cloud_provider": name}
    for other in ("hyper-v at home", "lab"):
        root = firmware(tmp_path / other, other)
        with serve(Metadata) as address:
            assert (provider_of(root), cloud_facts(root, address)) == ("", {})


@pytest.mark.parametrize(
    ("name", "changes", "fact", "value"),
    [
        ("gcp", {"/computeMetadata/v1/instance/scheduling/preemptible": "TRUE"}, "cloud_lifecycle", "spot"),
        ("azure", {AZURE.format("priority"): "Spot"}, "cloud_lifecycle", "spot"),
        ("azure", {AZURE.format("zone"): "2"}, "cloud_zone", "westeurope-2"),
        ("azure", {AZURE.format(part): "" for part in ("publisher", "offer", "sku", "version")},
         "cloud_image", None),
    ],
)  # fmt: skip
def test_variants_of_an_instance(
    tmp_path: Path, name: str, changes: Mapping[str, str], fact: str, value: str | None
) -> None:
    with serve(answering(changes)) as address:
        assert cloud_facts(firmware(tmp_path, name), address).get(fact) == value


def azure_events(kind: str, machine: str = "vm-1") -> str:
    return json.dumps({"Events": [{"EventType": kind, "Resources": [machine], "NotBefore": "soon"}]})


@pytest.mark.parametrize(
    ("name", "path", "answer", "notice"),
    [
        ("aws", ACTION, '{"action": "terminate", "time": "2026-01-02T03:04:05Z"}', "terminate"),
        ("gcp", PREEMPTED, "TRUE", "preempt"),
        ("azure", EVENTS, azure_events("Preempt"), "preempt"),
        ("azure", EVENTS, azure_events("Freeze"), ""),
        ("azure", EVENTS, azure_events("Terminate", "vm-2"), ""),
        ("azure", EVENTS, "<html>log in here</html>", ""),
        ("aws", ACTION, "[]", ""),
    ],
)
def test_notice_of_the_end(name: str, path: str, answer: str, notice: str) -> None:
    asked = threading.Semaphore(0)
    handler = answering({})

    def do_get(self: Metadata) -> None:
        asked.release()
        Metadata.do_GET(self)

    handler.do_GET = do_get  # type: ignore[method-assign]
    with serve(handler) as address, watching_for_end(name, address, every_s=0.01) as ending:
        for _ in range(2):
            assert asked.acquire(timeout=10)
        assert ending() == ""
        handler.answers = {**handler.answers, path: answer}
        for _ in range(6):
            if not ending():
                asked.acquire(timeout=0.2)
        assert ending() == notice


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
    (package,) = importlib.util.find_spec("ray").submodule_search_locations
    schema = json.loads((Path(package) / "autoscaler/ray-schema.json").read_text())
    document = yaml.safe_load(path.read_text())
    jsonschema.validate(document, schema)
    assert document["provider"]["type"] in USER_DATA
    types = document["available_node_types"]
    assert types[document["head_node_type"]]["resources"] == {"CPU": 0}, "no benchmarks on the head"
    assert any("--num-cpus=0" in command for command in document["head_start_ray_commands"])
    for name, node_type in types.items():
        assert name == "head" or node_type["labels"]["pool"]


@pytest.mark.parametrize("name", USER_DATA)
def test_user_data_runs_tfbench_copies_the_report_and_stops(name: str) -> None:
    text = (CLOUD / f"{name}.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    files = {each["path"]: each["content"] for each in document["write_files"]}
    script = files["/opt/tfbench.sh"]
    for each in files.values():
        output_of("bash", "-n", "-c", each)
    assert "make bench" in script and "tfbench rerun --yes" in script and "git clone" in script
    assert USER_DATA[name][0] in script and USER_DATA[name][1] in text
    assert ["timeout", "4h", "/opt/tfbench.sh"] in document["runcmd"]
    assert document["power_state"]["mode"] == "poweroff"
    # README says how to repeat a report.
    (line,) = re.findall(rf"^ +sed '(.+?)' {name}.yaml", (ROOT / "README.md").read_text(), re.MULTILINE)
    (report,) = re.findall(r"^ +REPORT=(\S+)$", output_of("sed", line, CLOUD / f"{name}.yaml"), re.MULTILINE)
    assert report.endswith(".html")
    task = yaml.safe_load((CLOUD / "skypilot.yaml").read_text())
    assert task.keys() == {"name", "resources", "workdir", "envs", "file_mounts", "setup", "run"}
    for text in (task["setup"], task["run"]):
        output_of("bash", "-n", "-c", text)
