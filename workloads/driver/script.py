"""Run a user's script as `__main__` in a scratch folder, and say in one sentence why it failed.

The scratch folder has copies of the files beside the script, and links to the large ones, so that relative paths work
as in the script's own folder, and the script can write files. No path in it leads to a file of the user that can be
written: engines show those read-only, or a copy of them. The script itself is a file there, because TensorFlow's
autograph reads functions from their file.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import ctypes
import errno
import os
import re
import select
import shlex
import shutil
import struct
import sys
import tempfile
import threading
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import islice
from os import getpid  # by a name of its own: scripts replace functions of os
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.cells import NOTEBOOK, as_cells, left_out, one_line
from workloads.driver import shell, sites, standard_input
from workloads.driver.advice import advice
from workloads.driver.forks import forks_end
from workloads.protocol import (
    MARK,
    NOT_READ,
    OPENED,
    UNKNOWN,
    Script,
    file_of,
    of_kernel,
    private,
    reason_of,
    text_of,
)

# Folder with the files that several built-in scripts import.
COMPONENTS = Path(__file__).parents[1] / "components"
# Bytes beside a script that are copied, of at least 2 GiB for all its variants.
_MOST_COPIED = 32 << 20
# Variables that libraries read when they are imported, before the script sets them.
AT_IMPORT = re.compile("TF_ENABLE_ONEDNN_OPTS|(OMP|KMP|MKL|OPENBLAS)_")
# How often it is asked whether the threads of a script need not end.
_POLL_S = 0.05
# linux/inotify.h
_IN_OPEN, _IN_ONESHOT, _IN_Q_OVERFLOW = 0x20, 0x80000000, 0x4000
# Python has imported these before it runs a script: it finds no neighbour of such a name.
_AT_START = {
    "abc", "codecs", "encodings", "genericpath", "io", "os", "posixpath", "site", "stat", "sys", "zipimport",
}  # fmt: skip
# Scratch folders; see _scratch.
_folders: set[Path] = set()
# The standard output before the script ran.
_output: list[tuple[int, int] | None] = []
# Variables that the script has asked for and not found.
_missed: dict[str, None] = {}
_TRAINS = re.compile(r"\b(fit|train_on_batch|GradientTape|apply_gradients)\b")


class ScriptError(RuntimeError):
    """A script cannot be measured; the message ends with what to try."""


def run(
    script: Script, arguments: Sequence[str], names: Mapping[str, Any], done: Callable[[], bool] = bool
) -> list[str]:
    """Run a script until it and its threads end; return the errors that ended threads.

    Args:
        names: additional names that it may use.
        done: returns whether its threads need not end.

    Raises:
        ScriptError: it failed by itself.
    """
    _output[:] = [file_of(1)]
    path = _scratch(script)
    module = _main(path, script, arguments)
    module.__dict__.update({**shell.names_for(script.text), **names})
    os.execv, os.execve = _replaced(os.execv), _replaced(os.execve)  # type: ignore[assignment]
    os.setpgrp = _leading(os.setpgrp)
    ArgumentParser.error = _refused(path.name)  # type: ignore[assignment, method-assign]
    _note_variables()
    standard_input.note()
    errors: list[str] = []
    shown = threading.excepthook

    def ended(told: threading.ExceptHookArgs) -> None:
        if isinstance(told.exc_value, Exception):
            errors.append(explained(_own_error(told.exc_value), path))
        shown(told)

    threading.excepthook = ended
    try:
        with forks_end():
            # As in notebooks, it may await; the future statements of this file are none of it.
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(script.text, str(path), "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
            code = compile(as_cells(tree, script.text), str(path), "exec", flags, dont_inherit=True)
            awaited = eval(code, module.__dict__)  # noqa: S307 - what the user asked to run
            if awaited is not None:
                asyncio.run(awaited)
    except SystemExit as error:
        if error.code:
            text = f"{path.name} ended by itself: sys.exit({error.code!r})"
            caught = error.__context__ and advice(error.__context__, _folders)
            raise ScriptError(
                f"{text}. {caught or _of_variables() or 'Pass command-line arguments with --arg.'}"
            ) from error
    except BaseException as error:  # scripts can raise anything
        raise ScriptError(explained(_own_error(error), path)) from error
    finally:
        if watch := _watch():
            watch.read()
    _wait_for_threads(done)
    return errors


def _wait_for_threads(done: Callable[[], bool]) -> None:
    """Wait as Python does when its main module has ended; not for those that wait for work, which Python ends."""
    pools = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {})
    for thread in threading.enumerate():
        if not (thread.daemon or thread is threading.current_thread() or thread in pools):
            while thread.is_alive() and not done():
                thread.join(_POLL_S)


def _own_error(error: BaseException) -> BaseException:
    """Return the ScriptError that an error was raised for, as AutoGraph does; without one, the error itself."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ScriptError):
        found = found.__cause__ or found.__context__
    return found or error


