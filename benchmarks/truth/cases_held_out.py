"""Cases to look at once: the kinds of cases_in_the_field.py in other scripts, with other habits.

Whoever changes the analysis must not tune it to these.
"""

from __future__ import annotations

from benchmarks.truth.case import Case, Environment
from benchmarks.truth.cases_in_the_field import SMALL_STEP, Pair
from harness.model.analysis import Cause

PAIRS = (
    Pair(
        Case(
            "held-out-churn", Cause.EPOCHS, "held_out/churn",
            "twelve steps an epoch, half of the data for validation, and the best weights restored",
        ),
        {"CUSTOMERS": 24_576, "VALIDATION_SPLIT": 0.0},
    ),
    Pair(
        Case(
            "held-out-curriculum", Cause.INPUT, "held_out/curriculum",
            "texts sorted by length, vectorised one by one: short ones first, long ones later",
        ),
        {"LONGEST": 40}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "held-out-neighbours", Cause.OTHER_PROGRAMS, "held_out/captions",
            "a decoder with causal attention between three busy programs", environment=Environment(neighbours=3),
        ),
    ),
    Pair(
        Case(
            "held-out-float16", Cause.PRECISION, "held_out/denoising", "a dense autoencoder in mixed_float16",
        ),
        {"PRECISION": "float32"}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "held-out-buckets", Cause.COMPUTE, "held_out/advertising",
            "near the threshold: AdamW over all hash buckets, besides a deep network",
            also=(Cause.UPDATE, Cause.MEMORY_BANDWIDTH),
        ),
        {"BUCKETS": 1000},
    ),
    Pair(
        Case(
            "held-out-logging", Cause.LAUNCH, "held_out/pricing",
            "one call per tiny step; a callback appends to a file every 20 batches", also=(Cause.KERAS_LOOP,),
        ),
        {"STEPS_PER_EXECUTION": 20}, left=(*SMALL_STEP, Cause.CALLBACKS),
    ),
    Pair(
        Case(
            "held-out-json", Cause.INPUT, "held_out/events", "JSON lines parsed by a Python generator",
            stage="events",
        ),
        {"FIELDS": 110}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "held-out-eager", Cause.RUN_EAGERLY, "held_out/metric_learning",
            "near the threshold: a custom training step that runs eagerly",
        ),
        {"EAGER": False}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "held-out-smoothing", Cause.CALLBACKS, "held_out/smoothing",
            "the history of losses is smoothed again after every batch",
        ),
        {"SMOOTH": False}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "held-out-flowers", Cause.INPUT, "held_out/flowers",
            "JPEG files of a folder, resized and rotated in a serial map",
        ),
        {"AUGMENT": False}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "held-out-speech", Cause.OVERLAP, "held_out/speech",
            "near the threshold: spectrograms of padded clips, made between the steps",
            stage="spectrogram",
        ),
        {"CACHE": True},
    ),
    Pair(
        Case("held-out-segmentation", Cause.COMPUTE, "held_out/segmentation", "a small U-Net, shuffled in memory"),
        {"CACHED_BATCH": True},
    ),
)  # fmt: skip
HELD_OUT_CASES = tuple(pair.case for pair in PAIRS)
HELD_OUT_ABLATIONS = tuple(pair.ablation for pair in PAIRS)
