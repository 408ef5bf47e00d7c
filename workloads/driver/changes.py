"""How a variant's script differs from the baseline's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.protocol import Change


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return what a script chooses differently from the baseline's."""
    return [
        Change(what=name, before=_text(before.get(name)), after=_text(after[name]))
        for name in sorted(after)
        if before.get(name) != after[name] and name != "samples_per_epoch"
    ]


def _text(value: Any) -> str:
    if value is None:
        return "default"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
