"""Every default that a user may want to change: profiles, sampling, limits, patience."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.protocol import Measuring

PROFILE = "quick"
# Which GPUs, when nobody says: indices, or "all".
GPUS = "0"
RUNS = Path("runs")
# Telemetry samples a second.
RATE_HZ = 10.0
MOST_RATE_HZ = 100.0
# Of the machine's memory, what a container may use.
MEMORY_SHARE = 0.9
# Of a container's /tmp and shared memory: limits, not reservations. NCCL needs more than the engine's 64 MiB.
TMP_BYTES = 2 << 30
SHARED_MEMORY_BYTES = 1 << 30
# Seconds between two looks at a running container.
POLL_S = 0.05
# What a container may write into its folder, and seconds between two looks at it.
OUT_BYTES = 2 << 30
WEIGH_S = 2.0
# The largest numbers that options take. MOST_PLANNED: trials of a run; MOST_TRIALS: of a workload on a device.
MOST_TRIALS = 1_000
MOST_PLANNED = 100_000
MOST_SEED = 2**32 - 1
MOST_STALL_S = 7 * 86_400.0
MOST_CPUS = 8_192.0
MOST_MEMORY_GIB = 1 << 20
# What a page carries of telemetry and single steps, and characters of the run in it: what is left of 1.5 MB beside
# the charts and their code.
PAGE_VALUES = 450_000
PAGE_TEXT = 620_000
# How long a fleet waits for a node that others use, and for one to say what it is: environments are unpacked first.
FLEET_WAIT_S = 600.0
FLEET_DESCRIBE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Measuring):
    """How much is measured, in how many trials.

    Attributes:
        trials: containers for each workload and device at least; `max_trials` while the interval of the
            throughput is wider than `target_interval` (half width over median) and `budget_s` lasts.
        stall_s: a trial that writes no event for so long counts as hung.
        limit_s: a trial that takes longer is ended.
    """

    name: str
    trials: int
    max_trials: int
    target_interval: float
    budget_s: float
    stall_s: float
    limit_s: float


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        # A few minutes: checks that everything works; ignore the numbers.
        Profile(
            name="smoke",
            trials=1, max_trials=1, target_interval=1.0, budget_s=120,
            windows=2, window_s=0.1, warmup_s=0.2, variant_s=5.0, analysis_window_s=0.1, analysis_windows=2,
            analysis_warmup_s=0.2, analysis_variant_s=2.0, steps=8, full=False, stall_s=180, limit_s=600,
        ),
        # Minutes: steady-state speed from repeated trials; training times are projected.
        Profile(
            name="quick",
            trials=3, max_trials=7, target_interval=0.03, budget_s=300,
            windows=3, window_s=0.7, warmup_s=3.0, variant_s=10.0, analysis_window_s=0.4, analysis_windows=3,
            analysis_warmup_s=1.0, analysis_variant_s=4.0, steps=0, full=False, stall_s=300, limit_s=1200,
        ),
        # Hours: the published epochs trained to the end where time allows, else as quick.
        Profile(
            name="full",
            trials=3, max_trials=10, target_interval=0.02, budget_s=4 * 3600,
            windows=5, window_s=2.0, warmup_s=8.0, variant_s=0.0, analysis_window_s=1.0, analysis_windows=5,
            analysis_warmup_s=4.0, analysis_variant_s=30.0, steps=0, full=True, stall_s=900, limit_s=4 * 3600,
        ),
    )
}  # fmt: skip
