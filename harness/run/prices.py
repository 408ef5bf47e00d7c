"""What users write with --price: key=value amounts, or one amount for an hour of the machine.

0.526                                an hour of the machine, whichever device works
cpu=0.20,gpu=0.526                   an hour of the machine that one would rent for each
cpu=0.20,each-gpu=3.50               an hour of each GPU that a trial uses
0.526,electricity=0.30,currency=EUR  a kilowatt-hour beside it; the currency is USD by default
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.model.run import Manifest, Prices

_AMOUNTS: Mapping[str, str] = {
    "machine": "machine",
    "cpu": "cpu",
    "gpu": "gpu",
    "each-gpu": "each_gpu",
    "electricity": "electricity_per_kwh",
}
_HINT = "Write --price 0.526 or --price cpu=0.20,gpu=0.526; see docs/cost.md."


def read_prices(text: str) -> Prices:
    """Read what was written with --price.

    Raises:
        UsageError: there is no amount in it, or a value is not usable.
    """
    result: dict[str, Any] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = word.rpartition("=")
        name = name or "machine"
        if name == "currency" and value:
            result["currency"] = value
        elif name in _AMOUNTS:
            result[_AMOUNTS[name]] = _amount(name, value)
        else:
            choices = ", ".join((*_AMOUNTS, "currency"))
            raise UsageError(f"There is no price {name!r}.", hint=f"Choose from: {choices}.")
    if not result.keys() - {"currency"}:
        raise UsageError(f"--price {text} has no price.", hint=_HINT)
    return Prices(**result, source="--price")


def priced(manifest: Manifest, text: str) -> Manifest:
    """Return `manifest` with the prices of --price; unchanged where `text` is "".

    Raises:
        UsageError: see read_prices.
    """
    return replace(manifest, prices=read_prices(text)) if text else manifest


def _amount(name: str, text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount >= 0):
        raise UsageError(f"--price: {text!r} is not an amount for {name}.", hint=_HINT)
    return amount
