"""What the two sides of a container agree on: a workload's declaration, and the events it writes.

Standard library only, Python 3.10 or newer: the harness reads this module on the host, and the driver
runs it inside any image that has Python and TensorFlow.

Events travel as JSON lines in one append-only file. Each has `kind` and `t_ns` (CLOCK_MONOTONIC,
nanoseconds) and the fields that EVENTS lists for its kind. A truncated last line means that the writer
died: everything before it counts.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED = VARIANTS = ("baseline", "input-only", "model-only", "tuned")

# Two more kinds of variant, by prefix: "opt:NAME" is one of Workload.optimizations, "stage:NAME" drains the
# input pipeline up to and including that stage.
OPTIMIZATION_PREFIX = "opt:"
STAGE_PREFIX = "stage:"

# MLPerf Inference's scenarios: one request after the other; single samples at random instants.
SINGLE_STREAM, SERVER = "SingleStream", "Server"
# Variants that only serve the breakdown of a step. Not all apply to every workload and device: the driver leaves out
# those.
CUSTOM_LOOP = "custom-loop"  # baseline with next() outside the compiled step, so that waiting is seen
HOST_FED = "host-fed"  # model-only with the batch in host memory: what copying it to the device adds
# The baseline with parallel maps and prefetching, which tf.data offers for any pipeline.
PARALLEL_INPUT = "parallel-input"
# The baseline with one part of its step taken away, and nothing else changed.
WITHOUT_PREFIX = "without:"
WITHOUT_INPUT, WITHOUT_LAUNCH = "without:input", "without:launch"
WITHOUT_FRAMEWORK, WITHOUT_COPY = "without:framework", "without:copy"
BATCH_PREFIX = "batch:"  # model-only with a batch that many times as large
CALLS_PREFIX = "calls:"  # model-only with that many steps in one call
THREADS_PREFIX = "threads:"  # input-only on that many threads

# Figures that the driver reports of the baseline, as metrics: seconds a step in functions that the compiled
# step has Python run, and in the workload's own callbacks; how often the step was traced while it was
# measured, and the seconds a step that took; whether Keras runs it eagerly (1 or 0); and of a batch in host
# memory its bytes.
PYTHON_IN_STEP, CALLBACKS, RETRACES, RETRACING = "python_in_step_s", "callbacks_s", "retraces", "retracing_s"
RUN_EAGERLY, BATCH_BYTES = "run_eagerly", "batch_bytes"

# The driver's exit codes beside 0 and 1 (a variant or the workload raised; the error event says what).
NO_GPU_EXIT = 20  # TensorFlow registered fewer GPUs than Spec.gpus, or did not place work on them

# Families of images that a workload can run in; each has a target for the CPU and one for CUDA.
TENSORFLOW, TREES = IMAGES = ("tensorflow", "trees")

# The files of a dataset of arrays, each with the suffix .npy: samples and labels of both parts.
ARRAYS = ("x_train", "y_train", "x_test", "y_test")

# Token sequences follow Keras' convention: 0 pads, 1 begins, 2 stands for words that are not known, and the
# most frequent word is 4 (rank 1 and an offset of 3; 3 is never used).
START, RARE, FIRST_WORD = 1, 2, 4

# What the names of a trial's folders in memory begin with: whoever started it finds them by that, since a
# trial that shares the host's memory does not always get to remove them.
MEMORY_ENV = "TFBENCH_MEMORY"
SHARED_MEMORY = "/dev/shm"  # noqa: S108

# Everything before "steady" is cold start, reported apart from the speed.
IMPORT = "import"  # TensorFlow's import and device initialisation
DATA = "data"  # datasets opened and preprocessed as the article does
BUILD = "build"  # the model is made and compiled (Keras' compile)
FIRST_STEP = "first-step"  # tracing, XLA compilation, PTX JIT, cuDNN autotuning
WARM_UP = "warm-up"  # steps until the step time has settled
STEADY = "steady"  # what is measured
EVALUATE = "evaluate"  # accuracy on held-out data

# Characters of the reason why a variant was left out.
LONGEST_REASON = 300

_NUMBER = (int, float)
EVENTS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    # First line: both clocks at one instant, so that the host can check that it shares them.
    "start": {"wall_ns": (int,), "boot_id": (str,)},
    # Versions and devices in the container. Scalars only.
    "facts": {"facts": (dict,)},
    # A variant begins: its parameters, and what it changes of the baseline (see Change).
    "variant": {"variant": (str,), "params": (dict,), "changes": (list,)},
    # A phase ended; it began at start_ns. variant is "" for phases that all variants share.
    "phase": {"name": (str,), "variant": (str,), "start_ns": (int,), "end_ns": (int,)},
    # A run of steps between two instants at which the device was synchronised. wait_ns is the time spent
    # waiting for input outside the compiled step, -1 where it cannot be seen.
    "window": {
        "variant": (str,), "index": (int,), "start_ns": (int,), "end_ns": (int,),
        "steps": (int,), "samples": (int,), "wait_ns": (int,),
    },
    # Durations of a window's single steps, nanoseconds, as the host thread saw them (not synchronised).
    # Where one call runs several steps there is one entry a call: the mean of its steps.
    "steps": {"variant": (str,), "window": (int,), "step_ns": (list,)},
    # Names carry units.
    "metric": {"variant": (str,), "name": (str,), "value": _NUMBER},
    # Requests for predictions, each synchronised, with their latencies. rate_per_s is the rate at which
    # samples were offered, 0 where each request waited for the one before; planned is how many there were
    # to be: fewer latencies mean that it was given up. batch_size is the largest one in Server.
    "requests": {
        "variant": (str,), "scenario": (str,), "batch_size": (int,), "rate_per_s": _NUMBER, "planned": (int,),
        "start_ns": (int,), "end_ns": (int,), "latency_ns": (list,),
    },
    # What the workload's facts() reports of one variant: which kernel ran, where its weights came from.
    "fact": {"variant": (str,), "name": (str,), "text": (str,)},
    # A planned variant that was not measured, and why.
    "left-out": {"variant": (str,), "reason": (str,)},
    # A planned variant that says nothing about this workload and device, and why.
    "needless": {"variant": (str,), "reason": (str,)},
    "warning": {"message": (str,)},
    "error": {"type": (str,), "message": (str,)},
    # Last line of a trial that went well.
    "end": {},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number that an article printed for this workload.

    Attributes:
        source, system: who published it, with the year, and on what hardware, as the article names it.
        device: "cpu" or "gpu".
        value: the number, in `unit`; the lower end where a range was published.
        unit: "s" for the whole training, "samples/s" for a speed, "ratio" for GPU over CPU, "requests
            ratio" for the same in requests a second within a latency bound, "gain" for
            tuned over baseline, "accuracy" on held-out data and "utilisation" of the GPU, both 0 to 1.
        note: what else one has to know to compare, "" if nothing.
        upto: the upper end of a published range, 0 where there is one number.
        variant: what was published: "baseline", or the "opt:NAME" that does the same.
    """

    source: str
    system: str
    device: str
    value: float
    unit: str
    note: str = ""
    upto: float = 0.0
    variant: str = BASELINE