def _leading(set_group: Callable[[], None]) -> Callable[[], None]:
    """Return os.setpgrp for a process that leads its session and so its group, for which the system refuses it."""

    def setpgrp() -> None:
        if os.getsid(0) != getpid():
            set_group()

    return setpgrp


def has_other_output() -> bool:
    """Return whether the script has opened another file as its standard output."""
    return file_of(1) not in _output


def folders() -> Iterable[Path]:
    """Return the folders that scripts run in."""
    return _folders


def may_train() -> bool:
    """Return whether the script, or a module beside it that it has imported, names what trains."""
    return any(_TRAINS.search(text) for _, text in _texts())


def marking() -> str:
    """Return the name of a module beside the script that marks steps, which only the script can; "" if none does."""
    return next((file.name for file, text in _texts() if MARK.search(text)), "")


def _texts() -> Iterator[tuple[Path, str]]:
    """Yield the texts of the script and of the modules beside it that it has imported."""
    files = [Path(str(getattr(module, "__file__", ""))) for module in list(sys.modules.values())]
    own = filter(_is_beside, files)
    return ((file, file.read_text(errors="replace")) for file in own if file.suffix in (".py", NOTEBOOK))


def _is_beside(path: Path) -> bool:
    """Return whether a path is in a scratch folder: the script's, or a neighbour's."""
    return any(folder in path.parents for folder in _folders)


def named(error: BaseException) -> str:
    """Return an error's type and reason in one line; of a ScriptError, its sentence."""
    if isinstance(error, ScriptError):
        return str(error)
    kind = type(error).__name__
    reason = reason_of(text_of(error))
    return f"{kind}: {reason}" if reason else kind


def explained(error: BaseException, path: Path, place: str = "", *, changed: bool = False) -> str:
    """Return the script's line, the error, and what to try.

    Args:
        place: where the script made the call that failed, if the error did not pass through the script.
        changed: whether the script is one that a remedy has changed: its user can try nothing.
    """
    # The script is a file in a scratch folder.
    lines: list[str] = []
    files = {str(folder / path.name) for folder in (path.parent, *_folders)}
    frames = [*reversed(traceback.extract_tb(error.__traceback__))]
    found: tuple[str, int | None] | None
    found = next(((frame.filename, frame.lineno) for frame in frames if frame.filename in files), None)
    if isinstance(error, SyntaxError) and error.filename in files:  # found by Python's compiler only
        found = error.filename, error.lineno
    where = sites.where(found[0], found[1]) if found and found[1] else place or one_line(path.name)
    deepest = next((each for each in frames if _is_beside(Path(each.filename))), None)
    if found and deepest and deepest.lineno and deepest.filename not in files:
        where += f" ({sites.where(deepest.filename, deepest.lineno)})"
    if isinstance(error, ScriptError):
        return str(error) if str(error).startswith(path.name) else f"{where}: {error}"
    with suppress(OSError, ValueError):
        lines = left_out(path.read_text(encoding="utf-8"))
    chain = [error, *_causes(error)]
    told = ", from ".join(named(each).rstrip(".:") for each in chain)
    if changed:
        return f"{where}: {told}."
    to_try = next(filter(None, (advice(each, _folders, lines) for each in chain)), "")
    return (
        f"{where}: {told}. {to_try or standard_input.advice() or ('' if place else _of_variables())}".strip()
    )


def _causes(error: BaseException, most: int = 2) -> list[BaseException]:
    """Return what the script has caught and raised an error from, latest first; of a group, its first error."""
    within = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
    cause = error.__cause__ or within
    if type(cause).__name__.endswith("RemoteTraceback"):  # of a pool's process, whose error is this one
        return []
    return [cause, *_causes(cause, most - 1)] if cause and most else []


