"""How often `tfbench compare` is wrong: on equal runs, and on runs with a planted slowdown.

    python -m benchmarks.power [--recording RUN]... [--rounds N] [--slowdown 5%]

Simulated: log-normal trials whose number the quick profile's own rule chooses, or a fixed number, at several
noises. Recorded: the trials of real runs, drawn without replacement for both sides of a comparison, so that
the noise has the shape that it has; the slowdown is planted in one workload and variant of one side. A
comparison is a whole one: every workload and variant of the recording at once, judged together as
`--fail-if-slower` does.
Rates come with their own 95 % intervals (Clopper & Pearson 1934).

Targets: no difference found at least 95 times in 100, a planted 5 % found at least 95 times in 100.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from benchmarks.tables import markdown
from harness.analysis import analyse
from harness.analysis.extract import COMPARED, extract
from harness.analysis.gate import gate
from harness.analysis.independent import gap, sample
from harness.analysis.stats import narrow_enough
from harness.analysis.versus import versus
from harness.model.comparison import Extract, Outcome, Speed
from harness.run.extracts import SUFFIX, from_json
from harness.run.plan import PROFILES, Profile
from harness.run.recording import open_run
from tests.recordings import DATA, NAMES, recording

NOISES = (0.003, 0.01, 0.015, 0.02, 0.03, 0.05)
FIXED = (3, 5, 7)
TRIALS = DATA / "two-vcpus.extract.json"
PROFILE = PROFILES["quick"]
Draw = Callable[[np.random.Generator], tuple[Extract, Extract]]  # two runs to compare


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Of `rounds` comparisons: how many of equal runs found no difference, how many planted slowdowns were found.

    `trials` is how many a side had on average.
    """

    rounds: int
    quiet: int
    passed: int
    found: int
    trials: float

    def trials_text(self, count: int | None) -> str:
        """Write how many trials there were: the fixed number, or the profile's range with the mean."""
        return (
            f"{PROFILE.trials} to {PROFILE.max_trials} ({self.trials:.1f})" if count is None else str(count)
        )