@dataclass(frozen=True, kw_only=True)
class Data:
    """The dataset that a workload trains on.

    Attributes:
        name: a dataset that the harness knows ("cifar10", "cifar100", "fashion-mnist"), or any other
            name for one that is made procedurally from the shape below.
        shape: one sample's, e.g. (32, 32, 3).
        train, test: how many samples; train=0 when the workload makes its own (synthetic) samples, so
            that nothing has to be fetched or mounted.
        dtype: NumPy's name of the stored type.
        kind: "arrays" for four NumPy files, "table" for the same with rows of numbers in them, or "jpeg"
            for a tree of JPEG files, <part>/<class>/<name>.jpg with the parts "train" and "test"; shape is
            then the mean picture's (height, width, 3).
        vocabulary: for sequences of tokens, how many different ones there are, and shape is (longest,);
            0 for pictures and other numbers.
        class_names: of a tree's folders, in alphabetical order; () for "class-0" and so on.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    train: int
    test: int
    dtype: str = "uint8"
    kind: Literal["arrays", "table", "jpeg"] = "arrays"
    class_names: tuple[str, ...] = ()
    vocabulary: int = 0


@dataclass(frozen=True, kw_only=True)
class Change:
    """One thing that a variant does differently from the baseline: `what` was `before` and is `after`."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Latency measurements of an inference workload; scenarios by MLPerf Inference's names.

    Attributes:
        batch_sizes: SingleStream is measured at each, ascending.
        compiled_batch_sizes: the same where XLA compiles the model, anew for each size; () for batch_sizes.
        bounds_ms: latency bounds for the 99th percentile, in batches of up to the largest size; Server looks for
            the largest rate at the least of them that a request alone keeps to. () for no Server.
    """

    batch_sizes: tuple[int, ...]
    compiled_batch_sizes: tuple[int, ...] = ()
    bounds_ms: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a workload file declares, as `workload = Workload(...)` with literal arguments only.

    A file with several has `workloads = (...)`, a tuple of them or of their names.

    The harness reads this without running the file (it never imports TensorFlow), so that arguments must
    be literals, or calls of Data, Published and Requests made of literals.

    Attributes:
        name: the command line's name for it, lower case with hyphens.
        model, optimizer, loss: as published, in words; the code is in the file's `model` function.
        batch_size: samples a step, as published.
        epochs: as published; what a projected training time is projected to.
        samples_per_epoch: of an epoch as published, where that is not data.train: steps_per_epoch times the
            batch. Its pipeline then has no end.
        tuned: parameters of the tuned variant, by name, over those of baseline. The driver knows
            batch_size (on each device), jit_compile, steps_per_execution, precision ("tf32", TensorFlow's
            default; "fp32", "fp16", "bf16"), feed ("fit": Keras fit; "resident": the data lies on the
            device and several steps run in one call), and for pipelines prefetch_to_device, parallel_maps
            and prefetch_batches; all others are the workload's own.
            A key prefixed "cpu:" or "gpu:" holds on that kind of device only.
        params: parameters of baseline beside batch_size and epochs: the workload's own, with their
            published values, and those of the list above where the published code set them.
        stages: the names of the stages that the file's `dataset` gives, in order. Empty for workloads on arrays,
            and for those that make their samples themselves (train=0).
        optimizations: name -> the parameters that differ from baseline, with keys as in `tuned`; each is run as the
            variant "opt:NAME". One that changes nothing on a device is left out there.
        takes_weights: whether its model starts from the file of --weights when one is given.
        suite: "default" runs without being named, "extra" when asked for.
        min_accuracy: accuracy on held-out procedural data, between 0 and 1, below which training
            has not worked; 0 for workloads that learn nothing.
        image: which family of images it runs in, one of IMAGES: "tensorflow", or "trees" (XGBoost), whose
            files have a function `booster(params)` instead of `model`.
        builder: the name of the file's function params -> compiled model.
    """

    name: str
    title: str
    data: Data
    batch_size: int
    epochs: int
    model: str = ""
    task: Literal["train", "infer"] = "train"
    optimizer: str = ""
    loss: str = ""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    optimizations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    requests: Requests | None = None
    takes_weights: bool = False
    source: str = ""
    suite: Literal["default", "extra"] = "default"
    min_accuracy: float = 0.0
    samples_per_epoch: int = 0
    image: str = TENSORFLOW
    builder: str = "model"

    @property
    def pipeline(self) -> bool:
        """Whether it feeds Keras fit by a pipeline of its own instead of arrays."""
        return bool(self.stages) or self.data.train == 0


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """How much of a variant is measured.

    Attributes:
        window_s: least length of a measured window, seconds.
        windows: measured windows a variant, one right after the other.
        warmup_s: most time to wait for the step time to settle, seconds.
        variant_s: a variant that has run for so long, from its first step on, is measured no further: it
            ends with the windows it has, one at least; 0 for no limit.
        analysis_window_s, analysis_windows, analysis_warmup_s, analysis_variant_s: the same for variants that
            only serve the breakdown; 0 for no difference.
        steps: when > 0, a window is that many steps instead of window_s, or as many as ten times window_s
            have time for (smoke runs and tests).
        full: train the published epochs instead of measuring windows.
    """

    window_s: float = 1.0
    windows: int = 3
    warmup_s: float = 3.0
    variant_s: float = 0.0
    analysis_window_s: float = 0.0
    analysis_windows: int = 0
    analysis_warmup_s: float = 0.0
    analysis_variant_s: float = 0.0
    steps: int = 0
    full: bool = False


