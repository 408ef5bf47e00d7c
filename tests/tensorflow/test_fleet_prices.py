"""A price file in a fleet: it travels with the order; each node finds its entry by its cloud's own word."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness.bench import Options, options_document
from harness.cloud import cloud_facts
from harness.errors import UsageError
from harness.fleet.model import Order
from harness.fleet.session import shipped
from harness.fleet.worker import prepared_for
from harness.places import places_here
from harness.progress import Silent
from harness.session import Prepared
from tests.endtoend import workload_file
from tests.test_cloud import Metadata, firmware, served

pytestmark = pytest.mark.tensorflow

PRICES = {
    "currency": "EUR",
    "machines": {"g5.xlarge": 1.5, "Standard_NC4as_T4_v3": {"cpu": 0.2, "gpu": 0.6}},
}


@pytest.fixture
def metadata() -> Iterator[str]:
    handler: type[BaseHTTPRequestHandler] = Metadata
    with served(handler) as address:
        yield address


def order(tmp_path: Path) -> Order:
    """Make an order as the driver does, and take away what only the driver has."""
    price = tmp_path / "driver/prices.json"
    price.parent.mkdir()
    price.write_text(json.dumps(PRICES))
    options = Options(
        profile="smoke", engine="local", device="cpu", workloads=(), data="procedural",
        files=(workload_file(tmp_path / "files", "good"),), price=str(price),
    )  # fmt: skip
    files = {str(path): path.read_text() for path in shipped(options)}
    made = Order(fleet_id="x", options=options_document(options), files=files)
    for path in files:
        Path(path).unlink()
    return made


def on_node(cloud: str, made: Order, tmp_path: Path, address: str) -> Prepared:
    """Make the order ready on a node of a cloud, which has what TensorFlow takes already."""
    folder = tmp_path / f"node-{cloud}"
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    here = places_here(os.environ)
    (folder / "cache").mkdir()
    (folder / "cache/environments").symlink_to(here.cache / "environments")
    ask = partial(cloud_facts, firmware(folder / "root", cloud), address)
    return prepared_for(made, replace(here, cache=folder / "cache"), scratch, Silent(), ask_cloud=ask)


def test_each_node_has_the_price_of_its_own_instance_type(
    tf_python: Path, tmp_path: Path, metadata: str
) -> None:
    made = order(tmp_path)
    found: Mapping[str, Prepared] = {
        name: on_node(name, made, tmp_path, metadata) for name in ("aws", "azure")
    }
    for prepared in found.values():
        prepared.engine.close()
    aws, azure = (found[name].manifest for name in ("aws", "azure"))
    assert aws.prices is not None
    assert azure.prices is not None
    assert (aws.prices.machine, aws.prices.currency) == (1.5, "EUR")
    assert (azure.prices.machine, azure.prices.cpu, azure.prices.gpu) == (None, 0.2, 0.6)
    assert aws.prices.source == f"{tmp_path}/driver/prices.json, g5.xlarge", "as it was written"
    assert aws.host_facts["cloud_instance_type"] == "g5.xlarge"
    assert azure.host_facts["cloud_spot"] is False


def test_a_node_that_the_file_does_not_know_says_which_it_is(tmp_path: Path, metadata: str) -> None:
    with pytest.raises(UsageError, match=r"no price for .*a2-highgpu-1g") as raised:
        on_node("gcp", order(tmp_path), tmp_path, metadata)
    assert "g5.xlarge" in raised.value.hint