def variables_at_import(text: str) -> dict[str, str]:
    """Return the variables of AT_IMPORT that a script sets to constants before it imports TensorFlow or Keras."""
    found: dict[str, str] = {}
    for statement in ast.parse(text).body:
        match statement:
            case ast.Import(names=names) if any(_is_framework(each.name) for each in names):
                break
            case ast.ImportFrom(module=str(module)) if _is_framework(module):
                break
            case ast.Assign(
                targets=[ast.Subscript(value=environ, slice=ast.Constant(value=str(name)))],
                value=ast.Constant(value=str(value)),
            ) if _is_environ(environ):
                found[name] = value
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=environ, attr="setdefault"),
                    args=[ast.Constant(value=str(name)), ast.Constant(value=str(value))],
                )
            ) if _is_environ(environ):
                found.setdefault(name, os.environ.get(name, value))
    return {name: value for name, value in found.items() if AT_IMPORT.match(name)}


def _is_framework(module: str) -> bool:
    return module.partition(".")[0] in ("tensorflow", "keras")


def _is_environ(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="environ") | ast.Attribute(value=ast.Name(id="os"), attr="environ"):
            return True
    return False


def _note_variables() -> None:
    """Note which variables the script asks the environment for without a default, and does not find."""
    found = type(os.environ).get

    def get(environment: Any, name: str, default: Any = None) -> Any:
        value = found(environment, name, default)
        if value is None:
            asking: Any = sys._getframe(1)
            asking = asking.f_back if asking.f_code.co_name == "getenv" else asking
            folders = tuple(f"{folder}{os.sep}" for folder in _folders)
            if asking and asking.f_code.co_filename.startswith(folders):
                _missed[str(name)] = None
        return value

    type(os.environ).get = get  # type: ignore[method-assign, assignment]


def _of_variables() -> str:
    """Return how to pass the variables that the script has not found; "" if it has found all."""
    missing = [name for name in _missed if name not in os.environ]
    given = " ".join(f"--env {name}=VALUE" for name in missing)
    return f"If it needs variables of this shell, pass them: {given}." if given else ""


def _replaced(function: Callable[..., Any]) -> Callable[..., None]:
    """Return what tells a script that would go on as another program what to do instead; its children may."""
    before, process = {**os.environ}, getpid()

    def replaced(*args: Any) -> None:
        if getpid() != process:
            function(*args)
        new = args[2] if len(args) > 2 else os.environ
        chosen = [
            f"--env {name}={shlex.quote(value)}" for name, value in new.items() if value != before.get(name)
        ]
        raise ScriptError(
            "The script replaces its process by another, which cannot be measured. "
            + (f"Use {' '.join(chosen)} instead." if chosen else "Leave that out.")
        )

    return replaced


def _refused(name: str) -> Callable[[Any, str], None]:
    """Return what argparse calls for arguments that are missing or wrong: it says how to give them."""

    def refused(parser: Any, message: str) -> None:
        missing = message.partition("are required: ")[2].split(", ")
        names = [each.partition("/")[0] for each in missing] if missing[0] else ["--NAME"]
        given = (f"--arg={each} --arg=VALUE" if each[0] == "-" else "--arg=VALUE" for each in names)
        raise ScriptError(
            f"{name}: {message.rstrip('.')}. Pass command-line arguments with --arg: {' '.join(given)}."
        )

    return refused


def _scratch(script: Script) -> Path:
    """Enter a folder with the script and its neighbours; return the script's path there."""
    source = Path(script.path)
    folder = Path(tempfile.mkdtemp(prefix=sites.SCRATCH)).resolve()
    root = source.parents[script.depth]
    links = _mirror(root, folder, most=20_000)
    _folders.add(folder)
    path = _place(script, root, folder, links)
    _copy_small(links)
    if watch := _watch():
        watch.add(folder)
    _keep_neighbours()
    os.chdir(folder)
    return path


def _place(script: Script, root: Path, folder: Path, links: list[Path]) -> Path:
    """Write a script to its path in a scratch folder, which is returned.

    If it is a link, to where that leads, with what is beside it; `links` gets those to the user's files there.
    """
    source = Path(script.path)
    path = target = folder / source.relative_to(root)
    real, top = Path(os.path.realpath(source)), Path(os.path.realpath(root))
    if source.is_symlink() and not script.depth:
        if real.is_relative_to(top):
            target = folder / real.relative_to(top)
        if target == path or not target.parent.resolve().is_relative_to(folder):  # a folder of the user's
            other = Path(tempfile.mkdtemp(prefix=sites.SCRATCH)).resolve()
            links += _mirror(real.parent, other, most=20_000)
            _folders.add(other)
            target = other / real.name
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    target.unlink(missing_ok=True)
    target.write_text(script.text, encoding="utf-8")
    return path


