"""The report of a run: what its templates see, as one HTML page or as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.analysis.facts import machine_name
from harness.analysis.results import results_document
from harness.model.analysis import Analysis
from harness.model.comparison import Extract
from reports import numbers
from reports.figures import figures_of
from reports.fix_cards import Fix, fixes
from reports.frame import charts_code, environment, framed
from reports.names import devices_of, variant_name
from reports.overview import Row, rows


def render_html(
    analysis: Analysis,
    *,
    record: str = "",
    code: Callable[[], str] = charts_code,
    references: Sequence[Extract] = (),
) -> str:
    """Write the report as one HTML page without any external reference.

    Args:
        analysis: what to report.
        record: the run for the page to carry, as harness.run.recording packs it.
        code: gives the charts' JavaScript.
        references: machines that tfbench was measured on, shown beside published numbers.
    """
    figures = figures_of(analysis, references)
    document = results_document(analysis)
    page = Page(analysis)
    return framed("page.html", page, figures, folder="sections", document=document, code=code, record=record)


def render_markdown(analysis: Analysis) -> str:
    """Write the report in GitHub's Markdown, short enough for a pull request."""
    template = environment(html=False).get_template("report.md")
    return template.render(page=Page(analysis)).strip() + "\n"


@dataclass(frozen=True)
class Page:
    """An analysis, and what templates ask of it."""

    analysis: Analysis

    @property
    def machine(self) -> str:
        """What the page is about: GPUs, CPU, vCPUs."""
        return machine_name(self.analysis.run.manifest)

    @cached_property
    def devices(self) -> Mapping[str, str]:
        """What devices are called."""
        return devices_of(self.analysis)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Of the overview."""
        return rows(self.analysis)

    def kicker(self) -> list[str]:
        """Return what was run: driver, framework, engine, profile, time."""
        run = self.analysis.run
        manifest = run.manifest
        words = (
            f"driver {manifest.gpus[0].driver_version}" if manifest.gpus else "",
            run.system["framework"],
            manifest.engine.name,
            manifest.profile.name,
            numbers.when(manifest.created),
            f"rerun of {manifest.rerun_of}" if manifest.rerun_of else "",
        )
        return [word for word in words if word]

    def fixes(self) -> list[list[Fix]]:
        """Return the fix cards; workloads with the same fix share one."""
        return fixes(self.rows)

    def workload_facts(self) -> list[tuple[str, str, str]]:
        """Return what workloads reported of their variants, the same once."""
        devices = self.devices
        reported = (
            (f"{trial.workload}, {devices[trial.device]}, {variant_name(fact.variant)}", fact.name, fact.text)
            for trial in self.analysis.run.trials
            for fact in trial.reported
        )
        return list(dict.fromkeys(reported))
