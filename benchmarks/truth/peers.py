"""The same cases judged by others: xprof's input pipeline analyzer, and MLPerf Storage's utilisation.

xprof 2.24 analysed a trace of each case by TensorFlow's profiler; its answers are kept beside the recordings.
Both tell only whether the device waits for its input, so that only this is asked of them, and of the report's
finding beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import markdown
from benchmarks.truth.judging import Judged
from benchmarks.truth.scoring import percent

# What xprof's input pipeline analyzer calls a program from 5 % and from 20 % of the step time; below that it
# is NOT or, where other time is unexplained, POTENTIALLY input-bound.
XPROF_YES = ("MODERATELY", "HIGHLY")
# MLPerf Storage: the least utilisation that ResNet-50 must hold.
UTILISATION = 0.90
Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What each says to "does the device wait for its input?"; None where it has no answer."""

    judged: Judged
    xprof_pct: float | None
    ours: bool
    xprof: bool | None
    utilisation: bool | None


def compared(judged: Sequence[Judged], answers: Answers) -> Iterator[Compared]:
    """Ask all three; left out are cases in which the question has no single answer, and those not traced."""
    for each in judged:
        answer = answers.get(each.case.name)
        if answer is None or each.case.mixed:
            continue
        share, conclusion = answer.get("input_pct"), str(answer.get("conclusion"))
        yield Compared(
            judged=each,
            xprof_pct=share,
            ours=each.input_bound,
            xprof=None if share is None else any(word in conclusion for word in XPROF_YES),
            utilisation=None if each.utilisation is None else each.utilisation < UTILISATION,
        )


def peers_table(answers: Sequence[Compared]) -> Iterator[str]:
    """Yield Markdown: a line for each case, and how many each got right."""
    rows = []
    for each in answers:
        truth = each.judged.case.input_bound
        rows.append(
            (
                f"`{each.judged.case.name}`",
                _word(truth),
                _mark(each.ours, truth, str(each.judged.answer)),
                _mark(each.xprof, truth, percent(None if each.xprof_pct is None else each.xprof_pct / 100)),
                _mark(each.utilisation, truth, percent(each.judged.utilisation)),
            )
        )
    right = (
        f"**{sum(getattr(each, tool) is each.judged.case.input_bound for each in answers)} of {len(answers)}**"
        for tool in ("ours", "xprof", "utilisation")
    )
    heads = ("case", "waits for input", "tfbench", "xprof, input share", "AU")
    yield from markdown(heads, [*rows, ("**right**", "", *right)])


def _word(answer: bool | None) -> str:
    return "no answer" if answer is None else "yes" if answer else "no"


def _mark(answer: bool | None, truth: bool, detail: str) -> str:
    word = _word(answer) if answer is truth else f"**{_word(answer)}**"
    return f"{word} ({detail})" if answer is not None else word
