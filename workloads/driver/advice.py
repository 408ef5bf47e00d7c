"""What to try after an error of a script."""

from __future__ import annotations

import errno
import locale
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
import traceback
from bdb import BdbQuit
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workloads.driver.processes import start_fewer
from workloads.protocol import distribution, text_of

# What follows the name of a script that uses Keras 2.
LEGACY = (
    "uses tf_keras, which is Keras 2 and not measured: import keras, or tf.keras without TF_USE_LEGACY_KERAS."
)
_WITH = "add it to the image with --with {}."
_NO_NETWORK = (
    "Containers have no network. Run once with --network, which keeps what libraries download, or pass the file "
    "with --mount PATH: keras.utils.get_file finds it there by its name."
)


# Modules that were part of Python up to 3.11 or 3.12 (PEP 594, PEP 632).
_REMOVED = {
    "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp",
    "mailcap", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu",
    "xdrlib",
}  # fmt: skip
# What libraries write that have not found a file, and the path in it, up to what may be many files.
_MISSING = re.compile(
    "no such file or directory|no files match|file not found|does not exist at|could not find directory|"
    "find any matching files|could not find (the )?file|unable to (synchronously )?open file",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?<![\w.}/])(?:\.\./|/)[^\s;:,'\"{}*?\[\]]*")
# An absolute path of a folder in quotes, up to what may be many files.
_NAMED = re.compile(r"['\"](/[\w.-]+(?:/[\w.-]+)*)/?(?:[*?\[/][^'\"]*)?['\"]")
# Lines of a notebook that start programs.
_PROGRAM = re.compile(r"!|^%%(ba)?sh|^%s[cx]\b|^%?(cat|cp|ln|mv|rm)\b")
# Errors of a path that a container has not, or has in another way.
_OF_PLACE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EXDEV, errno.ENXIO, errno.ENODEV)
# Bytes below which a file system is full.
_FULL = 1 << 20


def advice(error: BaseException, folders: Collection[Path] = (), left_out: Sequence[str] = ()) -> str:
    """Return what to try; "" if nothing is known.

    Args:
        folders: the script's folders.
        left_out: lines of a notebook that were not run.
    """
    text = text_of(error)
    told = next((line for line in text.splitlines() if _MISSING.search(line)), "")
    if (told or isinstance(error, FileNotFoundError)) and not getattr(error, "filename", ""):
        error = _not_found(told or text)
    elif isinstance(error, IndexError) or "empty" in text:
        error = _absent(error) or error
    to_try = (
        _of_folder(text, folders)
        or _of_stand_ins(error, text)
        or _of_import(error, text)
        or _of_user(error, text)
        or _of_machine(error, text)
        or _of_file(error, text, folders)
    )
    return f"{to_try} {_of_programs(error, left_out)}".strip()


def _of_folder(text: str, folders: Collection[Path]) -> str:
    if not any(re.search(rf"^['\"]?{re.escape(folder.name)}\b", text) for folder in folders):
        return ""
    return (
        "The folder that a script runs in has another name than yours: run it as a module, -m FOLDER.NAME, from the "
        "folder above."
    )


def _of_stand_ins(error: BaseException, text: str) -> str:
    """Return what to do where a script needs values of what stands for a library of plots."""
    names = [name for name, module in [*sys.modules.items()] if _is_nothing(module) and "." not in name]
    asked = any(
        _is_nothing(frame.f_locals.get("self")) for frame, _ in traceback.walk_tb(error.__traceback__)
    )
    told = "Nothing" in text or "to unpack" in text or asked
    if not (names and told):
        return ""
    return f"What stands for {' and '.join(names)} gives no values: add --with {names[0]} if the script needs them."


def _is_nothing(value: object) -> bool:
    return type(value).__name__ == "Nothing"


def _not_found(line: str) -> FileNotFoundError:
    """Return the error that Python has for a missing file for a library's words."""
    # TensorFlow's begin with the function that failed, with the paths of devices.
    line = re.sub(r"\{\{.*?\}\}", "", line)
    found = _PATH.search(line)
    named = found[0] if found else ""
    folder = found and line[found.end() : found.end() + 1] in ("*", "?", "[", "{")
    path = named.rpartition("/")[0] if folder else named.rstrip("./")
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path or None)


