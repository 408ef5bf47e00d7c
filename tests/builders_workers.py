"""Runs of workers that trained together, each one second in one variant, with what their machines sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.model.run import Metric, Placement, Run, Series, Trial, Window
from harness.model.workers import Recorded
from tests.builders import cpu_run
from workloads.protocol import BASELINE, INPUT_ONLY

SECOND = 1_000_000_000


def run_of(speeds: list[float], *, batch: int, sent: float, exchange_s: float) -> Run:
    """Make a run of trials that each trained one second at a speed, sending so many bytes meanwhile."""
    whole = cpu_run(trials=len(speeds))
    t_ns = np.arange(0, 5 * SECOND, SECOND // 10, dtype=np.int64)
    trials = tuple(
        replace(
            trial,
            windows=(
                Window(variant=BASELINE, index=0, start_ns=SECOND, end_ns=2 * SECOND,
                       steps=round(speed / batch), samples=round(speed), wait_ns=-1),
                Window(variant=INPUT_ONLY, index=0, start_ns=2 * SECOND, end_ns=3 * SECOND, steps=1,
                samples=9,
                       wait_ns=-1),
            ),
            metrics=(Metric(variant="", name="collective_s", value=exchange_s),
                     Metric(variant="", name="gradient_bytes", value=4e6)),
            telemetry=(
                Series(source="host", device="host", t_ns=t_ns,
                       columns={"net_sent_bytes": 0.75 * sent * t_ns / SECOND,
                                "loopback_bytes": 0.25 * sent * t_ns / SECOND}),
            ),
        )
        for trial, speed in zip(whole.trials, speeds, strict=True)
    )  # fmt: skip
    return replace(whole, trials=trials)


def recorded(placement: Placement, run: Run) -> Recorded:
    """Make what all workers recorded: the others' clocks began elsewhere, and their machines sent half as much."""
    others = {
        trial.id: {rank: _elsewhere(trial, rank * 100 * SECOND) for rank in range(1, len(placement.nodes))}
        for trial in run.trials
    }
    return Recorded(run=replace(run, manifest=replace(run.manifest, placement=placement)), others=others)


def _elsewhere(trial: Trial, shift_ns: int) -> Trial:
    windows = (
        replace(each, start_ns=each.start_ns + shift_ns, end_ns=each.end_ns + shift_ns)
        for each in trial.windows
    )
    telemetry = (
        replace(
            series,
            t_ns=series.t_ns + shift_ns,
            columns={name: values / 2 for name, values in series.columns.items()},
        )
        for series in trial.telemetry
    )
    return replace(trial, windows=tuple(windows), telemetry=tuple(telemetry))


def teams() -> dict[int, Recorded]:
    """Make one, two and four workers: four on two machines, of which one has two nodes of one CPU."""
    speeds = {1: 1000.0, 2: 1600.0, 4: 2000.0}
    nodes = ("a", "b", "c", "d")
    machines = (0, 1, 1, 1)
    return {
        workers: recorded(
            Placement(nodes=nodes[:workers], machines=machines[:workers], cpus=2),
            run_of(
                [speed, 2 * speed, speed], batch=100 * workers, sent=0.0 if workers == 1 else 50e6,
                exchange_s=0.001 if workers == 1 else 0.02,
            ),
        )
        for workers, speed in speeds.items()
    }  # fmt: skip
