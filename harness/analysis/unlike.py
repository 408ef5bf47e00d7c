"""What differs between runs, and which differences make a comparison one of unlike things."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.analysis.compare import CPU
from harness.analysis.facts import DATA, DRIVER, IMAGE, PROFILE, SECTIONS, SOFTWARE, WORKLOAD
from harness.analysis.words import listed
from harness.model.comparison import Difference, Extract, Speed, Unlike
from harness.model.run import target_for
from harness.rounding import counted, short_digests
from workloads.protocol import BASELINE, TENSORFLOW, TREES

# Sections in which any difference makes speeds mean something else, and what to say of it.
_SUBJECTS: Mapping[str, tuple[str, str]] = {
    IMAGE: ("image", "The images differ: other libraries may be faster or slower by themselves"),
    DATA: ("data", "The data differ: input pipelines and accuracies are not comparable"),
    DRIVER: ("driver", "The graphics drivers differ"),
    PROFILE: ("profile", "Profile or parameters differ: the runs did not do the same"),
    WORKLOAD: ("workload", "The workloads themselves differ: they share their name only"),
}
# Fields of the software section that count likewise, some for one family of images alone; the others are the
# machine's own.
_FRAMEWORKS: Mapping[str, tuple[str, ...]] = {TENSORFLOW: ("tensorflow", "keras"), TREES: ("xgboost",)}
_COMMON = ("isolated", "tfbench")
_SOFTWARE = frozenset((*_COMMON, *(name for names in _FRAMEWORKS.values() for name in names)))
# How often and what else was measured changes no speed.
_HARMLESS = frozenset({"trials", "max_trials", "target_interval", "variants", "analysis"})
_SOFTWARE_SENTENCE = "The software differs"
BATCH = "batch size"
_NAMED = 3


def differences(runs: Sequence[Extract]) -> tuple[tuple[Difference, ...], int]:
    """Return the fields that are not the same in all runs, by section, and how many are."""
    found: list[Difference] = []
    same = 0
    for section in (*SECTIONS, *_others(runs)):
        fields = dict.fromkeys(name for run in runs for name in run.facts.get(section, {}))
        for name in fields:
            values = tuple(run.facts.get(section, {}).get(name, "") for run in runs)
            if len(set(values)) == 1:
                same += 1
            else:
                unlike = _subject(section, name) is not None and len(set(filter(None, values))) > 1
                found.append(Difference(section=section, field=name, values=values, unlike=unlike))
    return tuple(found), same


def _others(runs: Sequence[Extract]) -> list[str]:
    return [
        name for name in dict.fromkeys(name for run in runs for name in run.facts) if name not in SECTIONS
    ]


def _subject(section: str, field: str) -> str | None:
    if section == SOFTWARE:
        return "software" if field in _SOFTWARE else None
    if section == PROFILE and field in _HARMLESS:
        return None
    return _SUBJECTS[section][0] if section in _SUBJECTS else None


def unlikes(runs: Sequence[Extract], found: Sequence[Difference]) -> tuple[Unlike, ...]:
    """Return one warning a subject in which runs are not alike, with who has what."""
    groups: dict[str, list[Difference]] = {}
    for one in found:
        if one.unlike:
            groups.setdefault(one.section, []).append(one)
    said = []
    for section, fields in groups.items():
        subject, sentence = _SUBJECTS.get(section, ("software", _SOFTWARE_SENTENCE))
        parts = [_who_has_what(runs, one) for one in fields[:_NAMED]]
        if len(fields) > _NAMED:
            parts.append(counted(len(fields) - _NAMED, "more field"))
        said.append(Unlike(subject=subject, sentence=f"{sentence} ({'; '.join(parts)})."))
    return tuple(said)


def _who_has_what(runs: Sequence[Extract], one: Difference) -> str:
    holders: dict[str, list[str]] = {}
    for run, value in zip(runs, one.values, strict=True):
        holders.setdefault(value, []).append(run.label)
    parts = []
    for value, labels in sorted(holders.items(), key=lambda pair: -len(pair[1]))[:_NAMED]:
        who = listed(labels) if len(labels) <= _NAMED else counted(len(labels), "run")
        parts.append(f"{short_digests(value) or 'not known'} in {who}")
    more = len(holders) - _NAMED
    if more > 0:
        parts.append(counted(more, "other value"))
    return f"{one.field}: {', '.join(parts)}"


class Alike:
    """Say in which subjects a run's speed is not like the reference's.

    Without a reference the value that most runs have stands for it.
    """

    def __init__(self, runs: Sequence[Extract], reference: int | None) -> None:
        self._runs = runs
        self._reference = reference
        self._usual: dict[tuple[str, str], str] = {}

    def subjects(self, run: int, speed: Speed, other: Speed | None) -> tuple[str, ...]:
        """Return the subjects, none where all that is known is alike.

        Args:
            run: position of the run.
            speed, other: the run's and the reference's, None where the reference is the median of all.
        """
        family, gpu = self._runs[run].family(speed.workload), speed.device != CPU
        asked = [(IMAGE, target_for(family, gpu=gpu)), (DATA, speed.workload)]
        own = (f"{speed.workload} declaration", f"{speed.workload} file", "workloads package")
        asked += [(WORKLOAD, name) for name in own]
        asked += [(PROFILE, name) for name in self._runs[run].facts.get(PROFILE, {})]
        asked += [(SOFTWARE, name) for name in (*_FRAMEWORKS.get(family, ()), *_COMMON)]
        if gpu:
            asked.append((DRIVER, "driver_version"))
        found = []
        for section, name in asked:
            mine, theirs = self._runs[run].facts.get(section, {}).get(name, ""), self._theirs(section, name)
            subject = _subject(section, name)
            if subject and mine and theirs and mine != theirs:
                found.append(subject)
        if other is not None and speed.variant == BASELINE and speed.batch_size != other.batch_size:
            found.append(BATCH)
        return tuple(dict.fromkeys(found))

    def _theirs(self, section: str, name: str) -> str:
        if self._reference is not None:
            return self._runs[self._reference].facts.get(section, {}).get(name, "")
        if (section, name) not in self._usual:
            values = [run.facts.get(section, {}).get(name, "") for run in self._runs]
            self._usual[section, name] = max(dict.fromkeys(values), key=values.count)
        return self._usual[section, name]
