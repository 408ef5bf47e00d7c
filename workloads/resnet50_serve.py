"""ResNet-50 as a service: how many requests a second within a latency bound, as MLPerf Inference asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import resnet
from workloads.author import Stage
from workloads.protocol import Published, Requests, Workload
from workloads.resnet import DATA, FOLDED, WEIGHTS

workload = Workload(
    name="resnet50-serve",
    title="ResNet-50 v1.5 as a service, single images at random instants",
    model=WEIGHTS,
    data=DATA,
    batch_size=1,
    epochs=1,
    task="infer",
    params={"jit_compile": False, "fused_batch_norm": False, "fold_batch_norm": False},
    tuned={
        "feed": "resident",
        "fold_batch_norm": True,
        "gpu:precision": "fp16",
        "gpu:jit_compile": True,
        "cpu:batch_size": 8,
        "gpu:batch_size": 64,
    },
    changes=(FOLDED,),
    # 15 ms is MLPerf Inference's bound for ResNet-50 in the Server scenario.
    requests=Requests(
        batch_sizes=(1, 2, 4, 8, 16, 32),
        compiled_batch_sizes=(1, 4, 16, 64),
        server=True,
        bounds_ms=(15.0, 50.0, 100.0, 250.0, 1000.0),
    ),
    published=(
        Published(
            source="Training article, 2020, citing a cloud vendor",
            system="3 GPU nodes over 5 CPU clusters",
            device="gpu",
            value=8.04,
            unit="requests ratio",
            note="printed as 804 %; here one GPU over this machine's CPU, for requests "
            "a second at the least bound that both keep to; the article names neither model nor machines",
        ),
    ),
    source="Training article, 2020 (inference deployment); scenarios of MLPerf Inference",
    suite="extra",
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the model."""
    return resnet.inference(params)


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the one stage: a random batch in host memory, again and again."""
    del data_dir
    return (("batch", lambda: resnet.synthetic(params["batch_size"], seed=1)),)
