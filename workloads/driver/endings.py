"""What a script does after its measured call: with a remedy it must be what it does without.

The losses of the first steps tell whether a remedy trains alike. They do not tell whether a later evaluation, another
training or code that reads the model still works: for that, the whole script is run, shortened, with and without the
remedy (see workloads/driver/rehearsal.py). If that differs, the script as written is run a second time. What differs
between its own two runs, such as times, tells nothing and is not compared. Standard library only.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

# What is no difference near zero.
_LEAST = 1e-3
# Numbers of the script's own two runs are the same if they differ by no more than this share.
_REPEATED_WITHIN = 1e-3
# Files of other sizes, by more than this share, have other contents: not only other settings beside the same weights.
_OTHER_SIZE = 0.25
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)")
# Dates, times and addresses, which say nothing of what was computed.
_PASSING = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(:\d\d(\.\d+)?)?|0x[0-9a-fA-F]+")
_LONGEST = 80


@dataclass(frozen=True, kw_only=True)
class Did:
    """A call of fit, evaluate or predict that has returned.

    Attributes:
        name: of the method.
        place: where the script makes it.
        form: the shapes of its results; "" of numbers.
        values: by name, the finite numbers that it returned, and the steps that the optimizer made.
    """

    name: str
    place: str
    form: str
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What a script did from its measured call on.

    Attributes:
        calls: in order, the measured one first.
        printed: lines of its standard output.
        files: the files that it has made beside itself, by name, with the lines of those that are text or numbers.
        sizes: in bytes, of those whose size tells of their content.
        error: what it ended with; "" if it came to its end.
        whole: whether it ended by itself, and not because it took too long.
        even: whether its calls, which stop after some steps, stop after as many as without remedies.
        times: how many steps its measured call trains where Keras counts one.
    """

    calls: Sequence[Did] = ()
    printed: Sequence[str] = ()
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    whole: bool = True
    even: bool = True
    times: int = 1


def difference(
    own: Ending, first: Ending, second: Ending, *, within: float = 5e-3, exact: bool = True, acts: bool = True
) -> str:
    """Return in a sentence how a script with remedies ends otherwise than in both runs as written; "" if it does not.

    Args:
        within: what rounding in a few steps may do to a later number, as a share of it.
        exact: whether the script must compute what it does as written.
        acts: whether it must write and print as often.

    >>> difference(Ending(error="ValueError: bad shape"), Ending(), Ending())
    'With it, what follows the training fails: ValueError: bad shape'
    >>> difference(Ending(printed=["took 3 s"]), Ending(printed=["took 5 s"]), Ending(printed=["took 7 s"]))
    ''
    """
    compared = within if exact and own.even else math.inf
    return (
        _of_errors(own, first, second, compared)
        or next(_of_calls(own, first, second, compared), "")
        or next(_of_prints(own, first, second, compared, acts=acts), "")
        or next(_of_files(own, first, second, compared, acts=acts), "")
        or (next(_of_sizes(own, first, second), "") if acts and own.even else "")
    )


def unrepeated(first: Ending, second: Ending) -> str:
    """Return a number that differs between two runs as written, and so is not compared; "" if none does.

    >>> unrepeated(Ending(calls=[Did(name="evaluate", place="train.py:9", form="", values={"loss": 1.0})]),
    ...            Ending(calls=[Did(name="evaluate", place="train.py:9", form="", values={"loss": 2.0})]))
    'evaluate at train.py:9 ends with loss 1, and again with 2'
    """
    for one, other in zip(first.calls, second.calls, strict=False):
        for name, value in one.values.items():
            again = other.values.get(name, math.nan)
            if not math.isclose(value, again, rel_tol=_REPEATED_WITHIN):
                return f"{one.name} at {one.place} ends with {name} {value:.5g}, and again with {again:.5g}"
    return ""


def follows(text: str, line: int) -> bool:
    """Return whether a script may do anything after the call that ends at a line.

    >>> follows("x = 1\\nmodel.fit(x)\\ny = 2", 2)
    False
    >>> follows("model.fit(x)\\nprint(y)", 1)
    True
    """
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return True
    calling = next((each for each in statements if each.lineno <= line <= (each.end_lineno or 0)), None)
    if not isinstance(calling, (ast.Expr, ast.Assign)):
        return True
    later = statements[statements.index(calling) + 1 :]
    active = (ast.Call, ast.Assert, ast.Raise, ast.Await, ast.With, ast.Import, ast.ImportFrom)
    return any(isinstance(node, active) for each in later for node in ast.walk(each))


def _of_errors(own: Ending, first: Ending, second: Ending, within: float) -> str:
    if not _are_whole(own, first, second) or _same_text(first.error) != _same_text(second.error):
        return ""
    if _same_text(own.error) == _same_text(first.error):
        return ""
    if own.error:
        return f"With it, what follows the training fails: {own.error}"
    # Other numbers may end a script otherwise, as one that exits where its loss is too high.
    return f"With it, the script no longer ends with its error: {first.error}" if within < math.inf else ""


