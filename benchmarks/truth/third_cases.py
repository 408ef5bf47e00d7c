"""A third set of training scripts, half of them real models: ten for two CPUs and ten for an H100.

Each has an ablation, the same script with other constants; some scripts serve both devices.
The text of a case says why its cause limits the script.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.truth.case import Case
from benchmarks.truth.script_cases import SMALL_STEP, Pair
from harness.model.analysis import Cause


def third(name: str, planted: Cause, script: str, text: str, *without: Any, **more: Any) -> Pair:
    """Return a case of scripts/third; `without` are the last two fields of its pair."""
    return Pair(Case(f"third-{name}", planted, f"third/{script}", text, **more), *without)


third_gpu = partial(third, device="gpu")

THIRD = (
    third("report", Cause.EPOCHS, "resnet",
          "near the threshold: 40 steps of a residual network, then a confusion matrix of 640 predictions, "
          "during which nothing trains",
          {"REPORTED": 0}, also=(Cause.CALLBACKS,)),
    third("short-epochs", Cause.EPOCHS, "two_tower",
          "two small steps an epoch: Keras starts and ends epochs, and makes iterators, for much of the time",
          {"PAIRS": 64_000}, SMALL_STEP),
    third("median-filter", Cause.INPUT, "heartbeat",
          "a serial map of a NumPy function that sorts in Python takes several times as long as the autoencoder",
          {"FILTER": False}, (*SMALL_STEP, Cause.INPUT), stage="clean"),
    third("augmentation", Cause.INPUT, "plants",
          "layers that rotate and zoom one picture at a time, in a serial map, beside a narrow MobileNet",
          {"AUGMENT": False}, SMALL_STEP, stage="augment", also=(Cause.OVERLAP,)),
    third("pydataset", Cause.INPUT, "cells",
          "a PyDataset draws discs pixel by pixel; its two workers share the interpreter's lock",
          {"CELLS": 0}, SMALL_STEP),
    third("generator", Cause.INPUT, "comments",
          "near the threshold: a generator looks up words for a little longer than the GRU computes",
          {"WORDS_PER_COMMENT": 60}, SMALL_STEP, also=(Cause.OVERLAP,)),
    third("lengths", Cause.RETRACING, "lengths",
          "jit_compile compiles the step again for each new length of a batch, and most batches have a new one",
          {"PAD_TO_LONGEST": False}, SMALL_STEP),
    third("eager", Cause.RUN_EAGERLY, "vae",
          "run_eagerly: Python starts each operation of a small variational autoencoder",
          {"RUN_EAGERLY": False}, SMALL_STEP),
    third("average", Cause.CALLBACKS, "encoder",
          "near the threshold: all weights of a transformer become NumPy arrays and are averaged after each batch",
          {"AVERAGE_WEIGHTS": False}),
    third("edits", Cause.PYTHON_IN_STEP, "printed",
          "near the threshold: a metric of the step computes edit distances in a py_function, and the step waits",
          {"COUNT_EDITS": False}),
)  # fmt: skip

THIRD_GPU = (
    third_gpu("gpu-validation", Cause.EPOCHS, "resnet",
              "near the threshold: 80 steps, then 60 batches of validation, which only go forwards",
              {"VALIDATED": 0},
              params={"SAMPLES": 20_480, "BATCH_SIZE": 256, "FILTERS": 64, "REPORTED": 0, "VALIDATED": 15_360}),
    third_gpu("gpu-lengths", Cause.RETRACING, "lengths",
              "Keras' automatic jit_compile compiles the step again for each new length of a batch",
              {"PAD_TO_LONGEST": False}, SMALL_STEP,
              params={"JIT_COMPILE": False, "WIDTH": 512, "BATCH_SIZE": 32}),
    third_gpu("gpu-recurrent-dropout", Cause.RECURRENT, "lyrics",
              "recurrent_dropout rules out cuDNN's LSTM: a loop of small kernels, one time step after another",
              {"RECURRENT_DROPOUT": 0.0}, (*SMALL_STEP, Cause.INPUT)),
    third_gpu("gpu-relu-gru", Cause.RECURRENT, "printed",
              "near the threshold: a GRU with relu instead of tanh rules out cuDNN's, for 24 time steps after "
              "convolutions that take much longer",
              {"ACTIVATION": "tanh"},
              params={"ACTIVATION": "relu", "COUNT_EDITS": False, "HEIGHT": 64, "WIDTH": 192, "FILTERS": 64,
                      "BATCH_SIZE": 768, "PICTURES": 1536}),
    third_gpu("gpu-demand", Cause.LAUNCH, "demand",
              "tiny dense layers on 32 samples: the GPU finishes long before the next step is started",
              {"STEPS_PER_EXECUTION": 20}, SMALL_STEP, also=(Cause.KERAS_LOOP,)),
    third_gpu("gpu-embeddings", Cause.UPDATE, "two_tower",
              "Adam reads and writes all four million rows of two embedding tables, whatever the batch",
              {"USERS": 20_000, "ITEMS": 20_000}, (*SMALL_STEP, Cause.INPUT), also=(Cause.MEMORY_BANDWIDTH,),
              params={"USERS": 3_000_000, "ITEMS": 1_000_000, "WIDTH": 64, "PAIRS": 1_024_000, "BATCH_SIZE": 2048}),
    third_gpu("gpu-float64", Cause.PRECISION, "flow",
              "floatx is float64: matrix products at a fraction of the rate of float32 with TF32",
              {"FLOATX": "float32"}),
    third_gpu("gpu-scans", Cause.ON_CPU, "scans",
              "tf.device puts a blur of all pictures on the CPU, inside the step, where the GPU waits for it",
              {"PREPARED_ON": "/GPU:0"}, (*SMALL_STEP, Cause.COPY)),
    third_gpu("gpu-pictures", Cause.COPY, "satellite",
              "226 MB of float64 pictures copied to the GPU in each step, for little computation",
              {"DTYPE": "uint8"}, (*SMALL_STEP, Cause.COPY), stage="copy"),
    third_gpu("gpu-encoder", Cause.COMPUTE, "encoder",
              "nothing is planted: a wide transformer in mixed_bfloat16 on arrays",
              {"SHUFFLE": False},
              params={"AVERAGE_WEIGHTS": False, "BLOCKS": 6, "WIDTH": 1024, "LENGTH": 128, "BATCH_SIZE": 128,
                      "POLICY": "mixed_bfloat16"}),
)  # fmt: skip
