"""Run a user's script as `__main__` in a scratch folder, and say in one sentence why it failed.

The scratch folder has copies of the files beside the script, and links to the large ones, so that relative paths work
as in the script's own folder, and the script can write files. No path in it leads to a file of the user that can be
written: engines show those read-only, or a copy of them. The script itself is a file there, because TensorFlow's
autograph reads functions from their file.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import os
import re
import shutil
import signal
import struct
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.protocol import OPENED, UNKNOWN, Script, private, reason_of

# Folder with the files that several built-in scripts import.
COMPONENTS = Path(__file__).parents[1] / "components"
# Bytes beside a script that are copied, of 2 GiB for all its variants.
_MOST_COPIED = 32 << 20
# Folders beside a script that it has no use for. Without byte code, modules are read from their own files.
_NOT_READ = ("__pycache__", ".git")
# linux/inotify.h
_IN_OPEN, _IN_ONESHOT, _IN_Q_OVERFLOW = 0x20, 0x80000000, 0x4000
# Bytes below which a file system is full.
_FULL = 1 << 20
# Scratch folders; see _scratch.
_folders: set[Path] = set()
# Whether the script's call has been measured.
_measured = threading.Event()
_TRAINS = re.compile(rb"\b(fit|train_on_batch|GradientTape|apply_gradients)\b")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
_IMAGE_WITH = "build an image FROM ours with `pip install {}` and pass it with --image cpu=NAME."
_NO_NETWORK = (
    "Containers have no network. Download the file first and pass it with --mount PATH; "
    "keras.utils.get_file finds it there by its name."
)


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
    with _scratch(script) as path, _main(path, arguments) as module, _caught_exit():
        module.__dict__.update(names)
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
    return any(_TRAINS.search(file.read_bytes()) for file in own if file.suffix == ".py")


def named(error: BaseException) -> str:
    """Return an error's type and reason in one line; of a ScriptError, its sentence."""
    return (
        str(error) if isinstance(error, ScriptError) else f"{type(error).__name__}: {reason_of(str(error))}"
    )


def explained(error: Exception, path: Path) -> str:
    """Return the script's line, the error, and what to try."""
    # The script is a file in a scratch folder.
    files = {str(folder / path.name) for folder in (path.parent, *_folders)}
    frames = reversed(traceback.extract_tb(error.__traceback__))
    line = next((frame.lineno for frame in frames if frame.filename in files), None)
    where = f"{path.name}:{line}" if line else path.name
    first = reason_of(str(error))
    text = f"{where}: {type(error).__name__}: {first}" if first else f"{where}: {type(error).__name__}"
    return f"{text.rstrip('.')}. {_advice(error)}".strip()


def _advice(error: Exception) -> str:
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "xgboost":
        return 'Begin the script with the lines `# /// tfbench`, `# image = "trees"` and `# ///`.'
    if isinstance(error, ModuleNotFoundError):
        return (
            f"If {error.name} is yours, put it beside the script, or use --mount and --env PYTHONPATH=FOLDER. Else "
            + _IMAGE_WITH.format(error.name)
        )
    if isinstance(error, ImportError) and text.startswith("sklearn needs"):
        return f"Use xgboost.train, or {_IMAGE_WITH.format('scikit-learn')}"
    if "TensorBoard is not installed" in text:
        return f"Leave its callback out, or {_IMAGE_WITH.format('tensorboard')}"
    if isinstance(error, EOFError):
        return "A script cannot ask for input here: pass values with --arg or --param."
    if "URL fetch failure" in text or "urlopen error" in text or isinstance(error, ConnectionError):
        return _NO_NETWORK
    if "read-only file system" in text.lower() or "readonly database" in text:
        return (
            "Large files beside a script, and those of --mount, can only be read. Write to a new file beside it or in "
            "/tmp."
        )
    if "no space left on device" in text.lower():
        full = [place for place in ("/dev/shm", tempfile.gettempdir()) if _free(place) < _FULL]  # noqa: S108
        return f"{' and '.join(full) or 'Its folder'} is full. " + (
            "Use threads instead of processes, or fewer of them."
            if full == ["/dev/shm"]  # noqa: S108
            else "A script has 2 GiB in /tmp, where it runs, with copies of the small files beside it: write less."
        )
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return "The size of files is limited: run `ulimit -f unlimited` first."
    if isinstance(error, OSError) and error.filename and Path(str(error.filename)).is_absolute():
        return f"Containers see the script's folder only: add --mount {error.filename}."
    if isinstance(error, FileNotFoundError) and (link := _dangling(error.filename)):
        return (
            f"{link.name} is a link to {link.readlink()}, which is not there, or which containers cannot read. "
            "Let it lead to a folder that others may read."
        )
    if isinstance(error, FileNotFoundError):
        return "Give its path from the script's folder, or an absolute one with --mount."
    return ""


