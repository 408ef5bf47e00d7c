"""What a run's workloads are called in headings."""

from __future__ import annotations

from harness.model.analysis import Analysis


def titles_of(analysis: Analysis) -> dict[str, str]:
    """Give each workload's title by its name; the name itself where nothing is declared."""
    named = {workload.name: workload.title or workload.name for workload in analysis.run.workloads}
    everywhere = (
        analysis.run.planned,
        analysis.run.trials,
        analysis.summaries,
        analysis.published,
        analysis.verdicts,
    )
    for group in everywhere:
        for each in group:
            named.setdefault(each.workload, each.workload)
    for comparison in analysis.comparisons:
        named.setdefault(comparison.workload, comparison.workload)
    return named