@dataclass(frozen=True, kw_only=True)
class Spec(Measuring):
    """What the harness asks of one container: the file `spec.json` beside the event file.

    Attributes:
        workload: its name, "" for the only one that `file` declares.
        file: the workload's file: its name in this package, or its path inside the container.
        variants: which variants to run: of VARIANTS, "opt:NAME" and "stage:NAME".
        device: "cpu", or "gpu" for all GPUs that the container sees.
        gpus: how many GPUs the container must see; 0 for "cpu".
        workers: how many containers train together, this one included, as TF_CONFIG in the environment
            says; 0 for a single container.
        data_dir: folder inside the container with x_train.npy, y_train.npy, x_test.npy, y_test.npy.
        weights: path inside the container of a file of weights, "" for none.
        params: overrides of the workload's parameters (batch_size, epochs, ... and its own), in every
            variant; only what an optimization sets itself stays.
        whole_s: most seconds that a variant's whole training may take: one that would take longer is measured in
            windows; 0 for no limit.
        evaluate: whether to take the accuracy on held-out data.
        seed: for weights, shuffling and augmentation.
        image: the workload's family of images, which says what runs its variants.
    """

    workload: str = ""
    file: str = ""
    variants: tuple[str, ...] = (BASELINE,)
    device: str = "cpu"
    gpus: int = 0
    workers: int = 0
    data_dir: str = ""
    weights: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    evaluate: bool = True
    whole_s: float = 0.0
    seed: int = 1
    image: str = TENSORFLOW


