"""Defaults: profiles, sampling, limits, timeouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.protocol import Measuring

PROFILE = "quick"
# Trials of each workload and device, if only the time is given.
MOST_TRIALS = 200
# Selected GPUs: indices, or "all".
GPUS = "0"
RUNS = Path("runs")
# Telemetry samples per second.
RATE_HZ = 10.0
# Share of the machine's memory that a container may use.
MEMORY_SHARE = 0.9
# A container's /tmp is in its memory: this share of it, but so many bytes at least.
TMP_SHARE = 0.25
TMP_BYTES = 2 << 30
# Limit of a container's shared memory. NCCL needs more than the engine's default of 64 MiB.
SHARED_MEMORY_BYTES = 1 << 30
# What the local engine copies at most for a script, where it cannot show its folder read-only.
COPIED_BYTES = 512 << 20
COPIED_FILES = 20_000
# Polling interval for a running container, in seconds.
POLL_S = 0.05
# Limits of what a container may write into its folder, and seconds between checks.
OUT_BYTES = 2 << 30
OUT_FILES = 100_000
OUT_DEPTH = 64
# How much of a trial's output is kept: its end.
LOG_BYTES = 64 << 10
SIZE_CHECK_S = 2.0
# Trials of a run.
MAX_PLANNED = 100_000
# Limits of the run embedded in a page, which keep the page below 1.5 MB: telemetry values and steps; characters.
MAX_PAGE_VALUES = 450_000
MAX_PAGE_CHARACTERS = 620_000
# How long a fleet waits for a busy node, and for a node to describe itself, which includes unpacking its environment.
FLEET_WAIT_S = 600.0
FLEET_DESCRIBE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Measuring):
    """How much to measure.

    Attributes:
        trials: minimum number of trials for each workload and device; up to `max_trials` while the interval of the
            throughput is wider than `target_interval` (half width / median) and `budget_s` is not spent, which is
            shared by all: `PROFILES` has it for each workload and device, a run for all of its own.
        stall_s: a trial that writes no event for this long is killed.
        limit_s: a trial that takes longer is killed.
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
        # Minutes: steady-state speed from repeated trials; training times are projected. The parts of a step and the
        # remedies are read briefly, and again.
        Profile(
            name="quick",
            trials=2, max_trials=30, target_interval=0.03, budget_s=72,
            windows=2, window_s=0.5, warmup_s=1.2, variant_s=10.0, analysis_window_s=0.25, analysis_windows=2,
            analysis_warmup_s=0.6, analysis_variant_s=4.0, steps=0, full=False, stall_s=300, limit_s=1200,
        ),
        # Hours: trains the published number of epochs if time allows, else like quick.
        Profile(
            name="full",
            trials=3, max_trials=10, target_interval=0.02, budget_s=4 * 3600,
            windows=5, window_s=2.0, warmup_s=8.0, variant_s=0.0, analysis_window_s=1.0, analysis_windows=5,
            analysis_warmup_s=4.0, analysis_variant_s=30.0, steps=0, full=True, stall_s=900, limit_s=4 * 3600,
        ),
    )
}  # fmt: skip
