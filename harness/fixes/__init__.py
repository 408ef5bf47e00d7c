"""Remedies as changes to a script's source: one file each, with what, why, when it is safe, and the change.

A module with a `RULE` is a remedy; the others help them.

A change is a set of edits at positions that `ast` gives, so that formatting is kept and the edits of several
remedies can be applied together. `workloads/driver/edits.py` applies them in the container.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from harness.fixes.rule import Rule
from harness.fixes.source import Source
from workloads.protocol import Aim, Fix
from workloads.variants import FIX

_MODULES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
_RULES: list[Rule] = [module.RULE for module in _MODULES if hasattr(module, "RULE")]
# In the order in which they are tried.
REMEDIES: Mapping[str, Rule] = {
    rule.name: rule for rule in sorted(_RULES, key=lambda rule: (list(Aim).index(rule.aim), rule.name))
}


def fixes_for(text: str, device: str) -> Mapping[str, Fix]:
    """Return the remedies that fit a script: variant -> its edits."""
    source = Source(text, device)
    found = {rule: tuple(rule.edits(source)) for rule in REMEDIES.values()}
    return {FIX.of(rule.name): Fix(edits=edits, aim=rule.aim) for rule, edits in found.items() if edits}


def rule_of(variant: str) -> Rule | None:
    """Return the remedy that a variant is; None for others, and for several together."""
    return REMEDIES.get(FIX.argument(variant))
