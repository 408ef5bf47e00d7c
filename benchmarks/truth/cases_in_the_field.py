"""Training scripts as users write them, with the habits that slow them down: two cases of each kind.

Most are real models. `Pair.case` is the script with its bottleneck and `Pair.ablation` the same script without
it (other values of its constants, no neighbours), whose step time is the reference. In each kind one case is near
the threshold at which a cause is worth naming.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
            self.planted,
            name=self.case.control,
            planted=Cause.COMPUTE,
            text=f"{self.planted.name} without what is planted there",
            params={**self.planted.params, **self.without},
            environment=Environment(cpus=self.planted.environment.cpus),
            stage="",
            mixed=False,
            also=self.left,
        )


BETWEEN_EPOCHS = (
    Pair(
        Case(
            "field-validation", Cause.EPOCHS, "field/digits",
            "15 steps an epoch, then four times as many pictures of validation",
        ),
        {"SAMPLES": 24_000, "VALIDATION_FREQ": 1000}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "field-report", Cause.EPOCHS, "field/sentiment",
            "near the threshold: 96 steps of an LSTM, then it saves itself and predicts",
        ),
        {"SAMPLES": 61_440, "REPORT_EVERY": 1000},
    ),
)  # fmt: skip

CHANGING_INPUT = (
    Pair(
        Case(
            "field-buffered", Cause.INPUT, "field/buffered",
            "serial PNG decoding; a prefetch buffer that fills during tracing hides it from the first batches",
            stage="load", also=(Cause.OVERLAP,),  # alone it is as fast as the model, on the same CPUs
        ),
        {"SIDE": 48},
    ),
    Pair(
        Case(
            "field-growing", Cause.INPUT, "field/growing",
            "near the threshold: thumbnails in the first files, large photographs in the others",
            stage="decode",
        ),
        {"LARGE": 64},
    ),
)  # fmt: skip

NEIGHBOURS = (
    Pair(
        Case(
            "field-neighbours", Cause.OTHER_PROGRAMS, "field/convnet",
            "a convolutional network between four busy programs", environment=Environment(neighbours=4),
        ),
    ),
    Pair(
        Case(
            "field-neighbour", Cause.OTHER_PROGRAMS, "field/forecast",
            "near the threshold: an LSTM on all CPUs beside one busy program",
            environment=Environment(neighbours=1),
        ),
    ),
)  # fmt: skip

HALF_PRECISION = (
    Pair(
        Case(
            "field-float16", Cause.PRECISION, "field/convnet",
            "mixed_float16, for which CPUs have no fast convolutions",
            {"POLICY": "mixed_float16", "FILTERS": 4, "BATCH_SIZE": 8},
        ),
        {"POLICY": "float32"}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "field-bfloat16", Cause.COMPUTE, "field/transformer",
            "near the threshold: mixed_bfloat16, which helps or hurts, depending on the CPU",
            {"POLICY": "mixed_bfloat16"}, also=(Cause.PRECISION,),
        ),
        {"POLICY": "float32"},
    ),
)  # fmt: skip

FIXED_WORK = (
    Pair(
        Case(
            "field-recommender", Cause.UPDATE, "field/recommender",
            "Adam updates all rows of two embedding tables in every step, whatever the batch",
            also=(Cause.MEMORY_BANDWIDTH,),
        ),
        {"USERS": 2000, "ITEMS": 2000}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "field-reviews", Cause.COMPUTE, "field/reviews",
            "near the threshold: Adam over a vocabulary besides convolutions",
            also=(Cause.UPDATE, Cause.MEMORY_BANDWIDTH),
        ),
        {"WORDS": 1000},
    ),
)  # fmt: skip

CHECKPOINTS = (
    Pair(
        Case(
            "field-checkpoint", Cause.CALLBACKS, "field/tabular",
            "a tiny network that saves the whole model every ten batches",
            {"WEIGHTS_ONLY": False, "SAVE_FREQ": 10},
        ),
        {"SAVE_FREQ": 1_000_000}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "field-tabular", Cause.LAUNCH, "field/tabular",
            "near the threshold: one call per tiny step; weights saved every 500 batches cost little",
            also=(Cause.KERAS_LOOP,),
        ),
        {"STEPS_PER_EXECUTION": 50}, left=(*SMALL_STEP, Cause.CALLBACKS),
    ),
)  # fmt: skip

INTERPRETER_LOCK = (
    Pair(
        Case(
            "field-pydataset", Cause.INPUT, "field/sequence",
            "a PyDataset that augments pixels in Python; its four threads take turns",
        ),
        {"AUGMENT": False},
    ),
    Pair(
        Case(
            "field-py-function", Cause.INPUT, "field/cleaning",
            "near the threshold: a parallel map of a Python function beside an LSTM", stage="encode",
        ),
        {"WORDS_PER_TEXT": 40},
    ),
)  # fmt: skip

PYTHON = (
    Pair(
        Case("field-eager", Cause.RUN_EAGERLY, "field/debugging", "run_eagerly left on after debugging"),
        {"RUN_EAGERLY": False}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "field-monitoring", Cause.CALLBACKS, "field/monitoring",
            "near the threshold: statistics of all weights after every batch",
        ),
        {"EVERY": 1_000_000},
    ),
)  # fmt: skip

PLAIN_INPUT = (
    Pair(
        Case(
            "field-records", Cause.INPUT, "field/records", "TFRecords of PNG pictures, parsed without parallelism",
            stage="parse",
        ),
        {"SIDE": 32}, left=SMALL_STEP,
    ),
    Pair(
        Case(
            "field-csv", Cause.INPUT, "field/sensors",
            "near the threshold: lines of many small files, interleaved and parsed one by one", stage="parse",
        ),
        {"IN_MEMORY": True}, left=SMALL_STEP,
    ),
)  # fmt: skip

# Nothing is planted; the ablations take a still smaller part of the input away.
COMPUTING = (
    Pair(
        Case("field-convnet", Cause.COMPUTE, "field/convnet", "a convolutional network, shuffled in memory"),
        {"REPEAT_ONE_BATCH": True},
    ),
    Pair(
        Case("field-transformer", Cause.COMPUTE, "field/transformer", "a small transformer on arrays"),
        {"SHUFFLE": False},
    ),
)  # fmt: skip

PAIRS = (
    *BETWEEN_EPOCHS, *CHANGING_INPUT, *NEIGHBOURS, *HALF_PRECISION, *FIXED_WORK, *CHECKPOINTS,
    *INTERPRETER_LOCK, *PYTHON, *PLAIN_INPUT, *COMPUTING,
)  # fmt: skip
FIELD_CASES = tuple(pair.case for pair in PAIRS)
FIELD_ABLATIONS = tuple(pair.ablation for pair in PAIRS)
