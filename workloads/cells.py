"""Lines of a script that was a notebook, as its user knows them. Standard library only.

In the script, a code cell begins with a line such as `# %% cell 7`: the number is that of `In [7]` after "Run All".
A line `# %% line 47` says that line 47 of the user's file follows.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

NOTEBOOK = ".ipynb"
CELL, LINE, MARKDOWN = "# %% cell ", "# %% line ", "# %% [markdown]"
# At the end of the mark of a cell with the tag `parameters`.
PARAMETERS = " parameters"
_MARK = re.compile(rf"(?:{CELL}|{LINE})(\d+)(?:{PARAMETERS})?")


def place(name: str, text: str, line: int) -> str:
    """Return where a line of a script is: "train.py:12" or "train.ipynb, cell 7, line 3".

    Args:
        name: the script's file name.
        text: what ran.
    """
    lines = text.split("\n")[:line]
    for index in range(len(lines), 0, -1):
        mark = _MARK.fullmatch(lines[index - 1])
        if mark and mark[0].startswith(LINE):
            return f"{name}:{int(mark[1]) + line - index - 1}"
        if mark and name.endswith(NOTEBOOK):
            return f"{name}, cell {mark[1]}, line {max(1, line - index)}"
    return f"{name}:{line}"


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
        return _joined(
            difflib.unified_diff(before.splitlines(), after.splitlines(), name, other, lineterm="")
        )
    later = dict(cells(after))
    hunks = [
        f"{line} {mark.removeprefix('# %% ')}".rstrip() if line.startswith("@@") else line
        for mark, lines in cells(before)
        if not mark.startswith(MARKDOWN)
        for line in [*difflib.unified_diff(lines, later.get(mark, lines), lineterm="")][2:]
    ]
    return _joined([f"--- {name}", f"+++ {other}", *hunks])


def _joined(lines: Iterator[str] | list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