def _of_calls(own: Ending, first: Ending, second: Ending, within: float) -> Iterator[str]:
    for its, one, other in zip(own.calls, first.calls, second.calls, strict=False):
        if one.name != other.name:
            return
        if its.name != one.name:
            yield f"With it, the script calls {its.name} where it calls {one.name} as written ({one.place})."
            return
        if one.form == other.form and _shape(its.form, even=own.even) != _shape(one.form, even=own.even):
            yield f"With it, {one.name} at {one.place} returns other shapes: {its.form}, not {one.form}."
        for name, value in one.values.items() if within < math.inf else ():
            found, again = (each.values.get(name, math.nan) for each in (its, other))
            if not _alike(found, value, again, within):
                yield f"With it, {one.name} at {one.place} ends with {name} {found:.5g}; as written, {value:.5g}."
    whole = _are_whole(own, first, second) and _same_text(first.error) == _same_text(second.error)
    if whole and len(first.calls) == len(second.calls) != len(own.calls):
        yield (
            f"With it, the script makes {len(own.calls)} calls of fit, evaluate and predict; as written, "
            f"{len(first.calls)}."
        )


def _shape(form: str, *, even: bool) -> str:
    """Return shapes, without the number of samples of calls that do not stop after as many steps."""
    return form if even else re.sub(r"\(\d+", "(#", form)


def _of_prints(own: Ending, first: Ending, second: Ending, within: float, *, acts: bool) -> Iterator[str]:
    printed = (own.printed, first.printed, second.printed)
    counted = acts and _are_whole(own, first, second)
    if acts or len(own.printed) == len(first.printed):
        yield from _of_lines(*printed, within, own.times, "later prints", "", counted=counted)


def _of_files(own: Ending, first: Ending, second: Ending, within: float, *, acts: bool) -> Iterator[str]:
    if not _are_whole(own, first, second):
        return
    for name in sorted(first.files.keys() & second.files.keys()):
        if name not in own.files:
            if acts:
                yield f"With it, the script does not write {name}."
            continue
        lines = (own.files[name], first.files[name], second.files[name])
        if acts or len(lines[0]) == len(lines[1]):
            yield from _of_lines(*lines, within, own.times, "writes", f" to {name}", counted=acts)


def _of_sizes(own: Ending, first: Ending, second: Ending) -> Iterator[str]:
    """Yield which files are much smaller or larger, as with numbers of another type."""
    for name, size in first.sizes.items() if _are_whole(own, first, second) else ():
        its = own.sizes.get(name, size)
        if size == second.sizes.get(name) and abs(its - size) > _OTHER_SIZE * size:
            yield f"With it, the script writes {its:,} bytes to {name}; as written, {size:,}."


def _of_lines(
    own: Sequence[str],
    first: Sequence[str],
    second: Sequence[str],
    within: float,
    times: int,
    does: str,
    where: str,
    *,
    counted: bool,
) -> Iterator[str]:
    """Yield how lines differ from those in both runs as written."""
    for its, one in _other_lines(own, first, second, within, times):
        at = len(commonprefix((its, one)))  # noqa: RUF071 - of texts
        yield f'With it, the script {does} "{_cut(its, at)}"{where}; as written, "{_cut(one, at)}".'
    if counted and within < math.inf and len(first) == len(second) != len(own):
        yield f"With it, the script {does} {len(own)} lines{where}; as written, {len(first)}."


def _other_lines(
    own: Sequence[str], first: Sequence[str], second: Sequence[str], within: float, times: int
) -> Iterator[tuple[str, str]]:
    """Yield lines that differ from those in both runs as written, with these."""
    aligned = len(own) == len(first) == len(second)
    for its, one, other in zip(own, first, second, strict=False):
        if _form(one) != _form(other):  # it is not the same twice
            if aligned:
                continue
            return
        numbers = [*zip(_numbers(its), _numbers(one), _numbers(other), strict=False)]
        if within == math.inf:
            # What is computed may differ, but a count of errors does not come or go, nor is one of steps another.
            goes = len(numbers) == 1 and _comes_or_goes(*numbers[0])
            if _words(its) == _words(one) and (goes or any(_counts(*each, times) for each in numbers)):
                yield its, one
        elif _words(its) != _words(one) or not all(_alike(*each, within) for each in numbers):
            yield its, one


def _alike(own: float, one: float, other: float, within: float) -> bool:
    """Return whether a number is that of the runs as written, or tells nothing because those two differ."""
    if not math.isclose(one, other, rel_tol=_REPEATED_WITHIN):
        return True
    return abs(own - one) <= max(within * abs(one), _LEAST)


def _comes_or_goes(own: float, one: float, other: float) -> bool:
    """Return whether a whole number is zero with a remedy only, or only in both runs as written."""
    return one == other and all(each.is_integer() for each in (own, one)) and (own == 0) != (one == 0)


def _counts(own: float, one: float, other: float, times: int) -> bool:
    """Return whether a whole number counts what Keras counts as a step, of which each trains `times` now."""
    return one == other == own * times != own and own.is_integer()


def _numbers(line: str) -> list[float]:
    return [float(each) for each in _NUMBER.findall(_PASSING.sub("", line))]


def _form(line: str) -> str:
    return _NUMBER.sub("#", _PASSING.sub("", line)).strip()


def _words(line: str) -> list[str]:
    """Return the words of a line in no order, as a set of objects has none."""
    return sorted(re.findall(r"\w+|#|[^\w\s]", _form(line)))


def _are_whole(*endings: Ending) -> bool:
    return all(each.whole for each in endings)


def _same_text(text: str) -> str:
    """Return a text without numbers: remedies move lines."""
    return re.sub(r"\d+", "", text)


def _cut(text: str, at: int) -> str:
    """Return the part of a long text that has this place."""
    first = max(0, at - _LONGEST // 2) if len(text) > _LONGEST else 0
    before, after = "…" if first else "", "…" if len(text) > first + _LONGEST else ""
    return f"{before}{text[first : first + _LONGEST]}{after}"
