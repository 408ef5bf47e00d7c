"""What the templates can call: formats, names and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.rounding import counted, scalar_word
from reports import messages, numbers
from reports.markdown import code_block, code_span, coded_markdown
from reports.names import device_name, variant_name
from reports.overview import Row, speed_factor
from reports.palette import part_colour
from reports.setup import setup_rows, state, system_rows
from reports.sweep_chart import outcome, ranked
from reports.text import breakable, coded

# Reasons for leaving a variant out that are so by design.
_BY_DESIGN = (
    "it says nothing",
    "input costs little",
    "copying costs little",
    "many steps",
    "Keras fit compiles",
)


def cold(phases: Sequence[tuple[str, float]]) -> float:
    """Return the seconds of all phases before steady state."""
    return sum(seconds for _, seconds in phases)


def known_number(value: float | None) -> str:
    """Write a number that may not be known."""
    return numbers.MISSING if value is None else numbers.number(value, 4)


def shorter(text: str) -> str:
    """Return what comes before the first comma."""
    return text.split(",", maxsplit=1)[0]


def slug(text: str) -> str:
    """Return text as an element's id."""
    return text.replace(" ", "-").lower()


def worth_listing(reason: str) -> bool:
    """Tell whether a variant was left out for another reason than that it would tell nothing."""
    return not reason.startswith(_BY_DESIGN)


def of_row(row: Row) -> Any:
    """Return the published number to show beside a row's baseline."""
    return speed_factor(row.published)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "breakable": breakable,
    "code_block": code_block,
    "code_span": code_span,
    "coded": coded,
    "coded_markdown": coded_markdown,
    "cold": cold,
    "counted": counted,
    "device": device_name,
    "duration": numbers.duration,
    "energy": numbers.energy,
    "explanation": messages.explanation,
    "factor": numbers.factor,
    "factor_interval": numbers.factor_interval,
    "fix": messages.fix,
    "gain_text": messages.gain,
    "interval": numbers.interval,
    "known_number": known_number,
    "limit": messages.limit,
    "money": numbers.money,
    "no_rate": messages.no_rate,
    "number": numbers.number,
    "part_colour": part_colour,
    "percent": numbers.percent,
    "published_quantity": numbers.published,
    "quantity": numbers.quantity,
    "ranked_points": ranked,
    "ratio": numbers.ratio,
    "ratio_interval": numbers.ratio_interval,
    "setup_rows": setup_rows,
    "shorter": shorter,
    "size": numbers.size,
    "slug": slug,
    "speed": numbers.speed,
    "speed_factor": of_row,
    "state": state,
    "sweep_outcome": outcome,
    "sweep_value": scalar_word,
    "system_rows": system_rows,
    "variant": variant_name,
    "when": numbers.when,
    "worth_listing": worth_listing,
}
