"""Extracts of made-up runs on several kinds of machine, and pages of comparisons of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from harness.analysis import analyse
from harness.analysis.comparison_document import comparison_document
from harness.analysis.extract import extract
from harness.analysis.gate import gate
from harness.analysis.scaling import scaled
from harness.analysis.stats import estimate
from harness.analysis.versus import versus
from harness.model.comparison import Extract, Versus
from reports.compare import render_html
from tests import builders
from tests.builders_workers import teams
from tests.report_pages import javascript

# Speed over the first kind's, as buyers meet it: a machine without a GPU among them.
KINDS = (("NVIDIA H200", 1.0), ("NVIDIA A100", 0.45), ("Tesla T4", 0.12), ("", 1.0))


@cache
def whole(kind: int = 0) -> Extract:
    """Give a run's extract on one of KINDS: two workloads, on the CPU and on its GPU if it has one."""
    name, pace = KINDS[kind]
    run = builders.gpu_run(trials=3) if name else builders.cpu_run(trials=3)
    other = builders.run(
        {"gpu0": builders.COMPUTE_BOUND} if name else {"cpu": builders.CPU_RESNET}, name="resnet50", trials=3
    )
    cards = tuple(replace(card, name=name) for card in run.manifest.gpus)
    system = {**run.manifest.system, "accelerator_model_name": name}
    both = replace(
        run,
        manifest=replace(run.manifest, gpus=cards, system=system),
        workloads=run.workloads + other.workloads,
        planned=run.planned + other.planned,
        trials=run.trials + other.trials,
    )
    made = extract(analyse(both))
    speeds = tuple(
        replace(one, throughput=tuple(value * pace for value in one.throughput))
        if one.device != "cpu"
        else one
        for one in made.speeds
    )
    return replace(made, speeds=speeds)


def again(
    base: Extract, seed: int, *, noise: float = 0.01, factor: float = 1.0, trials: int = 5, label: str = ""
) -> Extract:
    """Give another run like `base`: new trials around its speeds, `factor` times as fast."""
    random = np.random.default_rng(seed)
    speeds = []
    for one in base.speeds:
        middle = float(np.exp(np.mean(np.log(one.throughput)))) * factor
        values = tuple((middle * np.exp(random.normal(0, noise, trials))).tolist())
        ids = tuple(f"{one.workload}-{one.device}-{index}" for index in range(trials))
        summary = estimate(values, "samples/s")
        speeds.append(replace(one, throughput=values, trial_ids=ids, summary=summary))
    return replace(base, run_id=f"run-{seed}", label=label or f"run-{seed}", speeds=tuple(speeds))


def fleet(count: int, *, kinds: Sequence[int] = (0, 1, 3), slow: Sequence[int] = ()) -> tuple[Extract, ...]:
    """Give `count` nodes of several kinds; those in `slow` are 8 % slower than their kind."""
    return tuple(
        again(
            whole(kinds[number % len(kinds)]),
            number,
            factor=0.92 if number in slow else 1.0,
            label=f"node-{number:03}",
        )
        for number in range(count)
    )


@cache
def comparison(name: str) -> Versus:
    made = versus(COMPARISONS[name], reference=None)
    return replace(made, scaling=scaled(teams())) if name == "together" else made


@cache
def page(name: str) -> str:
    made = comparison(name)
    checked = gate(made, 0.05) if name == "two" else None
    return render_html(
        made, comparison_document(made, checked), gate=checked, version="0.1.0", bundle=javascript
    )


def _hostile() -> tuple[Extract, ...]:
    bad = extract(analyse(builders.hostile_run()))
    return (bad, again(bad, 1, label=builders.HOSTILE))


COMPARISONS = {
    "two": (again(whole(), 1, label="before"), again(whole(), 2, factor=0.93, label="after")),
    "eight": tuple(again(whole(number % 4), number, label=f"vm-{number}") for number in range(8)),
    "fleet": fleet(24, slow=(17,)),
    "hostile": _hostile(),
    "together": tuple(again(whole(3), count, label=f"workers-{count}") for count in (1, 2, 4)),
    "nothing": (replace(whole(), speeds=(), label="a"), replace(whole(3), label="b")),
}
