"""Analysis: pure functions from a Run to what the report says."""

from __future__ import annotations

from dataclasses import replace

from harness.analysis.compare import comparisons
from harness.analysis.cost import CLAIM, cost_ratios, costs
from harness.analysis.headline import headline
from harness.analysis.measures import measures
from harness.analysis.pipelines import pipelines
from harness.analysis.published import published_comparisons
from harness.analysis.quality import quality
from harness.analysis.requests import capacities, latencies, request_ratios
from harness.analysis.rules import verdicts
from harness.analysis.spent import spent
from harness.analysis.summaries import summaries
from harness.analysis.sweeps import headline as sweep_headline
from harness.analysis.sweeps import sweeps
from harness.model.analysis import Analysis
from harness.model.run import Run

__all__ = ["analyse", "priced"]


def analyse(run: Run) -> Analysis:
    """Compute everything that the report says, from the run and nothing else.

    Never raises for what a run lacks: an interrupted, failed or empty run gives what there is.
    """
    found = measures(run)
    summed = summaries(run, found)
    ratios = (*comparisons(found), *request_ratios(run))
    swept = sweeps(run)
    said = verdicts(run, summed, ratios)
    published = () if swept else published_comparisons(run, summed, ratios, said)
    found_out = Analysis(
        run=run,
        headline=sweep_headline(swept) if swept else headline(run, summed, ratios, published, said),
        summaries=summed,
        comparisons=ratios,
        published=published,
        verdicts=said,
        quality=quality(run, found, summed),
        sweeps=swept,
        latencies=latencies(run),
        capacities=capacities(run),
        pipelines=pipelines(run, summed, ratios),
        spent=spent(run),
    )
    return priced(found_out, run)


def priced(analysis: Analysis, run: Run) -> Analysis:
    """Compute again what depends on the prices alone; `run` differs from the analysis' in nothing else."""
    dearer = cost_ratios(run, analysis.comparisons)
    return replace(
        analysis,
        run=run,
        costs=costs(run, analysis.summaries),
        cost_ratios=dearer,
        cost_claim=CLAIM if dearer else None,
    )
