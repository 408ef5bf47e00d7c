"""One trial of gradient-boosted trees with XGBoost: what workloads.trial is to TensorFlow's.

A step is one boosting round over all training rows, so that a batch is all of them and an epoch a round.
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

from workloads import loading, tuning
from workloads.protocol import (
    ARRAYS,
    BASELINE,
    BUILD,
    DATA,
    EVALUATE,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGE_PREFIX,
    Change,
    EventWriter,
    NoGpuError,
    Spec,
    Workload,
)
from workloads.sequence import measure_each
from workloads.timing import Meter


@dataclass(frozen=True)
class Trees:
    """One trial.

    Attributes:
        booster: params -> XGBoost's own parameters, the workload file's function.
        arrays: x_train float32[n, features], y_train uint8[n], and the same for test.
    """

    workload: Workload
    booster: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    spec: Spec
    events: EventWriter
    arrays: Mapping[str, Any]

    def params(self, variant: str) -> dict[str, Any]:
        """Return everything that `variant` runs with."""
        return tuning.variant_params(self.workload, self.spec, variant)

    def settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return XGBoost's parameters on this trial's device."""
        device = "cuda" if self.spec.device == "gpu" else "cpu"
        return {**self.booster(params), "device": device, "seed": self.spec.seed}

    def rows(self, params: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the rows that a round goes through: the first `batch_size` ones."""
        count = min(params["batch_size"], len(self.arrays["x_train"]))
        return self.arrays["x_train"][:count], self.arrays["y_train"][:count]


def run(spec: Spec, events: EventWriter, began_ns: int) -> None:
    """Run all that `spec` asks for.

    Args:
        began_ns: when the import of XGBoost began.

    Raises:
        NoGpuError: a GPU was asked for and XGBoost does not train on it.
    """
    module, workload = loading.import_workload(spec.file, spec.workload)
    booster = loading.required(module, "booster")
    if spec.device == "gpu":
        _prove(max(spec.gpus, 1))
    began = events.phase(IMPORT, began_ns)
    events.write("facts", facts=facts(spec))
    arrays = {name: np.ascontiguousarray(np.load(Path(spec.data_dir) / f"{name}.npy")) for name in ARRAYS}
    events.phase(DATA, began)
    job = Trees(workload=workload, booster=booster, spec=spec, events=events, arrays=arrays)
    bodies = {variant: partial(_measure, job, variant) for variant in spec.variants}
    measure_each(bodies, events=events, needed=(BASELINE,))


def facts(spec: Spec) -> dict[str, str | int]:
    """Describe the software and the device as this process finds them; scalars only."""
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
    """Train on a few rows, and hold where XGBoost says that it trained against where it should have."""
    if gpus > 1:
        raise NoGpuError(f"{gpus} GPUs were requested, but an XGBoost process uses one. Try --device gpu0.")
    if not xgb.build_info().get("USE_CUDA"):
        raise NoGpuError(f"XGBoost {xgb.__version__} in this image was built without CUDA.")
    x = np.linspace(0, 1, 256, dtype=np.float32).reshape(-1, 1)
    try:
        matrix = xgb.DMatrix(x, label=x[:, 0] > 0.5)
        trained = xgb.train({"device": "cuda", "tree_method": "hist"}, matrix, num_boost_round=1)
    except xgb.core.XGBoostError as error:
        first = str(error).strip().splitlines()[0]
        raise NoGpuError(f"XGBoost cannot train on the GPU: {first}") from error
    used = device_of(trained)
    if not used.startswith("cuda"):
        # It falls back to the CPU with no more than a line in its log.
        raise NoGpuError(f"XGBoost trained on {used}.")


def device_of(booster: xgb.Booster) -> str:
    """Return the device that a booster says it trained on, "cuda:0" or "cpu"."""
    device: str = json.loads(booster.save_config())["learner"]["generic_param"]["device"]
    return device


def _measure(job: Trees, variant: str) -> None:
    params = job.params(variant)
    changes: list[Change] = tuning.variant_changes(job.workload, job.spec, variant)
    job.events.write(
        "variant", variant=variant, params=params, changes=[asdict(change) for change in changes]
    )
    meter = Meter(
        variant,
        spec=job.spec,
        events=job.events,
        # XGBoost returns from a round when its tree is on the host.
        synchronise=lambda: None,
        full=job.spec.full and not _alone(variant),
    )
    if variant == INPUT_ONLY:
        _construct(job, params, meter)
    else:
        _train(job, variant, params, meter)


def _alone(variant: str) -> bool:
    return variant in (INPUT_ONLY, MODEL_ONLY) or variant.startswith(STAGE_PREFIX)


def _construct(job: Trees, params: Mapping[str, Any], meter: Meter) -> None:
    """Turn the arrays into XGBoost's matrix again and again: what has to happen before the first round."""
    x, _ = job.rows(params)
    meter.begin()
    going = True
    while going:
        _matrix(job, params)
        going = meter.tick(1, len(x))


def _train(job: Trees, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    began = meter.now()
    matrix = _matrix(job, params)
    held_out = xgb.DMatrix(job.arrays["x_test"], label=job.arrays["y_test"])
    booster = xgb.Booster(job.settings(params), [matrix, held_out])
    watched = params["evaluate"] and variant != MODEL_ONLY
    meter.phase(BUILD, began)
    meter.begin()
    rounds, going = 0, True
    while going:
        booster.update(matrix, rounds)
        if watched:
            booster.eval(held_out, "held-out", rounds)
        rounds += 1
        going = meter.tick(1, matrix.num_row()) and not (meter.full and rounds >= params["epochs"])
    _hold_device(job, booster)
    if meter.full:
        job.events.metric(variant, "training_s", meter.finish())
    if variant == MODEL_ONLY:
        return
    began = meter.now()
    # As many trees on every device, however many rounds its windows had room for.
    judged = min(rounds, params["epochs"])
    scores = booster.predict(held_out, iteration_range=(0, judged))
    meter.phase(EVALUATE, began)
    job.events.metric(variant, "steps_trained", judged)
    job.events.metric(variant, "accuracy", float(np.mean((scores > 0.5) == job.arrays["y_test"])))


def _matrix(job: Trees, params: Mapping[str, Any]) -> xgb.DMatrix:
    x, y = job.rows(params)
    if params["matrix"] == "quantile":
        return xgb.QuantileDMatrix(x, label=y, max_bin=params["max_bin"])
    return xgb.DMatrix(x, label=y)


def _hold_device(job: Trees, booster: xgb.Booster) -> None:
    used = device_of(booster)
    if job.spec.device == "gpu" and not used.startswith("cuda"):
        raise NoGpuError(f"XGBoost trained on {used}.")
