"""Extracts of simulated runs on several kinds of machine, and pages that compare them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.analysis.versus import gate, versus
from harness.model.analysis import Estimate, StepTime
from harness.model.comparison import Extract, Speed, Versus
from reports.compare_page import render_html
from tests import builders
from tests.report_pages import javascript

# (GPU, speed relative to the first kind); "" is a machine without a GPU.
KINDS = (("NVIDIA H200", 1.0), ("NVIDIA A100", 0.45), ("Tesla T4", 0.12), ("", 1.0))


@cache
def whole(kind: int = 0) -> Extract:
    """Return the extract of a run on one of KINDS: two workloads, on the CPU and the GPU, if any."""
    name, pace = KINDS[kind]
    run = builders.gpu_run(trials=3) if name else builders.cpu_run(trials=3)
    other = builders.run(
        {"gpu0": builders.COMPUTE_BOUND} if name else {"cpu": builders.CPU_RESNET}, name="resnet50", trials=3
    )
    gpus = tuple(replace(gpu, name=name) for gpu in run.manifest.gpus)
    both = replace(
        run,
        manifest=replace(run.manifest, gpus=gpus),
        workloads=run.workloads + other.workloads,
        planned=run.planned + other.planned,
        trials=run.trials + other.trials,
    )
    return faster(extract(analyse(both)), pace, devices=("gpu0",))


def faster(run: Extract, factor: float, *, devices: Sequence[str] = ("cpu", "gpu0")) -> Extract:
    def slower(value: Estimate) -> Estimate:
        return replace(value, median=value.median / factor, low=value.low / factor, high=value.high / factor)

    def time(each: StepTime) -> StepTime:
        parts = {part: slower(value) for part, value in each.parts.items()}
        return replace(each, total=slower(each.total), parts=parts)

    def speed(each: Speed) -> Speed:
        throughput = tuple(value * factor for value in each.throughput)
        return replace(each, throughput=throughput, breakdown=each.breakdown and time(each.breakdown))

    speeds = (speed(each) if each.device in devices else each for each in run.speeds)
    return replace(run, speeds=tuple(speeds))


def again(
    base: Extract, seed: int, *, noise: float = 0.01, factor: float = 1.0, trials: int = 5, label: str = ""
) -> Extract:
    """Return another run like `base`, with new random trials, `factor` times as fast."""
    random = np.random.default_rng(seed)
    speeds = []
    for each in base.speeds:
        middle = float(np.exp(np.mean(np.log(each.throughput))))
        values = tuple((middle * np.exp(random.normal(0, noise, trials))).tolist())
        speeds.append(replace(each, throughput=values))
    name = f"run-{seed}"
    made = replace(base, run_id=name, label=label or name, speeds=tuple(speeds))
    return faster(made, factor)


def fleet(count: int, *, kinds: Sequence[int] = (0, 1, 3), slow: Sequence[int] = ()) -> tuple[Extract, ...]:
    """Return `count` nodes of several kinds; those in `slow` are 8 % slower than others of their kind."""
    return tuple(
        again(whole(kinds[n % len(kinds)]), n, factor=0.92 if n in slow else 1, label=f"node-{n:03}")
        for n in range(count)
    )


@cache
def comparison(name: str) -> Versus:
    return versus(COMPARISONS[name])


@cache
def page(name: str) -> str:
    made = comparison(name)
    checked = gate(made) if name == "two" else None
    return render_html(made, gate=checked, code=javascript())


HOSTILE = extract(analyse(builders.hostile_run()))
COMPARISONS = {
    "two": (again(whole(), 1, label="before"), again(whole(), 2, factor=0.93, label="after")),
    "eight": tuple(again(whole(number % 4), number, label=f"vm-{number}") for number in range(8)),
    "fleet": fleet(24, slow=(17,)),
    "hostile": (HOSTILE, again(HOSTILE, 1, label=builders.HOSTILE)),
    "nothing": (replace(whole(), speeds=(), label="a"), replace(whole(3), label="b")),
}
