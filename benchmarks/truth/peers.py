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
    for one in judged:
        answer = answers.get(one.case.name)
        if answer is None or one.case.mixed:
            continue
        share, conclusion = answer.get("input_pct"), str(answer.get("conclusion"))
        yield Compared(
            judged=one,
            xprof_pct=share,
            ours=one.input_bound,
            xprof=None if share is None else any(word in conclusion for word in XPROF_YES),
            utilisation=None if one.utilisation is None else one.utilisation < UTILISATION,
        )


def peers_table(answers: Sequence[Compared]) -> Iterator[str]:
    """Yield Markdown: a line for each case, and how many each got right."""
    rows = []
    for one in answers:
        truth = one.judged.case.input_bound
        rows.append(
            (
                f"`{one.judged.case.name}`",
                _word(truth),
                _mark(one.ours, truth, str(one.judged.answer)),
                _mark(one.xprof, truth, percent(None if one.xprof_pct is None else one.xprof_pct / 100)),
                _mark(one.utilisation, truth, percent(one.judged.utilisation)),
            )
        )
    right = (
        f"**{sum(getattr(one, tool) is one.judged.case.input_bound for one in answers)} of {len(answers)}**"
        for tool in ("ours", "xprof", "utilisation")
    )
    heads = ("case", "waits for input", "tfbench", "xprof, input share", "AU")
    yield from markdown(heads, [*rows, ("**right**", "", *right)])


def _word(answer: bool | None) -> str:
    return "no answer" if answer is None else "yes" if answer else "no"


def _mark(answer: bool | None, truth: bool, detail: str) -> str:
    word = _word(answer) if answer is truth else f"**{_word(answer)}**"
    return f"{word} ({detail})" if answer is not None else word
