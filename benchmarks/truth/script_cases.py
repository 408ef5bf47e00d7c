"""Training scripts as users write them, with the habits that slow them down: two cases of each kind.

Most are real models. `Pair.case` is the script with its bottleneck and `Pair.ablation` the same script without
it (other values of its constants, no neighbours), whose step time is the reference. In each kind one case is near
the threshold at which a cause is worth naming. HELD_OUT has the same kinds in other scripts, with other habits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.truth.case import Case, Environment
from harness.model.analysis import Cause

SMALL_STEP = (Cause.LAUNCH, Cause.KERAS_LOOP)


@dataclass(frozen=True, slots=True)
class Pair:
    """A case and its ablation.

    Attributes:
        without: values of constants that remove the bottleneck.
        left: what may limit the ablation besides compute.
    """

    planted: Case
    without: dict[str, int | float | str | bool] = field(default_factory=dict)
    left: tuple[Cause, ...] = ()

    @property
    def case(self) -> Case:
        """The case, with its ablation as control."""
        return replace(self.planted, control=f"{self.planted.name}-without")

    @property
    def ablation(self) -> Case:
        """The same script without the bottleneck."""
        return replace(
            self.planted, name=self.case.control, planted=Cause.COMPUTE, stage="", mixed=False, also=self.left,
            text=f"{self.planted.name} without what is planted there",
            params={**self.planted.params, **self.without},
            environment=Environment(cpus=self.planted.environment.cpus),
        )  # fmt: skip


def in_field(name: str, planted: Cause, script: str, text: str, *without: Any, **more: Any) -> Pair:
    """Return a case of scripts/field; `without` are the last two fields of its pair."""
    return Pair(Case(f"field-{name}", planted, f"field/{script}", text, **more), *without)


def held_out(name: str, planted: Cause, script: str, text: str, *without: Any, **more: Any) -> Pair:
    """Return a case of scripts/held_out."""
    return Pair(Case(f"held-out-{name}", planted, f"held_out/{script}", text, **more), *without)


FIELD = (
    # Between epochs.
    in_field("validation", Cause.EPOCHS, "digits",
             "15 steps an epoch, then four times as many pictures of validation",
             {"SAMPLES": 24_000, "VALIDATION_FREQ": 1000}, SMALL_STEP),
    in_field("report", Cause.EPOCHS, "sentiment",
             "near the threshold: 96 steps of an LSTM, then it saves itself and predicts",
             {"SAMPLES": 61_440, "REPORT_EVERY": 1000}),
    # Input that changes; alone the buffered one is as fast as the model, on the same CPUs.
    in_field("buffered", Cause.INPUT, "buffered",
             "serial PNG decoding; a prefetch buffer that fills during tracing hides it from the first batches",
             {"SIDE": 48}, stage="load", also=(Cause.OVERLAP,)),
    in_field("growing", Cause.INPUT, "growing",
             "near the threshold: thumbnails in the first files, large photographs in the others",
             {"LARGE": 64}, stage="decode"),
    # Neighbours.
    in_field("neighbours", Cause.OTHER_PROGRAMS, "convnet",
             "a convolutional network between four busy programs", environment=Environment(neighbours=4)),
    in_field("neighbour", Cause.OTHER_PROGRAMS, "forecast",
             "near the threshold: an LSTM on all CPUs beside one busy program",
             environment=Environment(neighbours=1)),
    # Half precision.
    in_field("float16", Cause.PRECISION, "convnet", "mixed_float16, for which CPUs have no fast convolutions",
             {"POLICY": "float32"}, SMALL_STEP,
             params={"POLICY": "mixed_float16", "FILTERS": 4, "BATCH_SIZE": 8}),
    in_field("bfloat16", Cause.COMPUTE, "transformer",
             "near the threshold: mixed_bfloat16, which helps or hurts, depending on the CPU",
             {"POLICY": "float32"}, params={"POLICY": "mixed_bfloat16"}, also=(Cause.PRECISION,)),
    # Fixed work.
    in_field("recommender", Cause.UPDATE, "recommender",
             "Adam updates all rows of two embedding tables in every step, whatever the batch",
             {"USERS": 2000, "ITEMS": 2000}, SMALL_STEP, also=(Cause.MEMORY_BANDWIDTH,)),
    in_field("reviews", Cause.COMPUTE, "reviews",
             "near the threshold: Adam over a vocabulary besides convolutions",
             {"WORDS": 1000}, also=(Cause.UPDATE, Cause.MEMORY_BANDWIDTH)),
    # Checkpoints.
    in_field("checkpoint", Cause.CALLBACKS, "tabular",
             "a tiny network that saves the whole model every ten batches",
             {"SAVE_FREQ": 1_000_000}, SMALL_STEP, params={"WEIGHTS_ONLY": False, "SAVE_FREQ": 10}),
    in_field("tabular", Cause.LAUNCH, "tabular",
             "near the threshold: one call per tiny step; weights saved every 500 batches cost little",
             {"STEPS_PER_EXECUTION": 50}, (*SMALL_STEP, Cause.CALLBACKS), also=(Cause.KERAS_LOOP,)),
    # The interpreter's lock.
    in_field("pydataset", Cause.INPUT, "sequence",
             "a PyDataset that augments pixels in Python; its four threads take turns", {"AUGMENT": False}),
    in_field("py-function", Cause.INPUT, "cleaning",
             "near the threshold: a parallel map of a Python function beside an LSTM",
             {"WORDS_PER_TEXT": 40}, stage="encode"),
    # Python.
    in_field("eager", Cause.RUN_EAGERLY, "debugging", "run_eagerly left on after debugging",
             {"RUN_EAGERLY": False}, SMALL_STEP),
    in_field("monitoring", Cause.CALLBACKS, "monitoring",
             "near the threshold: statistics of all weights after every batch", {"EVERY": 1_000_000}),
    # Plain input.
    in_field("records", Cause.INPUT, "records", "TFRecords of PNG pictures, parsed without parallelism",
             {"SIDE": 32}, SMALL_STEP, stage="parse"),
    in_field("csv", Cause.INPUT, "sensors",
             "near the threshold: lines of many small files, interleaved and parsed one by one",
             {"IN_MEMORY": True}, SMALL_STEP, stage="parse"),
    # Nothing is planted; the ablations take a still smaller part of the input away.
    in_field("convnet", Cause.COMPUTE, "convnet", "a convolutional network, shuffled in memory",
             {"REPEAT_ONE_BATCH": True}),
    in_field("transformer", Cause.COMPUTE, "transformer", "a small transformer on arrays", {"SHUFFLE": False}),
)  # fmt: skip

# To look at once: whoever changes the analysis must not tune it to these.
HELD_OUT = (
    held_out("churn", Cause.EPOCHS, "churn",
             "twelve steps an epoch, half of the data for validation, and the best weights restored",
             {"CUSTOMERS": 24_576, "VALIDATION_SPLIT": 0.0}),
    held_out("curriculum", Cause.INPUT, "curriculum",
             "texts sorted by length, vectorised one by one: short ones first, long ones later",
             {"LONGEST": 40}, SMALL_STEP),
    held_out("neighbours", Cause.OTHER_PROGRAMS, "captions",
             "a decoder with causal attention between three busy programs", environment=Environment(neighbours=3)),
    held_out("float16", Cause.PRECISION, "denoising", "a dense autoencoder in mixed_float16",
             {"PRECISION": "float32"}, SMALL_STEP),
    held_out("buckets", Cause.COMPUTE, "advertising",
             "near the threshold: AdamW over all hash buckets, besides a deep network",
             {"BUCKETS": 1000}, also=(Cause.UPDATE, Cause.MEMORY_BANDWIDTH)),
    held_out("logging", Cause.LAUNCH, "pricing",
             "one call per tiny step; a callback appends to a file every 20 batches",
             {"STEPS_PER_EXECUTION": 20}, (*SMALL_STEP, Cause.CALLBACKS), also=(Cause.KERAS_LOOP,)),
    held_out("json", Cause.INPUT, "events", "JSON lines parsed by a Python generator",
             {"FIELDS": 110}, SMALL_STEP, stage="events"),
    held_out("eager", Cause.RUN_EAGERLY, "metric_learning",
             "near the threshold: a custom training step that runs eagerly", {"EAGER": False}, SMALL_STEP),
    held_out("smoothing", Cause.CALLBACKS, "smoothing",
             "the history of losses is smoothed again after every batch", {"SMOOTH": False}, SMALL_STEP),
    held_out("flowers", Cause.INPUT, "flowers",
             "JPEG files of a folder, resized and rotated in a serial map", {"AUGMENT": False}, SMALL_STEP),
    held_out("speech", Cause.OVERLAP, "speech",
             "near the threshold: spectrograms of padded clips, made between the steps",
             {"CACHE": True}, stage="spectrogram"),
    held_out("segmentation", Cause.COMPUTE, "segmentation", "a small U-Net, shuffled in memory",
             {"CACHED_BATCH": True}),
)  # fmt: skip
