"""Compare with xprof's input pipeline analyzer and MLPerf Storage's accelerator utilisation.

xprof 2.24 analysed a TensorFlow profiler trace of each case; its answers are stored with the recordings. Both
tools only answer whether the device waits for input, so tfbench's finding is reduced to that question too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.tables import markdown
from benchmarks.truth.judging import Judged
from benchmarks.truth.scoring import percent

# xprof calls a program MODERATELY input-bound from 5 % of the step time and HIGHLY from 20 %; below that it
# is NOT or, with unexplained time, POTENTIALLY input-bound.
XPROF_YES = ("MODERATELY", "HIGHLY")
# The minimum utilisation for ResNet-50 in MLPerf Storage.
UTILISATION = 0.90
Answers = Mapping[str, Mapping[str, Any]]


def peers_table(judged: Sequence[Judged], answers: Answers) -> Iterator[str]:
    """Yield a Markdown table of each tool's answer to "does the device wait for input?", with totals.

    Omits cases without a single answer, and those without an xprof trace.
    """
    compared = [each for each in judged if each.case.name in answers and not each.case.mixed]
    rows, right = [], [0, 0, 0]
    for each in compared:
        truth, answer = each.case.input_bound, answers[each.case.name]
        share = answer.get("input_pct")
        xprof = None if share is None else any(word in answer["conclusion"] for word in XPROF_YES)
        low = None if each.utilisation is None else each.utilisation < UTILISATION
        verdicts = (each.input_bound, xprof, low)
        details = (str(each.answer), percent(share and share / 100), percent(each.utilisation))
        right = [count + (yes is truth) for count, yes in zip(right, verdicts, strict=True)]
        cells = [_cell(yes, truth, detail) for yes, detail in zip(verdicts, details, strict=True)]
        rows.append((f"`{each.case.name}`", "yes" if truth else "no", *cells))
    counts = (f"**{count} of {len(compared)}**" for count in right)
    heads = ("case", "waits for input", "tfbench", "xprof, input share", "AU")
    yield from markdown(heads, [*rows, ("**right**", "", *counts)])


def _cell(answer: bool | None, truth: bool, detail: str) -> str:
    word = "no answer" if answer is None else "yes" if answer else "no"
    word = word if answer is truth else f"**{word}**"
    return word if answer is None else f"{word} ({detail})"
