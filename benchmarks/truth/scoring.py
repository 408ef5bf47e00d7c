"""Summaries of all judged cases as Markdown: rates, errors and answers by cause."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.tables import markdown
from benchmarks.truth.judging import Judged
from harness.model.analysis import Cause

SHARE_TOLERANCE, GAIN_TOLERANCE, UNEXPLAINED_LIMIT = 0.15, 0.25, 0.10


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
        "case",
        "description",
        "planted",
        "answer",
        "planted share",
        "measured share",
        "error",
        "unexplained",
    )
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
