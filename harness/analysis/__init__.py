"""Analysis: pure functions from a Run to numbers and findings; no sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.analysis.acceptance import accepted
from harness.analysis.accuracy_of_speeds import precision
from harness.analysis.capabilities import capabilities, endurance, peak_use
from harness.analysis.case import Case, cases
from harness.analysis.disturbance import disturbed
from harness.analysis.findings import findings
from harness.analysis.generation import generation
from harness.analysis.gpu_copies import pairs
from harness.analysis.health_checks import health_items
from harness.analysis.known import standings
from harness.analysis.neighbours import outliers
from harness.analysis.published import published_comparisons
from harness.analysis.ratios import Spreads
from harness.analysis.repeatability import answer_items
from harness.analysis.step_time import breakdown
from harness.analysis.summaries import variant_results, with_costs
from harness.analysis.sweeps import sweeps
from harness.analysis.trial_measures import measures
from harness.analysis.trust import caveats
from harness.analysis.utilisation import clocks, pipeline
from harness.model.analysis import Analysis, Capability, CaseResult, Limit
from harness.model.comparison import KnownMachine
from harness.model.run import Run
from workloads.variants import BASELINE

__all__ = ["analyse", "judged", "priced"]


def analyse(run: Run) -> Analysis:
    """Compute the content of the report from a run.

    Interrupted, failed and empty runs are accepted; the result has whatever could be computed.
    """
    beside = disturbed(run)
    measured = measures(run, beside)
    spreads = Spreads(measured)
    variants = variant_results(run, measured, spreads)
    measured_machine = capabilities(run)
    run_cases = tuple(cases(run, variants, measured, spreads))
    results = tuple(_result(case, run_cases, measured_machine) for case in run_cases)
    run_sweeps = tuple(sweeps(run))
    analysis = Analysis(
        run=run,
        cases=results,
        published=() if run_sweeps else published_comparisons(run, run_cases),
        caveats=caveats(run, results, beside),
        sweeps=run_sweeps,
        health=(*answer_items(run), *health_items(run.health, len(run.manifest.gpus), run.trials)),
        capabilities=measured_machine,
        endurance=endurance(run),
        pairs=pairs(run, measured_machine),
        precision=precision(run, run_cases),
    )
    return priced(replace(analysis, outliers=outliers(analysis)), run)


def _result(case: Case, run_cases: Sequence[Case], machine: Sequence[Capability]) -> CaseResult:
    alike = [other for other in run_cases if other.name == case.name]
    single = next((other for other in reversed(alike) if len(other.gpus) == 1), None)
    variants = {
        name: replace(
            each,
            generation=tuple(generation(case, name, machine)),
            breakdown=breakdown(case, name, single),
            clocks=clocks(case, name),
            peak_use=peak_use(case, name, machine),
        )
        for name, each in case.variants.items()
    }
    return CaseResult(
        workload=case.name,
        device=case.device,
        serves=any(each.capacities for other in alike for each in other.variants.values()),
        variants=variants,
        findings=findings(case, variants.get(BASELINE)),
        pipeline=pipeline(case),
    )


def priced(analysis: Analysis, run: Run) -> Analysis:
    """Recompute the costs for a run that differs from the analysed one only in its prices."""
    prices = run.manifest.prices
    return replace(analysis, run=run, cases=tuple(with_costs(case, prices) for case in analysis.cases))


def judged(analysis: Analysis, machines: Sequence[KnownMachine], limits: Iterable[Limit] = ()) -> Analysis:
    """Return an analysis beside known machines of its kind, held against limits."""
    return replace(analysis, standings=standings(analysis, machines), acceptance=accepted(analysis, limits))
