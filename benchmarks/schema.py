"""Write the JSON schema of results.json: `python -m benchmarks.schema`.

A change of docs/results.schema.json that renames or removes a field, or changes its meaning, needs a higher
RESULTS_VERSION in reports/exports.py: programs and limits refer to these names.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from harness.analysis.quantities import QUANTITIES
from harness.model.analysis import Analysis, Cause, Reading, Value
from harness.model.run import Trial
from harness.options import Options
from reports.exports import LEFT_OUT, RESULTS_VERSION

FILE = Path(__file__).resolve().parents[1] / "docs/results.schema.json"
# Unknown values are null.
_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    Path: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},
    type(None): {"type": "null"},
    Any: {},
}


class Schema:
    """Collects the definitions of the classes that a type refers to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        origin, arguments = get_origin(kind), get_args(kind)
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if kind is Options:
            # What the user gave, not a result: a new option changes no schema.
            return {"type": "object", "description": "The options of tfbench bench; see its --help."}
        if kind is Cause:
            # An open list: a new cause changes no schema.
            return {"type": "string", "description": "A cause of docs/step-time.md."}
        if origin is Annotated:
            return self.of(arguments[0])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin is tuple:
            if arguments[1:] == (...,):
                return {"type": "array", "items": self.of(arguments[0])}
            return {"type": "array", "prefixItems": [self.of(each) for each in arguments]}
        if origin is not None and issubclass(origin, Mapping):
            # Names of readings are text: "nvml.gpu0.sm_clock_mhz".
            assert arguments[0] is Reading or issubclass(arguments[0], str), kind
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if isinstance(kind, type) and issubclass(kind, Enum):
            self.definitions.setdefault(kind.__name__, {"enum": [each.value for each in kind]})
        elif dataclasses.is_dataclass(kind):
            self._define(kind)
        else:
            raise TypeError(f"{kind} has no schema")
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def _define(self, kind: Any) -> None:
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # it may refer to itself
            properties = self.properties(kind)
            self.definitions[kind.__name__] |= {
                "type": "object", "properties": properties, "required": list(properties),
            }  # fmt: skip

    def properties(self, kind: Any) -> dict[str, Any]:
        """Return the fields of a class."""
        hints = get_type_hints(kind, include_extras=True)
        names = (each.name for each in dataclasses.fields(kind))
        return {name: self.of(hints[name]) for name in names if kind is not Trial or name not in LEFT_OUT}


def schema() -> dict[str, Any]:
    """Return the schema, derived from the classes that the export writes."""
    collected = Schema()
    head = {
        "schema": {"const": "tfbench-results"},
        "schema_version": {"const": RESULTS_VERSION},
        "values": collected.of(tuple[Value, ...]),
    }
    properties = {**head, **collected.properties(Analysis)}
    names = "; ".join(f"{each.pattern}: {each.meaning}" for each in QUANTITIES)
    collected.definitions["Value"]["properties"]["name"]["description"] = names
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "results.json of tfbench",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": dict(sorted(collected.definitions.items())),
    }


def text() -> str:
    """Return the file, with a line for each field and definition, so that differences are read easily."""
    whole = schema()
    lines = []
    for name, value in whole.items():
        if name in ("properties", "$defs"):
            inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items())
            lines.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
