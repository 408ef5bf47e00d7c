"""Lines of a script that was a notebook, as its user knows them. Standard library only.

In the script, a code cell begins with a line such as `# %% cell 7`: the number is that of `In [7]` after "Run All".
A line `# %% line 47` says that line 47 of the user's file follows.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from itertools import groupby

NOTEBOOK = ".ipynb"
CELL, LINE, MARKDOWN = "# %% cell ", "# %% line ", "# %% [markdown]"
# Tags of a cell, which its mark ends with: it has parameters (also those that papermill was given), the notebook goes
# on after its error, or it is not run.
PARAMETERS, RAISES, SKIPS = ("parameters", "injected-parameters"), "raises-exception", "skip-execution"
TAGS = (*PARAMETERS, RAISES, SKIPS)
_MARK = re.compile(rf"(?:{CELL}|{LINE})(\d+)(?P<tags>(?: (?:{'|'.join(TAGS)}))*)")
# What ends a line of IPython that is not run, or whose value is an empty list instead.
LEFT_OUT = "  # left out by tfbench"
WAS_LEFT_OUT = re.compile(rf"^(?P<indent>[ \t]*)(?:pass  )?# (?P<line>.*){LEFT_OUT}$")
EMPTY = re.compile(rf"^(?P<indent>\s*)(?P<target>.+) = \[\]{LEFT_OUT}: (?P<magic>.*)$")
# Names of what cells have shown, and of the function that keeps it.
_SHOWN = re.compile(r"_|__|___|_\d+|Out")
SHOW = "__show__"
# Lines with their ends, and what diff and patch have after a last line without one.
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_NO_END = r"\ No newline at end of file"
_TOLERANT = "try:\n    pass\nexcept Exception:\n    __import__('traceback').print_exc()"


def one_line(name: str) -> str:
    """Return the name of a file, which may have several lines, in one."""
    return " ".join(name.splitlines())


def place(name: str, text: str, line: int) -> str:
    """Return where a line of a script is: "train.py:12" or "train.ipynb, cell 7, line 3".

    Args:
        name: the script's file name.
        text: what ran.
    """
    name, lines = one_line(name), text.split("\n")[:line]
    for index in range(len(lines), 0, -1):
        mark = _MARK.fullmatch(lines[index - 1])
        if mark and mark[0].startswith(LINE):
            return f"{name}:{int(mark[1]) + line - index - 1}"
        if mark and name.endswith(NOTEBOOK):
            return f"{name}, cell {mark[1]}, line {max(1, line - index)}"
        if lines[index - 1] == MARKDOWN and name.endswith(NOTEBOOK):
            return f"{name}, a Markdown cell, line {max(1, line - index)}"
    return f"{name}:{line}"


def tags(line: str) -> list[str]:
    """Return the tags of the cell that a line marks."""
    mark = _MARK.fullmatch(line)
    return mark["tags"].split() if mark else []


def left_out(text: str) -> list[str]:
    """Return the lines of a notebook that are left out of its script, or whose output is."""
    result = list[str]()
    for line in text.split("\n"):
        if found := WAS_LEFT_OUT.match(line):
            result.append(found["line"])
        elif found := EMPTY.match(line):
            result.append(f"{found['target']} = {found['magic']}")
    return result


def as_cells(tree: ast.Module, text: str) -> ast.Module:
    """Return a script as a notebook runs its cells.

    Those with the tag for it may raise errors, after which it goes on. Where the script reads `_` or `Out`, a call of
    SHOW takes the last expression of each cell and the cell's number.
    """
    lines, body = text.split("\n"), list[ast.stmt]()
    starts = [number for number, line in enumerate(lines, 1) if line.startswith(CELL)]
    by_cell = groupby(tree.body, lambda each: max((s for s in starts if s < each.lineno), default=0))
    shows = bool(starts) and any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and _SHOWN.fullmatch(node.id)
        for node in ast.walk(tree)
    )
    for start, statements in by_cell:
        found = [*statements]
        if start and shows and isinstance(last := found[-1], ast.Expr) and not _is_quiet(last, lines):
            mark = _MARK.fullmatch(lines[start - 1])
            number = ast.Constant(int(mark[1]) if mark else 0)
            call = ast.Call(ast.Name(SHOW, ast.Load()), [last.value, number], [])
            last.value = ast.copy_location(call, last)
            ast.fix_missing_locations(last)
        if start and RAISES in tags(lines[start - 1]):
            (wrapped,) = ast.parse(_TOLERANT).body
            for node in ast.walk(wrapped):
                ast.copy_location(node, found[0])
            wrapped.body = found  # type: ignore[attr-defined]
            found = [wrapped]
        body += found
    tree.body = body
    return tree


def _is_quiet(statement: ast.stmt, lines: list[str]) -> bool:
    """Return whether a semicolon follows a statement."""
    line = lines[(statement.end_lineno or 1) - 1].encode()
    return line[statement.end_col_offset :].lstrip().startswith(b";")


def cells(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the mark and the lines of each cell, in order; "" marks what precedes the first."""
    mark, lines = "", list[str]()
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith((CELL, MARKDOWN)):
            yield mark, lines
            mark, lines = line, []
        else:
            lines.append(line)
    yield mark, lines


def difference(before: str, after: str, name: str, other: str) -> str:
    """Return a unified diff from one script to another; of notebooks, with a cell's lines and its name in each `@@`."""
    if before == after:
        return ""
    if not (name.endswith(NOTEBOOK) and other.endswith(NOTEBOOK)):
        found = difflib.unified_diff(_LINES.findall(before), _LINES.findall(after), name, other)
        return "".join(line if line.endswith("\n") else f"{line}\n{_NO_END}\n" for line in found)
    later = dict(cells(after))
    hunks = [
        f"{line} {mark.removeprefix('# %% ')}".rstrip() if line.startswith("@@") else line
        for mark, lines in cells(before)
        if not mark.startswith(MARKDOWN)
        for line in [*difflib.unified_diff(lines, later.get(mark, lines), lineterm="")][2:]
    ]
    return "".join(f"{line}\n" for line in (f"--- {name}", f"+++ {other}", *hunks))
