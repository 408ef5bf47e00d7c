"""Load a workload file: its declaration, its functions, and defaults for optional functions."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.components.rescaling import unit_range
from workloads.protocol import Arrays, Split, Stage, Workload


class WorkloadFileError(TypeError):
    """A workload file lacks something required."""


@dataclass(frozen=True)
class Loaded:
    """A workload file's declaration and functions.

    Attributes:
        model: params -> compiled Keras model.
        data: (arrays, params) -> (x_train, y_train), (x_test, y_test).
        dataset: (params, data_dir) -> stages, or None for workloads on arrays.
        in_memory: (params, data_dir, "train" or "test") -> (x, y), a whole split as model input; or None.
            Workloads with `dataset` need it for accuracy and for the resident feed.
        callbacks: params -> the published code's Keras callbacks, or None.
        facts: params -> {name: text}, called once for each variant that runs the model, or None.
    """

    workload: Workload
    model: Callable[[Mapping[str, Any]], Any]
    data: Callable[[Arrays, Mapping[str, Any]], tuple[Split, Split]]
    dataset: Callable[[Mapping[str, Any], str], Sequence[Stage]] | None
    in_memory: Callable[[Mapping[str, Any], str, str], Split] | None
    callbacks: Callable[[Mapping[str, Any]], Sequence[Any]] | None
    facts: Callable[[Mapping[str, Any]], Mapping[str, str]] | None


def load(file: str, name: str = "") -> Loaded:
    """Load a workload; see `import_workload` for the arguments."""
    module, workload = import_workload(file, name)
    loaded = Loaded(
        workload=workload,
        model=required(module, workload.builder),
        data=getattr(module, "data", unit_range),
        dataset=getattr(module, "dataset", None),
        in_memory=getattr(module, "in_memory", None),
        callbacks=getattr(module, "callbacks", None),
        facts=getattr(module, "facts", None),
    )
    if workload.pipeline != (loaded.dataset is not None):
        raise WorkloadFileError(
            f"{module.__file__} must have both stages=(...) in its declaration and a function "
            "`dataset(params, data_dir)`, or neither."
        )
    return loaded


def required(module: ModuleType, function: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function of a workload file."""
    builder = getattr(module, function, None)
    if not callable(builder):
        raise WorkloadFileError(f"{module.__file__} has no function `{function}(params)`.")
    return builder  # type: ignore[no-any-return]


def import_workload(file: str, name: str = "") -> tuple[ModuleType, Workload]:
    """Import a workload's module; return it and the declaration.

    Args:
        file: name of a file in this package, or path of any other file.
        name: workload name; "" for the only one in the file.
    """
    path = Path(file)
    own = file == path.name
    module = importlib.import_module(f"workloads.{path.stem}") if own else _import_file(path)
    declared = getattr(module, "workloads", None) or (getattr(module, "workload", None),)
    for workload in declared:
        if isinstance(workload, Workload) and name in ("", workload.name):
            return module, workload
    raise WorkloadFileError(
        f"{module.__file__} has no workload {name!r}: declare `workload = Workload(...)`."
    )


def check_stages(workload: Workload, stages: Sequence[Stage]) -> None:
    """Check that `dataset` returns the stages that the file declares."""
    names = tuple(name for name, _ in stages)
    if workload.stages and names != workload.stages:
        raise WorkloadFileError(
            f"{workload.name} declares stages={workload.stages!r}, but its dataset() returns {names!r}. "
            "Use the same names in the same order."
        )


def check_split(split: Any, function: str) -> Split:
    """Return a split or batch from a workload's function, which must be two arrays."""
    if len(split) != 2 or not all(hasattr(part, "shape") for part in split):
        raise WorkloadFileError(
            f"{function}() must return one array of samples and one of labels here. Several inputs and sample weights "
            "are supported only in dataset(), for training with feed=fit on one device, without in_memory()."
        )
    return split  # type: ignore[no-any-return]


def _import_file(path: Path) -> ModuleType:
    name = f"tfbench_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise WorkloadFileError(f"{path} is not a Python file.")
    folder = str(path.parent.absolute())
    if folder not in sys.path:
        # Appended, so that neighbouring files can be imported but never shadow installed packages.
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
