"""--price: amounts, files of machines, and what is said of a mistake in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.model.run import Prices
from harness.prices import machine_name, priced, prices_for, prices_of, read_prices, spelt_out
from tests import builders

TOML = """
currency = "EUR"
electricity = 0.31
cpu = 0.1

[machines]
"*g4dn.xlarge" = 0.526

[machines.Standard_NC4as_T4_v3]
cpu = 0.2
gpu = 0.526

[gpus]
"NVIDIA H200" = 3.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(TOML, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0.526", Prices(machine=0.526, source="--price")),
        ("cpu=0.2,gpu=0.526", Prices(cpu=0.2, gpu=0.526, source="--price")),
        (
            "card=3,electricity=0.3,currency=EUR",
            Prices(card=3.0, electricity_per_kwh=0.3, currency="EUR", source="--price"),
        ),
    ],
)
def test_amounts(text: str, wanted: Prices) -> None:
    assert prices_for(text, "any", ()) == wanted
    assert prices_for(spelt_out(wanted), "another", ()) == wanted


class TestFiles:
    def test_a_machine_is_known_by_its_name_or_the_last_word_of_it(self, file: Path) -> None:
        found = prices_for(str(file), "Amazon EC2 g4dn.xlarge", ())
        assert (found.machine, found.currency, found.electricity_per_kwh) == (0.526, "EUR", 0.31)
        assert found.source == f"{file}, *g4dn.xlarge"
        assert prices_for(str(file), "Vendor standard_nc4as_t4_V3", ()).gpu == 0.526

    def test_an_instance_can_be_named(self, file: Path) -> None:
        found = prices_for(f"{file},instance=Standard_NC4as_T4_v3", "Virtual Machine", ())
        assert (found.cpu, found.gpu) == (0.2, 0.526)

    def test_cards_are_known_by_their_model(self, file: Path) -> None:
        found = prices_for(str(file), "unheard of", ("NVIDIA H200",))
        assert (found.card, found.cpu, found.gpu) == (3.5, 0.1, None)

    def test_the_command_line_comes_before_the_file(self, file: Path) -> None:
        found = prices_for(f"{file},gpu=9,instance=Standard_NC4as_T4_v3", "", ())
        assert (found.gpu, found.cpu) == (9.0, 0.2)

    def test_json_and_yaml_say_the_same(self, tmp_path: Path) -> None:
        document = {"machines": {"box": {"cpu": 0.5}}, "currency": "CHF"}
        for name, text in (("a.json", json.dumps(document)), ("b.yaml", json.dumps(document, indent=1))):
            (tmp_path / name).write_text(text, encoding="utf-8")
            found = prices_for(str(tmp_path / name), "Box", ())
            assert (found.cpu, found.currency) == (0.5, "CHF")

    def test_a_machine_that_is_not_in_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "p.json"
        path.write_text('{"machines": {"box": 1}}', encoding="utf-8")
        assert prices_of(read_prices(str(path)), "other", ()) is None
        with pytest.raises(UsageError) as error:
            prices_for(str(path), "other", ())
        assert "no price for other" in error.value.message
        assert "box" in error.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no price"),
        ("dear", "'dear' is no amount for machine"),
        ("gpu=-1", "'-1' is no amount"),
        ("gpu=nan", "'nan' is no amount"),
        ("tpu=1", "no price 'tpu'"),
        ("0.5,instance=box", "names no price"),
        ("nowhere.toml", "Cannot read nowhere.toml"),
    ],
)
def test_mistakes_name_what_to_try(text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read_prices(text)
    assert said in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[machines", "is not TOML"),
        ("machines = 3", "machines is not a table"),
        ("[machines.box]\nfree = 1", "box: there is no price 'free'"),
        ("[machines]\nbox = true", "True is no amount"),
    ],
)
def test_mistakes_in_a_file_name_it(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_prices(str(path))
    assert said in error.value.message
    assert str(path) in error.value.message


def test_an_entry_that_is_not_there_is_named_with_those_that_are(file: Path) -> None:
    with pytest.raises(UsageError) as error:
        read_prices(f"{file},instance=box")
    assert "Standard_NC4as_T4_v3" in error.value.hint


def test_a_report_can_be_made_with_other_prices() -> None:
    manifest = replace(builders.manifest(gpus=1), prices=Prices(machine=1.0))
    assert priced(manifest, "") is manifest
    assert priced(manifest, "2").prices == Prices(machine=2.0, source="--price")


@pytest.mark.parametrize("name", ["Google Compute Engine", "Amazon EC2 n1-standard-4"])
def test_a_run_s_machine_is_known_by_what_the_cloud_calls_its_type(tmp_path: Path, name: str) -> None:
    """Some clouds put the type into the machine's own name, the others tell it apart."""
    path = tmp_path / "prices.toml"
    path.write_text("[machines]\nn1-standard-4 = 0.19\n", encoding="utf-8")
    made = builders.manifest(gpus=0)
    facts = {**made.host_facts, "cloud_instance_type": "n1-standard-4"}
    made = replace(made, system={**made.system, "system_name": name}, host_facts=facts)
    found = priced(made, str(path)).prices
    assert found is not None and found.machine == 0.19
    assert machine_name(name, facts).count("n1-standard-4") == 1
