"""xprof's input pipeline analyzer on traces: `python -m benchmarks.peers.xprof TRACE ...` prints JSON.

Each trace is an .xplane.pb file. Of each, the share of the step time that input took is printed, and the
sentence that xprof's page draws from it; null where it could make nothing of the trace.
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
    """Return what xprof says of one trace."""
    convert = importlib.import_module("xprof.convert.raw_to_tool_data")
    data, _ = convert.xspace_to_tool_data([trace], TOOL, {"use_saved_result": False})
    return answer(json.loads(data)) if data else {"input_pct": None, "conclusion": "no analysis"}


def answer(tables: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the share of the step time that input takes, in percent, and xprof's conclusion from it.

    Args:
        tables: those of its page, as its Google charts get them.
    """
    for table in tables:
        properties = table.get("p") or {}
        if "input_conclusion" in properties:
            names = [column["id"] for column in table["cols"]]
            steps = [[cell["v"] for cell in row["c"]] for row in table["rows"]]
            # Its own averages are rounded to tenths of a millisecond, which short steps are made of.
            total = sum(step[names.index("stepTimeMs")] for step in steps)
            waited = sum(step[names.index("infeedTimeMs")] for step in steps)
            conclusion = re.sub(r"<[^>]+>", "", properties["input_conclusion"])
            return {"input_pct": 100 * waited / total if total else None, "conclusion": conclusion}
    return {"input_pct": None, "conclusion": "no analysis"}


def main(arguments: Sequence[str]) -> int:
    """Print what xprof says of every trace, by its path."""
    sys.stdout.write(json.dumps({trace: analysed(trace) for trace in arguments}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
