"""What a reader must know before trusting a figure, with the same doubt said once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.analysis import Analysis
from harness.model.variants import variant_name
from reports.names import device_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One fact and what to do about it; `subjects` are what it holds for, in words."""

    severity: str
    subjects: tuple[str, ...]
    fact: str
    remedy: str


def doubts(analysis: Analysis, titles: Mapping[str, str]) -> tuple[Doubt, ...]:
    """Give the analysis' doubts, warnings first; those that differ in their subject alone become one."""
    names = _names(analysis, titles)
    found: dict[tuple[str, str, str], list[str]] = {}
    for each in sorted(analysis.quality, key=lambda one: one.severity != "warning"):
        subjects = found.setdefault((each.severity, each.fact, each.remedy), [])
        subjects.append(names.get(each.subject, each.subject))
    return tuple(
        Doubt(severity=severity, subjects=tuple(dict.fromkeys(subjects)), fact=fact, remedy=remedy)
        for (severity, fact, remedy), subjects in found.items()
    )


def _names(analysis: Analysis, titles: Mapping[str, str]) -> Mapping[str, str]:
    """Give what the analysis calls workloads, devices and variants in the words of the report."""
    devices = {(each.workload, each.device) for each in analysis.run.planned}
    devices |= {(each.workload, each.device) for each in analysis.run.trials}
    named = dict(titles)
    named |= {f"{work} on {device}": f"{titles[work]} on {device_name(device)}" for work, device in devices}
    named |= {
        f"{each.workload} on {each.device}, {each.variant}": f"{titles[each.workload]} on "
        f"{device_name(each.device)}, {variant_name(each.variant)}"
        for each in analysis.summaries
    }
    return named
