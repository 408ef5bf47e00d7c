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

from harness.defaults import PROFILES
from harness.model.run import Run, Status, Trial
from harness.run.footprint import Footprint, footprints
from harness.run.recording import open_run

TABLE = Path(__file__).resolve().parents[1] / "harness/run/footprint.json"


def measured(run: Run) -> Iterator[tuple[str, Footprint]]:
    """Yield what each workload of a run took on the CPU."""
    profile = run.manifest.profile.name
    data = {each.workload: each.size_bytes for each in run.manifest.data}
    on_cpu = [trial for trial in run.trials if trial.device == "cpu" and trial.status is Status.OK]
    for name in dict.fromkeys(trial.workload for trial in on_cpu):
        own = [trial for trial in on_cpu if trial.workload == name]
        model = run.manifest.system.get("host_processor_model_name", "processor")
        yield (
            name,
            Footprint(
                profile=profile,
                trial_s=round(median((trial.ended_ns - trial.started_ns) / 1e9 for trial in own), 1),
                trials=PROFILES[profile].trials,
                memory_bytes=max(filter(None, map(_memory, own)), default=None),
                data_bytes=data.get(name, 0),
                machine=f"{own[0].facts.get('cpus_visible', '')} x {model}",
            ),
        )


def _memory(trial: Trial) -> int | None:
    for series in trial.telemetry:
        used = series.columns.get("mem_used_bytes")
        if series.source == "cgroup" and used is not None and np.isfinite(used).any():
            return int(np.nanmax(used))
    return None


def merged(
    old: Mapping[str, tuple[Footprint, ...]], new: Iterator[tuple[str, Footprint]]
) -> dict[str, tuple[Footprint, ...]]:
    """Return `old` with `new` in the place of the same workload's same profile."""
    table = dict(old)
    for name, footprint in new:
        rest = [other for other in table.get(name, ()) if other.profile != footprint.profile]
        table[name] = tuple(sorted((*rest, footprint), key=lambda each: list(PROFILES).index(each.profile)))
    return dict(sorted(table.items()))


def main(paths: list[str]) -> None:
    """Read the runs and write the table."""
    table = dict(footprints())
    for path in paths:
        table = merged(table, measured(open_run(Path(path))))
    document = {name: [asdict(each) for each in own] for name, own in table.items()}
    TABLE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
