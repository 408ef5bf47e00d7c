"""Remedies as code to paste: what a variant did, in words that Python, Keras and XGBoost understand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.analysis.remedy_names import stage_functions
from workloads.protocol import TENSORFLOW, Change

# How the driver and a workload's own declaration say yes and no.
_ON, _OFF = ("on", "True"), ("off", "False")
_POLICIES = {"fp16": "mixed_float16", "bf16": "mixed_bfloat16"}
# What comes from outside and stands in code is a name, a number or a word.
_NAME, _VALUE = re.compile(r"[a-z][a-z0-9_]*"), re.compile(r"[\w.-]+")
_MAP = ".map({function}, num_parallel_calls=tf.data.AUTOTUNE)"
_DECODED = """\
dataset = tf.data.Dataset.from_tensor_slices((files, labels))  # no Python loader
{maps}
dataset = dataset.batch({batch})"""
_ONCE = "x_train, y_train = map(np.concatenate, zip(*dataset.as_numpy_iterator()))  # decoded once"
_ON_DEVICE = (
    "model = tf.keras.Sequential([preprocessing, model])  # bytes in; a whole batch at once, on the device"
)
_FEED = """\
with tf.device("{device}"):  # the data stays on the device
    x, y = tf.constant(x_train), tf.constant(y_train)

{compiled}
def train(indices):  # int32[{steps}, batch], shuffled: so many steps a call
    for chosen in indices:
        model.train_step((tf.gather(x, chosen), tf.gather(y, chosen)))
