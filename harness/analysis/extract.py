"""Extract from a run what comparisons need: speeds of each trial, step-time breakdowns and facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from harness.analysis.compared_facts import facts, machine_name
from harness.model.analysis import Analysis, find_by_key
from harness.model.comparison import Extract, Section, Speed
from harness.model.run import Status
from workloads.protocol import BASELINE, TUNED

# Other variants only serve to break down the step time.
COMPARED = (BASELINE, TUNED)


def extract(analysis: Analysis, *, label: str = "", source: str = "") -> Extract:
    """Return the extract of a run.

    Args:
        label: display name; the run id if empty.
        source: the path that the run was read from.
    """
    run = analysis.run
    manifest = run.manifest
    speeds = tuple(_speeds(analysis))
    run_facts = facts(run)
    for each in speeds:
        if each.variant == BASELINE:
            run_facts[Section.WORKLOADS][batch_field(each.workload, each.device)] = str(each.batch_size)
    pairs = dict.fromkeys((each.workload, each.device) for each in analysis.findings)
    return Extract(
        run_id=manifest.run_id,
        label=label or manifest.run_id,
        created=manifest.created,
        machine=machine_name(manifest),
        facts=run_facts,
        speeds=speeds,
        step_times=analysis.step_times,
        findings=tuple(finding for pair in pairs if (finding := analysis.limit(*pair))),
        caveats=tuple(each for each in analysis.caveats if not each.is_note),
        capabilities=tuple(replace(each, references=()) for each in analysis.capabilities),
        titles={workload.name: workload.title or workload.name for workload in run.workloads},
        images={workload.name: workload.image for workload in run.workloads},
        duration_s=run.duration_s,
        adaptive=manifest.profile.trials < manifest.profile.max_trials,
        planned=len(run.planned),
        ok=sum(trial.status is Status.OK for trial in run.trials),
        unfinished=run.unfinished,
        swept=len({(each.workload, each.device, each.point) for each in run.planned if each.point}),
        currency=manifest.prices.currency if manifest.prices else "",
        source=source,
    )


def batch_field(workload: str, device: str) -> str:
    """Return the name of the fact with the baseline's batch size."""
    return f"{workload} {device} batch size"


def _speeds(analysis: Analysis) -> Iterator[Speed]:
    for summary in analysis.summaries:
        if summary.variant not in COMPARED:
            continue
        cost = find_by_key(analysis.costs, summary.key)
        energy, per_million = summary.energy_j_per_sample, cost.per_million_samples if cost else None
        yield Speed(
            throughput=summary.trial_throughputs,
            batch_size=summary.batch_size,
            energy_j_per_sample=energy.median if energy else None,
            energy_source=summary.energy_source,
            cost_per_million=per_million.median if per_million else None,
            learned=summary.accuracy_ok,
            **summary.key._asdict(),
        )