def _absent(error: BaseException) -> FileNotFoundError | None:
    """Return the error for the first folder that the file names which raised an error, and which is not there.

    Programs that list the files of such a folder find none, and fail with the list.
    """
    frames = traceback.extract_tb(error.__traceback__)
    with suppress(IndexError, OSError, UnicodeError):
        for found in _NAMED.finditer(Path(frames[-1].filename).read_text(encoding="utf-8")):
            if not Path(found[1]).exists():
                return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), found[1])
    return None


def _of_import(error: BaseException, text: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "xgboost":
        return 'Begin the script with the lines `# /// tfbench`, `# image = "trees"` and `# ///`.'
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith(("google.colab", "kaggle_")):
        return "It is in Colab or Kaggle only: leave it out, and pass files with --mount PATH."
    if isinstance(error, ModuleNotFoundError) and error.name == "tf_keras":
        return f"It {LEGACY}"
    if isinstance(error, ModuleNotFoundError) and error.name in _REMOVED:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return f"Python {version} no longer has it: leave it out, or look for a package that replaces it, for --with."
    missing = (
        isinstance(error, ModuleNotFoundError)
        and str(error.name).partition(".")[0] in sys.stdlib_module_names
    )
    if missing or "python3-tk" in text:
        return "The image's Python does not have it: leave it out, or pass an image FROM ours that has it with --image."
    if _has_our_name(error):
        return "tfbench has a package of this name in the container: rename yours."
    if isinstance(error, ModuleNotFoundError) and error.name in ("keras", "numpy"):
        return "Build the image FROM one of ours."
    if _is_of_other_version(error, text):
        return (
            f"The image has {_frameworks()}, which has no such name: look for what replaces it, or pass an image FROM "
            "ours that has the version the script is written for with --image."
        )
    if isinstance(error, ModuleNotFoundError):
        return (
            f"If {error.name} is yours, put it beside the script, or use --mount and --env PYTHONPATH=FOLDER. Else "
            + _WITH.format(
                f"{distribution(str(error.name).partition('.')[0])} (or auto: what the script imports)"
            )
        )
    if isinstance(error, ImportError) and text.startswith("sklearn needs"):
        return f"Use xgboost.train, or {_WITH.format('scikit-learn')}"
    if isinstance(error, ImportError) and "attempted relative import" in text:
        return "Run it as a module of its package: -m PACKAGE.MODULE, from the folder that has the package."
    if "TensorBoard is not installed" in text:
        return f"Leave its callback and tf.summary out, or {_WITH.format('tensorboard')}"
    return ""


def _is_of_other_version(error: BaseException, text: str) -> bool:
    """Return whether the script names what TensorFlow or Keras has in another version than the image's."""
    if isinstance(error, ImportError):
        return str(error.name).partition(".")[0] in ("keras", "tensorflow")
    if isinstance(error, ValueError):
        return re.match(r"Argument\(s\) not recognized|Unrecognized keyword arguments", text) is not None
    return isinstance(error, AttributeError) and re.match("module '(keras|tensorflow)[.']", text) is not None


def _frameworks() -> str:
    names = ("tensorflow", "TensorFlow"), ("keras", "Keras")
    versions = ((name, getattr(sys.modules.get(module), "__version__", "")) for module, name in names)
    return " and ".join(f"{name} {version}" for name, version in versions if version)


def _has_our_name(error: BaseException) -> bool:
    """Return whether the script has looked into the package of tfbench for something, which one of its own may have."""
    module = getattr(getattr(error, "obj", None), "__name__", "") if isinstance(error, AttributeError) else ""
    name = error.name if isinstance(error, ImportError) else module
    return str(name).partition(".")[0] == __name__.partition(".")[0]


def _of_machine(error: BaseException, text: str) -> str:
    if isinstance(error, UnboundLocalError) and re.search("'(batch_outputs|logs|pythonify_logs)'", text):
        return (
            "Keras got no batch. Measuring reads an input several times: let it begin anew each time, as a function "
            "does that makes a new generator."
        )
    if "tf2xla conversion failed" in text or re.search(
        "unsupported operations when trying to compile graph .* on XLA", text
    ):
        return (
            "XLA, with which Keras compiles where there is a GPU, has no kernel for an operation of this model: "
            "model.compile(..., jit_compile=False)."
        )
    if "\nHloModule " in text:
        return (
            "XLA, with which Keras compiles where there is a GPU, fails to compile this model: "
            "model.compile(..., jit_compile=False)."
        )
    if _wants_gpu(error):
        return "The script needs a GPU, and this trial has none: use --device gpu, or ask `if gpus:` first."
    if found := re.search(r"<(zip|map) object|(?:class )'(zip|map)'", text):
        kind = found[1] or found[2]
        return (
            f"Keras takes arrays, tf.data.Dataset, PyDataset and generators, but not `{kind}`: give it "
            f"`(batch for batch in {kind}(...))`, which is a generator."
        )
    if "can't start new thread" in text or (isinstance(error, OSError) and error.errno == errno.EAGAIN):
        return start_fewer()
    # Pipes to its own processes break too.
    connects = isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError)
    if (
        "URL fetch failure" in text
        or "urlopen error" in text
        or isinstance(error, socket.gaierror)
        or (connects and not _talks_to_children(error))
    ):
        return _NO_NETWORK
    if program := _missing_program(error):
        return (
            f"There is no program {program} in the image. Catch the error, pass what it would print with --env, or "
            "build an image FROM ours that has it and pass it with --image cpu=NAME."
        )
    return ""


