"""The input pipeline by itself: its stages, how many CPUs it uses, how fast it is."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.case import Case, cpus_used
from harness.analysis.stages import stages
from harness.model.analysis import Pipeline
from workloads.protocol import INPUT_ONLY, THREADS_PREFIX

# More CPUs than one thread uses, or more speed than one thread has, tell that work runs side by side.
SERIAL_CPUS, SERIAL_SPEEDUP = 1.25, 1.25


def pipelines(cases: Sequence[Case]) -> tuple[Pipeline, ...]:
    """Return the pipeline of each workload and device whose input was drained."""
    return tuple(
        Pipeline(
            workload=case.name,
            device=case.device,
            stages=stages(case.stage_names, case.measures),
            cpus_used=cpus_used(case, INPUT_ONLY),
            cpus=case.cpus,
        )
        for case in cases
        if INPUT_ONLY in case.variants
    )


def is_serial(case: Case) -> bool | None:
    """Tell whether the pipeline prepares one sample after another; None where nothing tells."""
    used, feed = cpus_used(case, INPUT_ONLY), case.speed(INPUT_ONLY)
    if used is None or feed is None:
        return None
    single = case.speed(f"{THREADS_PREFIX}1")
    return used <= SERIAL_CPUS and (single is None or feed <= SERIAL_SPEEDUP * single)
