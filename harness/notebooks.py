"""Notebooks as scripts, and back; see workloads/cells.py for how their lines are marked.

Lines of IPython become comments or plain Python, one line for one line. What is left out stays as a comment that ends
with `# left out`, so that a notebook made from the script has it again.
"""

from __future__ import annotations

import ast
import codecs
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.untrusted import printable
from workloads.cells import (
    CELL,
    EMPTY,
    LEFT_OUT,
    LINE,
    MARKDOWN,
    RAISES,
    SKIPS,
    TAGS,
    WAS_LEFT_OUT,
    cells,
    tags,
)

# Outputs, which are not read, may have pictures.
MAX_BYTES = 256 << 20
_CAPTURED = re.compile(rf"^\w+ = __import__.*\){LEFT_OUT}: (?P<magic>%%capture.*)$")
# What ends a line of IPython for which other Python runs.
_WAS = "  # in IPython: "
# Magics whose cell runs as it is.
_BODIES = ("time", "timeit", "capture", "prun", "memit")
# Options of %timeit and %time before their statement.
_OPTIONS = re.compile(r"(?:--?[a-zA-Z][\w-]*?(?:[ =]?\d+)?(?:\s+|$))*")
_ASSIGNED = re.compile(r"(?P<target>[A-Za-z_][\w.,\[\] ]*?)\s*=\s*(?P<magic>[%!].*)")
_PYLAB = (
    "import numpy, numpy as np, matplotlib.pyplot as plt; from matplotlib.pylab import *; from numpy import *; "
    "from numpy import random"
)
# What !mkdir makes, where a shell would read nothing else in its line.
_FOLDERS = re.compile(
    r"(?:-[pv]+\s+)?(?:[\w./~$'\"-]|\{[^{}'\"\s]*\})+(?:\s+(?:[\w./~$'\"-]|\{[^{}'\"\s]*\})+)*"
)
# What IPython replaces in the line of a magic.
_VALUE = re.compile(r"\{(?P<code>[^{}]+)\}|\$(?P<name>[A-Za-z_]\w*)")
_PICTURE = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]*")
_HELP = re.compile(r"\?{1,2}\s*[\w.%*]+|[^#'\"]*[\w.%*]\s*\?{1,2}")
# Magics that work without their sign, where the line is no assignment and no call.
_AUTOMATIC = re.compile(
    r"^(?:cd|ls|ll|pwd|pip|conda|mamba|mkdir|rmdir|rm|cp|mv|cat)(?:[ \t]+[^\s=,(\[].*)?$", re.MULTILINE
)
# Of Python's console, and of IPython's.
_PROMPTS = (
    re.compile(r"^(?:>>>|\.\.\.)(?: |$)", re.MULTILINE),
    re.compile(r"^(?:In \[\d+\]: |[ \t]*\.{3,}: ?)", re.MULTILINE),
)
_TOKEN = re.compile(
    r"""#.*|(?P<open>(?:\"{3}|'{3}))|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?P<in>[\[({])|(?P<out>[\])}])"""
)


