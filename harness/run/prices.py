"""Parse --price.

0.526                                per hour of the machine, for all devices
cpu=0.20,gpu=0.526                   per hour of the machine that one would rent for each device
cpu=0.20,each-gpu=3.50               per hour of each GPU that a trial uses
0.526,electricity=0.30,currency=EUR  electricity per kWh; the currency is USD by default
"""

from __future__ import annotations

import math
from dataclasses import fields

import msgspec

from harness.errors import UsageError, unknown
from harness.model.run import Prices

_HINT = "Write --price 0.526 or --price cpu=0.20,gpu=0.526; see docs/cost.md."
_NAMES = tuple(each.name for each in fields(Prices))


def read_prices(text: str) -> Prices | None:
    """Parse the value of --price; return None for "".

    Raises:
        UsageError: no amount, or an invalid value.
    """
    if not text:
        return None
    items = [part.strip().rpartition("=") for part in text.split(",") if part.strip()]
    values = {name.replace("-", "_") or "machine": value for name, _, value in items}
    values = {
        "electricity_per_kwh" if name == "electricity" else name: value for name, value in values.items()
    }
    for name in values.keys() - set(_NAMES):
        raise unknown("price", name, ("machine", "cpu", "gpu", "each-gpu", "electricity", "currency"))
    try:
        prices = msgspec.convert(values, Prices, strict=False)
        amounts = [value for name in _NAMES if isinstance(value := getattr(prices, name), float)]
        # A decimal comma gives two prices of the machine.
        distinct = len(values) == len(items)
        usable = distinct and prices.currency and amounts and all(0 <= each < math.inf for each in amounts)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"--price {text} is not a valid price.", hint=_HINT)
    return prices
