"""What all judged cases come to: rates, errors, answers by cause; as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.tables import markdown
from benchmarks.truth.judging import Judged
from harness.model.analysis import Cause

CLOSE, PREDICTED_CLOSE, UNEXPLAINED_MOST = 0.15, 0.25, 0.10


def summary(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the lines of the score; stand-ins with made readings apart."""
    standins = [each for each in judged if each.case.recording]
    judged = [each for each in judged if not each.case.recording]
    right = sum(each.right for each in judged)
    late = [each for each in judged if each.case.input_bound]
    prompt = [each for each in judged if not each.case.input_bound and not each.case.mixed]
    missed = [each.case.name for each in late if not each.input_bound and not each.right]
    falsely = [each.case.name for each in prompt if each.input_bound and not each.right]
    yield f"- right: {right} of {len(judged)} ({right / len(judged):.0%})"
    yield f"- input-bound, missed: {len(missed)} of {len(late)}{_bracketed(', '.join(missed))}"
    yield f"- input-bound, made up: {len(falsely)} of {len(prompt)}{_bracketed(', '.join(falsely))}"
    errors = [each.error for each in judged if each.error is not None]
    if errors:
        yield (
            f"- share of the step: off by {statistics.median(errors):.1%} in the median, {max(errors):.0%} at "
            f"most; within {CLOSE:.0%} in {sum(error <= CLOSE for error in errors)} of {len(errors)}"
        )
    rests = [abs(each.unexplained) for each in judged if each.unexplained is not None]
    yield f"- unexplained under 10 %: {sum(rest < UNEXPLAINED_MOST for rest in rests)} of {len(rests)}"
    predicted = [each.prediction for each in judged if each.prediction is not None]
    close = sum(1 - PREDICTED_CLOSE <= ratio <= 1 + PREDICTED_CLOSE for ratio in predicted)
    yield f"- predicted gain within {PREDICTED_CLOSE:.0%} of the ablation's: {close} of {len(predicted)}"
    if standins:
        yield f"- stand-ins right: {sum(each.right for each in standins)} of {len(standins)}"


def by_cause(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a Markdown table with a row for each planted cause."""
    rows = []
    for cause in Cause:
        if mine := [each for each in judged if each.case.planted is cause]:
            others = [str(each.answer) for each in mine if each.answer is not cause]
            rows.append((cause, str(len(mine)), str(sum(each.right for each in mine)), ", ".join(others)))
    yield from markdown(("planted", "cases", "right", "other answers"), rows)


def cases_table(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a Markdown table with a line for each case."""
    heads = (
        "case",
        "what it is",
        "planted",
        "answer",
        "share planted",
        "share found",
        "off by",
        "unexplained",
    )
    yield from markdown(heads, (_case_row(each) for each in judged))


def _case_row(each: Judged) -> Sequence[str]:
    answer = str(each.answer) if each.right else f"**{each.answer}**"
    return (
        f"`{each.case.name}`",
        each.case.text,
        f"{each.case.planted}{_bracketed(each.case.stage)}",
        f"{answer}{_bracketed(', '.join(each.stages))}",
        percent(each.planted),
        percent(each.share if each.right else None),
        percent(each.error),
        percent(each.unexplained),
    )


def percent(value: float | None) -> str:
    """Return a share in percent, "-" for None."""
    return "-" if value is None else f"{value:.1%}".replace("%", " %")


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""