class _Cell(msgspec.Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class _Version(msgspec.Struct):
    nbformat: int | None = None


class _Notebook(msgspec.Struct):
    cells: list[_Cell] = msgspec.field(default_factory=list)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


def script_of(content: bytes, path: Path) -> str:
    """Return the script that a notebook is.

    Raises:
        UsageError: it is no notebook of Python in version 4 of the format.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        given = json.loads(content)  # as Jupyter reads it, with NaN
        version = msgspec.convert(given, _Version).nbformat
        notebook = msgspec.convert(given, _Notebook) if version == 4 else None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a notebook: {printable(str(error), 200).rstrip('.')}.",
            hint="Open it in Jupyter and save it again, or give a script that ends with .py.",
        ) from error
    if notebook is None:
        raise UsageError(
            f"{path} is not a notebook in version 4 of the format: "
            + ("it names no version." if version is None else f"it has version {version}."),
            hint="Save it as version 4: jupyter nbconvert --to notebook --NotebookExporter.nbformat_version=4 "
            "--inplace NOTEBOOK",
        )
    if (language := _language(notebook.metadata)) not in ("", "python", "ipython"):
        raise UsageError(
            f"The language of {path} is {printable(language, 40)}, not Python.",
            hint="Give a notebook of Python.",
        )
    parts, number = list[str](), 0
    for cell in notebook.cells:
        source = (cell.source if isinstance(cell.source, str) else "".join(cell.source)).rstrip()
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        if cell.cell_type == "markdown" and source:
            source = _PICTURE.sub("data:,", source)
            parts += [MARKDOWN, *(f"# {line}".rstrip() for line in source.split("\n"))]
        elif cell.cell_type == "code" and source:
            number += 1
            given = cell.metadata.get("tags")
            given = given if isinstance(given, list) else []
            chosen = [tag for tag in TAGS if tag in given]
            lines = plain_cell(source)
            if SKIPS in given or (RAISES in given and not _is_python("\n".join(lines))):
                lines = _not_run(source.split("\n"))
            parts += [" ".join([f"{CELL}{number}", *chosen]), *lines]
    if not number:
        raise UsageError(f"{path} has no code cells.", hint="Give a notebook that trains a model.")
    return "\n".join([*parts, ""])


def _language(metadata: Mapping[str, Any]) -> str:
    for part, name in (("kernelspec", "language"), ("language_info", "name")):
        found = metadata.get(part)
        if isinstance(found, dict) and isinstance(found.get(name), str):
            return str(found[name]).casefold()
    return ""


def plain_script(text: str) -> str:
    """Return a script without the syntax of IPython, if it has any: as VS Code runs it, or exported by nbconvert."""
    if not _is_python(text):
        # Cells of editors begin with `# %%`; a magic of a whole cell is its first line.
        parts = re.split(r"^(?=# ?%%(?:\s|$))", text, flags=re.MULTILINE)
        lines = list[str]()
        for part in filter(None, parts):
            head, _, body = part.partition("\n") if part.startswith("#") else ("", "", part)
            if head:
                lines.append(head)
            lines += plain_cell(body.removesuffix("\n"))
        text = "\n".join(lines) + "\n"
    return _without_calls(text) if "get_ipython()" in text else text


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _without_calls(text: str) -> str:
    """Return a script in which what nbconvert has made calls of get_ipython is treated as the lines that they were."""
    if not _is_python(text):
        return text
    lines = text.split("\n")
    statements = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Expr | ast.Assign)]
    for statement in sorted(statements, key=lambda each: each.lineno, reverse=True):
        first, end = statement.lineno - 1, statement.end_lineno or statement.lineno
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        whole = "\n".join(lines[first:end]).strip() == ast.get_source_segment(text, statement)
        if not whole or (cell := _line_of_call(text, statement)) is None:
            continue
        if "\n" in cell:  # the line of the magic is no line of the script
            new = plain_cell(cell)
            new = [*(new[1:] if new[0].endswith(LEFT_OUT) else new), f"{LINE}{end + 1}"]
        else:
            new = [_plain_line(indent + cell)] if indent else plain_cell(cell)
            new += [f"{LINE}{end + 1}"] if end > statement.lineno else []
        lines[first:end] = new
    return "\n".join(lines)


def _line_of_call(text: str, statement: ast.Expr | ast.Assign) -> str | None:
    """Return the line or the cell that nbconvert has made a call of get_ipython; None for another statement."""
    call = statement.value
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=kind),
            args=[*given],
            keywords=[],
        ):
            words = [
                each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
        case _:
            return None
    if len(words) < len(given):
        return None
    match kind, words:
        case "run_cell_magic", [name, line, body]:
            return f"%%{name} {line}".rstrip() + f"\n{body}".rstrip()
        case "run_line_magic", [name, line]:
            made = f"%{name} {line}".rstrip()
        case "magic", [line]:
            made = f"%{line}"
        case "system" | "getoutput", [line]:
            made = f"!{line}"
        case _:
            return None
    target = ""
    if isinstance(statement, ast.Assign):
        target = "".join(f"{ast.get_source_segment(text, each)} = " for each in statement.targets)
    return target + " ".join(made.split("\n"))


def _without_prompts(source: str) -> str:
    """Return a cell without the prompts of a console from which it was copied, as IPython takes them away."""
    prompts = (each for each in _PROMPTS if each.match(source.lstrip()))
    return next((each.sub("", source) for each in prompts), source)


def plain_cell(source: str) -> list[str]:
    """Return a cell's lines in plain Python, as many as it has."""
    source = _without_prompts(source)
    lines = source.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    if indent:  # as IPython takes it away
        lines = [line.removeprefix(indent) for line in lines]
        source = "\n".join(lines)
    if not lines[first].startswith("%%"):
        return lines if _is_python(source) and not _AUTOMATIC.search(source) else list(_plain_lines(lines))
    name, _, rest = lines[first][2:].strip().partition(" ")
    before, body = lines[:first], lines[first + 1 :]
    if name in _BODIES:
        setup = _OPTIONS.sub("", rest, count=1) if name == "timeit" else ""
        text = "\n".join(body)
        if name == "capture" and (named := [each for each in rest.split() if each.isidentifier()]):
            shown = "__import__('unittest.mock').mock.Mock(stdout='', stderr='', outputs=[])"
            setup = f"{named[0]} = {shown}{LEFT_OUT}: {lines[first]}"
        return [*before, setup or _comment(lines[first]), *(body if _is_python(text) else _plain_lines(body))]
    if name in ("writefile", "file") and rest:
        *options, file = _words(rest) or [rest]
        mode = "a" if "-a" in options or "--append" in options else "w"
        content = "\n".join(body) + "\n"
        written = f"print({content!r}, file=open({_expanded(file)}, {mode!r}), end='')"
        return [*before, written, *(f"# {line}".rstrip() for line in body)]
    return [*before, *_not_run(lines[first:])]


def _not_run(lines: Sequence[str]) -> list[str]:
    return [f"# {line}{LEFT_OUT}" if line.strip() else "" for line in lines]


def _plain_lines(lines: Sequence[str]) -> Iterator[str]:
    quote, depth, before, new = "", 0, "", ""
    for line in lines:
        joined = before.endswith("\\")
        if joined and new.endswith(LEFT_OUT):
            new = _comment(line.strip())
        else:
            new = line if quote or depth or joined else _plain_line(line)
        yield new
        quote, depth = _after(new, quote, depth)
        before = line


def _after(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Return the open triple quote, "" for none, and how many brackets are open after a line."""
    at = 0
    while at < len(line):
        if quote:
            end = re.compile(rf"(?:\\.|(?!{quote}).)*{quote}").match(line, at)
            if end is None:
                return quote, depth
            quote, at = "", end.end()
            continue
        token = _TOKEN.search(line, at)
        if token is None:
            break
        at, quote = token.end(), token["open"] or ""
        depth = max(0, depth + bool(token["in"]) - bool(token["out"]))
    return quote, depth


def _plain_line(line: str) -> str:
    """Return the line of a statement in plain Python."""
    text = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if _AUTOMATIC.fullmatch(text):
        text = f"%{text}"
    assigned = _ASSIGNED.fullmatch(text)
    if assigned and not _is_python(text):
        return f"{indent}{assigned['target']} = {_value(assigned['magic'], text)}"
    if text.startswith("!mkdir "):
        text = f"%{text[1:]}"
    if text.startswith("%") and not text.startswith("%%"):
        name, _, rest = text[1:].partition(" ")
        code = _LINES[name](rest.strip()) if name in _LINES else ""
        if not code or not _is_python(code):
            return _comment(line)
        return f"{indent}{code}" if text.endswith(code) else f"{indent}{code}{_WAS}{line.strip()}"
    return _comment(line) if text.startswith(("!", "%%")) or _HELP.fullmatch(text) else line


def _value(magic: str, line: str) -> str:
    """Return the value of a magic that a line assigns: of a timed statement, the folder, a variable, or no output."""
    name, _, rest = magic.partition(" ")
    rest = rest.strip()
    if name == "%time" and _is_python(rest):
        return rest
    if name == "%timeit" and _is_python(timed := f"[{_LINES['timeit'](rest)}]"):
        return f"{timed}{_WAS}{line}"
    if name == "%pwd":
        return f"__import__('os').getcwd(){_WAS}{line}"
    if name == "%env" and rest.isidentifier():
        return f"__import__('os').environ[{rest!r}]{_WAS}{line}"
    return f"[]{LEFT_OUT}: {magic}"


def _comment(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    # A body of a statement needs one.
    return f"{indent}{'pass  ' if indent else ''}# {line.strip()}{LEFT_OUT}"


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'")


def _expanded(text: str) -> str:
    """Return the expression that IPython makes of a magic's text, with `{expressions}` and `$variables` in it."""
    parts, end = list[str](), 0
    for found in _VALUE.finditer(text):
        parts += [repr(text[end : found.start()])] if found.start() > end else []
        name, end = found["name"], found.end()
        parts.append(f"str(globals().get({name!r}, {found[0]!r}))" if name else f"str({found['code']})")
    parts += [repr(text[end:])] if text[end:] or not parts else []
    return " + ".join(parts)


def _words(rest: str) -> list[str]:
    """Return the words of a magic's line; [] if a quote in it has no end."""
    try:
        return shlex.split(rest)
    except ValueError:
        return []


def _environment(rest: str) -> str:
    name, sign, value = rest.partition("=") if "=" in rest else rest.partition(" ")
    return f"__import__('os').environ[{name.strip()!r}] = {_expanded(value.strip())}" if sign else ""


def _change_folder(rest: str) -> str:
    """Return what changes the folder: IPython stays where it is if there is none, and goes back for "-"."""
    text, os = _unquoted(rest.removeprefix("-q ")), "__import__('os')"
    if not text or (text.startswith("-") and text != "-"):
        return ""
    folder = f"{os}.path.expanduser({_expanded(text)})" if text.startswith("~") else _expanded(text)
    folder = f"{os}.environ.get('OLDPWD', was)" if text == "-" else folder
    change = f"({os}.chdir({folder}), {os}.environ.update(OLDPWD=was))"
    return f"with __import__('contextlib').suppress(OSError): [{change} for was in [{os}.getcwd()]]"


def _make_folders(rest: str) -> str:
    """Return what makes folders; "" if a shell would read more than their names."""
    if not _FOLDERS.fullmatch(rest):
        return ""
    names = ", ".join(_expanded(each) for each in _words(rest) if not each.startswith("-"))
    folder = "__import__('os').path.expandvars(__import__('os').path.expanduser(each))"
    return f"[__import__('os').makedirs({folder}, exist_ok=True) for each in [{names}]][:0]"


def _run(rest: str) -> str:
    """Return what runs a file, or a module (-m), with its arguments, as the main program that IPython makes of it."""
    words, options = _words(rest), set[str]()
    while words and words[0].startswith("-"):
        options.add(words[0])
        words = words[1:]
    module, main = "-m" in options, "module" if "-n" in options else "__main__"
    if not words:
        return ""
    name, *arguments = words
    if name.endswith(".ipynb"):
        message = f"%run of a notebook is not supported. Save {name} as a script, and run that."
        return f"raise NotImplementedError({message!r})"
    name += "" if module or "." in name.rpartition("/")[2] or "{" in name or "$" in name else ".py"
    given = f"[{', '.join(map(_expanded, (name, *arguments)))}]"
    known = ", {**globals()}" if "-i" in options else ""
    run = f"__import__('runpy').run_{'module' if module else 'path'}({_expanded(name)}{known}, run_name={main!r})"
    made = f"{{name: value for name, value in {run}.items() if not name.startswith('__')}}"
    return f"with __import__('unittest.mock').mock.patch('sys.argv', {given}): globals().update({made})"


_LINES: Mapping[str, Callable[[str], str]] = {
    "time": lambda rest: rest,
    **dict.fromkeys(("timeit", "prun", "memit"), lambda rest: _OPTIONS.sub("", rest, count=1)),
    "env": _environment,
    "set_env": _environment,
    "cd": _change_folder,
    "mkdir": _make_folders,
    "pylab": lambda rest: _PYLAB,
    "run": _run,
}


def _restored(line: str) -> str:
    """Return a line of a script as it was in the notebook, unless it was changed."""
    code, sign, magic = line.rpartition(_WAS)
    if sign:
        indent = line[: len(line) - len(line.lstrip())]
        return f"{indent}{magic}" if _plain_line(f"{indent}{magic}") == line else code
    line = WAS_LEFT_OUT.sub(r"\g<indent>\g<line>", line)
    line = _CAPTURED.sub(r"\g<magic>", line)
    return EMPTY.sub(r"\g<indent>\g<target> = \g<magic>", line)


def notebook_of(text: str) -> str:
    """Return the notebook that a script was, without outputs."""
    made = list[dict[str, Any]]()
    for mark, lines in cells(text):
        source = "\n".join(lines).strip("\n")
        if mark.startswith(MARKDOWN):
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
            made.append({"cell_type": "markdown", "metadata": {}, "source": source})
        elif source:
            source = "\n".join(map(_restored, source.split("\n")))
            made.append(
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "metadata": {"tags": found} if (found := tags(mark)) else {},
                    "outputs": [],
                    "source": source,
                }
            )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
