"""The same cases judged by others: xprof's input pipeline analyzer, and MLPerf Storage's utilisation.

xprof 2.24 analysed a trace of each case by TensorFlow's profiler; its answers are kept beside the recordings.
Both tell only whether the device waits for its input, so that only this is asked of them, and of the report's
finding beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def peers_table(judged: Sequence[Judged], answers: Answers) -> Iterator[str]:
    """Yield Markdown: what each answers to "does the device wait for its input?", and how many each got right.

    Left out are cases in which the question has no single answer, and those that xprof did not trace.
    """
    asked = [each for each in judged if each.case.name in answers and not each.case.mixed]
    rows, right = [], [0, 0, 0]
    for each in asked:
        truth, answer = each.case.input_bound, answers[each.case.name]
        share = answer.get("input_pct")
        xprof = None if share is None else any(word in answer["conclusion"] for word in XPROF_YES)
        low = None if each.utilisation is None else each.utilisation < UTILISATION
        verdicts = (each.input_bound, xprof, low)
        details = (str(each.answer), percent(share and share / 100), percent(each.utilisation))
        right = [count + (yes is truth) for count, yes in zip(right, verdicts, strict=True)]
        cells = [_cell(yes, truth, detail) for yes, detail in zip(verdicts, details, strict=True)]
        rows.append((f"`{each.case.name}`", "yes" if truth else "no", *cells))
    counts = (f"**{count} of {len(asked)}**" for count in right)
    heads = ("case", "waits for input", "tfbench", "xprof, input share", "AU")
    yield from markdown(heads, [*rows, ("**right**", "", *counts)])


def _cell(answer: bool | None, truth: bool, detail: str) -> str:
    word = "no answer" if answer is None else "yes" if answer else "no"
    word = word if answer is truth else f"**{word}**"
    return word if answer is None else f"{word} ({detail})"
