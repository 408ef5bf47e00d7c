"""What a comparison says in a paragraph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.words import interval, listed, percent, rounded, significant
from harness.model.analysis import Estimate
from harness.model.comparison import Best, Outcome, Ratio, Standing, Versus
from harness.rounding import counted, some

_NAMED = 4
_CLOSE = 1.1  # an interval within this says that two are about as fast


def headline(versus: Versus) -> str:
    """Return a paragraph in plain English that stands by itself."""
    if not versus.standings:
        return "Nothing was measured that could be compared."
    return " ".join((*_places(versus), *_outcomes(versus), *_kinds(versus)))


def caution(versus: Versus) -> str:
    """Say which runs show only whether all works; "" where all measured."""
    tried = [run.label for run in versus.runs if run.tried_out]
    named = f"{some(tried)} only tried out whether all works (profile smoke): those figures mean nothing."
    return named if tried else ""


def _places(versus: Versus) -> Iterator[str]:
    others = [one for one in versus.standings if one.run != versus.reference]
    if versus.reference is not None and len(others) == 1:
        base = versus.runs[versus.reference].label
        yield f"{_name(versus, others[0])} is {_against(others[0].score)} {base}, {_over(versus, others[0])}."
    elif versus.reference is not None and others:
        base = versus.runs[versus.reference].label
        first = others[0]
        said = f"{_against(first.score)} {base}, {_over(versus, first)}"
        yield f"Of the others {_name(versus, first)} does best: {said}."
        last = others[-1]
        yield f"{_name(versus, last)} does worst: {_against(last.score)} {base}."
    elif others:
        first, last = others[0], others[-1]
        yield (
            f"Of {counted(len(others), 'run')} {_name(versus, first)} is the fastest, "
            f"{rounded(first.score)} times the median of all {_over(versus, first)}, and "
            f"{_name(versus, last)} the slowest, {rounded(last.score)} times."
        )


def _name(versus: Versus, one: Standing) -> str:
    return versus.runs[one.run].label


def _over(versus: Versus, one: Standing) -> str:
    """Say which speeds a score is made of: the fastest device and variant of each workload."""
    own = {best.workload: best for best in versus.bests if best.run == one.run}
    others = [best for best in versus.bests if best.run != one.run and best.workload in own]
    against = [best for best in others if best.run == versus.reference]
    if one.workloads > 1:
        ways = dict.fromkeys(_way(best) for best in (*own.values(), *(against or others)))
        how = next(iter(ways)) if len(ways) == 1 else "each run's fastest device and variant"
        return f"over {counted(one.workloads, 'workload')} ({how})"
    (best,) = own.values()
    ways = dict.fromkeys(_way(other) for other in (best, *(against or others)))
    if len(ways) == 1:
        return f"on {best.workload} ({_way(best)})"
    if against:
        return f"on {best.workload} ({_way(best)} against {_way(against[0])})"
    return f"on {best.workload} (each run's fastest device and variant)"


def _way(best: Best) -> str:
    return f"{best.variant} on {best.device}"


def _against(ratio: Estimate) -> str:
    if ratio.n >= 2 and ratio.low <= 1 <= ratio.high:
        close = ratio.low >= 1 / _CLOSE and ratio.high <= _CLOSE
        how = "about as fast" if close else "not shown to be faster or slower"
        return f"{how}{interval(ratio)} {'as' if close else 'than'}"
    return f"{rounded(ratio)} times as fast{interval(ratio)} as"


def _outcomes(versus: Versus) -> Iterator[str]:
    """Say what is beyond doubt, all comparisons taken together, and what could not be shown."""
    tested = [one for one in versus.ratios if one.tested]
    if not tested:
        yield "No workload was measured in more than one run, so no speeds can be compared."
        return
    for outcome in (Outcome.SLOWER, Outcome.FASTER):
        found = [one for one in tested if one.outcome is outcome]
        if found:
            than = " than the median of their kind" if versus.reference is None else ""
            yield f"Beyond doubt {outcome.value}{than}: {_which(versus, found)}."
    same = sum(one.outcome is Outcome.SAME for one in tested)
    if same:
        which = _of(same, len(tested)).replace("all ", "any of ")  # "in all" would leave some in which it was
        yield f"No difference could be shown in {which}."
    unknown = sum(one.outcome is Outcome.UNKNOWN for one in tested)
    if unknown:
        rest = "rests on a single trial and has" if unknown == 1 else "rest on a single trial and have"
        which = _of(unknown, len(tested))
        yield f"{which[0].upper()}{which[1:]} {rest} no interval."


def _of(some: int, all_: int) -> str:
    """Say how many of all comparisons."""
    if some == all_:
        return "the only comparison" if all_ == 1 else f"all {counted(all_, 'comparison')}"
    return f"{some} of {counted(all_, 'comparison')}"


def _which(versus: Versus, found: Sequence[Ratio]) -> str:
    if len(versus.runs) == 2:
        names = [
            f"{one.workload} on {one.device}, {one.variant} ({_change(one.ratio.median)})" for one in found
        ]
        what = "more comparison"
    else:
        names = [versus.runs[run].label for run in dict.fromkeys(one.run for one in found)]
        what = "more run"
    if len(names) > _NAMED:
        return f"{listed(names[:_NAMED])} and {counted(len(names) - _NAMED, what)}"
    return listed(names)


def _change(ratio: float) -> str:
    if not 0.5 < ratio < 2:
        return f"{significant(ratio)} times"
    return f"{'+' if ratio >= 1 else '−'}{percent(abs(ratio - 1))}"


def _kinds(versus: Versus) -> Iterator[str]:
    wide = [kind for kind in versus.kinds if kind.spread is not None]
    if wide and len(versus.runs) > len(versus.kinds):
        parts = [
            f"{percent(kind.spread or 0.0)} among {len(kind.runs)} × {kind.machine}" for kind in wide[:3]
        ]
        yield f"Machines of one kind vary by {listed(parts)} (coefficient of variation)."
