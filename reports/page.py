"""What the templates of a report see: the analysis, its figures, and what must be said at the top."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from harness.model.analysis import (
    Analysis,
    Comparison,
    Cost,
    CostRatio,
    Latency,
    PublishedComparison,
    Summary,
    Verdict,
)
from harness.model.run import Status
from harness.rounding import counted
from reports.charts import Figure
from reports.doubts import Doubt, doubts
from reports.terms import TERMS, Term
from reports.titles import titles_of
from workloads.protocol import BASELINE, CUSTOM_LOOP, MODEL_ONLY, OPTIMIZATION_PREFIX, SINGLE_STREAM, Remark

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Something to know before reading on: `severity` is "note" or "warning"."""

    severity: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLine:
    """Telemetry missing for one reason, over all trials."""

    source: str
    device: str
    metric: str
    reason: str
    seconds: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Why a workload's published numbers differ from a device's: what is true of one, and of all."""

    workload: str
    device: str
    single: tuple[tuple[PublishedComparison, tuple[str, ...]], ...]
    common: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SaidLine:
    """What a workload said of a variant, with the trials in which it did."""

    workload: str
    device: str
    variant: str
    name: str
    text: str
    trial_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An analysis made ready for templates.

    Attributes:
        titles: workload name -> what it is called.
        anchors: trial id -> id of its row in the page.
        stills: figure id -> SVG, for those that have one.
    """

    analysis: Analysis
    figures: Mapping[str, Figure]
    stills: Mapping[str, Markup]
    titles: Mapping[str, str]
    anchors: Mapping[str, str]
    banners: tuple[Banner, ...]

    @property
    def terms(self) -> Mapping[str, Term]:
        """Give the words that are explained, by the keys by which templates name them."""
        return TERMS

    def headline(self) -> tuple[str, str]:
        """Give the headline's first sentence, which is set large, and the rest."""
        first, *rest = SENTENCE_END.split(self.analysis.headline, maxsplit=1)
        return first, " ".join(rest)

    def summaries(self, *variants: str) -> tuple[Summary, ...]:
        """Give the summaries of some variants; of all when none is named."""
        return tuple(each for each in self.analysis.summaries if not variants or each.variant in variants)

    def singles(self, *variants: str) -> tuple[Latency, ...]:
        """Give what requests one after the other took, of some variants; of all when none is named."""
        return tuple(
            each
            for each in self.analysis.latencies
            if each.scenario == SINGLE_STREAM and (not variants or each.variant in variants)
        )

    def comparison(self, kind: str, summary: Summary) -> Comparison | None:
        """Find the comparison of a kind in which a summary stands above the line."""
        name = f"{summary.device}/{summary.variant}"
        return next(
            (
                each
                for each in self.analysis.comparisons
                if each.kind == kind and each.workload == summary.workload and each.numerator == name
            ),
            None,
        )

    def differences(self) -> tuple[Differences, ...]:
        """Give why published numbers differ, by workload and device, each reason once."""
        groups: dict[tuple[str, str], list[PublishedComparison]] = {}
        for one in self.analysis.published:
            if one.reasons:
                groups.setdefault((one.workload, one.device), []).append(one)
        return tuple(_differences(*key, own) for key, own in groups.items())

    def side(self, workload: str, name: str) -> Summary | None:
        """Find the summary that a comparison names as one of its sides, "device/variant"."""
        return next(
            (
                each
                for each in self.analysis.summaries
                if each.workload == workload and f"{each.device}/{each.variant}" == name
            ),
            None,
        )

    def cost(self, summary: Summary) -> Cost | None:
        """Find what a summary's variant takes in money and energy."""
        key = (summary.workload, summary.device, summary.variant)
        return next(
            (each for each in self.analysis.costs if (each.workload, each.device, each.variant) == key), None
        )

    def cost_ratio(self, cost: Cost) -> CostRatio | None:
        """Find what the same work costs on the CPU over what it costs on this device and variant."""
        key = (cost.workload, cost.device, cost.variant)
        return next(
            (each for each in self.analysis.cost_ratios if (each.workload, each.device, each.variant) == key),
            None,
        )

    def waited(self, summary: Summary) -> float | None:
        """Give the share of a variant's time spent waiting for input; of baseline, as its plain loop saw it."""
        if summary.wait_share is not None or summary.variant != BASELINE:
            return summary.wait_share
        loop = self.side(summary.workload, f"{summary.device}/{CUSTOM_LOOP}")
        return loop.wait_share if loop else None

    def optimizations(self) -> tuple[tuple[Summary, str], ...]:
        """Give the steps between baseline and tuned, each with why it should help."""
        why = {
            (workload.name, f"{OPTIMIZATION_PREFIX}{optimization.name}"): optimization.why
            for workload in self.analysis.run.workloads
            for optimization in workload.optimizations
        }
        own = [each for each in self.analysis.summaries if each.variant.startswith(OPTIMIZATION_PREFIX)]
        return tuple((each, why.get((each.workload, each.variant), "")) for each in own)

    def verdicts(self, finding: str) -> tuple[Verdict, ...]:
        """Give the verdicts with one finding, of each workload and device in the order of their weight."""
        return tuple(verdict for verdict in self.analysis.verdicts if verdict.finding.value == finding)

    def remarks(self) -> tuple[tuple[str, Remark], ...]:
        """Give what articles say in words, with the workload of each."""
        return tuple((one.name, remark) for one in self.analysis.run.workloads for remark in one.remarks)

    def said(self) -> tuple[SaidLine, ...]:
        """Give what the workloads said of their variants; trials that said the same make one line."""
        found: dict[tuple[str, str, str, str, str], list[str]] = {}
        for trial in self.analysis.run.trials:
            for fact in trial.said:
                key = (trial.workload, trial.device, fact.variant, fact.name, fact.text)
                found.setdefault(key, []).append(trial.id)
        return tuple(SaidLine(*key, trial_ids=tuple(ids)) for key, ids in found.items())

    def gaps(self) -> tuple[GapLine, ...]:
        """Sum up missing telemetry over the trials by what is missing and why."""
        found: dict[tuple[str, str, str, str], list[tuple[str, float]]] = {}
        for trial in self.analysis.run.trials:
            for gap in trial.gaps:
                key = (gap.source, gap.device, gap.metric, gap.reason)
                found.setdefault(key, []).append((trial.id, (gap.end_ns - gap.start_ns) / 1e9))
        return tuple(
            GapLine(
                source=source, device=device, metric=metric, reason=reason,
                seconds=sum(seconds for _, seconds in each), trials=len({trial for trial, _ in each}),
            )
            for (source, device, metric, reason), each in found.items()
        )  # fmt: skip

    def doubts(self) -> tuple[Doubt, ...]:
        """Give what must be known before trusting a figure, the same once."""
        return doubts(self.analysis, self.titles)

    def framework(self) -> str:
        """Name the framework with its version, "" when no container said it."""
        return self.analysis.run.system["framework"]

    def model_is_no_bound(self, summary: Summary) -> bool:
        """Tell whether the model alone was slower than training, which it should bound from above."""
        whole = self.side(summary.workload, f"{summary.device}/{BASELINE}")
        return (
            summary.variant == MODEL_ONLY
            and whole is not None
            and summary.throughput.median < whole.throughput.median
        )

    def doubtful_bounds(self) -> bool:
        """Tell whether the model alone was slower than training anywhere."""
        return any(self.model_is_no_bound(each) for each in self.analysis.summaries)

    def timelines(self) -> tuple[Figure, ...]:
        """Give the figures that show a trial through time."""
        return tuple(figure for figure in self.figures.values() if figure.zoomable)