class NoGpuError(RuntimeError):
    """The framework does not have, or does not use, the GPUs that were asked for: NO_GPU_EXIT."""


class ProtocolError(ValueError):
    """An event does not follow EVENTS."""


class EventWriter:
    """Append events to an open file, one line each, flushed at once."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, kind: str, **fields: Any) -> None:
        """Write one event, stamped now.

        Raises:
            ProtocolError: the fields are not those of `kind`.
        """
        event = {"kind": kind, "t_ns": time.monotonic_ns(), **fields}
        check(event)
        self._file.write(json.dumps(event, separators=(",", ":"), allow_nan=False) + "\n")
        self._file.flush()

    def metric(self, variant: str, name: str, value: float) -> None:
        """Write a figure of a variant, or of the whole trial for ""; one that is not finite becomes a warning."""
        if math.isfinite(value):
            self.write("metric", variant=variant, name=name, value=float(value))
        else:
            self.warning(f"{variant or 'The trial'}: {name} is {value}, and is left out.")

    def warning(self, message: str) -> None:
        """Write something that the reader of a report should know."""
        self.write("warning", message=message)

    def left_out(self, variant: str, reason: str) -> None:
        """Write that a planned variant could not be measured, and why in one line."""
        self.write("left-out", variant=variant, reason=reason.strip().split("\n")[0][:LONGEST_REASON])

    def needless(self, variant: str, reason: str) -> None:
        """Write that a planned variant is not measured since it would say nothing here, and why."""
        self.write("needless", variant=variant, reason=reason)

    def phase(self, name: str, start_ns: int) -> int:
        """Write that phase `name` of the whole trial ended now, and return now (CLOCK_MONOTONIC, ns)."""
        now = time.monotonic_ns()
        self.write("phase", name=name, variant="", start_ns=start_ns, end_ns=now)
        return now

    def start(self) -> None:
        """Write the first event, which lets the host compare clocks and kernels."""
        self.write("start", wall_ns=time.time_ns(), boot_id=boot_id())


def measures_speed(variant: str) -> bool:
    """Return whether a variant's speed is a result; all others serve the breakdown of a step."""
    return variant in (BASELINE, TUNED) or variant.startswith(OPTIMIZATION_PREFIX)


def changes_baseline(variant: str) -> bool:
    """Return whether a variant is the baseline with something changed: an optimization, a remedy or an ablation."""
    return variant == PARALLEL_INPUT or variant.startswith((OPTIMIZATION_PREFIX, WITHOUT_PREFIX))


def check(event: Mapping[str, Any]) -> None:
    """Check one event against EVENTS.

    Raises:
        ProtocolError: unknown kind, missing or unknown field, or a field of the wrong type.
    """
    kind = event.get("kind")
    if not isinstance(kind, str) or kind not in EVENTS:
        raise ProtocolError(f"unknown event kind {kind!r}")
    fields = {"kind": (str,), "t_ns": (int,), **EVENTS[kind]}
    if event.keys() != fields.keys():
        odd = sorted(event.keys() ^ fields.keys())
        raise ProtocolError(f"event {kind!r}: fields {odd} missing or unknown")
    for name, types in fields.items():
        value = event[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ProtocolError(f"event {kind!r}: {name} is {type(value).__name__}")


def read_events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a file's lines; a truncated last line ends them quietly.

    Raises:
        ProtocolError: a whole line is not an event; the message has its number.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            return
        try:
            event = json.loads(line)
            if not isinstance(event, dict):
                raise ProtocolError("not a JSON object")
            check(event)
        except ValueError as error:
            raise ProtocolError(f"line {number}: {error}") from error
        yield event


def boot_id() -> str:
    """Return the kernel's boot id: equal on host and container exactly if they share clocks; else ""."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
