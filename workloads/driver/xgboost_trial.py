"""Run one trial of gradient-boosted trees with XGBoost.

A step is one boosting round over all training rows, so that a step, a batch and an epoch are the same.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

from workloads.driver import tuning, workload_file
from workloads.driver.failing_variants import measure_each
from workloads.driver.timing import Meter
from workloads.protocol import (
    ARRAYS,
    BUILD,
    DATA,
    EVALUATE,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    EventWriter,
    NoGpuError,
    Spec,
    Workload,
    measures_speed,
)


@dataclass(frozen=True)
class Trees:
    """One trial.

    Attributes:
        booster: the workload file's function, params -> XGBoost's parameters.
        arrays: x_train float32[n, features], y_train uint8[n], and the same for test.
    """

    workload: Workload
    booster: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    spec: Spec
    events: EventWriter
    arrays: Mapping[str, Any]

    def matrix(self, params: Mapping[str, Any]) -> xgb.DMatrix:
        """Return the first `batch_size` training rows as an XGBoost matrix."""
        x, y = (self.arrays[name][: params["batch_size"]] for name in ("x_train", "y_train"))
        if params["matrix"] == "quantile":
            return xgb.QuantileDMatrix(x, label=y, max_bin=params["max_bin"])
        return xgb.DMatrix(x, label=y)


def run(spec: Spec, events: EventWriter, began_ns: int) -> None:
    """Run the trial that `spec` describes.

    Args:
        began_ns: when the import of XGBoost began.

    Raises:
        NoGpuError: a GPU was requested but XGBoost does not train on it.
    """
    module, workload = workload_file.import_workload(spec.file, spec.workload)
    booster = workload_file.required(module, "booster")
    if spec.device == "gpu":
        _prove(max(spec.gpus, 1))
    began = events.phase(IMPORT, began_ns)
    events.write("facts", facts=facts(spec))
    arrays = {name: np.ascontiguousarray(np.load(Path(spec.data_dir) / f"{name}.npy")) for name in ARRAYS}
    events.phase(DATA, began)
    trees = Trees(workload=workload, booster=booster, spec=spec, events=events, arrays=arrays)
    measure_each(spec.variants, partial(_measure, trees), events)


def facts(spec: Spec) -> dict[str, str | int]:
    """Return the versions and the device that this process uses; scalars only."""
    build = xgb.build_info()
    return {
        "python": platform.python_version(),
        "xgboost": xgb.__version__,
        "numpy": np.__version__,
        "cuda": ".".join(str(part) for part in build.get("CUDA_VERSION", ())),
        "devices": "cuda:0" if spec.device == "gpu" else "cpu",
        "cpus_visible": len(os.sched_getaffinity(0)),
    }


def _prove(gpus: int) -> None:
    """Train on a few rows to check that XGBoost uses the GPU."""
    if gpus > 1:
        raise NoGpuError(f"{gpus} GPUs were requested, but an XGBoost process uses one. Try --device gpu0.")
    if not xgb.build_info().get("USE_CUDA"):
        raise NoGpuError(f"XGBoost {xgb.__version__} in this image was built without CUDA.")
    x = np.linspace(0, 1, 256, dtype=np.float32).reshape(-1, 1)
    try:
        matrix = xgb.DMatrix(x, label=x[:, 0] > 0.5)
        trained = xgb.train({"device": "cuda", "tree_method": "hist"}, matrix, num_boost_round=1)
    except xgb.core.XGBoostError as error:
        line = str(error).strip().splitlines()[0]
        raise NoGpuError(f"XGBoost cannot train on the GPU: {line}") from error
    _require_gpu(trained)


def _require_gpu(booster: xgb.Booster) -> None:
    """Check that a booster trained on a GPU; XGBoost falls back to the CPU with only a log line."""
    used = json.loads(booster.save_config())["learner"]["generic_param"]["device"]
    if not used.startswith("cuda"):
        raise NoGpuError(f"XGBoost trained on {used}.")


def _measure(trees: Trees, variant: str) -> None:
    params = tuning.variant_params(trees.workload, trees.spec, variant)
    changes = tuning.variant_changes(trees.workload, trees.spec, variant)
    trees.events.write(
        "variant", variant=variant, params=params, changes=[asdict(change) for change in changes]
    )
    meter = Meter(
        variant,
        spec=trees.spec,
        events=trees.events,
        # update() returns when the tree is on the host.
        synchronise=lambda: None,
        full=trees.spec.full and measures_speed(variant),
    )
    if variant == INPUT_ONLY:
        # The conversion that must precede the first round.
        meter.begin()
        while meter.tick(1, trees.matrix(params).num_row()):
            pass
    else:
        _train(trees, variant, params, meter)


def _train(trees: Trees, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    began, gpu = meter.clock(), trees.spec.device == "gpu"
    matrix = trees.matrix(params)
    held_out = xgb.DMatrix(trees.arrays["x_test"], label=trees.arrays["y_test"])
    settings = {**trees.booster(params), "device": "cuda" if gpu else "cpu", "seed": trees.spec.seed}
    booster = xgb.Booster(settings, [matrix, held_out])
    evaluates = params["evaluate"] and variant != MODEL_ONLY
    meter.phase(BUILD, began)
    meter.begin()
    rounds, going = 0, True
    while going:
        booster.update(matrix, rounds)
        if evaluates:
            booster.eval(held_out, "held-out", rounds)
        rounds += 1
        going = meter.tick(1, matrix.num_row()) and not (meter.full and rounds >= params["epochs"])
    if gpu:
        _require_gpu(booster)
    if meter.full:
        trees.events.metric(variant, "training_s", meter.finish())
    if variant == MODEL_ONLY:
        return
    began = meter.clock()
    # The same number of trees on every device, however many rounds were measured.
    trees_used = min(rounds, params["epochs"])
    scores = booster.predict(held_out, iteration_range=(0, trees_used))
    meter.phase(EVALUATE, began)
    trees.events.metric(variant, "steps_trained", trees_used)
    trees.events.metric(variant, "accuracy", float(np.mean((scores > 0.5) == trees.arrays["y_test"])))
