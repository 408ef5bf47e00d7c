"""Write harness/cli/footprint.json from finished runs: `python -m benchmarks.footprint RUN...`.

Workloads and profiles missing from the runs keep their entries.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from harness.cli.list import FOOTPRINTS
from harness.defaults import PROFILES
from harness.model.run import Run, Status, Trial
from harness.run.recording import open_run

Footprint = Mapping[str, Any]


def cpu_footprints(run: Run) -> Iterator[tuple[str, Footprint]]:
    """Yield the CPU footprint of each workload in a run."""
    profile = run.manifest.profile.name
    data: Counter[str] = Counter()
    for each in run.manifest.data:
        data[each.workload] += each.size_bytes
    on_cpu = [trial for trial in run.trials if trial.device == "cpu" and trial.status is Status.OK]
    for name in dict.fromkeys(trial.workload for trial in on_cpu):
        trials = [trial for trial in on_cpu if trial.workload == name]
        model = run.manifest.system.get("host_processor_model_name", "processor")
        yield (
            name,
            {
                "profile": profile,
                "trial_s": round(median((trial.ended_ns - trial.started_ns) / 1e9 for trial in trials), 1),
                "trials": PROFILES[profile].trials,
                "memory_bytes": max(filter(None, map(_memory, trials)), default=None),
                "data_bytes": data[name],
                "machine": f"{trials[0].facts.get('cpus_visible', '')} x {model}",
            },
        )


def _memory(trial: Trial) -> int | None:
    for series in trial.telemetry:
        used = series.columns.get("mem_used_bytes")
        if series.source == "cgroup" and used is not None and np.isfinite(used).any():
            return int(np.nanmax(used))
    return None


def updated(
    old: Mapping[str, Sequence[Footprint]], new: Iterator[tuple[str, Footprint]]
) -> dict[str, Sequence[Footprint]]:
    """Return `old` updated with `new`, which replaces entries of the same workload and profile."""
    table = dict(old)
    for name, footprint in new:
        others = [other for other in table.get(name, ()) if other["profile"] != footprint["profile"]]
        table[name] = sorted((*others, footprint), key=lambda each: list(PROFILES).index(each["profile"]))
    return dict(sorted(table.items()))


def main(paths: list[str]) -> None:
    """Read the runs and write the table."""
    table = json.loads(FOOTPRINTS.read_text(encoding="utf-8"))
    for path in paths:
        table = updated(table, cpu_footprints(open_run(Path(path))))
    FOOTPRINTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