def _mirror(source: Path, target: Path, most: int) -> list[Path]:
    """Make folders with links to files, so that scripts can write beside files; return those to the user's files.

    Links between neighbours lead to their copies, and a link to a folder elsewhere is a folder. Folders that cannot be
    read, those around the script, and those with which there would be more than `most` entries are linked as a whole.
    """
    links: list[Path] = []
    made = 0
    root = os.path.realpath(source)
    pending = [(source, target, frozenset[str]())]
    while pending:
        folder, mirror, followed = pending.pop(0)
        entries = _entries(folder, sys.maxsize - 1 if folder == source else most - made)
        if entries is None:
            mirror.rmdir()
            mirror.symlink_to(folder)
            links.append(mirror)
            continue
        made += len(entries)
        if folder != source and {"plan.json", "manifest.json"} <= {entry.name for entry in entries}:
            continue  # a run of this script
        for entry in entries:
            if entry.name == target.name and os.path.realpath(entry.path) == str(target):
                continue  # a script in the folder of temporary files
            link, path = mirror / entry.name, entry.path
            with suppress(OSError):  # gone, or of a longer path than there can be
                inside, through = True, followed
                if entry.is_symlink():
                    path = os.path.realpath(entry.path)
                    if not os.path.exists(path):  # noqa: PTH110
                        link.symlink_to(Path(entry.path).readlink())  # as its user knows it
                        continue
                    if path.startswith(f"{root}{os.sep}"):
                        link.symlink_to(os.path.relpath(target / os.path.relpath(path, root), mirror))
                        continue
                    inside = (
                        path not in followed
                        and not of_kernel(path)
                        and not f"{root}{os.sep}".startswith(f"{path.rstrip(os.sep)}{os.sep}")
                    )
                    through = followed | {path}
                if entry.is_dir() and entry.name in NOT_READ:
                    continue
                if entry.is_dir() and inside and os.access(path, os.R_OK | os.X_OK):
                    link.mkdir()
                    pending.append((Path(path), link, through))
                else:
                    link.symlink_to(path)
                    if not of_kernel(path):
                        links.append(link)
    return links


def _entries(folder: Path, most: int) -> list[os.DirEntry[str]] | None:
    """Return what is in a folder, by name: nothing if it is gone, None if it is more than `most`."""
    found: list[os.DirEntry[str]] = []
    with suppress(OSError):
        found = sorted(islice(os.scandir(folder), max(most, 0) + 1), key=lambda entry: entry.name)
    return found if len(found) <= most else None


def _is_file(path: Path) -> bool:
    """Return whether a path leads to a file; not if it leads where this process may not look."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises PermissionError


def _copy_small(links: Sequence[Path]) -> None:
    """Replace links by copies, the smallest file first: writing to those does not reach the user's files."""
    sizes = {}
    for link in links:
        if _is_file(link):
            sizes[link] = link.stat().st_size
    room = _MOST_COPIED
    for link, size in sorted(sizes.items(), key=lambda each: each[1])[:1000]:
        room -= size
        if room < 0:
            return
        with suppress(OSError):  # a file that cannot be read stays a link
            _own(link, whole=True)


