"""How often `tfbench compare` is wrong: on equal runs, and on runs with a planted slowdown.

    python -m benchmarks.power [--recording RUN]... [--rounds N] [--slowdown 0.1]

Trials are log-normal with several noise levels; their number is fixed or chosen by the quick profile's
stopping rule. The noise of recorded runs is printed as well. Rates have 95 % intervals (Clopper & Pearson
1934). A slowdown is detected if it fails a check whose limit is half of it.

Targets: no difference in at least 95 % of equal pairs, and a planted 10 % detected in at least 95 %.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import binomtest

from benchmarks.tables import markdown
from harness.analysis import analyse
from harness.analysis.extract import COMPARED, extract
from harness.analysis.ratios import LEVEL, LogDifference, gap, sample
from harness.analysis.versus import gate, versus
from harness.defaults import PROFILES, Profile
from harness.intervals import half_width, t_quantile, usual_spread
from harness.model.analysis import MIN_TRIALS
from harness.model.comparison import Extract, Outcome, Speed
from harness.run.recording import EXTRACT_SUFFIX, open_run, read_extract_file
from tests.recordings import DATA, NAMES, recording

NOISES = (0.003, 0.01, 0.015, 0.02, 0.03, 0.05)
FIXED = (3, 5, 7)
# Speeds of a run, which tell each other how much is usual; the default suite has eight.
SPEEDS = (1, 8)
TRIALS = DATA / "two-vcpus.extract.json"
PROFILE = PROFILES["quick"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Counts of correct comparisons.

    Attributes:
        no_difference: pairs of equal runs reported as equal.
        detected: planted slowdowns that were detected.
        trials: mean number of trials per run.
    """

    no_difference: int
    detected: int
    trials: float


def main(
    rounds: int = 1000,
    slowdown: float = 0.1,
    more: Annotated[list[Path] | None, typer.Option("--recording", help="run, report or extract")] = None,
) -> None:
    """Print the tables."""
    for line in chain(simulated(rounds, slowdown), recorded(more or ())):
        print(line, flush=True)


def simulated(rounds: int, slowdown: float) -> Iterator[str]:
    """Yield a table for simulated trials of one workload and variant."""
    yield f"Simulated runs of one speed and of eight, {rounds:,} comparisons per cell, planted slowdown {slowdown:.0%}:"
    yield ""
    rows = []
    for noise in NOISES:
        for speeds in SPEEDS:
            for count in (None, *FIXED):
                rates = measure(partial(generated, noise, count, speeds), rounds, slowdown)
                trials = str(count or f"{PROFILE.trials} to {PROFILE.max_trials} ({rates.trials:.1f})")
                right = rate(rates.no_difference, rounds), rate(rates.detected, rounds)
                rows.append((f"{noise:.1%}", str(speeds), trials, *right))
    heads = ("noise per trial", "speeds", "trials", "equal runs: no difference", "slower run: detected")
    yield from markdown(heads, rows)
    yield ""
    yield f"Noise per trial at which 95 % of slowdowns by {slowdown / 2:.0%} are shown, by trials per run:"
    yield ""
    limits = (
        (str(count), *(f"{noise_limit(count, slowdown / 2, tests):.2%}" for tests in (1, 2, 6)))
        for count in (*FIXED, 10, 15)
    )
    yield from markdown(("trials", "speeds compared at once: 1", "2", "6"), limits)


def noise_limit(trials: int, slowdown: float, tests: int) -> float:
    """Return the largest noise per trial at which compare shows a slowdown, given `trials` per run."""
    steps = np.arange(trials, dtype=np.float64)
    spread = (steps - steps.mean()) / steps.std(ddof=1)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        side = sample(np.exp(spread * middle).tolist())
        assert side is not None
        low, high = (
            (middle, high) if detectable(gap(side, side), LEVEL / tests) <= slowdown else (low, middle)
        )
    return low


def detectable(difference: LogDifference, level: float = LEVEL) -> float:
    """Return the smallest slowdown, as a share, that a comparison shows 95 times in 100 (Bloom 1995,
    "Minimum detectable effects").
    """
    reach = t_quantile(difference.degrees, level / 2) + t_quantile(difference.degrees, LEVEL)
    return -math.expm1(-reach * difference.error)


