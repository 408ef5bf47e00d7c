"""xprof's input pipeline analyzer on traces: `python -m benchmarks.peers.xprof TRACE ...` prints JSON.

Each trace is an .xplane.pb file. Of each, the share of the step time that input took is printed, as xprof's
own page shows it, and the sentence that it draws from it; null where it made none of the trace.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

TOOL = "input_pipeline_analyzer"


def analysed(trace: str) -> Mapping[str, Any]:
    """Return what xprof says of one trace: step milliseconds, input share in percent, its conclusion."""
    convert = importlib.import_module("xprof.convert.raw_to_tool_data")
    data, _ = convert.xspace_to_tool_data([trace], TOOL, {"use_saved_result": False})
    if data is None:
        return {"input_pct": None, "step_ms": None, "conclusion": "no analysis"}
    tables = json.loads(data)
    properties: dict[str, Any] = {}
    for table in tables if isinstance(tables, list) else [tables]:
        properties |= table.get("p", {})
    return {
        "input_pct": number(properties.get("infeed_percent_average")),
        "step_ms": number(properties.get("steptime_ms_average")),
        "conclusion": re.sub(r"<[^>]+>", "", properties.get("input_conclusion", "")),
        "hardware": properties.get("hardware_type", ""),
    }


def number(text: object) -> float | None:
    """Return a number that xprof wrote as text, None for "no data"."""
    try:
        return float(str(text))
    except ValueError:
        return None


def main(arguments: Sequence[str]) -> int:
    """Print what xprof says of every trace, by its path."""
    sys.stdout.write(json.dumps({trace: analysed(trace) for trace in arguments}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
