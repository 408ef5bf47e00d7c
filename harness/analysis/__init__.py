"""Analysis: pure functions from a Run to numbers and findings; no sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.analysis.acceptance import accepted
from harness.analysis.accuracy_of_speeds import precision
from harness.analysis.answers import answer_items
from harness.analysis.capabilities import capabilities, endurance, peak_use
from harness.analysis.case import cases
from harness.analysis.findings import findings
from harness.analysis.generation import generation
from harness.analysis.health_checks import health_items
from harness.analysis.known import standings
from harness.analysis.links import pairs
from harness.analysis.neighbours import outliers
from harness.analysis.published import published_comparisons
from harness.analysis.requests import capacities, latencies, request_ratios
from harness.analysis.stats import Spreads, comparisons
from harness.analysis.step_time import step_times
from harness.analysis.summaries import costs, summaries
from harness.analysis.sweeps import sweeps
from harness.analysis.trial_measures import measures
from harness.analysis.trust import caveats
from harness.analysis.utilisation import clocks, pipelines
from harness.model.analysis import Analysis, Limit
from harness.model.comparison import KnownMachine
from harness.model.run import Run

__all__ = ["analyse", "judged", "priced"]


def analyse(run: Run) -> Analysis:
    """Compute the content of the report from a run.

    Interrupted, failed and empty runs are accepted; the result has whatever could be computed.
    """
    measured = measures(run)
    spreads = Spreads(measured)
    run_summaries = summaries(run, measured, spreads)
    ratios = (*comparisons(measured, spreads), *request_ratios(run))
    run_cases = tuple(cases(run, run_summaries, ratios, measured, spreads))
    run_sweeps = tuple(sweeps(run))
    times = step_times(run_cases)
    run_clocks = clocks(run_cases)
    measured_machine = capabilities(run)
    used = peak_use(run_cases, measured_machine)
    run_latencies = latencies(run)
    analysis = Analysis(
        run=run,
        summaries=run_summaries,
        comparisons=ratios,
        published=() if run_sweeps else published_comparisons(run, run_cases),
        step_times=times,
        findings=findings(run_cases, times, used),
        caveats=caveats(run, run_summaries, run_clocks),
        sweeps=run_sweeps,
        latencies=run_latencies,
        capacities=capacities(run),
        pipelines=pipelines(run_cases),
        health=(*answer_items(run), *health_items(run.health, len(run.manifest.gpus), run.trials)),
        clocks=run_clocks,
        capabilities=measured_machine,
        peak_use=used,
        generation=generation(run_cases, run_latencies, measured_machine),
        endurance=endurance(run),
        pairs=pairs(run, measured_machine),
        precision=precision(run, run_cases),
    )
    return priced(replace(analysis, outliers=outliers(analysis)), run)


def priced(analysis: Analysis, run: Run) -> Analysis:
    """Recompute the costs for a run that differs from the analysed one only in its prices."""
    return replace(analysis, run=run, costs=costs(run, analysis.summaries))


def judged(analysis: Analysis, machines: Sequence[KnownMachine], limits: Iterable[Limit] = ()) -> Analysis:
    """Return an analysis beside known machines of its kind, held against limits."""
    return replace(analysis, standings=standings(analysis, machines), acceptance=accepted(analysis, limits))
