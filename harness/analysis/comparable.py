"""Find differences between runs and decide which make speeds not comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.analysis.extract import batch_field
from harness.model.comparison import Difference, Extract, Facts, Section, Speed
from harness.model.platform import target_for
from harness.model.run import CPU
from workloads.protocol import BASELINE, TENSORFLOW, TREES

# Sections in which any difference makes speeds not comparable.
_DECISIVE = frozenset({Section.IMAGES, Section.DATA, Section.DRIVER, Section.WORKLOADS, Section.SETTINGS})
# The same for fields of the software section, by image family. Other software is part of the machine.
_FRAMEWORKS: Mapping[str, tuple[str, ...]] = {TENSORFLOW: ("tensorflow", "keras"), TREES: ("xgboost",)}
_COMMON = ("isolated", "tfbench")
_SOFTWARE = frozenset((*_COMMON, *(name for names in _FRAMEWORKS.values() for name in names)))
# Settings that decide only how often, and what else, is measured.
_HARMLESS = frozenset({"trials", "max_trials", "target_interval", "variants", "analysis"})


def differences(runs: Sequence[Extract]) -> tuple[Difference, ...]:
    """Return the fields that are known for all runs and differ, by section."""
    result = []
    for section in Section:
        first = runs[0].facts.get(section, {}) if runs else {}
        for name in first:
            values = tuple(run.facts.get(section, {}).get(name, "") for run in runs)
            if all(values) and len(set(values)) > 1:
                comparable = not _is_decisive(section, name)
                result.append(Difference(section=section, field=name, values=values, comparable=comparable))
    return tuple(result)


def not_comparable(run: Extract, speed: Speed, reference: Facts) -> tuple[Section, ...]:
    """Return the sections that make a speed of a run not comparable with a run with facts `reference`.

    Only fields known on both sides count.
    """
    image, gpu = run.images.get(speed.workload, TENSORFLOW), speed.device != CPU
    fields = [(Section.IMAGES, target_for(image, gpu=gpu)), (Section.DATA, speed.workload)]
    fields += [(Section.SOFTWARE, name) for name in (*_FRAMEWORKS.get(image, ()), *_COMMON)]
    fields += [(Section.SETTINGS, name) for name in run.facts.get(Section.SETTINGS, {})]
    names = (f"{speed.workload} declaration", f"{speed.workload} file", "workloads package")
    fields += [(Section.WORKLOADS, name) for name in names]
    if speed.variant == BASELINE:
        fields.append((Section.WORKLOADS, batch_field(speed.workload, speed.device)))
    if gpu:
        fields.append((Section.DRIVER, "driver_version"))
    result = []
    for section, name in fields:
        values = [facts.get(section, {}).get(name, "") for facts in (run.facts, reference)]
        if _is_decisive(section, name) and all(values) and values[0] != values[1]:
            result.append(section)
    return tuple(dict.fromkeys(result))


def _is_decisive(section: Section, name: str) -> bool:
    if section is Section.SOFTWARE:
        return name in _SOFTWARE
    return section in _DECISIVE and name not in _HARMLESS
