"""Where a trial's time passes: the benchmark's own variants, those for the verdict, and the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.spent import spent
from harness.model.run import Phase, Run, Status
from reports.render import render_html
from tests.builders import bare_run, cpu_run, empty_run, failed_run, gpu_run
from tests.builders_telemetry import SECOND_NS
from tests.report_pages import Document, javascript
from workloads.protocol import BASELINE, CUSTOM_LOOP, INPUT_ONLY, TUNED


def lasting(made: Run, **variants: float) -> Run:
    """Let every trial take 60 s, and its variants so many seconds in two phases each."""
    trials = []
    for trial in made.trials:
        now, phases = (
            trial.started_ns,
            [Phase(name="import", variant="", start_ns=trial.started_ns, end_ns=10)],
        )
        for name, seconds in variants.items():
            for kind, part in (("build", 0.25), ("steady", 0.75)):
                end = now + int(part * seconds * SECOND_NS)
                variant = name.replace("__", ":").replace("_", "-")
                phases.append(Phase(name=kind, variant=variant, start_ns=now, end_ns=end))
                now = end
        ended = trial.started_ns + 60 * SECOND_NS
        trials.append(replace(trial, phases=tuple(phases), ended_ns=ended))
    return replace(made, trials=tuple(trials))


def test_variants_of_the_benchmark_and_of_the_verdict_are_told_apart() -> None:
    variants = {BASELINE: 10.0, TUNED: 6.0, "opt:xla": 4.0, INPUT_ONLY: 3.0, CUSTOM_LOOP: 2.0, "batch:2": 5.0}
    (one,) = spent(lasting(cpu_run(trials=3), **variants))
    assert (one.workload, one.device, one.trials) == ("cifar100-mlp", "cpu", 3)
    assert (one.benchmark_s, one.verdict_s, one.rest_s) == pytest.approx((20, 10, 30))
    assert one.ratio == pytest.approx(0.5)


def test_without_analysis_nothing_is_spent_on_it_and_without_the_benchmark_there_is_no_ratio() -> None:
    (alone,) = spent(lasting(cpu_run(trials=1), baseline=10.0, tuned=5.0))
    assert (alone.verdict_s, alone.ratio) == (0.0, 0.0)
    (drained,) = spent(lasting(cpu_run(trials=1), input_only=10.0))
    assert (drained.benchmark_s, drained.ratio) == (0.0, None)


def test_only_whole_trials_of_no_sweep_count() -> None:
    assert spent(empty_run()) == spent(bare_run()) == ()
    assert [one.device for one in spent(failed_run())] == ["cpu"]
    made = lasting(cpu_run(trials=2), baseline=10.0)
    swept = tuple(replace(trial, point=(("batch_size", 32),)) for trial in made.trials)
    assert spent(replace(made, trials=swept)) == ()
    first = replace(made.trials[0], status=Status.INTERRUPTED)
    assert spent(replace(made, trials=(first, made.trials[1])))[0].trials == 1


@pytest.mark.slow
def test_the_report_says_it() -> None:
    made = lasting(gpu_run(trials=1), baseline=10.0, input_only=15.0)
    page = Document(render_html(analyse(made), bundle=javascript)).text
    assert "How long it took" in page
    assert "1.5×" in page.replace("\u202f", "").replace("1.50", "1.5")
