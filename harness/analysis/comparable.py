"""What differs between runs, and which differences change the meaning of a speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.analysis.extract import batch_field
from harness.model.comparison import Difference, Extract, Facts, Section, Speed
from harness.model.platform import target_for
from harness.model.run import CPU
from workloads.protocol import BASELINE, TENSORFLOW, TREES

# Sections in which any difference changes the meaning of a speed.
_DECISIVE = frozenset({Section.IMAGES, Section.DATA, Section.DRIVER, Section.WORKLOADS, Section.SETTINGS})
# Of the software those fields do, some for one family of images alone; the others are the machine's own.
_FRAMEWORKS: Mapping[str, tuple[str, ...]] = {TENSORFLOW: ("tensorflow", "keras"), TREES: ("xgboost",)}
_COMMON = ("isolated", "tfbench")
_SOFTWARE = frozenset((*_COMMON, *(name for names in _FRAMEWORKS.values() for name in names)))
# How often and what else was measured changes no speed.
_HARMLESS = frozenset({"trials", "max_trials", "target_interval", "variants", "analysis"})


def differences(runs: Sequence[Extract]) -> tuple[Difference, ...]:
    """Return the fields that are known of all runs and not the same, by section."""
    result = []
    for section in Section:
        first = runs[0].facts.get(section, {}) if runs else {}
        for name in first:
            values = tuple(run.facts.get(section, {}).get(name, "") for run in runs)
            if all(values) and len(set(values)) > 1:
                comparable = not _decides(section, name)
                result.append(Difference(section=section, field=name, values=values, comparable=comparable))
    return tuple(result)


def not_comparable(run: Extract, speed: Speed, usual: Facts) -> tuple[Section, ...]:
    """Return the sections in which a run's speed is not comparable with the usual, as far as both are known."""
    image, gpu = run.image(speed.workload), speed.device != CPU
    asked = [(Section.IMAGES, target_for(image, gpu=gpu)), (Section.DATA, speed.workload)]
    asked += [(Section.SOFTWARE, name) for name in (*_FRAMEWORKS.get(image, ()), *_COMMON)]
    asked += [(Section.SETTINGS, name) for name in run.facts.get(Section.SETTINGS, {})]
    own = (f"{speed.workload} declaration", f"{speed.workload} file", "workloads package")
    asked += [(Section.WORKLOADS, name) for name in own]
    if speed.variant == BASELINE:
        asked.append((Section.WORKLOADS, batch_field(speed.workload, speed.device)))
    if gpu:
        asked.append((Section.DRIVER, "driver_version"))
    result = []
    for section, name in asked:
        mine, theirs = (each.get(section, {}).get(name, "") for each in (run.facts, usual))
        if _decides(section, name) and mine and theirs and mine != theirs:
            result.append(section)
    return tuple(dict.fromkeys(result))


def _decides(section: Section, name: str) -> bool:
    if section is Section.SOFTWARE:
        return name in _SOFTWARE
    return section in _DECISIVE and name not in _HARMLESS
