"""What all judged cases come to: a confusion matrix, rates, errors; as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.truth.case import Kind
from benchmarks.truth.judging import Judged

CLOSE = 0.15


def summary(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the lines of the verdicts' score: rates, then time lost; stand-ins with made readings apart."""
    standins = [one for one in judged if one.case.recording]
    judged = [one for one in judged if not one.case.recording]
    right = sum(one.right for one in judged)
    late = [one for one in judged if one.case.fed_late]
    prompt = [one for one in judged if not one.case.fed_late]
    missed = [one.case.name for one in late if not one.said_fed_late]
    falsely = [one.case.name for one in prompt if one.said_fed_late]
    yield f"- right: {right} of {len(judged)} ({right / len(judged):.0%})"
    yield f"- planted input-bound, missed: {len(missed)} of {len(late)}{_named(missed)}"
    yield f"- falsely called input-bound: {len(falsely)} of {len(prompt)}{_named(falsely)}"
    errors = [one.error for one in judged if one.error is not None]
    if errors:
        close = sum(error <= CLOSE for error in errors)
        yield (
            f"- time lost against planted: off by {statistics.median(errors):.1%} in the median, "
            f"{max(errors):.0%} at most; within {CLOSE:.0%} in {close} of {len(errors)}"
        )
    if standins:
        yield f"- stand-ins right: {sum(one.right for one in standins)} of {len(standins)}"


def confusion(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a Markdown table: a row for each planted kind, a column for each that was said."""
    rows = [kind for kind in Kind if any(one.case.planted is kind for one in judged)]
    columns = [kind for kind in Kind if kind in rows or any(one.said is kind for one in judged)]
    yield f"| planted \\ said | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for row in rows:
        mine = [one for one in judged if one.case.planted is row]
        counts = [sum(one.said is column for one in mine) for column in columns]
        cells = [
            f"**{count}**" if column is row and count else str(count or "")
            for column, count in zip(columns, counts, strict=True)
        ]
        yield f"| {row} | {' | '.join(cells)} |"


def cases_table(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield a Markdown table with a line for each case."""
    yield "| case | what it is | planted | said | time lost, planted | estimated | off by |"
    yield "|---|---|---|---|---|---|---|"
    for one in judged:
        said = str(one.said) if one.right else f"**{one.said}**"
        if one.stage and one.said_fed_late:
            said += f" ({one.stage})"
        cells = (
            f"`{one.case.name}`",
            one.case.text,
            f"{one.case.planted}{f' ({one.case.stage})' if one.case.stage else ''}",
            said,
            percent(one.planted),
            percent(one.cost if one.right else None),
            percent(one.error),
        )
        yield f"| {' | '.join(cells)} |"


def percent(value: float | None) -> str:
    """Return a share in percent, "-" for None."""
    return "-" if value is None else f"{value:.1%}".replace("%", " %")


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
