"""Simulated runs of workers that trained together, with one second of measurement per variant."""

from dataclasses import replace

from harness.model.run import Metric, Placement, Run, Window
from tests.builders import cpu_run
from tests.builders_telemetry import SECOND_NS
from workloads.protocol import BASELINE, INPUT_ONLY


def run_of(speeds: list[float], *, batch: int, exchange_s: float) -> Run:
    whole = cpu_run(trials=len(speeds))
    trials = tuple(
        replace(
            trial,
            windows=(
                Window(variant=BASELINE, index=0, start_ns=SECOND_NS, end_ns=2 * SECOND_NS,
                       steps=round(speed / batch), samples=round(speed), wait_ns=-1),
                Window(variant=INPUT_ONLY, index=0, start_ns=2 * SECOND_NS, end_ns=3 * SECOND_NS, steps=1,
                       samples=9, wait_ns=-1),
            ),
            metrics=(Metric(variant="", name="collective_s", value=exchange_s),
                     Metric(variant="", name="gradient_bytes", value=4e6)),
        )
        for trial, speed in zip(whole.trials, speeds, strict=True)
    )  # fmt: skip
    return replace(whole, trials=trials)


def teams() -> dict[int, Run]:
    """Return runs with one, two and four workers; the four share two machines."""
    result = {}
    for workers, speed in {1: 1000.0, 2: 1600.0, 4: 2000.0}.items():
        exchange_s = 0.001 if workers == 1 else 0.02
        made = run_of([speed, 2 * speed, speed], batch=100 * workers, exchange_s=exchange_s)
        placement = Placement(nodes=("a", "b", "c", "d")[:workers], machines=(0, 1, 1, 1)[:workers], cpus=2)
        result[workers] = replace(made, manifest=replace(made.manifest, placement=placement))
    return result
