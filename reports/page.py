"""Write the report of a run as an HTML page or as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from harness.analysis.compared_facts import machine_name
from harness.analysis.results_json import results_document
from harness.model.analysis import Analysis
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
) -> str:
    """Return the report as one HTML page without external references.

    Args:
        analysis: the analysis to report.
        record: the run to embed, packed by harness.run.recording.
        code: returns the JavaScript of the charts.
    """
    figures = figures_of(analysis)
    document = results_document(analysis)
    page = Page(analysis)
    return framed("page.html", page, figures, folder="sections", document=document, code=code, record=record)


def render_markdown(analysis: Analysis) -> str:
    """Return the report as GitHub Markdown, short enough for a pull request."""
    template = environment(html=False).get_template("report.md")
    return template.render(page=Page(analysis)).strip() + "\n"


@dataclass(frozen=True)
class Page:
    """An analysis with the values that templates use."""

    analysis: Analysis

    @property
    def machine(self) -> str:
        """Name of the machine: GPUs, CPU, vCPUs."""
        return machine_name(self.analysis.run.manifest)

    @cached_property
    def devices(self) -> Mapping[str, str]:
        """Device -> display name."""
        return devices_of(self.analysis)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Rows of the overview."""
        return rows(self.analysis)

    def kicker(self) -> list[str]:
        """Return driver, framework, engine, profile and time of the run."""
        run = self.analysis.run
        manifest = run.manifest
        words = (
            f"driver {manifest.gpus[0].driver_version}" if manifest.gpus else "",
            run.framework,
            manifest.engine.name,
            manifest.profile.name,
            numbers.when(manifest.created),
            f"rerun of {manifest.rerun_of}" if manifest.rerun_of else "",
        )
        return [word for word in words if word]

    def fixes(self) -> list[list[Fix]]:
        """Return the fix cards; workloads with the same fix share a card."""
        return fixes(self.rows)

    def workload_facts(self) -> list[tuple[str, str, str]]:
        """Return the texts that workloads reported about variants, without duplicates."""
        devices = self.devices
        reported = (
            (f"{trial.workload}, {devices[trial.device]}, {variant_name(fact.variant)}", fact.name, fact.text)
            for trial in self.analysis.run.trials
            for fact in trial.reported
        )
        return list(dict.fromkeys(reported))