class _Watch:
    """Write down which neighbours a script opens, also in C++ and in child processes, for a later check of them.

    One line each, with the path from the script's folder; UNKNOWN if the kernel cannot tell.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._file.touch()
        self._names: dict[int, str] = {}
        # Each script runs in a process of its own.
        self._noted = set(os.fsdecode(self._file.read_bytes()).splitlines())
        self._number: int = _libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        threading.Thread(target=self._follow, name="opened-files", daemon=True).start()

    def add(self, folder: Path) -> None:
        """Watch the files in a scratch folder; those that are links, where they lead."""
        for top, _, files in os.walk(folder):
            for path in (Path(top, name) for name in files):
                # A link to a neighbour is that neighbour.
                beside = path.is_symlink() and not path.readlink().is_absolute()
                if beside or not _is_file(path):
                    continue
                watch = _libc().inotify_add_watch(self._number, os.fsencode(path), _IN_OPEN | _IN_ONESHOT)
                if watch < 0 and ctypes.get_errno() in (errno.EACCES, errno.ENOENT):
                    continue  # a script may not open it either
                self._names[watch] = str(path.relative_to(folder)) if watch >= 0 else UNKNOWN
                if watch < 0:
                    self._note(UNKNOWN)
                    return

    def _follow(self) -> None:
        while True:
            try:
                select.select([self._number], [], [])
            except (OSError, ValueError):  # the script has closed it
                self._note(UNKNOWN)
                return
            self.read()

    def read(self) -> None:
        """Note what has been opened until now."""
        with self._lock:
            try:
                # A script may close it, and its number be that of another file.
                if "inotify" not in os.readlink(f"/proc/self/fd/{self._number}"):  # noqa: PTH115
                    raise OSError
                while events := os.read(self._number, 1 << 16):
                    self._take(events)
            except BlockingIOError:
                return
            except OSError:
                self._note(UNKNOWN)

    def _take(self, events: bytes) -> None:
        while events:
            watch, mask, _, length = struct.unpack_from("iIII", events)
            events = events[struct.calcsize("iIII") + length :]
            if mask & _IN_Q_OVERFLOW:
                self._note(UNKNOWN)
            elif mask & _IN_OPEN:
                self._note(self._names[watch])

    def _note(self, name: str) -> None:
        if name not in self._noted:
            self._noted.add(name)
            with suppress(OSError), self._file.open("ab") as file:
                file.write(os.fsencode(name).replace(b"\n", b"?") + b"\n")


@cache
def _watch() -> _Watch | None:
    file = os.environ.pop(OPENED, "")
    return _Watch(Path(file)) if file else None


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _keep_neighbours() -> None:
    """Replace links of scratch folders by copies before they are written to, so that a script can write a large file.

    The user's files need no such care: they can only be read. Sees what Python and h5py open; what C++ and other
    programs write to a link fails.
    """
    sys.addaudithook(_audit)  # for good: callbacks of the script may write in later variants
    h5py = sys.modules.get("h5py")  # imported by Keras
    if h5py is not None:
        original = h5py.File.__init__

        def opened(file: Any, name: Any, mode: str = "r", *args: Any, **named: Any) -> None:
            if mode != "r":
                _own(name, whole=mode != "w")
            original(file, name, mode, *args, **named)

        h5py.File.__init__ = opened


def _audit(event: str, arguments: Any) -> None:
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) and not flags & os.O_EXCL:
            _own(path, whole=not flags & os.O_TRUNC)


def _own(path: Any, *, whole: bool) -> None:
    """Let a path in a scratch folder be a file of its own, with the content of what it was a link to if `whole`."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    link = Path(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - not as a link of the last part leads
    for _ in range(40):  # links may lead in a circle
        if not link.is_symlink() or not _is_beside(link):
            return
        target = link.parent / link.readlink()
        if _is_beside(target):
            link = Path(os.path.normpath(target))
            continue
        if _is_file(target):
            copy = link.with_name(f".{link.name}.copy")
            if whole:
                shutil.copy(link, copy)
            else:
                copy.touch()
            copy.replace(link)
        return


def _main(path: Path, script: Script, arguments: Sequence[str]) -> ModuleType:
    """Make a module `__main__` of this process, as if Python had been started with the script."""
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = builtins  # in other modules, a dict
    module.__loader__ = SourceFileLoader(script.module or "__main__", str(path))
    if script.depth:
        module.__package__ = script.module.rpartition(".")[0]
        module.__spec__ = ModuleSpec(script.module, module.__loader__, origin=str(path))
    sys.modules["__main__"] = module
    if "__mp_main__" in sys.modules:  # by which multiprocessing finds the classes of scripts
        sys.modules["__mp_main__"] = module
    sys.argv = [str(path), *private().get("arguments", arguments)]
    # Of a link, Python takes where it leads.
    folder = path.parents[script.depth] if script.depth else path.resolve().parent
    # In a notebook, Python looks in the current folder, which cells change.
    sys.path[:0] = ["", str(folder)] if path.suffix == NOTEBOOK else [str(folder)]
    for name in [each for each in sys.modules if each in sys.stdlib_module_names and each not in _AT_START]:
        neighbours = {folder / f"{name}.py", folder / name / "__init__.py"} - {path}
        if any(map(_is_file, neighbours)):
            del sys.modules[name]  # the driver has imported it, where the script finds its own neighbour
    sys.path.append(str(COMPONENTS))
    return module