"""
# With a strategy the loop is of the program's own making: no few lines do it.
_SEVERAL = """\
# feed = resident: every GPU keeps the data, and steps run under tf.distribute.MirroredStrategy
# with {steps} of them in each call of a tf.function"""
_FEED_INFER = """\
{compiled}
def predict(batch):  # a tensor that lies on {device}
    return model(batch, training=False)
"""
_ARRAYS = """\
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).batch({batch})
dataset = dataset.prefetch(tf.data.AUTOTUNE)  # at the pipeline's end
model.fit(dataset)"""
PREFETCH = "dataset = dataset.prefetch(tf.data.AUTOTUNE)  # at the pipeline's end"
TO_DEVICE = 'dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))  # the last stage'
CACHE = "dataset = dataset.cache()  # after the stages that give the same result each time"
DISK_CACHE = 'dataset = dataset.cache()  # in memory; or cache("/fast/disk/file")'
_PIPELINE = """\
dataset = (
    dataset.cache()  # belongs after the stages that give the same result each time
    .shuffle(10_000)
{maps}
    .batch({batch})
    .prefetch(tf.data.AUTOTUNE)
)"""
_LAUNCH = "model.compile(optimizer, loss, steps_per_execution=50, jit_compile=True)"
_LAUNCH_INFER = "predict = tf.function(model, jit_compile=True)"
_DEVICE = 'tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")'


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What code has to fit.

    Attributes:
        on_gpu: it runs on a GPU; GPUs: on how many together.
        task, image: as the workload declares them.
        pipeline: it has a tf.data pipeline or a loader of its own instead of arrays.
        stages: the names of that pipeline's stages, as declared.
        batch: samples a step, or a name for it.
        params: all parameters of the variant whose changes are shown; {} where no variant is.
    """

    on_gpu: bool
    cards: int = 1
    task: str = "train"
    image: str = TENSORFLOW
    pipeline: bool = True
    stages: tuple[str, ...] = ()
    batch: int | str = "batch_size"
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keras(self) -> bool:
        """Whether it is a Keras program."""
        return self.image == TENSORFLOW

    @property
    def device(self) -> str:
        """The device as TensorFlow calls it."""
        return "/GPU:0" if self.on_gpu else "/CPU:0"


def launch_code(program: Program) -> str:
    """Return code that gives the device more work a call."""
    if not program.keras:
        return ""
    return _LAUNCH if program.task == "train" else _LAUNCH_INFER


def overlap_code(program: Program) -> str:
    """Return code that prepares batches while others are computed."""
    if not program.keras:
        return ""
    return PREFETCH if program.pipeline else _ARRAYS.format(batch=program.batch)


def copy_code(program: Program) -> str:
    """Return code that copies batches to the device while others are computed."""
    if not program.keras:
        return ""
    # A strategy over several GPUs hands batches out by itself.
    return TO_DEVICE if program.on_gpu and program.cards == 1 else overlap_code(program)


def pipeline_code(program: Program) -> str:
    """Return code of a pipeline that uses what tf.data offers."""
    if not program.keras:
        return ""
    functions = stage_functions(program.stages) or ("augment",)
    maps = "\n".join(f"    {_MAP.format(function=name)}" for name in functions)
    return _PIPELINE.format(maps=maps, batch=program.batch)


def device_code(program: Program) -> str:
    """Return code that gets more out of a device which is itself the limit."""
    if not program.keras:
        return ""
    return _DEVICE if program.on_gpu else launch_code(program)


def code_for(changes: Mapping[str, Change], program: Program) -> str:
    """Return Python that applies `changes`, by their `what`, to a program; "" when there are none.

    Data that stays on the device is fed by a loop of its own, which is compiled, and takes as many steps a
    call, as the variant did. What is a workload's own parameter stands in a comment.
    """
    after = {what: change.after for what, change in changes.items()}
    said = _keras(after, program) if program.keras else _trees(after)
    return "\n".join((*said, *_own(changes))).rstrip("\n")


def _keras(after: Mapping[str, str], program: Program) -> Iterator[str]:
    if after.get("precision") in _POLICIES:
        yield f'tf.keras.mixed_precision.set_global_policy("{_POLICIES[after["precision"]]}")'
    if after.get("precision") in ("fp32", "tf32"):
        yield f"tf.config.experimental.enable_tensor_float_32_execution({after['precision'] == 'tf32'})"
    if after.get("preprocess") == "device":
        yield _ON_DEVICE
    yield from _pipeline(after, program)
    resident = after.get("feed") == "resident"
    yield from _resident(after, program) if resident else _compiling(after, program)
    if after.get("batch_size", "").isdecimal():
        size = after["batch_size"]
        call = "model.fit(x, y" if program.task == "train" else "model.predict(x"
        yield f"batch_size = {size}" if resident else f"{call}, batch_size={size})"


def _resident(after: Mapping[str, str], program: Program) -> Iterator[str]:
    if after.get("loader") == "tfdata":
        yield _ONCE
    compiled = "@tf.function(jit_compile=True)" if _jit(after, program) else "@tf.function"
    template = _SEVERAL if program.cards > 1 else _FEED if program.task == "train" else _FEED_INFER
    yield template.format(device=program.device, compiled=compiled, steps=_steps(after, program))


def _compiling(after: Mapping[str, str], program: Program) -> Iterator[str]:
    compiled = list(_compiled(after))
    if compiled:
        first = "optimizer, loss, " if program.task == "train" else ""
        yield f"model.compile({first}{', '.join(compiled)})"


def _compiled(after: Mapping[str, str]) -> Iterator[str]:
    steps = after.get("steps_per_execution", "")
    if steps.isdecimal() and steps != "1":
        yield f"steps_per_execution={steps}"
    if after.get("jit_compile") in (*_ON, *_OFF):
        yield f"jit_compile={after['jit_compile'] in _ON}"


def _pipeline(after: Mapping[str, str], program: Program) -> Iterator[str]:
    functions = stage_functions(program.stages)
    if after.get("loader") == "tfdata":
        # What the device does, the pipeline does not.
        left = [name for name in functions if name != "augment" or after.get("preprocess") != "device"]
        yield _DECODED.format(maps=_mapped(left or ("decode",)), batch=program.batch)
    if after.get("cache") in _ON:
        yield CACHE
    if after.get("parallel_maps") in _ON:
        yield _mapped(functions or ("prepare",)) + "  # likewise any other map and interleave"
    if after.get("prefetch_batches") in _ON:
        yield PREFETCH
    elif after.get("prefetch", "").isdecimal():
        yield f"dataset = dataset.prefetch({after['prefetch']})  # at the pipeline's end"
    if after.get("prefetch_to_device") in _ON:
        yield TO_DEVICE


def _mapped(functions: Iterable[str]) -> str:
    return "\n".join(f"dataset = dataset{_MAP.format(function=name)}" for name in functions)


def _jit(after: Mapping[str, str], program: Program) -> bool:
    return after.get("jit_compile") in _ON or program.params.get("jit_compile") is True


def _steps(after: Mapping[str, str], program: Program) -> int:
    known = program.params.get("steps_per_execution")
    said = after.get("steps_per_execution", "")
    if isinstance(known, int) and not isinstance(known, bool):
        return known
    return int(said) if said.isdecimal() else 1


def _trees(after: Mapping[str, str]) -> Iterator[str]:
    bins = after.get("max_bin", "")
    if bins.isdecimal():
        yield f'params["max_bin"] = {bins}'
    if after.get("matrix") == "quantile":
        more = f", max_bin={bins}" if bins.isdecimal() else ""
        yield f"matrix = xgboost.QuantileDMatrix(x, y{more})"
    if after.get("evaluate") in _OFF:
        yield "booster = xgboost.train(params, matrix, rounds)  # no evals: evaluate once, at the end"


# What has a line of its own above, whatever its value or with these; the rest are the workloads' own.
_SHOWN = frozenset(
    {"precision", "feed", "steps_per_execution", "jit_compile", "batch_size", "parallel_maps",
     "prefetch_batches", "prefetch_to_device", "max_bin"}
)  # fmt: skip
_SHOWN_VALUES = {
    "preprocess": ("device",), "loader": ("tfdata",), "matrix": ("quantile",), "cache": _ON, "evaluate": _OFF,
}  # fmt: skip


def _own(changes: Mapping[str, Change]) -> Iterable[str]:
    for what, change in changes.items():
        known = (
            what in _SHOWN
            or (what == "prefetch" and change.after.isdecimal())
            or change.after in _SHOWN_VALUES.get(what, ())
        )
        if not known and _NAME.fullmatch(what) and _VALUE.fullmatch(change.after):
            yield f"# {what} = {change.after}, a parameter of this workload's own"
