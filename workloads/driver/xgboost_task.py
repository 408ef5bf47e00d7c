"""Do one task of a trial with gradient-boosted trees: measure in a script's call of xgboost.train.

A step is one boosting round over all training rows, so that a step, a batch and an epoch are the same.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import xgboost as xgb

from workloads.cells import difference
from workloads.driver import script
from workloads.driver.edits import changes
from workloads.driver.measuring import measure_each, report
from workloads.driver.processes import End
from workloads.driver.results import Results
from workloads.driver.script import ScriptError, named
from workloads.driver.timing import Meter
from workloads.driver.trial import Task
from workloads.protocol import ACCURACY, BUILD, EVALUATE, SAMPLES_TRAINED, EventWriter, NoGpuError, Spec
from workloads.variants import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED, measures_speed

TRAIN = xgb.train
# Training is stopped long before this many rounds.
ENDLESS = 1_000_000


@dataclass
class Trees:
    """One run of a script, and what it did.

    Attributes:
        matrices: the script's calls that made matrices: (class, arguments, keywords).
        made: the matrices.
    """

    task: Task
    spec: Spec
    events: EventWriter
    results: Results
    end: End
    matrices: list[tuple[type[Any], tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)


class Boundaries(xgb.callback.TrainingCallback):
    """Report rounds to a meter, and stop when all is measured."""

    def __init__(self, meter: Meter, rows: int, rounds: int) -> None:
        super().__init__()
        self._meter = meter
        self._rows = rows
        self._rounds = rounds
        self.done = 0

    def before_training(self, model: Any) -> Any:
        """Start timing the first round."""
        self._meter.begin()
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Return whether to stop."""
        self.done += 1
        going = self._meter.tick(1, self._rows)
        return self.done >= self._rounds if self._meter.full else not going


def work(task: Task, spec: Spec, events: EventWriter, results: Results, end: End) -> None:
    """Do a task in this process.

    Args:
        end: ends this process when all is measured.
    """
    try:
        if spec.device == "gpu":
            _prove(max(spec.gpus, 1))
        if not results.facts:
            events.write("facts", facts=facts(spec))
        _run_script(Trees(task, spec, events, results, end))
    except Exception as error:  # scripts can raise anything
        reason = named(error) if task.script in task.variants else "The baseline could not be measured."
        for variant in task.variants:
            if not results.settled(variant):
                events.left_out(variant, named(error) if variant == task.script else reason)
        if isinstance(error, NoGpuError) or task.script == BASELINE or BASELINE not in spec.variants:
            report(events, error)


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


def _run_script(trees: Trees) -> None:
    """Run the script, and measure in its call of xgboost.train."""
    task, spec, events = trees.task, trees.spec, trees.events
    own, text = task.script, spec.scripts[task.script]
    meter = _meter(trees, own)
    began = meter.clock()
    events.write("process", script=own)
    if own in task.variants:
        events.write("reading", variant=own)

    def train(*args: Any, **named: Any) -> Any:
        bound = signature(TRAIN).bind(*args, **named)
        bound.apply_defaults()
        call = dict(bound.arguments)
        rows = call["dtrain"].num_row()
        params = {
            "batch_size": rows,
            "epochs": call["num_boost_round"],
            "samples_per_epoch": rows,
            **_plain(call),
        }
        if own in task.variants:
            meter.phase(BUILD, began)
            before = params if own == BASELINE else trees.results.params or params
            events.write(
                "variant", variant=own, params=params,
                changes=[asdict(each) for each in changes(before, params)],
            )  # fmt: skip
            booster = _train(trees, call, meter)
            if spec.evaluate and trees.results.begun_count(own) <= 1:
                _evaluate(trees, own, booster, call, meter)
                if own != BASELINE:
                    _report_script(trees)
        others = [each for each in task.variants if each != own]
        measure_each(others, partial(_measure_part, trees, call, params), events)
        trees.end()

    with _recorded(trees), patch.object(xgb, "train", train), patch.object(xgb.sklearn, "train", train):
        script.run(text, spec.arguments, {})
    raise ScriptError(f"{text.path.rpartition('/')[2]} ended without a call of xgboost.train.")


