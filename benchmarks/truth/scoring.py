"""Summaries of all judged cases as Markdown: rates, errors, answers by cause, and the answers of other tools.

xprof 2.24 analysed a TensorFlow profiler trace of each case; its answers are stored with the recordings. It and MLPerf
Storage's accelerator utilisation only answer whether the device waits for input, so tfbench's finding is reduced to
that question too.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.tables import markdown
from benchmarks.truth.judging import Judged
from harness.model.analysis import Cause

SHARE_TOLERANCE, GAIN_TOLERANCE, UNEXPLAINED_LIMIT = 0.15, 0.25, 0.10
# xprof calls a program MODERATELY input-bound from 5 % of the step time and HIGHLY from 20 %; below that it
# is NOT or, with unexplained time, POTENTIALLY input-bound.
XPROF_YES = ("MODERATELY", "HIGHLY")
# The minimum utilisation for ResNet-50 in MLPerf Storage.
UTILISATION = 0.90
Answers = Mapping[str, Mapping[str, Any]]


def summary(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the lines of the score, with synthetic cases counted separately."""
    synthetic = [each for each in judged if each.case.recording]
    judged = [each for each in judged if not each.case.recording]
    right = sum(each.right for each in judged)
    positives = [each for each in judged if each.case.input_bound]
    negatives = [each for each in judged if not each.case.input_bound and not each.case.mixed]
    false_negatives = [each.case.name for each in positives if not each.input_bound and not each.right]
    false_positives = [each.case.name for each in negatives if each.input_bound and not each.right]
    yield f"- right: {right} of {len(judged)} ({right / len(judged):.0%})"
    for kind, names, cases in (
        ("negatives", false_negatives, positives), ("positives", false_positives, negatives),
    ):  # fmt: skip
        yield f"- input-bound, false {kind}: {len(names)} of {len(cases)}{_bracketed(', '.join(names))}"
    errors = [each.error for each in judged if each.error is not None]
    if errors:
        yield (
            f"- error of the share: median {statistics.median(errors):.1%}, maximum {max(errors):.0%}; within "
            f"{SHARE_TOLERANCE:.0%} in {sum(error <= SHARE_TOLERANCE for error in errors)} of {len(errors)}"
        )
    unexplained = [abs(each.unexplained) for each in judged if each.unexplained is not None]
    small = sum(share < UNEXPLAINED_LIMIT for share in unexplained)
    yield f"- unexplained time under {UNEXPLAINED_LIMIT:.0%} of the step: {small} of {len(unexplained)}"
    predicted = [each.prediction for each in judged if each.prediction is not None]
    close = sum(abs(ratio - 1) <= GAIN_TOLERANCE for ratio in predicted)
    yield f"- predicted gain within {GAIN_TOLERANCE:.0%} of the ablation's: {close} of {len(predicted)}"
    if synthetic:
        yield f"- synthetic cases right: {sum(each.right for each in synthetic)} of {len(synthetic)}"


def by_cause(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a Markdown table with a row for each planted cause."""
    rows = []
    for cause in Cause:
        if own := [each for each in judged if each.case.planted is cause]:
            others = [str(each.answer) for each in own if each.answer is not cause]
            rows.append((cause, str(len(own)), str(sum(each.right for each in own)), ", ".join(others)))
    yield from markdown(("planted", "cases", "right", "other answers"), rows)


def cases_table(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a Markdown table with a row for each case."""
    heads = (
        "case", "description", "planted", "answer", "planted share", "measured share", "error", "unexplained",
    )  # fmt: skip
    yield from markdown(heads, (_case_row(each) for each in judged))


def _case_row(each: Judged) -> Sequence[str]:
    answer = str(each.answer) if each.right else f"**{each.answer}**"
    stages = ", ".join(each.stages) if each.stage_named else f"**{', '.join(each.stages)}**"
    return (
        f"`{each.case.name}`",
        each.case.text,
        f"{each.case.planted}{_bracketed(each.case.stage)}",
        f"{answer}{_bracketed(stages)}",
        percent(each.planted),
        percent(each.share if each.right else None),
        percent(each.error),
        percent(each.unexplained),
    )


def percent(value: float | None) -> str:
    """Format a share as a percentage; "-" for None."""
    return "-" if value is None else f"{value:.1%}".replace("%", " %")


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""


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
