"""Run a user's script as `__main__` in a scratch folder, and say in one sentence why it failed.

The scratch folder has copies of the files beside the script, and links to the large ones, so that relative paths work
as in the script's own folder, which is mounted read-only, and the script can write files. The script itself is a file
there, because TensorFlow's autograph reads functions from their file.
"""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.cells import NOTEBOOK
from workloads.driver import shell, sites
from workloads.driver.advice import advice
from workloads.protocol import Script, reason_of

# Folder with the files that several built-in scripts import.
COMPONENTS = Path(__file__).parents[1] / "components"
# Bytes beside a script that are copied, of 2 GiB for all its variants.
_MOST_COPIED = 32 << 20
# Scratch folders; see _scratch.
_folders: set[Path] = set()
# Whether the script's call has been measured.
_measured = threading.Event()
_TRAINS = re.compile(rb"\b(fit|train_on_batch|GradientTape|apply_gradients)\b")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)


class ScriptError(RuntimeError):
    """A script cannot be measured; the message ends with what to try."""


class Taken(BaseException):
    """Ends a script whose call has been taken. Not an Exception, so that scripts do not catch it."""


def run(script: Script, arguments: Sequence[str], names: Mapping[str, Any], stall_s: float = 0.0) -> None:
    """Run a script until it ends or raises Taken.

    Args:
        names: additional names that it may use.
        stall_s: see Spec.

    Raises:
        ScriptError: it failed by itself.
    """
    process = os.getpid()
    with _scratch(script) as path, _main(path, script, arguments) as module, _caught_exit(path.name):
        module.__dict__.update({**shell.NAMES, **names})
        _alarm(0.9 * stall_s)
        try:
            exec(compile(script.text, str(path), "exec"), module.__dict__)  # noqa: S102 - what the user asked to run
        except Taken:
            return
        except SystemExit as error:
            if error.code:
                text = f"{path.name} ended by itself: sys.exit({error.code!r})"
                raise ScriptError(f"{text}. Pass command-line arguments with --arg.") from error
        except Exception as error:
            raise ScriptError(explained(error, path)) from error
        finally:
            if os.getpid() != process:  # a child that the script forked has come to its end
                os._exit(0)


def comes_to_its_call() -> None:
    """Do not let the log say any more where the script stood before most of the stall limit was over."""
    _alarm(0)


def end_after(stall_s: float) -> None:
    """Let a script whose call has been measured end before it goes on for the stall limit, and say where it stood."""
    _measured.set()
    _alarm(0.8 * stall_s)


def _alarm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _on_alarm(number: int, frame: Any) -> None:
    if _measured.is_set():
        raise Taken


def may_train() -> bool:
    """Return whether the script, or a module beside it that it has imported, names what trains."""
    files = [Path(str(getattr(module, "__file__", ""))) for module in list(sys.modules.values())]
    own = [file for file in files if any(folder in file.parents for folder in _folders)]
    return any(_TRAINS.search(file.read_bytes()) for file in own if file.suffix in (".py", NOTEBOOK))


def named(error: BaseException) -> str:
    """Return an error's type and reason in one line; of a ScriptError, its sentence."""
    return (
        str(error) if isinstance(error, ScriptError) else f"{type(error).__name__}: {reason_of(str(error))}"
    )


def explained(error: Exception, path: Path, place: str = "") -> str:
    """Return the script's line, the error, and what to try.

    Args:
        place: where the script made the call that failed, if the error did not pass through the script.
    """
    # The script is a file in a scratch folder.
    files = {str(folder / path.name) for folder in (path.parent, *_folders)}
    frames = reversed(traceback.extract_tb(error.__traceback__))
    found: tuple[str, int | None] | None
    found = next(((frame.filename, frame.lineno) for frame in frames if frame.filename in files), None)
    if isinstance(error, SyntaxError) and error.filename in files:  # found by Python's compiler only
        found = error.filename, error.lineno
    where = sites.where(found[0], found[1]) if found and found[1] else place or path.name
    if isinstance(error, ScriptError):
        return str(error) if str(error).startswith(path.name) else f"{where}: {error}"
    first = reason_of(str(error))
    text = f"{where}: {type(error).__name__}: {first}" if first else f"{where}: {type(error).__name__}"
    return f"{text.rstrip('.')}. {advice(error)}".strip()