def recorded(more: Sequence[Path]) -> Iterator[str]:
    """Yield a table of recorded runs: the noise of each speed and the smallest detectable slowdown."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [*(recording(name, Path(folder)) for name in NAMES), TRIALS, *more]
        runs = [
            read_extract_file(path.read_bytes())
            if path.name.endswith(EXTRACT_SUFFIX)
            else extract(analyse(open_run(path)))
            for path in paths
        ]
    rows = []
    for run in runs:
        for speed in run.speeds:
            side = sample(speed.throughput)
            if side is not None and side.n > 1:
                name = f"{speed.workload}, {speed.device}, {speed.variant}"
                slowdown = f"{detectable(gap(side, side)):.1%}"
                rows.append((run.run_id, name, str(side.n), f"{side.spread.deviation:.2%}", slowdown))
    yield ""
    yield "Recorded trials: noise and smallest detectable slowdown (one speed compared):"
    yield ""
    heads = ("run", "workload, device, variant", "trials", "noise per trial", "detectable")
    yield from markdown(heads, rows)


def measure(draw: Callable[[np.random.Generator], Extract], rounds: int, slowdown: float) -> Rates:
    """Compare `rounds` pairs of equal runs, then each pair again with one run slowed down."""
    random = np.random.default_rng(20_261_121)
    no_difference = detected = trials = 0
    for _ in range(rounds):
        before, after = draw(random), draw(random)
        trials += len(after.speeds[0].throughput)
        equal = versus((before, after), reference=0)
        no_difference += not any(each.outcome in (Outcome.FASTER, Outcome.SLOWER) for each in equal.results)
        slower = versus((before, slowed(after, slowdown)), reference=0, limit=slowdown / 2)
        detected += bool(gate(slower).failed)
    return Rates(no_difference=no_difference, detected=detected, trials=trials / rounds)


def slowed(run: Extract, slowdown: float) -> Extract:
    """Return a run with its first speed slowed down and all others unchanged."""
    first, *others = run.speeds
    changed = replace(first, throughput=tuple(value * (1 - slowdown) for value in first.throughput))
    return replace(run, speeds=(changed, *others))


def generated(noise: float, count: int | None, speeds: int, random: np.random.Generator) -> Extract:
    """Return a run of `count` trials, or for None as many as the profile's stopping rule chooses."""
    drawn = np.exp(random.normal(0, noise, (speeds, count or PROFILE.max_trials))).tolist()
    kept = [values[:count] for values in drawn] if count else stopped(drawn, PROFILE)
    found = tuple(
        Speed(
            workload=f"w{number}", device="cpu", variant=COMPARED[0], throughput=tuple(values), batch_size=32
        )
        for number, values in enumerate(kept)
    )
    return Extract(
        run_id="", label="", created="", machine="", facts={}, speeds=found,
        adaptive=count is None, planned=len(kept[0]), ok=len(kept[0]),
    )  # fmt: skip


def stopped(drawn: Sequence[Sequence[float]], profile: Profile) -> list[Sequence[float]]:
    """Return what a run of the profile would have measured of each speed, with enough time."""
    counts = [profile.trials] * len(drawn)
    while True:
        kept = [values[:count] for values, count in zip(drawn, counts, strict=True)]
        usual = usual_spread(kept)
        widths = [
            0.0 if len(values) == profile.max_trials
            else half_width(values, usual) if len(values) >= MIN_TRIALS
            else math.inf
            for values in kept
        ]  # fmt: skip
        widest = max(range(len(kept)), key=lambda number: widths[number])
        if widths[widest] <= profile.target_interval:
            return kept
        counts[widest] += 1


def rate(count: int, rounds: int) -> str:
    """Format a rate with its exact 95 % interval (Clopper & Pearson 1934)."""
    interval = binomtest(count, rounds).proportion_ci(method="exact")
    return f"{count / rounds:.1%} ({interval.low:.1%} to {interval.high:.1%})"


if __name__ == "__main__":
    typer.run(main)
