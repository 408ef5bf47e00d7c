"""What users write with --price: an amount, amounts by device, or a file of machines and their prices.

0.526                                an hour of the machine, whichever device works
cpu=0.20,gpu=0.526                   an hour of the machine that one would rent for each
cpu=0.20,card=3.50                   an hour of each GPU that a trial uses
0.526,electricity=0.30,currency=EUR  a kilowatt-hour beside it; the currency is USD unless told
prices.toml,instance=NC4as_T4_v3     an entry of a file (TOML, JSON or YAML); see docs/cost.md
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from harness.errors import UsageError
from harness.model.run import Manifest, Prices, Scalar

_AMOUNTS: Mapping[str, str] = {
    "machine": "machine",
    "cpu": "cpu",
    "gpu": "gpu",
    "card": "card",
    "electricity": "electricity_per_kwh",
}
_KEYS = (*_AMOUNTS, "currency")
_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
}
_HINT = "Write --price 0.526, --price cpu=0.20,gpu=0.526 or --price prices.toml; see docs/cost.md."


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Prices before it is known for which machine.

    Attributes:
        given: amounts and currency from the command line, by the names of `Prices`; they come first.
        common: those of a file's top level, which come last.
        machines: pattern of a machine's name -> its amounts.
        gpus: pattern of a GPU's model -> its amounts.
        instance: the one of `machines` to take whatever this machine is called, "" to go by its name.
        source: where they come from, in words.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    common: Mapping[str, Any] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gpus: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    instance: str = ""
    source: str = ""


def read_prices(text: str) -> PriceList:
    """Read what was written with --price.

    Raises:
        UsageError: it is neither an amount nor a price file, or a value in it is not usable.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    listed = PriceList(source="--price")
    given: dict[str, Any] = {}
    instance = ""
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name == "instance":
            instance = value
        elif equals:
            given |= _amount(name, value, f"--price {word}")
        elif Path(word).suffix in _PARSERS:
            listed = _read_file(Path(word))
        else:
            given |= _amount("machine", word, f"--price {word}")
    if not words or (instance and not listed.machines):
        raise UsageError(f"--price {text} names no price.", hint=_HINT)
    if instance and instance not in listed.machines:
        known = ", ".join(listed.machines)
        raise UsageError(f"{listed.source} has no machine {instance!r}.", hint=f"It has: {known}.")
    return replace(listed, given=given, instance=instance)


def prices_of(listed: PriceList, machine: str, cards: Sequence[str]) -> Prices | None:
    """Return what holds for a machine; None where the list says nothing of it.

    What is said of the machine comes before what is said of its GPUs, and both before what holds for all.

    Args:
        machine: MLPerf's system_name; on some clouds its last word is the instance type, which fits as well.
        GPUs: the models of its GPUs.
    """
    entry = listed.instance or _matching(listed.machines, (machine, machine.rpartition(" ")[2]))
    card = _matching(listed.gpus, cards)
    levels = (listed.common, listed.gpus.get(card, {}), listed.machines.get(entry, {}), listed.given)
    found = {name: value for level in levels for name, value in level.items()}
    if not set(found) - {"currency"}:
        return None
    return Prices(**found, source=", ".join(filter(None, (listed.source, entry or card))))


def prices_for(text: str, machine: str, cards: Sequence[str]) -> Prices:
    """Return the prices of one machine baseline with --price; its arguments as those of prices_of.

    Raises:
        UsageError: see read_prices; or a price file says nothing of this machine.
    """
    listed = read_prices(text)
    prices = prices_of(listed, machine, cards)
    if prices is None:
        known = ", ".join((*listed.machines, *listed.gpus)) or "nothing"
        raise UsageError(
            f"{listed.source} has no price for {machine or 'this machine'}.",
            hint=f"Name one of its machines with --price FILE,instance=NAME; it has: {known}.",
        )
    return prices


def machine_name(system_name: str, facts: Mapping[str, Scalar]) -> str:
    """Return what a price file may know a machine by: its name, and the cloud's name of its type last.

    Args:
        system_name: MLPerf's.
        facts: of the host, which have the cloud's where it was asked.
    """
    kind = str(facts.get("cloud_instance_type", ""))
    return system_name if system_name.endswith(kind) else f"{system_name} {kind}".strip()


def prices_in(listed: PriceList, manifest: Manifest) -> Prices | None:
    """Return what holds for the machine that a run was made on; None where the list says nothing of it."""
    return prices_of(listed, *_machine(manifest))


def priced(manifest: Manifest, text: str) -> Manifest:
    """Return `manifest` with the prices that --price names for its machine; as it is where `text` is "".

    Raises:
        UsageError: see prices_for.
    """
    return replace(manifest, prices=prices_for(text, *_machine(manifest))) if text else manifest


def _machine(manifest: Manifest) -> tuple[str, list[str]]:
    name = machine_name(manifest.system.get("system_name", ""), manifest.host_facts)
    return name, [gpu.name for gpu in manifest.gpus]


def spelt_out(prices: Prices) -> str:
    """Return --price's value that gives `prices` again, without any file."""
    amounts = {name: getattr(prices, attribute) for name, attribute in _AMOUNTS.items()}
    words = [f"{name}={value:.12g}" for name, value in amounts.items() if value is not None]
    return ",".join([*words, f"currency={prices.currency}"])


def _read_file(path: Path) -> PriceList:
    try:
        document = _PARSERS[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.", hint="Check the path.") from error
    except (ValueError, yaml.YAMLError) as error:
        first = str(error).splitlines()[0]
        kind = path.suffix.removeprefix(".").upper()
        raise UsageError(f"{path} is not {kind}: {first}.", hint="Correct it; see docs/cost.md.") from error
    if not isinstance(document, Mapping):
        raise UsageError(f"{path} holds no prices.", hint="See docs/cost.md for what it may hold.")
    rest = {name: value for name, value in document.items() if name not in ("machines", "gpus")}
    return PriceList(
        common=_amounts(rest, str(path)),
        machines=_entries(document, "machines", "machine", path),
        gpus=_entries(document, "gpus", "card", path),
        source=str(path),
    )


def _entries(
    document: Mapping[str, Any], group: str, single: str, path: Path
) -> Mapping[str, Mapping[str, Any]]:
    """Read a group's entries; one that is a bare amount is that of a whole machine, or of a GPU."""
    entries = document.get(group, {})
    if not isinstance(entries, Mapping):
        raise UsageError(f"{path}: {group} is not a table.", hint="See docs/cost.md for what it may hold.")
    return {
        str(name): _amounts(entry if isinstance(entry, Mapping) else {single: entry}, f"{path}: {name}")
        for name, entry in entries.items()
    }


def _amounts(values: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _amount(str(name), value, where)
    return found


def _amount(name: str, value: Any, where: str) -> Mapping[str, Any]:
    if name == "currency" and isinstance(value, str) and value:
        return {"currency": value}
    if name not in _AMOUNTS:
        raise UsageError(f"{where}: there is no price {name!r}.", hint=f"Choose from: {', '.join(_KEYS)}.")
    try:
        amount = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise UsageError(f"{where}: {value!r} is no amount for {name}.", hint=_HINT)
    return {_AMOUNTS[name]: amount}


def _matching(patterns: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first pattern that one of the names fits, whatever the case; "" where none does."""
    for pattern in patterns:
        if any(name and fnmatchcase(name.casefold(), pattern.casefold()) for name in names):
            return pattern
    return ""
