"""The cloud and instance type of a virtual machine, from its metadata service.

The services answer on a link-local address within milliseconds, and are queried only if the firmware names
the cloud. See AWS "Instance metadata (IMDSv2)", Google "About VM metadata", Azure "Instance Metadata
Service".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import requests

from harness.model.run import Scalar
from harness.system.machine import text

ADDRESS = "http://169.254.169.254"
TIMEOUT_S = 0.5
# Chassis asset tag of Azure's virtual machines; that of other Hyper-V machines differs.
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
# Path of the instance type as plain text, and the required headers.
_INSTANCE_TYPE: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "aws": ("/latest/meta-data/instance-type", {}),
    "gcp": ("/computeMetadata/v1/instance/machine-type", {"Metadata-Flavor": "Google"}),
    "azure": (
        "/metadata/instance/compute/vmSize?api-version=2021-02-01&format=text",
        {"Metadata": "true"},
    ),
}


def cloud_facts(
    root: Path = Path("/"), address: str = ADDRESS, timeout_s: float = TIMEOUT_S
) -> dict[str, Scalar]:
    """Return cloud_provider, and cloud_instance_type if each request is answered within `timeout_s`."""
    provider = provider_of(root)
    if not provider:
        return {}
    path, headers = _INSTANCE_TYPE[provider]
    with requests.Session() as session:
        # A proxy would send the request from another machine.
        session.trust_env = False
        try:
            if provider == "aws":
                lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
                token = session.put(f"{address}/latest/api/token", headers=lifetime, timeout=timeout_s)
                headers = {"X-aws-ec2-metadata-token": token.text}
            response = session.get(address + path, headers=headers, timeout=timeout_s, allow_redirects=False)
            response.raise_for_status()
        except (requests.RequestException, ValueError):
            return {"cloud_provider": provider}
    instance_type = response.text.strip().rpartition("/")[2]
    # The response may be a proxy's error page.
    valid = re.fullmatch(r"[\w.-]{1,100}", instance_type)
    return {"cloud_provider": provider, **({"cloud_instance_type": instance_type} if valid else {})}


def provider_of(root: Path = Path("/")) -> str:
    """Return "aws", "gcp" or "azure" according to the firmware, else ""."""
    dmi = root / "sys/class/dmi/id"
    if any(text(dmi / name).startswith("Amazon EC2") for name in ("sys_vendor", "board_vendor")):
        return "aws"
    if text(dmi / "product_name").startswith("Google Compute Engine"):
        return "gcp"
    return "azure" if text(dmi / "chassis_asset_tag") == _AZURE_TAG else ""
