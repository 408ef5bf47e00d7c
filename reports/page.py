"""What the templates of a report see: the analysis, its figures, and the words for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from harness.analysis.facts import machine_name
from harness.model.analysis import Analysis, Cause, Latency, Part, Pipeline, Severity
from reports import messages, numbers
from reports.charts import Figure
from reports.fixes import Fix, fixes
from reports.names import titles_of, variant_name
from reports.overview import CPU, Row, rows, speed_factor
from reports.pipeline_chart import shown_pipelines
from workloads.protocol import SINGLE_STREAM


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An analysis made ready for templates.

    Attributes:
        titles: workload name -> its title.
        rows: of the overview.
        stills: figure id -> SVG, for those that have one.
    """

    analysis: Analysis
    figures: Mapping[str, Figure]
    stills: Mapping[str, Markup]
    titles: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def terms(self) -> Mapping[str, str]:
        """The words that are explained at the end."""
        return messages.TERMS

    @property
    def part_texts(self) -> Mapping[Part, str]:
        """What each part of a step's time is."""
        return messages.PART_TEXTS

    @property
    def published_caveat(self) -> str:
        """What holds of all published numbers."""
        return messages.PUBLISHED_CAVEAT

    @property
    def has_gpu(self) -> bool:
        """Whether any row is of a GPU."""
        return any(row.device != CPU for row in self.rows)

    @property
    def has_published(self) -> bool:
        """Whether any row has a published speed or time to compare with."""
        return any(speed_factor(row.published) for row in self.rows)

    def machine(self) -> str:
        """Return what the page is about: GPUs, CPU, vCPUs."""
        return machine_name(self.analysis.run.manifest)

    def kicker(self) -> list[str]:
        """Return what was run: driver, framework, engine, profile, time."""
        run = self.analysis.run
        manifest = run.manifest
        driver = f"driver {manifest.gpus[0].driver_version}" if manifest.gpus else ""
        words = (
            driver,
            run.system["framework"],
            manifest.engine.name,
            manifest.profile.name,
            numbers.when(manifest.created),
        )
        return [word for word in words if word]

    def trust(self) -> tuple[str, str]:
        """Return how far to trust the run, and the level of that."""
        return messages.trust(self.analysis)

    def banners(self) -> list[str]:
        """Return what must be known before reading on."""
        return list(messages.banners(self.analysis.run))

    def device(self, device: str) -> str:
        """Return a device's name; "GPU" where there is only one."""
        devices = [each.device for each in self.analysis.run.planned] or [row.device for row in self.rows]
        return messages.device_of_row(device, list(dict.fromkeys(devices)))

    def pipelines(self) -> tuple[Pipeline, ...]:
        """Return the input pipelines that matter."""
        return shown_pipelines(self.analysis)

    def fixes(self) -> list[list[Fix]]:
        """Return the fix cards; workloads with the same fix share one."""
        groups: dict[tuple[Cause, tuple[str, ...]], list[Fix]] = {}
        for fix in fixes(self.analysis):
            groups.setdefault((fix.finding.cause, fix.diff), []).append(fix)
        return list(groups.values())

    def caveats(self) -> list[tuple[Severity, str, tuple[str, ...]]]:
        """Return the caveats, grouped."""
        return messages.caveat_lines(self.analysis.caveats)

    def singles(self) -> list[Latency]:
        """Return what requests one after the other took."""
        return [each for each in self.analysis.latencies if each.scenario == SINGLE_STREAM]

    def timelines(self) -> list[Figure]:
        """Return the figures that show a trial through time."""
        return [figure for figure in self.figures.values() if figure.zoomable]

    def energy_sources(self) -> list[str]:
        """Return where the energy readings come from."""
        return list(
            dict.fromkeys(each.energy_source for each in self.analysis.summaries if each.energy_source)
        )

    def workload_facts(self) -> list[tuple[str, str, str]]:
        """Return what workloads reported of their variants, the same once."""
        found = (
            (
                f"{trial.workload}, {self.device(trial.device)}, {variant_name(fact.variant)}",
                fact.name,
                fact.text,
            )
            for trial in self.analysis.run.trials
            for fact in trial.said
        )
        return list(dict.fromkeys(found))


def page_of(analysis: Analysis, figures: Mapping[str, Figure], stills: Mapping[str, Markup]) -> Page:
    """Make an analysis ready for templates."""
    return Page(
        analysis=analysis, figures=figures, stills=stills, titles=titles_of(analysis), rows=rows(analysis)
    )
