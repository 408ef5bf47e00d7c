"""Gradient-boosted trees on a table shaped like HIGGS, on the CPU and on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.protocol import Data, Published, Workload

workload = Workload(
    name="higgs-trees",
    title="HIGGS-shaped table, gradient-boosted trees",
    model="XGBoost, 100 rounds of trees of depth 6, histograms of 256 bins",
    # HIGGS has 11 million rows of 28 features; this subset trains in minutes on two cores.
    data=Data(
        name="higgs-shaped",
        shape=(28,),
        classes=2,
        train=500_000,
        test=100_000,
        dtype="float32",
        kind="table",
    ),
    # A boosting round processes all rows, so an epoch is a round.
    batch_size=500_000,
    epochs=100,
    optimizer="gradient boosting, learning rate 0.1",
    loss="logistic",
    params={"max_depth": 6, "learning_rate": 0.1, "max_bin": 256, "matrix": "plain", "evaluate": True},
    tuned={"matrix": "quantile", "evaluate": False, "max_bin": 64},
    optimizations={
        "no-evaluation": {"evaluate": False},
        "quantile": {"evaluate": False, "matrix": "quantile"},
    },
    published=(
        Published(
            source="Training article, 2020, citing cloud vendors",
            system="4 GPUs over CPUs, gradient-boosted trees",
            device="gpu",
            value=23.2,
            unit="ratio",
            note="names neither library, data nor hardware; XGBoost in one process, as here, uses one GPU",
        ),
    ),
    source="Training article, 2020, citing cloud vendors; table after Baldi et al., 2014 (HIGGS)",
    suite="extra",
    min_accuracy=0.6,
    image="trees",
)


def booster(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return XGBoost's parameters; the driver sets the device."""
    return {
        "objective": "binary:logistic",
        "eval_metric": "logloss",
        "tree_method": "hist",
        "max_depth": params["max_depth"],
        "learning_rate": params["learning_rate"],
        "max_bin": params["max_bin"],
    }
