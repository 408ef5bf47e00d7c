"""What a cloud tells its virtual machines of themselves: instance type, region, and whether they are spot.

The metadata services answer on a link-local address, within milliseconds or never. Nothing is asked unless
the firmware's tables name a cloud that is known here, and nothing is ever required.

Sources: AWS "Instance metadata (IMDSv2)", Google "About VM metadata", Azure "Instance Metadata Service".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import requests

from harness.model.run import Scalar
from harness.system.hardware import text

ADDRESS = "http://169.254.169.254"
PATIENCE_S = 1.0
# What Azure's virtual machines bear as chassis asset tag; other Hyper-V machines do not.
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"

_Fetch = Callable[..., requests.Response]


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
    try:
        result = _ASK[provider](_Service(address, patience_s).fetch)
    except (requests.RequestException, ValueError, KeyError, TypeError, AttributeError):
        # No answer, a proxy's page, or fields of another age: the facts are extras.
        result = {}
    available = {name: value for name, value in result.items() if value not in ("", None)}
    return {"cloud_provider": provider, **available}


def provider_of(root: Path = Path("/")) -> str:
    """Return "aws", "gcp" or "azure" as the firmware's tables say, "" for any other machine."""
    dmi = root / "sys/class/dmi/id"
    vendor = text(dmi / "sys_vendor")
    if vendor.startswith("Amazon EC2") or text(dmi / "board_vendor").startswith("Amazon EC2"):
        return "aws"
    if text(dmi / "product_name").startswith("Google Compute Engine"):
        return "gcp"
    return "azure" if text(dmi / "chassis_asset_tag") == _AZURE_TAG else ""


class _Service:
    """The metadata service, with one budget of time for everything that is asked of it."""

    def __init__(self, address: str, patience_s: float) -> None:
        self._address = address
        self._until_s = time.monotonic() + patience_s
        self._session = requests.Session()
        # A proxy would hand the request to another machine.
        self._session.trust_env = False

    def fetch(self, path: str, headers: Mapping[str, str], method: str = "GET") -> requests.Response:
        """Return the answer.

        Raises:
            requests.RequestException: none within the time, or it is an error.
        """
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise requests.Timeout("the metadata service is slow")
        answer = self._session.request(
            method, self._address + path, headers=dict(headers), timeout=left_s, allow_redirects=False
        )
        answer.raise_for_status()
        return answer


def _aws(fetch: _Fetch) -> dict[str, Scalar | None]:
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = {"X-aws-ec2-metadata-token": fetch("/latest/api/token", lifetime, "PUT").text}
    about = fetch("/latest/dynamic/instance-identity/document", token).json()
    return {
        "cloud_instance_type": _word(about["instanceType"]),
        "cloud_region": _word(about["region"]),
        "cloud_spot": fetch("/latest/meta-data/instance-life-cycle", token).text.strip() == "spot",
    }


def _gcp(fetch: _Fetch) -> dict[str, Scalar | None]:
    about = fetch("/computeMetadata/v1/instance/?recursive=true", {"Metadata-Flavor": "Google"}).json()
    zone = _word(about["zone"]).rpartition("/")[2]
    return {
        "cloud_instance_type": _word(about["machineType"]).rpartition("/")[2],
        "cloud_region": zone.rpartition("-")[0],
        "cloud_spot": str(about.get("scheduling", {}).get("preemptible", "")).upper() == "TRUE",
    }


def _azure(fetch: _Fetch) -> dict[str, Scalar | None]:
    about: dict[str, Any] = fetch(
        "/metadata/instance/compute?api-version=2021-02-01", {"Metadata": "true"}
    ).json()
    return {
        "cloud_instance_type": _word(about["vmSize"]),
        "cloud_region": _word(about["location"]),
        "cloud_spot": _word(about.get("priority", "")).lower() in ("spot", "low"),
    }


def _word(value: object) -> str:
    """Take a short text and nothing else: it goes into names and pages."""
    if not isinstance(value, str) or len(value) > 200:
        raise ValueError("not a name")
    return value


_ASK: Mapping[str, Callable[[_Fetch], dict[str, Scalar | None]]] = {"aws": _aws, "gcp": _gcp, "azure": _azure}