def main(words: Sequence[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.power", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--slowdown", type=float, default=0.05, help="a share of speed")
    parser.add_argument("--recording", type=Path, action="append", default=[], help="run, report or extract")
    chosen = parser.parse_args(words)
    for line in chain(simulated(chosen.rounds, chosen.slowdown), recorded(chosen)):
        print(line, flush=True)  # noqa: T201 - a benchmark's output
    return 0


def simulated(rounds: int, slowdown: float) -> Iterator[str]:
    """Yield a table of generated trials, one workload and variant."""
    yield f"Simulated trials, one speed compared, {rounds:,} comparisons a cell, planted {slowdown:.0%}:"
    yield ""
    rows = (
        (f"{noise:.1%}", rates.trials_text(count), share(rates.quiet, rounds), share(rates.found, rounds))
        for noise in NOISES
        for count in (None, *FIXED)
        for rates in (measure(_generated(noise, count), rounds, slowdown),)
    )
    yield from markdown(
        ("noise of a trial", "trials", "equal runs: no difference", "slower run: found"), rows
    )
    yield ""
    yield "Noise of a trial at which the planted slowdown is found 95 times in 100, by trials a side:"
    yield ""
    yield from markdown(
        ("trials", "speeds compared at once: 1", "2", "6"),
        (
            (str(count), *(f"{noise_limit(count, slowdown, tests):.2%}" for tests in (1, 2, 6)))
            for count in (*FIXED, 10, 15)
        ),
    )


def noise_limit(trials: int, slowdown: float, tests: int) -> float:
    """Return the greatest noise of a trial at which `trials` a side find a slowdown, by compare's rule."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        one = sample(np.exp(_exact(trials, middle)).tolist())
        assert one is not None
        noticed = gap(one, one).detectable(0.05 / tests)
        low, high = (middle, high) if noticed is not None and noticed <= slowdown else (low, middle)
    return low


def _read(path: Path) -> Extract:
    if not path.name.endswith(SUFFIX):
        return extract(analyse(open_run(path)))
    return from_json(path.read_bytes())


def _exact(count: int, deviation: float) -> NDArray[np.float64]:
    """Return values whose standard deviation is exactly what is asked for."""
    values = np.arange(count, dtype=np.float64)
    return (values - values.mean()) / values.std(ddof=1) * deviation


def recorded(chosen: argparse.Namespace) -> Iterator[str]:
    """Yield a table of recorded runs: the noise of each speed, and the rates at several numbers of trials."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [*(recording(name, Path(folder)) for name in NAMES), TRIALS, *chosen.recording]
        runs = [_read(path) for path in paths]
    yield ""
    yield "Recorded trials: their noise, and the smallest slowdown that they notice (one speed compared):"
    yield ""
    samples = [
        (run, one, made)
        for run in runs
        for one in run.speeds
        if (made := sample(one.throughput)) is not None and made.n > 1
    ]
    yield from markdown(
        ("run", "workload, device, variant", "trials", "noise of a trial", "noticed"),
        (
            (
                run.run_id, f"{one.workload}, {one.device}, {one.variant}", str(made.n),
                f"{math.sqrt(made.variance):.2%}", f"{gap(made, made).detectable() or 0:.1%}",
            )
            for run, one, made in samples
        ),
    )  # fmt: skip
    yield ""
    yield f"Recorded trials, drawn for both sides without replacement, {chosen.rounds:,} comparisons a row:"
    yield ""
    heads = ("run", "speeds", "trials", "equal runs: no difference", "check passes", "slower run: found")
    yield from markdown(heads, (row for run in runs for row in _rates(run, chosen)))


def _rates(run: Extract, chosen: argparse.Namespace) -> Iterator[Sequence[str]]:
    """Yield a row for each number of trials that the run has enough of."""
    least = min((len(one.throughput) for one in run.speeds), default=0)
    for count in (None, *FIXED):
        if least >= 2 * (count or PROFILE.max_trials):
            rates = measure(_drawn(run, count), chosen.rounds, chosen.slowdown)
            cells = (share(value, rates.rounds) for value in (rates.quiet, rates.passed, rates.found))
            yield run.run_id, str(len(run.speeds)), rates.trials_text(count), *cells


def measure(draw: Draw, rounds: int, slowdown: float) -> Rates:
    """Compare `rounds` pairs of equal runs, and each again with the slowdown planted in one side."""
    random = np.random.default_rng(20_261_121)
    quiet = passed = found = trials = 0
    for _ in range(rounds):
        before, after = draw(random)
        trials += len(after.speeds[0].throughput)
        alike = versus((before, after), reference=0)
        quiet += not any(one.outcome in (Outcome.FASTER, Outcome.SLOWER) for one in alike.results)
        passed += not gate(alike, slowdown).failed
        slower = versus((before, slowed(after, slowdown)), reference=0)
        found += bool(gate(slower, slowdown).failed)
    return Rates(rounds=rounds, quiet=quiet, passed=passed, found=found, trials=trials / rounds)


def slowed(run: Extract, slowdown: float) -> Extract:
    """Return a run whose first tested speed is slower: one workload regressed, the others did not."""
    first = run.speeds[0]
    changed = replace(first, throughput=tuple(value * (1 - slowdown) for value in first.throughput))
    return replace(run, speeds=tuple(changed if one is first else one for one in run.speeds))


def _generated(noise: float, count: int | None) -> Draw:
    def draw(random: np.random.Generator) -> tuple[Extract, Extract]:
        sides = [np.exp(random.normal(0, noise, count or PROFILE.max_trials)) for _ in range(2)]
        return _run({"baseline": sides[0]}, count), _run({"baseline": sides[1]}, count)

    return draw


def _drawn(run: Extract, count: int | None) -> Draw:
    """Draw whole trials, so that the variants of one trial keep the luck that they shared."""
    speeds = run.speeds
    most = count or PROFILE.max_trials
    least = min(len(one.throughput) for one in speeds)

    def side(trials: NDArray[np.int64]) -> Extract:
        values = {f"{one.workload} {one.variant}": np.asarray(one.throughput)[trials] for one in speeds}
        return _run(values, count)

    def draw(random: np.random.Generator) -> tuple[Extract, Extract]:
        order = random.permutation(least)
        return side(order[:most]), side(order[most : 2 * most])

    return draw


def _run(values: Mapping[str, NDArray[np.float64]], count: int | None) -> Extract:
    """Make a run of trials; where their number is left to the rule, the first speed's interval decides."""
    first = next(iter(values.values()))
    stop = len(first) if count is not None else stopped(first.tolist(), PROFILE)
    speeds = tuple(
        Speed(
            workload=name, device="cpu", variant=COMPARED[0], throughput=tuple(each[:stop].tolist()),
            batch_size=32,
        )
        for name, each in values.items()
    )  # fmt: skip
    return Extract(
        run_id="", label="", created="", tfbench_version="", machine="", facts={}, speeds=speeds,
        adaptive=count is None, planned=stop, ok=stop,
    )  # fmt: skip


def stopped(values: Sequence[float], profile: Profile) -> int:
    """Return after how many trials a run of the profile stops."""
    for count in range(profile.trials, profile.max_trials):
        if narrow_enough(values[:count], profile.target_interval):
            return count
    return profile.max_trials


def share(count: int, rounds: int) -> str:
    """Write a rate with its exact 95 % interval (Clopper & Pearson 1934)."""
    interval = binomtest(count, rounds).proportion_ci(method="exact")
    return f"{count / rounds:.1%} ({interval.low:.1%} to {interval.high:.1%})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