def _differences(workload: str, device: str, own: list[PublishedComparison]) -> Differences:
    shared = [text for text in own[0].reasons if all(text in one.reasons for one in own)]
    common = tuple(shared) if len(own) > 1 else ()
    single = ((one, tuple(text for text in one.reasons if text not in common)) for one in own)
    return Differences(
        workload=workload,
        device=device,
        single=tuple((one, texts) for one, texts in single if texts),
        common=common,
    )


def page_of(analysis: Analysis, figures: Mapping[str, Figure], stills: Mapping[str, Markup]) -> Page:
    """Make an analysis ready for templates."""
    return Page(
        analysis=analysis,
        figures=figures,
        stills=stills,
        titles=titles_of(analysis),
        anchors={trial.id: f"trial-{number}" for number, trial in enumerate(analysis.run.trials, 1)},
        banners=tuple(_banners(analysis)),
    )


def _banners(analysis: Analysis) -> list[Banner]:
    run = analysis.run
    found = []
    if run.tried_out:
        found.append(
            Banner(
                severity="warning",
                text="This is a smoke run: it shows whether everything runs, and its figures mean nothing. "
                "Measure with the profile quick or full.",
            )
        )
    if not run.manifest.engine.isolated:
        found.append(
            Banner(
                severity="warning",
                text="Nothing was isolated: no container engine was used, and the workloads ran as plain "
                "processes in a virtual environment on this machine. Expect more noise than from containers.",
            )
        )
    well = sum(trial.status is Status.OK for trial in run.trials)
    if not run.trials:
        found.append(Banner(severity="warning", text="No trial has ended yet: this report has no speeds."))
    elif run.unfinished:
        found.append(
            Banner(
                severity="warning",
                text=f"This run was cut short: {well} of {len(run.planned)} planned trials ended well. "
                "What follows rests on those alone.",
            )
        )
    failed = [each for each in run.trials if each.status not in (Status.OK, Status.INTERRUPTED)]
    if failed:
        found.append(
            Banner(
                severity="warning",
                text=f"{len(failed)} of {counted(len(run.trials), 'trial')} failed; "
                "why is said under “Every trial”.",
            )
        )
    return found
