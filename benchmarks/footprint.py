"""Write harness/run/footprint.json from finished runs: `python -m benchmarks.footprint RUN...`.

What a run does not have stays as it was, so that workloads can be measured one by one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np

from harness.model.run import Run, Status, Trial
from harness.run.footprint import Footprint, footprints
from harness.run.plan import PROFILES
from harness.run.recording import open_run

TABLE = Path(__file__).resolve().parents[1] / "harness/run/footprint.json"


def measured(run: Run) -> Iterator[tuple[str, Footprint]]:
    """Yield what each workload of a run took on the CPU."""
    profile = run.manifest.profile.name
    data = {one.workload: one.size_bytes for one in run.manifest.data}
    system = run.manifest.system
    for name in dict.fromkeys(trial.workload for trial in run.trials):
        own = [
            one for one in run.trials if (one.workload, one.device, one.status) == (name, "cpu", Status.OK)
        ]
        if own:
            cpus = own[0].facts.get("cpus_visible", "")
            yield (
                name,
                Footprint(
                    profile=profile,
                    trial_s=round(median((one.ended_ns - one.started_ns) / 1e9 for one in own), 1),
                    trials=PROFILES[profile].trials,
                    memory_bytes=max((peak for one in own if (peak := _memory(one))), default=None),
                    data_bytes=data.get(name, 0),
                    machine=f"{cpus} x {system.get('host_processor_model_name', 'processor')}",
                ),
            )


def _memory(trial: Trial) -> int | None:
    for series in trial.telemetry:
        used = series.columns.get("mem_used_bytes")
        if series.source == "cgroup" and used is not None and np.isfinite(used).any():
            return int(np.nanmax(used))
    return None


def merged(
    old: Mapping[str, tuple[Footprint, ...]], found: Iterator[tuple[str, Footprint]]
) -> dict[str, tuple[Footprint, ...]]:
    """Return `old` with what was found in the place of the same workload's same profile."""
    table = dict(old)
    for name, one in found:
        rest = [other for other in table.get(name, ()) if other.profile != one.profile]
        table[name] = tuple(sorted((*rest, one), key=lambda each: list(PROFILES).index(each.profile)))
    return dict(sorted(table.items()))


def main(paths: list[str]) -> None:
    """Read the runs and write the table."""
    table = dict(footprints())
    for path in paths:
        table = merged(table, measured(open_run(Path(path))))
    document = {name: [asdict(one) for one in each] for name, each in table.items()}
    TABLE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
