"""A run in brief, for comparing many: one value a trial of every variant, what holds it back, what it ran on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.analysis.facts import facts, machine
from harness.analysis.measures import Key, Measure, measures
from harness.analysis.rules import primary
from harness.model.analysis import Analysis, Cost, Summary
from harness.model.comparison import Cause, Extract, Speed
from harness.model.run import Run, Status
from workloads.protocol import OPTIMIZATION_PREFIX, VARIANTS

# Above this a sentence of the report's is not kept: an extract stays small.
_LONGEST = 400
_WARNINGS = 12


def extract(analysis: Analysis, *, label: str = "", source: str = "") -> Extract:
    """Return a run in brief.

    Args:
        label: what pages are to call it; its id when empty.
        source: the path that it was read from.
    """
    run = analysis.run
    manifest = run.manifest
    return Extract(
        run_id=manifest.run_id,
        label=label or manifest.run_id,
        created=manifest.created,
        tfbench_version=manifest.tfbench_version,
        machine=machine(run),
        facts=facts(run),
        speeds=tuple(_speeds(analysis)),
        causes=tuple(_causes(analysis)),
        titles={workload.name: workload.title or workload.name for workload in run.workloads},
        cards={f"gpu{position}": card.name for position, card in enumerate(manifest.gpus)},
        adaptive=_adaptive(run),
        planned=len(run.planned),
        ok=sum(trial.status is Status.OK for trial in run.trials),
        headline=analysis.headline[:_LONGEST],
        source=source,
        currency=manifest.prices.currency if manifest.prices else "",
        warnings=_warnings(analysis),
        unfinished=run.unfinished,
        families={workload.name: workload.image for workload in run.workloads},
        swept=len({(one.workload, one.device, one.point) for one in run.planned if one.point}),
    )


def _speeds(analysis: Analysis) -> Iterator[Speed]:
    summaries = {Key(one.workload, one.device, one.variant): one for one in analysis.summaries}
    costs = {Key(one.workload, one.device, one.variant): one for one in analysis.costs}
    for key, group in measures(analysis.run).items():
        if key.variant in VARIANTS or key.variant.startswith(OPTIMIZATION_PREFIX):
            yield _speed(key, group, summaries.get(key), costs.get(key))


def _speed(key: Key, group: tuple[Measure, ...], summary: Summary | None, cost: Cost | None) -> Speed:
    energy = summary.energy_j_per_sample if summary else None
    training = summary.training_s if summary else None
    money = cost.per_million_samples if cost else None
    return Speed(
        workload=key.workload,
        device=key.device,
        variant=key.variant,
        throughput=tuple(one.throughput for one in group),
        trial_ids=tuple(one.trial.id for one in group),
        batch_size=group[0].batch,
        summary=summary.throughput if summary else None,
        energy_j_per_sample=energy.median if energy else None,
        energy_source=summary.energy_source if summary else "",
        training_s=training.median if training else None,
        cost_per_million=money.median if money else None,
        accuracy_ok=summary.accuracy_ok if summary else None,
    )


def _causes(analysis: Analysis) -> Iterator[Cause]:
    """Yield the main verdict of every workload and device: the one that the report's headline names."""
    for name, device in dict.fromkeys((one.workload, one.device) for one in analysis.verdicts):
        found = primary(analysis.verdicts, name, device)
        if found is not None:
            yield Cause(
                workload=name,
                device=device,
                rule=found.rule,
                cause=found.cause,
                sentence=found.sentence[:_LONGEST],
                cost=found.cost,
            )


def _warnings(analysis: Analysis) -> tuple[str, ...]:
    said = [f"{one.subject}: {one.fact}" for one in analysis.quality if one.severity == "warning"]
    return tuple(dict.fromkeys(said))[:_WARNINGS]


def _adaptive(run: Run) -> bool:
    """Tell whether the number of trials was left to the interval; runs that do not say so were not asked."""
    settings = run.manifest.parameters.get("settings")
    if not isinstance(settings, Mapping):
        return False
    least, most = settings.get("trials"), settings.get("max_trials")
    return isinstance(least, int) and isinstance(most, int) and least < most