def _of_user(error: BaseException, text: str) -> str:
    """Return advice on what a shell or a terminal has and a container has not; "" if the error is of something else."""
    asks = isinstance(error, EOFError) and ("reading a line" in text or "getpass.py" in _raised_in(error))
    if asks or isinstance(error, BdbQuit):
        return "A script cannot ask for input here: pass values with --arg or --param, and leave breakpoint() out."
    if isinstance(error, KeyError) and _raised_in(error)[-1:] in (["os.py"], ["<frozen os>"]):
        return f"A script has no variables of this shell: pass it with --env {error.args[0]}=VALUE."
    if isinstance(error, IndexError) and "sys.argv[" in _line_of(error):
        return "Pass command-line arguments with --arg: --arg=VALUE, once for each."
    if isinstance(error, OSError) and "getlogin" in _line_of(error):
        return "Nobody has logged in to a container: use getpass.getuser(), with --env USER=NAME."
    if isinstance(error, locale.Error):
        return "The image has no such locale: use C.UTF-8, or an image FROM ours that has it with --image."
    if isinstance(error, OSError) and (error.errno == errno.ENOTTY or error.filename == "/dev/tty"):
        return (
            "A script has no terminal here: shutil.get_terminal_size() has a default, and --arg or --env pass what it "
            "would ask for."
        )
    return ""


def _of_programs(error: BaseException, left_out: Sequence[str]) -> str:
    """Return which program of a notebook would have made a file, or an output; "" if there is none."""
    programs = [line for line in left_out if _PROGRAM.search(line) and "install" not in line]
    outputs = [line for line in left_out if re.search(r"\w\s*=\s*[!%]", line)]
    if isinstance(error, (LookupError, TypeError, ValueError, AttributeError, AssertionError)) and outputs:
        return (
            "Programs that a notebook starts, and other lines of IPython, are left out: "
            f"{outputs[0][:80]} is an empty list. Write what it gives."
        )
    if not isinstance(error, FileNotFoundError) or not programs:
        return ""
    name = Path(os.fsdecode(error.filename)).stem if isinstance(error.filename, (str, bytes)) else ""
    line = next((line for line in left_out if name and name in line), programs[0])
    return f"Programs that a notebook starts are left out: if {line[:80]} makes it, run that before, in its folder."


