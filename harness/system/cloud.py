"""The cloud, instance and coming end of a virtual machine, from its metadata service.

The services answer on a link-local address within milliseconds, and are queried only if the firmware names
the cloud. See AWS "Instance metadata (IMDSv2)" and "Spot Instance interruption notices", Google "About VM
metadata", Azure "Instance Metadata Service" and "Scheduled Events".
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import requests

from harness.model.run import Scalar
from harness.system.machine import text

ADDRESS = "http://169.254.169.254"
TIMEOUT_S = 0.5
# AWS asks to poll every 5 s; the clouds give 30 s (Google, Azure) or 2 min (AWS).
NOTICE_EVERY_S = 5.0
# Chassis asset tag of Azure's virtual machines; that of other Hyper-V machines differs.
_AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"
_FACTS = ("instance_type", "zone", "lifecycle", "image")
_LIFECYCLES = {"true": "spot", "false": "on-demand", "regular": "on-demand"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """The service of one cloud: where it has a fact as plain text, and a notice of termination.

    Attributes:
        path, query: before and after each name in `facts`.
        facts: of each of _FACTS, the names of its parts in braces.
    """

    path: str
    facts: tuple[str, str, str, str]
    notice: str
    headers: Mapping[str, str]
    query: str = ""


_SERVICES: Mapping[str, _Service] = {
    "aws": _Service(
        path="/latest/meta-data/",
        facts=("{instance-type}", "{placement/availability-zone}", "{instance-life-cycle}", "{ami-id}"),
        notice="/latest/meta-data/spot/instance-action",
        headers={},
    ),
    "gcp": _Service(
        path="/computeMetadata/v1/instance/",
        facts=("{machine-type}", "{zone}", "{scheduling/preemptible}", "{image}"),
        notice="/computeMetadata/v1/instance/preempted",
        headers={"Metadata-Flavor": "Google"},
    ),
    "azure": _Service(
        path="/metadata/instance/compute/",
        facts=("{vmSize}", "{location}-{zone}", "{priority}", "{publisher}:{offer}:{sku}:{version}"),
        notice="/metadata/scheduledevents?api-version=2020-07-01",
        headers={"Metadata": "true"},
        query="?api-version=2021-02-01&format=text",
    ),
}
Ask = Callable[[str], str]


class _Event(msgspec.Struct, rename="pascal"):
    """A scheduled event of Azure; `resources` are names of machines."""

    event_type: str = ""
    resources: list[str] = []


class _Events(msgspec.Struct, rename="pascal"):
    events: list[_Event] = []


class _Action(msgspec.Struct):
    """A notice of AWS."""

    action: str = ""


def cloud_facts(
    root: Path = Path("/"), address: str = ADDRESS, timeout_s: float = TIMEOUT_S
) -> dict[str, Scalar]:
    """Return cloud_provider, and what its service says: cloud_instance_type, _zone, _lifecycle, _image.

    All requests together take at most twice `timeout_s`; the first one without a response is the last.
    """
    provider = provider_of(root)
    if not provider:
        return {}
    service = _SERVICES[provider]
    facts: dict[str, Scalar] = {"cloud_provider": provider}
    with suppress(requests.RequestException, ValueError), _asking(provider, address, timeout_s) as ask:
        for fact, names in zip(_FACTS, service.facts, strict=True):
            value = re.sub(
                "{(.+?)}", lambda name: _word(ask(f"{service.path}{name[1]}{service.query}")), names
            ).strip(":-")
            if fact == "lifecycle":
                value = _LIFECYCLES.get(value.lower(), value.lower())
            if value:
                facts[f"cloud_{fact}"] = value
    return facts


@contextmanager
def watching_for_end(
    provider: str, address: str = ADDRESS, every_s: float = NOTICE_EVERY_S
) -> Iterator[Callable[[], str]]:
    """Yield a function that returns how the cloud will end this machine, e.g. "terminate"; "" while it says nothing.

    Args:
        provider: as `provider_of` returns it; "" for no queries.
    """
    notices: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while provider and not notices and not stop.is_set():
            with (
                suppress(requests.RequestException, ValueError),
                _asking(provider, address, TIMEOUT_S) as ask,
            ):
                if notice := _notice(provider, ask):
                    notices.append(notice)
            stop.wait(every_s)

    threading.Thread(target=watch, name="cloud-notices", daemon=True).start()
    try:
        yield lambda: next(iter(notices), "")
    finally:
        stop.set()


def _notice(provider: str, ask: Ask) -> str:
    service = _SERVICES[provider]
    answer = ask(service.notice)
    if provider == "aws":
        return _word(msgspec.json.decode(answer, type=_Action).action) if answer else ""
    if provider == "gcp":
        return "preempt" if answer.strip() == "TRUE" else ""
    events = msgspec.json.decode(answer, type=_Events).events if answer else []
    if not events:
        return ""
    # The events are those of all machines of an availability set.
    name = ask(f"{service.path}name{service.query}").strip()
    kinds = [event.event_type for event in events if not name or name in event.resources]
    return next(
        (kind.lower() for kind in kinds if kind in ("Preempt", "Terminate", "Reboot", "Redeploy")), ""
    )


@contextmanager
def _asking(provider: str, address: str, timeout_s: float) -> Iterator[Ask]:
    """Yield a function that returns the answer at a path, "" for an error status.

    Raises:
        requests.RequestException: no response within `timeout_s`, or within twice that in all.
    """
    deadline_s = time.monotonic() + 2 * timeout_s
    with requests.Session() as session:
        # A proxy would send the request from another machine.
        session.trust_env = False
        session.headers.update(_SERVICES[provider].headers)

        def ask(path: str, method: str = "GET") -> str:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise requests.Timeout("the time for all requests is over")
            response = session.request(
                method, address + path, timeout=min(timeout_s, left_s), allow_redirects=False
            )
            return response.text if response.status_code == requests.codes.ok else ""

        if provider == "aws":
            session.headers["X-aws-ec2-metadata-token-ttl-seconds"] = "60"
            session.headers["X-aws-ec2-metadata-token"] = ask("/latest/api/token", "PUT")
        yield ask


def _word(answer: str) -> str:
    """Return the last part of a path; "" for anything but a word, such as a proxy's error page."""
    word = answer.strip().rpartition("/")[2]
    return word if re.fullmatch(r"[\w.-]{1,100}", word) else ""


def provider_of(root: Path = Path("/")) -> str:
    """Return "aws", "gcp" or "azure" according to the firmware, else ""."""
    dmi = root / "sys/class/dmi/id"
    if any(text(dmi / name).startswith("Amazon EC2") for name in ("sys_vendor", "board_vendor")):
        return "aws"
    if text(dmi / "product_name").startswith("Google Compute Engine"):
        return "gcp"
    return "azure" if text(dmi / "chassis_asset_tag") == _AZURE_TAG else ""
