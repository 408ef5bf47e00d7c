"""What a cloud tells its virtual machines of themselves: instance type, region, and whether they are spot.

The metadata services answer on a link-local address, within milliseconds or never. Nothing is asked unless
the firmware's tables name a cloud that is known here, and nothing is ever required.

Sources: AWS "Instance metadata (IMDSv2)", Google "About VM metadata", Azure "Instance Metadata Service".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import requests

from harness.model.run import Scalar
from harness.system.machine import text

ADDRESS = "http://169.254.169.254"
PATIENCE_S = 1.0
# What Azure's virtual machines bear as chassis asset tag; other Hyper-V machines do not.
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"

_Ask = Callable[..., requests.Response]


def cloud_facts(
    root: Path = Path("/"), address: str = ADDRESS, patience_s: float = PATIENCE_S
) -> dict[str, Scalar]:
    """Return facts for a manifest: cloud_provider, cloud_instance_type, cloud_region, cloud_spot.

    Args:
        root: where sys/class/dmi is.
        address: of the metadata service.
        patience_s: for all answers together.

    What cannot be found out is absent; outside of the known clouds nothing is asked, and {} returned.
    """
    provider = provider_of(root)
    if not provider:
        return {}
    until_s = time.monotonic() + patience_s
    session = requests.Session()
    # A proxy would hand the request to another machine.
    session.trust_env = False

    def ask(path: str, headers: Mapping[str, str], method: str = "GET") -> requests.Response:
        left_s = max(0.001, until_s - time.monotonic())
        answer = session.request(
            method, address + path, headers=headers, timeout=left_s, allow_redirects=False
        )
        answer.raise_for_status()
        return answer

    try:
        kind, region, spot = _SERVICES[provider](ask)
    except (requests.RequestException, ValueError, KeyError, TypeError, AttributeError):
        # No answer, a proxy's page, or fields of another age: the facts are extras.
        return {"cloud_provider": provider}
    named = {"cloud_provider": provider, "cloud_instance_type": kind, "cloud_region": region}
    return {name: value for name, value in named.items() if value} | {"cloud_spot": spot}


def provider_of(root: Path = Path("/")) -> str:
    """Return "aws", "gcp" or "azure" as the firmware's tables say, "" for any other machine."""
    dmi = root / "sys/class/dmi/id"
    vendor = text(dmi / "sys_vendor")
    if vendor.startswith("Amazon EC2") or text(dmi / "board_vendor").startswith("Amazon EC2"):
        return "aws"
    if text(dmi / "product_name").startswith("Google Compute Engine"):
        return "gcp"
    return "azure" if text(dmi / "chassis_asset_tag") == _AZURE_TAG else ""


def _aws(ask: _Ask) -> tuple[str, str, bool]:
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = {"X-aws-ec2-metadata-token": ask("/latest/api/token", lifetime, "PUT").text}
    about = ask("/latest/dynamic/instance-identity/document", token).json()
    spot = ask("/latest/meta-data/instance-life-cycle", token).text.strip() == "spot"
    return _word(about["instanceType"]), _word(about["region"]), spot


def _gcp(ask: _Ask) -> tuple[str, str, bool]:
    about = ask("/computeMetadata/v1/instance/?recursive=true", {"Metadata-Flavor": "Google"}).json()
    kind, zone = (_word(about[name]).rpartition("/")[2] for name in ("machineType", "zone"))
    spot = str(about.get("scheduling", {}).get("preemptible", "")).upper() == "TRUE"
    return kind, zone.rpartition("-")[0], spot


def _azure(ask: _Ask) -> tuple[str, str, bool]:
    about = ask("/metadata/instance/compute?api-version=2021-02-01", {"Metadata": "true"}).json()
    spot = _word(about.get("priority", "")).lower() in ("spot", "low")
    return _word(about["vmSize"]), _word(about["location"]), spot


def _word(value: object) -> str:
    """Take a short text and nothing else: it goes into names and pages."""
    if not isinstance(value, str) or len(value) > 200:
        raise ValueError("not a name")
    return value


_SERVICES: Mapping[str, Callable[[_Ask], tuple[str, str, bool]]] = {"aws": _aws, "gcp": _gcp, "azure": _azure}