@contextmanager
def _caught_exit(name: str) -> Iterator[None]:
    """Let os._exit end the script instead of the trial, except in the script's threads and children.

    A script that would go on as another program, or misses arguments, is told what to do instead.
    """
    leave, process = os._exit, os.getpid()

    def end(status: int) -> None:
        if os.getpid() == process and threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        leave(status)

    def replaced(*args: Any) -> None:
        new = args[2] if len(args) > 2 else os.environ
        chosen = [f"--env {name}={value}" for name, value in new.items() if value != before.get(name)]
        raise ScriptError(
            "The script replaces its process by another, which cannot be measured. "
            + (f"Use {' '.join(chosen)} instead." if chosen else "Leave that out.")
        )

    def refused(parser: Any, message: str) -> None:
        missing = message.partition("are required: ")[2].split(", ")
        names = [each.partition("/")[0] for each in missing] if missing[0] else ["--NAME"]
        given = (f"--arg={each} --arg=VALUE" if each[0] == "-" else "--arg=VALUE" for each in names)
        raise ScriptError(
            f"{name}: {message.rstrip('.')}. Pass command-line arguments with --arg: {' '.join(given)}."
        )

    before, execute = {**os.environ}, (os.execv, os.execve)
    os._exit = end  # type: ignore[assignment]
    os.execv = os.execve = replaced  # type: ignore[assignment]
    refuses, ArgumentParser.error = ArgumentParser.error, refused  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        os._exit = leave
        os.execv, os.execve = execute
        ArgumentParser.error = refuses  # type: ignore[method-assign]


@contextmanager
def _scratch(script: Script) -> Iterator[Path]:
    """Enter a folder with the script and its neighbours; leave it afterwards."""
    source = Path(script.path)
    folder = Path(tempfile.mkdtemp(prefix="script-")).resolve()
    root = source.parents[script.depth]
    links = _mirror(root, folder, most=20_000)
    path = folder / source.relative_to(root)
    path.unlink(missing_ok=True)
    path.write_text(script.text, encoding="utf-8")
    _folders.add(folder)
    _copy_small(links)
    _keep_neighbours()
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield path
    finally:
        os.chdir(before)
        # A later script may have a neighbour of the same name.
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "") or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def _mirror(source: Path, target: Path, most: int) -> list[Path]:
    """Make folders with links to files, so that scripts can write beside files; return the links.

    Folders beyond `most` links, and those that cannot be read, are linked as a whole.
    """
    links: list[Path] = []
    pending = [(source, target)]
    while pending:
        folder, mirror = pending.pop(0)
        with suppress(OSError):  # gone, not readable, or of a longer path than there can be
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                link = mirror / entry.name
                own = entry.is_dir(follow_symlinks=False) and len(links) < most
                if own and os.access(entry.path, os.R_OK | os.X_OK):
                    link.mkdir()
                    pending.append((Path(entry.path), link))
                else:
                    link.symlink_to(entry.path)
                    links.append(link)
    return links


def _copy_small(links: Sequence[Path]) -> None:
    """Replace links by copies, the smallest file first: writing to those does not reach the user's files."""
    sizes = {link: link.stat().st_size for link in links if link.is_file()}
    room = _MOST_COPIED
    for link, size in sorted(sizes.items(), key=lambda each: each[1])[:1000]:
        room -= size
        if room < 0:
            return
        with suppress(OSError):  # a file that cannot be read stays a link
            _own(link, whole=True)


@cache
def _keep_neighbours() -> None:
    """Replace links of scratch folders by copies before they are written to: what lies beside a script stays.

    Sees what Python and h5py open. Writing large files in C++ fails in a container.
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
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR):
            _own(path, whole=not flags & os.O_TRUNC)


def _own(path: Any, *, whole: bool) -> None:
    """Let a path in a scratch folder be a file of its own, with the content of what it was a link to if `whole`."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    link = Path(os.fsdecode(path)).absolute()
    if link.is_symlink() and link.is_file() and any(folder in link.parents for folder in _folders):
        copy = link.with_name(f".{link.name}.copy")
        if whole:
            shutil.copy(link, copy)
            copy.replace(link)
        else:
            link.unlink()


@contextmanager
def _main(path: Path, script: Script, arguments: Sequence[str]) -> Iterator[ModuleType]:
    """Let a module be `__main__`; restore what scripts change of the process."""
    module = ModuleType("__main__")
    module.__file__ = str(path)
    if script.depth:
        module.__package__ = script.module.rpartition(".")[0]
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    saved = sys.modules["__main__"], sys.argv, sys.path[:], sys.stdout, sys.stderr
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    sys.path[:0] = [str(path.parents[script.depth])]
    sys.path.append(str(COMPONENTS))
    _measured.clear()
    signal.signal(signal.SIGALRM, _on_alarm)
    # In the thread that stands, also if it waits in C. From another thread, reading its frames may crash.
    faulthandler.register(signal.SIGALRM, file=2, all_threads=False, chain=True)
    try:
        with warnings.catch_warnings():
            yield module
    finally:
        _alarm(0)
        faulthandler.unregister(signal.SIGALRM)
        sys.modules["__main__"], sys.argv, sys.path[:], sys.stdout, sys.stderr = saved
        for number, handler in handlers.items():
            signal.signal(number, handler)
