"""What a script imports, and whether it can train at all, read without running it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import decode_source
from pathlib import Path

from harness.errors import StoreError, UsageError
from harness.untrusted import read_file
from workloads.cells import left_out
from workloads.protocol import MARK, PLOTTING, distribution

# Packages that come along with another one, and are asked for by its name.
_PARTS = {"google", "mpl_toolkits", "tensorflow"}
# Packages that call no fit by themselves.
_PASSIVE = {
    "PIL", "absl", "cv2", "dateutil", "google", "h5py", "imageio", "keras", "numpy", "pandas", "requests", "scipy",
    "skimage", "sklearn", "tensorflow", "tensorflow_datasets", "tensorflow_docs", "tensorflow_hub", "tqdm", "yaml",
    *PLOTTING, *sys.stdlib_module_names,
}  # fmt: skip
# What trains or infers, and what may come to it by a name that cannot be read.
_CALLS = {
    "fit",
    "evaluate",
    "predict",
    "exec",
    "eval",
    "import_module",
    "__import__",
    "run_path",
    "run_module",
}
# Other frameworks, which train without TensorFlow.
_OTHERS = {"torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "jax", "flax", "optax"}
_KERAS = {"keras", "tensorflow", "tf_keras"}
# What runs the script in the container.
_PACKAGE = "workloads"
# Methods of Keras 2, and what starts other programs.
_FORMER = re.compile(r"\.(fit|evaluate|predict)_generator\(")
_STARTS = re.compile(r"\b(subprocess|runpy|os\.(system|exec|spawn|popen)\w*)\b")
# Files and bytes of neighbours that are read.
_MOST, _MOST_BYTES = 200, 1 << 20


def neighbours(root: Path, path: Path, text: str) -> Mapping[Path, str]:
    """Return the texts of the modules beside a script that it imports, also through each other.

    Args:
        root: the folder from which the script imports.
    """
    result: dict[Path, str] = {}
    waiting = [(path.parent, text)]
    while waiting and len(result) < _MOST:
        folder, current = waiting.pop()
        for module in _modules(current):
            for file in _files(root, folder, module):
                if file not in result and file != path and (found := _text(file)) is not None:
                    result[file] = found
                    waiting.append((file.parent, found))
    return result


def _modules(text: str) -> Iterator[tuple[int, str]]:
    """Yield the level (0 for absolute) and the dotted name of what a text imports, and may import."""
    for node in ast.walk(_parsed(text)):
        match node:
            case ast.Import(names=names):
                yield from ((0, alias.name) for alias in names)
            case ast.ImportFrom(level=level, module=module, names=names):
                yield level, module or ""
                yield from (
                    (level, f"{module}.{alias.name}".lstrip(".") if module else alias.name) for alias in names
                )


def _files(root: Path, folder: Path, module: tuple[int, str]) -> list[Path]:
    level, name = module
    base = folder.parents[level - 2] if level > 1 else folder if level else root
    parts = name.split(".") if name else []
    packages = [base.joinpath(*parts[:count], "__init__.py") for count in range(1, len(parts) + 1)]
    own = [base.joinpath(*parts[:-1], f"{parts[-1]}.py")] if parts else []
    return [file for file in (*packages, *own) if file.is_file()]


def _text(file: Path) -> str | None:
    try:
        return decode_source(read_file(file, max_bytes=_MOST_BYTES))
    except (StoreError, SyntaxError, UnicodeError, LookupError):
        return None


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ast.Module([], [])


def foreign(root: Path, path: Path, text: str) -> set[str]:
    """Return the packages that a script and its neighbours import, and which are neither theirs nor Python's."""
    names = _imported(root, path, text)
    own = {name for name in names if _is_beside(root, name)}
    return names - own - {"", *sys.stdlib_module_names}


def _imported(root: Path, path: Path, text: str) -> set[str]:
    """Return the packages and modules that a script and its neighbours import by absolute names."""
    texts = (text, *neighbours(root, path, text).values())
    return {name.partition(".")[0] for text in texts for level, name in _modules(text) if not level}


def _is_beside(root: Path, name: str) -> bool:
    return (root / f"{name}.py").is_file() or (root / name).is_dir()


def distributions(root: Path, path: Path, text: str) -> list[str]:
    """Return the distributions of what a script and its neighbours import, without those of plots."""
    names = foreign(root, path, text) - {*PLOTTING, *_PARTS, "keras"}
    return sorted(map(distribution, names))


def check_trains(root: Path, path: Path, text: str) -> None:
    """Raise UsageError if a script certainly makes no call that can be measured, and marks no steps."""
    texts = (text, *neighbours(root, path, text).values())
    if (
        any(map(MARK.search, texts))
        or foreign(root, path, text) - _PASSIVE - _OTHERS
        or any(map(_may_train, texts))
    ):
        return
    imported = _imported(root, path, text)
    if (others := imported & _OTHERS) and not imported & _KERAS:
        raise UsageError(
            f"{path.name} imports {' and '.join(sorted(others))}, and neither Keras nor TensorFlow.",
            hint="Give a script that trains with Keras or TensorFlow: these are what tfbench measures.",
        )
    for former in filter(None, map(_FORMER.search, texts)):
        raise UsageError(
            f"{path.name} calls {former[1]}_generator, which Keras 3 does not have.",
            hint=f"Call {former[1]}, which takes generators.",
        )
    raise UsageError(
        f"{path.name} has no call of fit, evaluate or predict, and marks no step.",
        hint="If it trains in a loop of its own, mark the end of each step with a comment line in the loop: "
        "`# tfbench: step BATCH_SIZE`, with the number of samples."
        + (" If it starts another script, give that one." if any(map(_starts, texts)) else ""),
    )


def _starts(text: str) -> bool:
    """Return whether a script, or a line that is left out of a notebook, may start another script."""
    return bool(_STARTS.search(text) or any("python" in line for line in left_out(text)))


def check_names(root: Path, path: Path, text: str) -> None:
    """Raise UsageError if a script imports a neighbour that has the name of tfbench's own package in the container."""
    if _is_beside(root, _PACKAGE) and _PACKAGE in _imported(root, path, text):
        raise UsageError(
            f"{path.name} imports {_PACKAGE}, and tfbench has a package of this name in the container.",
            hint="Rename the module next to the script.",
        )


def _may_train(text: str) -> bool:
    for node in ast.walk(_parsed(text)):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)) if (
                name in _CALLS
            ):
                return True
            case ast.Call(func=ast.Name(id="getattr"), args=[_, attribute, *_]) if not isinstance(
                attribute, ast.Constant
            ):
                return True
    return False