def _measure_part(trees: Trees, call: dict[str, Any], params: dict[str, Any], variant: str) -> None:
    """Measure a variant that is made of the script's call."""
    meter = _meter(trees, variant)
    trees.events.write("variant", variant=variant, params=params, changes=[])
    if variant == INPUT_ONLY:
        # The conversion that must precede the first round.
        kind, args, named = trees.matrices[0]
        meter.begin()
        while meter.tick(1, kind(*args, **named).num_row()):
            pass
    elif variant == MODEL_ONLY:
        _train(trees, {**call, "evals": None, "early_stopping_rounds": None}, meter)
    else:
        raise ScriptError(f"XGBoost has no variant {variant}.")


def _meter(trees: Trees, variant: str) -> Meter:
    return Meter(
        variant,
        spec=trees.spec,
        events=trees.events,
        # update() returns when the tree is on the host.
        synchronise=lambda: None,
        brief=not measures_speed(variant),
        full=trees.spec.full and measures_speed(variant),
    )


def _report_script(trees: Trees) -> None:
    variant = trees.task.script
    before, text = trees.spec.scripts[BASELINE], trees.spec.scripts[variant]
    diff = difference(before.text, text.text, *(Path(each.path).name for each in (before, text)))
    whole = text.text if variant == TUNED else ""
    trees.events.write("script", variant=variant, diff=diff, text=whole, fixes=[])


@contextmanager
def _recorded(trees: Trees) -> Iterator[None]:
    """Record how a script makes its matrices."""

    def recording(kind: type[Any], make: Any) -> Any:
        def init(self: Any, *args: Any, **named: Any) -> None:
            trees.matrices.append((kind, args, named))
            trees.made.append(self)
            make(self, *args, **named)

        return init

    with ExitStack() as stack:
        for kind in (xgb.DMatrix, xgb.QuantileDMatrix):
            stack.enter_context(patch.object(kind, "__init__", recording(kind, kind.__init__)))
        yield


def _plain(call: dict[str, Any]) -> dict[str, Any]:
    """Return XGBoost's own parameters of a call as scalars."""
    return {
        name: value
        for name, value in dict(call["params"]).items()
        if isinstance(value, (str, int, float, bool))
    }


def _train(trees: Trees, call: dict[str, Any], meter: Meter) -> Any:
    rounds = call["num_boost_round"]
    boundaries = Boundaries(meter, call["dtrain"].num_row(), rounds)
    params = {"seed": trees.spec.seed, **call["params"]}
    own = list(call["callbacks"] or ())
    given = {**call, "params": params, "callbacks": [*own, boundaries]}
    if not meter.full:  # measuring may take more rounds than the script
        lasting = [each for each in own if not isinstance(each, xgb.callback.EarlyStopping)]
        given |= {
            "callbacks": [*lasting, boundaries],
            "early_stopping_rounds": None,
            "num_boost_round": ENDLESS,
        }
    booster = TRAIN(**given)
    if not (meter.full or meter.written):
        raise ScriptError(
            f"The training ended after {meter.steps} rounds, before it was measured. Leave out the callback that "
            "ends it."
        )
    if trees.spec.device == "gpu":
        _require_gpu(booster)
    if meter.full:
        trees.events.metric(meter.variant, "training_s", meter.finish())
    return booster


def _evaluate(trees: Trees, variant: str, booster: Any, call: dict[str, Any], meter: Meter) -> None:
    """Measure the accuracy of a binary classifier on the last matrix that the script evaluates, or else makes."""
    trees_used = min(booster.num_boosted_rounds(), call["num_boost_round"])
    trees.events.metric(variant, SAMPLES_TRAINED, trees_used * call["dtrain"].num_row())
    others = [matrix for matrix in trees.made if matrix is not call["dtrain"]]
    held_out = call["evals"][-1][0] if call["evals"] else others[-1] if others else None
    if held_out is None or "binary:logistic" not in str(call["params"].get("objective")):
        return
    began = meter.clock()
    # The same number of trees on every device, however many rounds were measured.
    scores = booster.predict(held_out, iteration_range=(0, trees_used))
    meter.phase(EVALUATE, began)
    trees.events.metric(variant, ACCURACY, float(np.mean((scores > 0.5) == held_out.get_label())))