def _dangling(name: Any) -> Path | None:
    """Return the first part of a path that is a link to nothing in a script's folder; None if there is none."""
    path = Path(os.fsdecode(name)) if isinstance(name, (str, bytes)) else Path()
    parts = [folder / part for folder in _folders for part in (*reversed(path.parents), path)]
    return next((part for part in parts if part.is_symlink() and not part.exists()), None)


def _free(folder: str) -> int:
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return _FULL


@contextmanager
def _caught_exit() -> Iterator[None]:
    """Let os._exit end the script instead of the trial, except in the script's threads and children."""
    leave, process = os._exit, os.getpid()

    def end(status: int) -> None:
        if os.getpid() == process and threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        leave(status)

    os._exit = end  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = leave


@contextmanager
def _scratch(script: Script) -> Iterator[Path]:
    """Enter a folder with the script and its neighbours; leave it afterwards."""
    source = Path(script.path)
    folder = Path(tempfile.mkdtemp(prefix="script-")).resolve()
    links = _mirror(source.parent, folder, most=20_000)
    (folder / source.name).unlink(missing_ok=True)
    path = folder / source.name
    path.write_text(script.text, encoding="utf-8")
    _folders.add(folder)
    _copy_small(links)
    if watch := _watch():
        watch.add(folder)
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

    Links between neighbours lead to their copies, and a link to a folder elsewhere is a folder. Folders beyond `most`
    links, those that cannot be read, and those around the script are linked as a whole.
    """
    links: list[Path] = []
    root = os.path.realpath(source)
    pending = [(source, target, frozenset[str]())]
    while pending:
        folder, mirror, followed = pending.pop(0)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:  # gone
            continue
        if folder != source and {"plan.json", "manifest.json"} <= {entry.name for entry in entries}:
            continue  # a run of this script
        for entry in entries:
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
                    inside = path not in followed and not f"{root}{os.sep}".startswith(
                        f"{path.rstrip(os.sep)}{os.sep}"
                    )
                    through = followed | {path}
                if entry.is_dir() and entry.name in _NOT_READ:
                    continue
                if entry.is_dir() and inside and len(links) < most and os.access(path, os.R_OK | os.X_OK):
                    link.mkdir()
                    pending.append((Path(path), link, through))
                else:
                    link.symlink_to(path)
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


class _Watch:
    """Write down which neighbours a script opens, also in C++ and in child processes, for a later check of them.

    One line each, with the path from the script's folder; UNKNOWN if the kernel cannot tell.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._file.touch()
        self._names: dict[int, str] = {}
        self._noted: set[str] = set()
        self._number: int = _libc().inotify_init1(os.O_CLOEXEC)
        threading.Thread(target=self._read, name="opened-files", daemon=True).start()

    def add(self, folder: Path) -> None:
        """Watch the files in a scratch folder; those that are links, where they lead."""
        for top, _, files in os.walk(folder):
            for path in (Path(top, name) for name in files):
                # A link to a neighbour is that neighbour.
                beside = path.is_symlink() and not path.readlink().is_absolute()
                if beside or not path.is_file():
                    continue
                watch = _libc().inotify_add_watch(self._number, os.fsencode(path), _IN_OPEN | _IN_ONESHOT)
                self._names[watch] = str(path.relative_to(folder)) if watch >= 0 else UNKNOWN
                if watch < 0:
                    self._note(UNKNOWN)
                    return

    def _read(self) -> None:
        while True:
            try:
                events = os.read(self._number, 1 << 16)
            except OSError:
                self._note(UNKNOWN)
                return
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
        if not link.is_symlink() or not any(folder in link.parents for folder in _folders):
            return
        target = link.parent / link.readlink()
        if any(folder in target.parents for folder in _folders):  # to a neighbour
            link = Path(os.path.normpath(target))
            continue
        if target.is_file():
            copy = link.with_name(f".{link.name}.copy")
            if whole:
                shutil.copy(link, copy)
            else:
                copy.touch()
            copy.replace(link)
        return


@contextmanager
def _main(path: Path, arguments: Sequence[str]) -> Iterator[ModuleType]:
    """Let a module be `__main__`; restore what scripts change of the process."""
    module = ModuleType("__main__")
    module.__file__ = str(path)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    saved = sys.modules["__main__"], sys.argv, sys.path[:], sys.stdout, sys.stderr
    sys.modules["__main__"] = module
    sys.argv = [str(path), *private().get("arguments", arguments)]
    sys.path[:0] = [str(path.parent)]
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