def _of_file(error: BaseException, text: str, folders: Collection[Path]) -> str:
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
            else f"A script has {_gib(tempfile.gettempdir())} in /tmp, where it runs, with copies of the small files "
            "beside it: write less."
        )
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return "The size of files is limited: run `ulimit -f unlimited` first."
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"A process may have {most:,} files open here: close each after use, or keep fewer open."
    named = str(error.filename or "") if isinstance(error, OSError) else ""
    if isinstance(error, FileNotFoundError) and ".." in Path(named).parts:
        whole = (
            ", or run the script as a module, -m FOLDER.NAME, from the folder that has both."
            if Path(named).is_absolute()  # from the script's own
            else ": a script runs in its own folder."
        )
        return f"Containers see the script's folder only. Give an absolute path, with --mount{whole}"
    if isinstance(error, FileNotFoundError) and (link := _dangling(error.filename, folders)):
        return (
            f"{link.name} is a link to {link.readlink()}, which is not there, or which containers cannot read. "
            "Let it lead to a folder that others may read."
        )
    within = next((each for each in folders if Path(named).is_relative_to(each)), None)
    if isinstance(error, FileNotFoundError) and within:
        own = Path(named).relative_to(within)
        return f"The script's folder has no {own}: put it there, or name another with --mount."
    folder = Path(named).parent
    made_here = folder.is_relative_to("/tfbench") or folder in (Path("/"), Path("/tmp"))  # noqa: S108
    if isinstance(error, FileNotFoundError) and folder.is_absolute() and folder.is_dir() and not made_here:
        return (
            f"{folder} is there, but not that file: check its name. If --mount names the folder, the engine sees it "
            f"without the file, as if it is mounted for one process alone. If it does not, add --mount {named}."
        )
    if isinstance(error, FileNotFoundError) and named.startswith(("/tmp/", "/tfbench/")):  # noqa: S108
        home, above = Path(os.environ.get("HOME", "")), Path(named).parents
        of_home = (
            f" If it is in your home folder, which is {home} here, add --mount ~/{Path(named).relative_to(home)} "
            "--env HOME=$HOME."
            if home in above and not any(each in above for each in folders)
            else ""
        )
        return (
            "It is a path in the container: neither the script nor a library has made it. If it is on the host, add "
            f"--mount {named}.{of_home} A script that finds files above its own folder runs as a module, "
            "-m FOLDER.NAME, from the folder that has them. To write there, make its folder first, or write beside the "
            "script."
        )
    if isinstance(error, PermissionError):
        return _of_readers(Path(named), within) or (
            "A script has no rights of root here, and your home folder is not there. Write beside it or to /tmp; what "
            "--mount names can be read only, if its files let others read them."
        )
    if (
        isinstance(error, OSError)
        and error.errno in _OF_PLACE
        and Path(str(error.filename or "")).is_absolute()
    ):
        return (
            "Containers see the script's folder only: write beside the script or to /tmp; to read it, add "
            f"--mount {error.filename}."
        )
    if isinstance(error, FileNotFoundError):
        return "Give its path from the script's folder, or an absolute one with --mount."
    return ""


def _of_readers(path: Path, folder: Path | None) -> str:
    """Return what to do with a file in a script's folder that others may not read; "" for another."""
    if folder is None or not path.exists() or os.access(path, os.R_OK):
        return ""
    return f"Others than you may not read {path.relative_to(folder)}, as a script does here: chmod o+rX it."


def _dangling(name: Any, folders: Collection[Path]) -> Path | None:
    """Return the first part of a path that is a link to nothing in a script's folder; None if there is none."""
    path = Path(os.fsdecode(name)) if isinstance(name, (str, bytes)) else Path()
    parts = [folder / part for folder in folders for part in (*reversed(path.parents), path)]
    return next((part for part in parts if part.is_symlink() and not os.path.exists(part)), None)  # noqa: PTH110


def _raised_in(error: BaseException) -> list[str]:
    """Return the names of the files that an error passed through."""
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


def _line_of(error: BaseException) -> str:
    """Return the line that raised an error; "" if it is unknown."""
    return next((frame.line or "" for frame in traceback.extract_tb(error.__traceback__)[-1:]), "")


def _talks_to_children(error: BaseException) -> bool:
    """Return whether an error comes from a connection to a process that the script has started itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return any("multiprocessing" in Path(frame.filename).parts for frame in frames)


def _free(folder: str) -> int:
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return _FULL


def _gib(folder: str) -> str:
    return f"{shutil.disk_usage(folder).total / 2**30:.1f} GiB"


def _missing_program(error: BaseException) -> str:
    """Return the program that subprocess did not find; "" for other errors."""
    if isinstance(error, FileNotFoundError):
        last = traceback.extract_tb(error.__traceback__)[-1:]
        starts = any(Path(frame.filename).name in ("subprocess.py", "os.py") for frame in last)
        return str(error.filename) if starts and last[0].name in ("_execute_child", "_execvpe") else ""
    command = getattr(error, "cmd", "")
    if getattr(error, "returncode", 0) == 127 and command:  # a shell's
        words = command.split() if isinstance(command, str) else [*map(str, command)]
        return words[0]
    return ""


def _wants_gpu(error: BaseException) -> bool:
    """Return whether an error comes from a line that takes a GPU where TensorFlow finds none."""
    framework = sys.modules.get("tensorflow")
    if not isinstance(error, (IndexError, AssertionError)) or framework is None:
        return False
    named = re.search(r"gpu|device", _line_of(error), re.IGNORECASE)
    return named is not None and not framework.config.list_physical_devices("GPU")
