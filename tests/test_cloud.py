"""Instance types from cloud metadata services, simulated by a local server."""

import socket
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness.system.cloud import cloud_facts, provider_of
from tests.folders import write_files
from tests.web_server import serve

DMI = {
    "aws": {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"},
    "gcp": {"sys_vendor": "Google", "product_name": "Google Compute Engine"},
    "azure": {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"},
    "hyper-v at home": {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
    "lab": {"sys_vendor": "Dell Inc.", "product_name": "PowerEdge"},
}


def firmware(root: Path, name: str) -> Path:
    return write_files(root, {f"sys/class/dmi/id/{file}": f"{text}\n" for file, text in DMI[name].items()})


class Metadata(BaseHTTPRequestHandler):
    """All three services at one address; requests without the required header fail."""

    def do_PUT(self) -> None:
        lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._respond("a-token" if self.path == "/latest/api/token" and lifetime else None)

    def do_GET(self) -> None:
        header, value, text = {
            "/latest/meta-data/instance-type": ("X-aws-ec2-metadata-token", "a-token", "g5.xlarge"),
            "/computeMetadata/v1/instance/machine-type": (
                "Metadata-Flavor", "Google", "projects/1/machineTypes/a2-highgpu-1g",
            ),
            "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text": (
                "Metadata", "true", "Standard_NC4as_T4_v3",
            ),
        }[self.path]  # fmt: skip
        self._respond(text if self.headers.get(header) == value else None)

    def _respond(self, text: str | None) -> None:
        self.send_response(200 if text is not None else 401)
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *words: object) -> None:
        pass


@pytest.mark.parametrize(
    ("name", "instance"), [("aws", "g5.xlarge"), ("gcp", "a2-highgpu-1g"), ("azure", "Standard_NC4as_T4_v3")]
)
def test_instance_type_of_each_cloud(tmp_path: Path, name: str, instance: str) -> None:
    with serve(Metadata) as address:
        result = cloud_facts(firmware(tmp_path, name), address)
    assert result == {"cloud_provider": name, "cloud_instance_type": instance}


@pytest.mark.parametrize("name", ["hyper-v at home", "lab"])
def test_no_request_outside_a_cloud(tmp_path: Path, name: str) -> None:
    root = firmware(tmp_path, name)
    assert provider_of(root) == ""
    with serve(Metadata) as address:
        assert cloud_facts(root, address) == {}


def test_unresponsive_service_times_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = cloud_facts(firmware(tmp_path, "aws"), address, timeout_s=0.2)
    assert result == {"cloud_provider": "aws"}


def test_invalid_or_missing_response_gives_no_instance_type(tmp_path: Path) -> None:
    class Page(Metadata):
        def do_GET(self) -> None:
            self._respond("<html>log in here</html>")

    root = firmware(tmp_path, "gcp")
    with serve(Page) as address:
        assert cloud_facts(root, address) == {"cloud_provider": "gcp"}
    assert cloud_facts(root, "http://127.0.0.1:9") == {"cloud_provider": "gcp"}
