"""The time of a whole training: epochs out of a cache are projected at their own speed, or called a bound."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import jsonschema
import pytest
from rich.console import Console

from harness.analysis import analyse
from harness.analysis.results import results_document, results_schema
from harness.analysis.training import AT_LEAST, AT_MOST, MEASURED, MIXED, STEADY
from harness.cli.summary import show_summary
from harness.model.analysis import Analysis, Bound, Summary
from harness.model.run import Metric, Prices, Run, Window
from reports.render import render_html, render_markdown
from reports.table import render_csv
from tests.builders import VariantSpeed, run
from workloads.protocol import (
    BASELINE,
    CACHED_EPOCH,
    FIRST_EPOCH,
    INPUT_ONLY,
    MODEL_ONLY,
    TUNED,
    Published,
)

BATCH, EPOCH, EPOCHS = 32, 320_000, 10
A_PASS = EPOCH // BATCH
# A serial pipeline and a model that take turns: 6 ms to prepare a batch and 4 ms to train on it.
SERIAL = {BASELINE: 0.010, INPUT_ONLY: 0.006, MODEL_ONLY: 0.004, TUNED: 0.010}
EPOCH_VARIANTS = {FIRST_EPOCH: 0.006, CACHED_EPOCH: 0.001}
PUBLISHED = Published(source="An article", system="a GPU", device="cpu", value=60.0, unit="s")


def played(
    steps: dict[str, float], *, trained: int = 900, stages: tuple[str, ...] = (), epochs: int = EPOCHS
) -> Run:
    """Play variants by seconds a step; baseline and tuned have trained so many steps by the end."""
    speeds = {variant: VariantSpeed(step_s=step_s, batch=BATCH) for variant, step_s in steps.items()}
    made = run({"cpu": speeds}, trials=3, noise=0.0)
    declared = replace(
        made.workloads[0],
        data=replace(made.workloads[0].data, train=EPOCH),
        epochs=epochs,
        stages=stages,
        published=(PUBLISHED,),
    )
    told = tuple(
        Metric(variant=variant, name="steps_trained", value=trained, unit="steps")
        for variant in (BASELINE, TUNED)
    )
    trials = tuple(replace(each, metrics=(*each.metrics, *told)) for each in made.trials)
    return replace(made, workloads=(declared,), trials=trials)


def timed(made: Run | Analysis, variant: str = BASELINE) -> Summary:
    analysis = analyse(made) if isinstance(made, Run) else made
    one = next(each for each in analysis.summaries if each.variant == variant)
    assert one.training_s is not None
    return one


def seconds(made: Run, variant: str = BASELINE) -> float:
    time = timed(made, variant).training_s
    assert time is not None
    return time.median


def with_feed(made: Run, **params: object) -> Run:
    """Let every variant have run with these parameters."""
    return replace(
        made,
        trials=tuple(
            replace(
                each, variants=tuple(replace(one, params={**one.params, **params}) for one in each.variants)
            )
            for each in made.trials
        ),
    )


def spread(made: Run, *windows: tuple[int, float]) -> Run:
    """Give baseline windows of so many steps at so many seconds each, in place of those it has."""
    trials = []
    for each in made.trials:
        others = tuple(one for one in each.windows if one.variant != BASELINE)
        now, own = each.windows[-1].end_ns, []
        for index, (steps, step_s) in enumerate(windows):
            end = now + round(steps * step_s * 1e9)
            own.append(
                Window(
                    variant=BASELINE, index=index, start_ns=now, end_ns=end, steps=steps,
                    samples=steps * BATCH, wait_ns=-1,
                )
            )  # fmt: skip
            now = end
        trials.append(replace(each, windows=(*others, *own), steps=()))
    return replace(made, trials=tuple(trials))


def test_without_a_cache_all_epochs_run_at_the_steady_speed() -> None:
    one = timed(played(SERIAL))
    assert seconds(played(SERIAL)) == pytest.approx(EPOCHS * A_PASS * 0.010, rel=0.02)
    assert (one.training_how, one.training_bound, one.training_projected) == (STEADY, Bound.NONE, True)


def test_epochs_out_of_the_cache_are_projected_at_their_own_speed() -> None:
    made = played({**SERIAL, **EPOCH_VARIANTS})
    # Of 10 ms a step input costs 6, and 1 out of the cache.
    assert seconds(made) == pytest.approx(A_PASS * (0.010 + (EPOCHS - 1) * 0.005), rel=0.03)
    one = timed(made)
    assert one.training_bound is Bound.NONE
    assert re.fullmatch(
        r"projected from 3,[12]\d\d samples/s in the first epoch and 6,[34]\d\d "
        r"\(told from the pipeline alone\) in those after it, which read from the cache",
        one.training_how,
    )


def test_what_computing_hides_of_the_first_epochs_input_is_hidden_of_the_others_too() -> None:
    # Side by side: 10 ms of input hide 4 ms of computing, and 3 ms out of the cache hide behind them.
    made = played(
        {BASELINE: 0.010, INPUT_ONLY: 0.010, MODEL_ONLY: 0.004, FIRST_EPOCH: 0.010, CACHED_EPOCH: 0.003}
    )
    assert seconds(made) == pytest.approx(A_PASS * (0.010 + (EPOCHS - 1) * 0.004), rel=0.03)


def test_one_epoch_alone_reads_nothing_from_a_cache() -> None:
    one = timed(played({**SERIAL, **EPOCH_VARIANTS}, epochs=1))
    assert one.training_how == STEADY
    assert seconds(played({**SERIAL, **EPOCH_VARIANTS}, epochs=1)) == pytest.approx(A_PASS * 0.010, rel=0.02)


@pytest.mark.parametrize("variants", [EPOCH_VARIANTS, {}])
def test_where_only_the_first_epoch_was_measured_the_projection_is_an_upper_bound(
    variants: dict[str, float],
) -> None:
    # The epochs' variants are baseline's; what tuned's own pipeline gets out of its cache, they do not tell.
    made = played({**SERIAL, **variants}, stages=("read", "cache", "batch"))
    one = timed(made, TUNED)
    assert (one.training_how, one.training_bound) == (AT_MOST, Bound.UPPER)
    assert seconds(made, TUNED) == pytest.approx(EPOCHS * A_PASS * 0.010, rel=0.02)
    assert (timed(made).training_bound is Bound.UPPER) is (not variants)


@pytest.mark.parametrize("params", [{"cache": True}, {"cache": True, "loader": "tfdata"}])
def test_a_parameter_tells_of_a_cache_too(params: dict[str, object]) -> None:
    assert timed(with_feed(played(SERIAL), **params)).training_bound is Bound.UPPER


@pytest.mark.parametrize(
    "params", [{"cache": False}, {"feed": "resident"}, {"cache": True, "loader": "keras"}]
)
def test_what_is_not_read_from_a_cache_is_no_bound(params: dict[str, object]) -> None:
    made = with_feed(played({**SERIAL, **({} if "cache" in params else EPOCH_VARIANTS)}), **params)
    assert timed(made, TUNED).training_how == STEADY


def test_windows_of_both_kinds_of_epoch_tell_both_speeds() -> None:
    made = spread(
        played({**SERIAL, **EPOCH_VARIANTS}, trained=2 * A_PASS + 200),
        (100, 0.010), (A_PASS, 0.007), (A_PASS, 0.002),
    )  # fmt: skip
    assert seconds(made) == pytest.approx(A_PASS * (0.010 + (EPOCHS - 1) * 0.002), rel=0.001)
    assert timed(made).training_bound is Bound.NONE


def test_where_only_the_cache_was_measured_the_first_epoch_comes_from_its_own_variant_or_is_missing() -> None:
    only = ((A_PASS, 0.010), (A_PASS, 0.005))
    known = spread(played({**SERIAL, **EPOCH_VARIANTS}, trained=5 * A_PASS), *only)
    later = EPOCHS * A_PASS * 0.005
    assert seconds(known) > later * 1.02
    missing = spread(played(SERIAL, trained=5 * A_PASS, stages=("read", "cache")), *only)
    one = timed(missing)
    assert (one.training_how, one.training_bound) == (AT_LEAST, Bound.LOWER)
    assert seconds(missing) == pytest.approx(later, rel=0.001)


def test_windows_that_may_be_of_either_kind_are_called_so() -> None:
    made = played({**SERIAL, **EPOCH_VARIANTS}, trained=5 * A_PASS)
    one = timed(made)
    assert (one.training_how, one.training_bound) == (MIXED, Bound.NONE)


def test_a_training_that_ran_to_its_end_is_what_it_took() -> None:
    made = played({**SERIAL, **EPOCH_VARIANTS})
    ended = Metric(variant=BASELINE, name="training_s", value=77.0, unit="s")
    one = timed(
        replace(made, trials=tuple(replace(each, metrics=(*each.metrics, ended)) for each in made.trials))
    )
    assert one.training_s is not None and one.training_s.median == 77.0
    assert (one.training_how, one.training_bound, one.training_projected) == (MEASURED, Bound.NONE, False)


@pytest.mark.slow
def test_every_form_of_the_report_says_the_same_of_it() -> None:
    made = played(SERIAL, stages=("read", "cache", "batch"))
    prices = Prices(machine=3600.0, source="a test")
    analysis = analyse(replace(made, manifest=replace(made.manifest, prices=prices)))
    for text in (render_html(analysis), render_markdown(analysis)):
        assert f"baseline, {AT_MOST}, cold start excluded" in text
        assert re.search(rf"The time of a whole training, (1,00|99)\d s, is {AT_MOST}\.", text)
        assert text.count(", upper bound") >= 2  # what either variant costs
    document = json.loads(json.dumps(results_document(analysis)))
    jsonschema.validate(document, results_schema())
    rows = list(csv.DictReader(io.StringIO(render_csv(analysis))))
    for one in (document["summaries"][0], rows[0]):
        assert (one["training_how"], one["training_bound"]) == (AT_MOST, "upper bound")
    assert document["costs"][0]["training_bound"] == "upper bound"
    console = Console(width=120, file=io.StringIO())
    show_summary(console, analysis)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "≤16 min" in shown and "~16 min" not in shown and "≤1e+03" in shown
