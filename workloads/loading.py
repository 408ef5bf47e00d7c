"""A workload file as the driver uses it: its declaration and its functions, with what it may leave out."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from workloads.protocol import Workload

Arrays = Mapping[str, Any]
Split = tuple[Any, Any]
# A named stage makes a dataset from the dataset before it; the first one is called without an argument.
Stage = tuple[str, Callable[..., Any]]


class WorkloadFileError(TypeError):
    """A workload file lacks something required."""


@dataclass(frozen=True)
class Loaded:
    """What a workload file offers.

    Attributes:
        model: params -> compiled Keras model.
        data: (arrays, params) -> (x_train, y_train), (x_test, y_test).
        dataset: (params, data_dir) -> stages, or None for workloads on arrays.
        in_memory: (params, data_dir, "train" or "test") -> (x, y), a whole part as arrays in the form that
            the model takes; for workloads with a `dataset` of their own, whose accuracy or resident feed
            would otherwise have no data; or None.
        callbacks: params -> Keras callbacks that the published code gives to fit, or None.
        facts: params -> name -> text, asked once for each variant that runs the model, or None.
    """

    workload: Workload
    model: Callable[[Mapping[str, Any]], Any]
    data: Callable[[Arrays, Mapping[str, Any]], tuple[Split, Split]]
    dataset: Callable[[Mapping[str, Any], str], Sequence[Stage]] | None
    in_memory: Callable[[Mapping[str, Any], str, str], Split] | None
    callbacks: Callable[[Mapping[str, Any]], Sequence[Any]] | None
    facts: Callable[[Mapping[str, Any]], Mapping[str, str]] | None


def load(file: str, name: str = "") -> Loaded:
    """Import a workload: see `import_workload`."""
    module, workload = import_workload(file, name)
    loaded = Loaded(
        workload=workload,
        model=required(module, workload.builder),
        data=getattr(module, "data", scaled),
        dataset=getattr(module, "dataset", None),
        in_memory=getattr(module, "in_memory", None),
        callbacks=getattr(module, "callbacks", None),
        facts=getattr(module, "facts", None),
    )
    if workload.pipeline != (loaded.dataset is not None):
        raise WorkloadFileError(
            f"{module.__file__} needs both stages=(...) in its declaration and a function "
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
    """Import a workload's module, whatever image it is for, and return its declaration beside it.

    Args:
        file: of this package by its name alone, of any other folder by its path.
        name: of the workload; "" for the only one of the file.
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


def _import_file(path: Path) -> ModuleType:
    name = f"tfbench_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise WorkloadFileError(f"{path} is not a Python file.")
    folder = str(path.parent.absolute())
    if folder not in sys.path:
        # Last, so that a file beside it can be imported but never replaces what is installed.
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def scaled(arrays: Arrays, params: Mapping[str, Any]) -> tuple[Split, Split]:
    """Scale integer samples to [0, 1] as float32, which is what the articles do; labels stay as they are."""
    del params
    return (
        (_unit(arrays["x_train"]), np.asarray(arrays["y_train"])),
        (_unit(arrays["x_test"]), np.asarray(arrays["y_test"])),
    )


def _unit(x: Any) -> Any:
    x = np.asarray(x)
    if not np.issubdtype(x.dtype, np.integer):
        return x.astype(np.float32, copy=False)
    return x.astype(np.float32) / np.float32(np.iinfo(x.dtype).max)
