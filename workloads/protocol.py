"""The protocol between harness and container: specs and events.

Standard library only, Python 3.10 or newer: the harness reads this module on the host, and the driver
runs it inside any image that has Python and TensorFlow.

Events are JSON lines in one append-only file. Each has `kind` and the fields that EVENTS lists for its kind; times are
in nanoseconds of CLOCK_MONOTONIC. A truncated last line means that the writer died; all earlier lines are valid.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, TextIO

from workloads.hiding import without, without_secrets
from workloads.variants import BASELINE

# MLPerf Inference's scenarios: sequential requests; single samples at random times.
SINGLE_STREAM, SERVER = "SingleStream", "Server"
# Of models that generate tokens: requests of one new token, and the time of each further token in longer requests.
FIRST_TOKEN, PER_TOKEN = "FirstToken", "PerToken"
# A rate is served within a latency bound if the 99th percentile keeps it, which takes at least 100 requests.
MAX_LATE_SHARE, MIN_SERVER_REQUESTS = 0.01, 100
# How many steps the remedies and ablation for launches make one call, by kind of device.
STEPS_PER_CALL = {"cpu": 10, "gpu": 50}
# A remedy is worth it if it makes what there is faster by this factor.
WORTH = 1.05
# Noise: what does more than another variant is faster than that by this share at most.
TOLERANCE = 0.10

# Metrics of the baseline: seconds per step in Python functions of the compiled step and in the workload's
# callbacks, in their calls of every so many batches and in tracing for new shapes; whether Keras runs eagerly (1 or 0);
# and the size of a batch in host memory.
PYTHON_IN_STEP, CALLBACKS, RARE_CALLBACKS, RETRACING = (
    "python_in_step_s",
    "callbacks_s",
    "rare_callbacks_s",
    "retracing_s",
)
# Seconds per step in the methods of a callback that Keras calls around epochs and validations; its class follows.
EPOCH_CALLBACK_PREFIX = "epoch_callback_s:"
BATCH_BYTES = "batch_bytes"
# Bits in which most of the baseline's weights are used, and the elements of its largest trained variable, whose path
# follows the prefix.
COMPUTE_BITS, VARIABLE_PREFIX = "compute_bits", "variable:"
# A recurrent layer that runs as a loop of kernels: its path and why follow the prefix.
RECURRENT_PREFIX = "recurrent:"
# Accuracy on held-out data, and how many samples the model had been trained on then: in a trial of windows as many as
# the baseline, which is slower.
ACCURACY, SAMPLES_TRAINED = "accuracy", "samples_trained"
# The tightest latency bound that a server meets at a useful rate, in milliseconds; 0 if none.
MET_BOUND_MS = "met_bound_ms"
# Floating-point operations of a sample, of variants that measure speed.
FLOPS = "flops_per_sample"
# Bytes that a step of generation must read from memory: whatever its batch (weights), and of each sequence (its cache).
STEP_BYTES, SEQUENCE_BYTES = "step_bytes", "sequence_bytes"
# Largest memory in use while a variant that measures speed ran, in bytes: of the fullest GPU, and of the process.
DEVICE_MEMORY, HOST_MEMORY = "device_memory_bytes", "host_memory_bytes"
# Seconds per step that the ends of epochs take, from variants that train: validation, callbacks, a new iterator.
# Windows are without them; the time of a step is with them.
BETWEEN_EPOCHS = "between_epochs_s"
# Seconds per epoch of those ends that take much longer than most, from the baseline's first reading in a trial.
RARE_ENDS = "rare_ends_s"
# Seconds per step in which the custom loop waits for a shuffle buffer to be filled, at the start of each epoch.
FILLING = "filling_s"
# Batches of the data for "training" or "validation", which follows, where TensorFlow does not know them, as far as they
# were counted; 0 if that took too long.
BATCHES_PREFIX = "batches:"
# 1 if a script has caches, which its first epoch fills. If the baseline's has none, what filling takes longer than a
# later epoch is spread over the ends of epochs.
FILLS_CACHES = "fills_caches"

# How many seeded results were compared bit for bit, and the seconds that took; see the event "answer".
ANSWERS_CHECKED, ANSWERS_S = "answers_checked", "answers_s"

# Calls per second of the host's probe at both ends of a trial; see workloads/driver/__main__.py.
PROBES = ("probe_interpreter", "probe_memory", "probe_matrix")

# The name of trials that measure the machine itself; their variants are capabilities, in the order measured. RATE is
# in FLOP/s, bytes/s, pictures/s or kernels/s.
MACHINE, RATE = "machine", "rate"
# The parameter with what a script or a load computes in.
PRECISION = "precision"
PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")
COPIES = ("to-device", "to-device-pinned", "from-device", "from-device-pinned")
# The variant that saturates a device for the seconds in its parameter of this name; WORK is that of a step in FLOP.
SOAK, WORK = "soak", "work"
CORE_SUFFIX = "-core"  # on one core
GPU_CAPABILITIES = (*PRECISIONS, "memory", *COPIES, "launch")
# Copies from pinned memory of one NUMA node, whose number follows.
NODE_PREFIX = "to-device-pinned:"
# Sums over all GPUs by the MiB of each; those of 256 MiB, which other programs report too, have no number.
ALL_REDUCE, ALL_REDUCE_PREFIX = "all-reduce", "all-reduce:"
GROUP_CAPABILITIES = (ALL_REDUCE,)
ALL_REDUCE_SIZES = tuple(f"{ALL_REDUCE_PREFIX}{mib}" for mib in (1, 4, 16, 64, 1024))
# Copies from one GPU of a trial to another, "peer:0-1" by their numbers in it; and whether the first can be read
# by the other without the host (1 or 0).
PEER_PREFIX, PEER_ACCESS = "peer:", "peer_access"
CPU_CAPABILITIES = ("fp32-core", "fp32", "memory-core", "memory", "jpeg-core", "jpeg", "read")

# The file beside the folders of trials that names the one to run next.
NEXT = "next"

# The driver's exit code if fewer GPUs than Spec.gpus are registered, or work is not placed on them.
NO_GPU_EXIT = 20

# Types of error events of a process that died: killed for memory, stopped because it stalled, or otherwise.
OUT_OF_MEMORY, STALLED, DIED = "OutOfMemory", "Stalled", "ProcessDied"

# Image families; each has a CPU and a CUDA target.
TENSORFLOW, TREES = IMAGES = ("tensorflow", "trees")

# Variables that choose another Keras, and their values for the one that is measured.
KERAS = {"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "0"}

# What Keras makes for its loops, and calls once for each call of its compiled step.
LOOPS = {
    "train_function", "test_function", "predict_function", "make_train_function", "make_test_function",
    "make_predict_function",
}  # fmt: skip
# A comment that ends a step of a script's own loop.
MARK = re.compile(r"#[ \t]*tfbench:[ \t]*step ")
# Packages that stand-ins replace if they are missing.
PLOTTING = ("matplotlib", "mpl_toolkits", "seaborn", "IPython", "plotly", "pydot", "graphviz", "visualkeras")

# Modules whose distribution has another name.
_DISTRIBUTIONS: Mapping[str, str] = {
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python-headless", "dateutil": "python-dateutil",
    "dotenv": "python-dotenv", "hydra": "hydra-core", "pkg_resources": "setuptools",
    "skimage": "scikit-image", "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}  # fmt: skip
# Files of an array dataset, with suffix .npy: samples and labels of both splits.
ARRAYS = ("x_train", "y_train", "x_test", "y_test")

# Token sequences follow Keras' convention: 0 is padding, 1 the start, 2 an unknown word, and 4 the most
# frequent word (rank 1 and an offset of 3; 3 is unused).
START, RARE, FIRST_WORD = 1, 2, 4

# Phases. All before "steady" are cold start, reported separately from the speed.
IMPORT = "import"  # TensorFlow's import and device initialisation
DATA = "data"  # loading and preprocessing of the data
BUILD = "build"  # model construction and Keras' compile
FIRST_STEP = "first-step"  # tracing, XLA compilation, PTX JIT, cuDNN autotuning
WARM_UP = "warm-up"  # steps until the step time has settled
STEADY = "steady"  # measured windows
EVALUATE = "evaluate"  # accuracy on held-out data

# Maximum length of the reason for a left-out variant, in characters.
LONGEST_REASON = 300
# Messages of events, in characters.
LONGEST_MESSAGE = 2_000

# The variable with what the harness tells the driver and records nowhere; see private.
PRIVATE = "TFBENCH_PRIVATE"

# The variable with the file in which the driver notes what a script opens beside it, and a line of it for what it
# cannot tell.
OPENED, UNKNOWN = "TFBENCH_OPENED", "/"
# Folders beside a script that it has no use for. Without byte code, modules are read from their own files.
NOT_READ = ("__pycache__", ".git")
# The file of OPENED, beside the events.
OPENED_FILE = "opened.txt"
# Environment variable: the folder where a container keeps the programs that XLA has compiled; see Spec.keeps_programs.
PROGRAMS = "TFBENCH_PROGRAMS"

_NUMBER = (int, float)
# Fields of events with names that tfbench gives, not texts.
_NAMES = ("variant", "name", "scenario", "fixes", "type")
EVENTS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    # First line.
    "start": {},
    # Versions and devices in the container. Scalars only.
    "facts": {"facts": (dict,)},
    # A process begins to run the script of a variant, on devices that answer.
    "process": {"script": (str,)},
    # A reading of a variant begins: what follows of this variant belongs to it.
    "reading": {"variant": (str,)},
    # The script's call that is measured: its place, and the sites at which remedies change it and its compile.
    "call": {"variant": (str,), "place": (str,), "sites": (list,)},
    # What a variant is: its parameters and its changes from the baseline (see Change).
    "variant": {"variant": (str,), "params": (dict,), "changes": (list,)},
    # How the script of a variant differs from the baseline's, as a unified diff; the whole text of tuned, or "";
    # and the remedies in it.
    "script": {"variant": (str,), "diff": (str,), "text": (str,), "fixes": (list,)},
    # A finished phase. variant is "" for phases shared by all variants.
    "phase": {"name": (str,), "variant": (str,), "start_ns": (int,), "end_ns": (int,)},
    # Steps between two synchronisations of the device. wait_ns is the time spent waiting for input outside
    # the compiled step, -1 if unknown.
    "window": {
        "variant": (str,), "index": (int,), "start_ns": (int,), "end_ns": (int,),
        "steps": (int,), "samples": (int,), "wait_ns": (int,),
    },
    # Step durations of a window in nanoseconds, on the host thread (not synchronised). With several steps per
    # call there is one entry per call: their mean.
    "steps": {"variant": (str,), "window": (int,), "step_ns": (list,)},
    # Names carry units.
    "metric": {"variant": (str,), "name": (str,), "value": _NUMBER},
    # The baseline's losses in its first steps and epochs: place -> value. Remedies are compared with them.
    "losses": {"variant": (str,), "values": (dict,)},
    # By what the losses of a script with remedies must be the baseline's: "steps", "epochs", or "" if they need not.
    "alike": {"variant": (str,), "by": (str,)},
    # Its losses are not those of the baseline's only reading.
    "unlike": {"variant": (str,), "reason": (str,)},
    # What a script did after its measured call, in a shortened run (see workloads/driver/endings.py).
    "ending": {
        "variant": (str,), "calls": (list,), "printed": (list,), "files": (dict,), "sizes": (dict,),
        "error": (str,), "whole": (bool,), "even": (bool,), "times": (int,),
    },
    # Whether remedies may be offered, once the script's rest was run with them or its call has refused them: why not,
    # or "". No readings with remedies that may not be offered count, alone or with others.
    "judged": {"variant": (str,), "reason": (str,)},
    # Latencies of synchronised inference requests. rate_per_s is the offered rate in samples/s, 0 for
    # the others. Fewer latencies than planned mean that the series was stopped early. For Server,
    # batch_size is the maximum.
    "requests": {
        "variant": (str,), "scenario": (str,), "batch_size": (int,), "rate_per_s": _NUMBER, "planned": (int,),
        "start_ns": (int,), "end_ns": (int,), "latency_ns": (list,),
    },
    # The checksum of a seeded result, if it is a GPU's first one in this reading or differs from its last; gpu is the
    # number of the GPU in the trial. See workloads/driver/repeatability.py.
    "answer": {"variant": (str,), "gpu": (int,), "name": (str,), "t_ns": (int,), "value": (int,)},
    # A planned variant that could not be measured, with the reason.
    "left-out": {"variant": (str,), "reason": (str,)},
    # A planned variant that is needless for this workload and device, with the reason.
    "needless": {"variant": (str,), "reason": (str,)},
    # All processes of the container were stopped from outside meanwhile: windows that overlap do not count.
    "stopped": {"start_ns": (int,), "end_ns": (int,)},
    "warning": {"message": (str,)},
    "error": {"type": (str,), "message": (str,)},
    # All of a successful trial has been written.
    "end": {},
    # Last line of a trial: 0 after "end", 1 after an error, or NO_GPU_EXIT.
    "exit": {"code": (int,)},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference of a variant from the baseline: `what` changes from `before` to `after`."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Latency measurements of an inference workload, by MLPerf Inference's scenarios.

    Attributes:
        batch_sizes: batch sizes for SingleStream, ascending.
        compiled_batch_sizes: the same with XLA, which compiles each size separately; () for batch_sizes.
        bounds_ms: bounds of the 99th percentile latency. Server finds the largest rate within the tightest
            bound that allows a useful rate; () for no Server.
    """

    batch_sizes: tuple[int, ...]
    compiled_batch_sizes: tuple[int, ...] = ()
    bounds_ms: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script to run.

    Attributes:
        path: where it is inside the container.
        text: what runs, with parameter values and fixes applied.
        module: its dotted name if it runs as a module of a package; "" if it does not.
    """

    path: str
    text: str
    module: str = ""

    @property
    def depth(self) -> int:
        """How many folders it is below the one that it runs in, which is that of its top package."""
        return self.module.count(".")


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """How long each variant is measured.

    Attributes:
        window_s: minimum length of a measured window, seconds.
        windows: consecutive measured windows per variant.
        warmup_s: maximum time for the step time to settle, seconds.
        variant_s: time limit from the end of a variant's first step, which compiles; after it, no further window starts
            (but one is always measured); 0 for no limit.
        analysis_window_s, analysis_windows, analysis_warmup_s, analysis_variant_s: the same for variants of
            the step-time breakdown; 0 for the values above.
        steps: if > 0, steps per window instead of window_s, limited to ten times window_s (smoke runs,
            tests).
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
class Edit:
    """A change of a script: `text` replaces its bytes from `start` to `end`.

    Attributes:
        site: the line and column at which the call of Keras ends that the change belongs to; () if it belongs to none.
    """

    start: int
    end: int
    text: str
    site: tuple[int, ...] = ()


class Aim(str, Enum):  # noqa: UP042 - images may have Python 3.10
    """What a remedy is aimed at, in the order in which they are tried."""

    EAGER = "eager steps"
    INPUT = "input"
    LOADER = "input written in Python"
    FRAMEWORK = "Python around the step"
    LAUNCH = "launches"
    DEVICE = "work of the device"
    RECURRENT = "recurrent layers without cuDNN's kernel"
    BATCH = "small batches"


# Remedies with these aims change how a model learns, so they are measured alone and are no part of tuned.
CHANGE_TRAINING = (Aim.RECURRENT, Aim.BATCH)


@dataclass(frozen=True, kw_only=True)
class Fix:
    """A remedy for a script.

    Attributes:
        edits: of the baseline's script.
        aim: what it is aimed at.
    """

    edits: tuple[Edit, ...]
    aim: Aim


@dataclass(frozen=True, kw_only=True)
class Spec(Measuring):
    """The harness's request to one container, stored as `spec.json` next to the event file.

    Attributes:
        scripts: the script of each variant that measures speed.
        fixes: remedies for the baseline's script: variant -> edits.
        tuned: the remedies that together are tuned, as an earlier trial found; None to find them.
        judged: variants with remedies -> why an earlier trial found that they may not be offered, "" if they may.
        arguments: command-line arguments of the scripts, as they are recorded; see private.
        call: which of the script's calls of `fit` is measured, from 1.
        variants: variants to run; those of the breakdown are made from the baseline's call.
        device: "cpu", or "gpu" for all GPUs that the container sees.
        gpus: number of GPUs that the container must see; 0 for "cpu".
        data: data set of keras.datasets -> its folder inside the container.
        mounts: files and folders of the user, at their own paths.
        requests: what to measure of an inference script; None for training.
        whole_s: time limit of a variant's whole training in seconds, which falls back to windows if it would
            take longer; 0 for no limit.
        evaluate: whether to measure accuracy on held-out data.
        soak_s: how long to saturate the device, for the variant SOAK.
        stall_s: after this many seconds without an event the trial is killed; 0 for never.
        seed: for weights, shuffling and augmentation, unless the script sets its own.
        keeps_programs: whether later readings of a script load what XLA has compiled for the first one.
        image: the workload's image family.
    """

    scripts: Mapping[str, Script]
    fixes: Mapping[str, Fix] = field(default_factory=dict)
    tuned: tuple[str, ...] | None = None
    judged: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    call: int = 1
    variants: tuple[str, ...] = (BASELINE,)
    device: str = "cpu"
    gpus: int = 0
    data: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    requests: Requests | None = None
    evaluate: bool = True
    whole_s: float = 0.0
    soak_s: float = 0.0
    stall_s: float = 0.0
    seed: int = 1
    keeps_programs: bool = False
    image: str = TENSORFLOW


def distribution(module: str) -> str:
    """Return the name by which pip installs a module."""
    return _DISTRIBUTIONS.get(module, module.replace("_", "-").lower())


class NoGpuError(RuntimeError):
    """The framework does not find or does not use the requested GPUs; exit code NO_GPU_EXIT."""


class ProtocolError(ValueError):
    """An event does not follow EVENTS."""


def text_of(error: BaseException) -> str:
    """Return the text of an error; "" if its class, which may be a script's, fails to tell it."""
    try:
        return visible(str(error))
    except Exception:
        return ""


def visible(text: str) -> str:
    """Return a text, which may be the key of a value, without what must not be recorded."""
    return without(text, private().get("hidden", ()))


# Of an object: "<zip object at 0x7f0012345678>".
_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}(?=>)")
# Terminal colours, which Keras writes into messages.
_STYLE = re.compile("\x1b\\[[0-9;]*m")


# What TensorFlow writes around a reason: nodes, a hint that fit offers no way to follow, and the operation's name.
_AROUND = re.compile(r"(?m)^\s*\[\[.*$|^\s*Hint: .*$| ?\[Op:\w*\]\s*$")
# What Keras writes after the reason why a layer fails.
_ARGUMENTS = re.compile(r"\n\s*Arguments received by .*", re.DOTALL)
_LAYER = "Exception encountered when calling"
_COMPILERS = ("rror:", "in user code:")
# The program that XLA writes after the reason why it cannot compile it.
_PROGRAM = re.compile(r"\nHloModule .*", re.DOTALL)


def reason_of(message: str) -> str:
    """Return the line of an error message that tells the reason, without addresses, which differ each time."""
    for each in (_STYLE, _ADDRESS, _AROUND, _PROGRAM, _ARGUMENTS):
        message = each.sub("", message)
    lines = [text for line in message.splitlines() if (text := line.strip())] or [""]
    if "'x' sizes: " in lines[0]:  # Keras compares sizes of arrays line by line
        return ", ".join(lines)
    layers = [number for number, line in enumerate(lines) if line.startswith(_LAYER)]
    if layers and lines[layers[-1] + 1 :]:
        return lines[layers[-1] + 1]
    # Errors of TensorFlow and other compilers end with the reason, or several.
    if lines[0].endswith(_COMPILERS):
        several = (line.removeprefix("(0) ") for line in lines if line.startswith("(0) "))
        return next(several, lines[-1])
    return " ".join(lines[:3]) if lines[0].endswith(":") else lines[0]


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters without its middle: a reason comes first, what to try last."""
    text, end = visible(text), 2 * most // 3
    return text if len(text) <= most else f"{text[: most - end - 5]} ... {text[-end:]}"


@cache
def private() -> Mapping[str, Any]:
    """Return what the harness tells this process and no file: "arguments" of the scripts, texts to be "hidden".

    The variable is removed, so that scripts do not print it.
    """
    found: Mapping[str, Any] = json.loads(os.environ.pop(PRIVATE, "{}"))
    return found


def file_of(descriptor: int) -> tuple[int, int] | None:
    """Return what identifies the file that is open as a descriptor; None if none is."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# As it is before a script may replace it.
_DUMPS = json.dumps


def of_kernel(path: str) -> bool:
    """Return whether a path is in a file system whose files have no size, and may have no end."""
    return path.split("/")[1:2] in (["proc"], ["sys"])


class EventWriter:
    """Append events to an open file, one line each, flushed immediately.

    A script may close the file, and open another that gets its descriptor: it is opened again then.

    Attributes:
        hidden: texts that events do not contain.
        planned: the variants of the trial.
        listener: receives each event that this process writes; None for nobody.
    """

    def __init__(self, file: TextIO) -> None:
        self._files = [file]  # those that were closed would close others when they are deleted
        # Texts in memory have no descriptor.
        self._path = os.path.abspath(file.name) if hasattr(file, "name") else ""  # noqa: PTH100
        self._identity = file_of(file.fileno()) if self._path else None
        self.hidden: Sequence[str] = private().get("hidden", ())
        self.planned: Sequence[str] = ()
        self.listener: Callable[[Mapping[str, Any]], None] | None = None

    def write(self, kind: str, **fields: Any) -> None:
        """Write one event.

        Raises:
            ProtocolError: the fields do not match `kind`.
        """
        if unknown := sorted(fields.keys() - EVENTS.get(kind, {}).keys()):
            raise ProtocolError(f"event {kind!r}: fields {unknown} unknown")
        event = {"kind": kind, **fields}
        check(event)
        event |= {
            # A script is in the run as it is: its text comes from there, and must run.
            name: value if kind == "script" else self._without(value)
            for name, value in fields.items()
            if name not in _NAMES
        }
        if self._path and file_of(self._files[-1].fileno()) != self._identity:
            self._open_again()
        self._files[-1].write(_DUMPS(event, separators=(",", ":"), allow_nan=False) + "\n")
        self._files[-1].flush()
        if self.listener is not None:
            self.listener(event)

    def _open_again(self) -> None:
        self._files.append(open(self._path, "a", encoding="utf-8"))  # noqa: PTH123, SIM115
        self._identity = file_of(self._files[-1].fileno())
        self.warning(
            "The script closed files that are not its own, as os.closerange does; those of the measurement were opened "
            "again. Close only what the script has opened: TensorFlow and GPUs need their files."
        )

    def _without(self, value: Any) -> Any:
        """Return a value without secrets."""
        if isinstance(value, str):
            return without_secrets(without(value, self.hidden))
        if isinstance(value, dict):
            return {name: self._without(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)) and any(isinstance(each, (str, dict, list)) for each in value):
            return [self._without(each) for each in value]
        return value

    def metric(self, variant: str, name: str, value: float) -> None:
        """Write a metric of a variant, or of the trial for ""; a warning if it is not finite."""
        for prefix in (VARIABLE_PREFIX, RECURRENT_PREFIX, EPOCH_CALLBACK_PREFIX):
            if name.startswith(prefix):  # what follows is a name that the script gave
                name = prefix + self._without(name.removeprefix(prefix))
        if math.isfinite(value):
            self.write("metric", variant=variant, name=name, value=float(value))
        else:
            self.warning(f"{variant or 'The trial'}: {name} is {value} and is left out.")

    def warning(self, message: str) -> None:
        """Write a warning for the report."""
        self.write("warning", message=message)

    def left_out(self, variant: str, reason: str) -> None:
        """Write that a planned variant could not be measured, with the first line of the reason."""
        self.write(
            "left-out", variant=variant, reason=shortened(reason.strip().split("\n")[0], LONGEST_REASON)
        )

    def needless(self, variant: str, reason: str) -> None:
        """Write that a planned variant is skipped because it is needless, with the reason."""
        self.write("needless", variant=variant, reason=reason)

    def phase(self, name: str, start_ns: int) -> int:
        """Write that a phase of the whole trial ends now; return the current time (CLOCK_MONOTONIC, ns)."""
        now = time.monotonic_ns()
        self.write("phase", name=name, variant="", start_ns=start_ns, end_ns=now)
        return now


def began_line(name: str) -> str:
    """Return the line of a container's log after which a trial begins."""
    return f"--- trial {name} ---\n"


def peer(source: int, target: int) -> str:
    """Return the variant that copies from one GPU of a trial to another."""
    return f"{PEER_PREFIX}{source}-{target}"


def peers_of(variant: str) -> tuple[int, int]:
    """Return the numbers of both GPUs in a trial: "peer:0-1" -> (0, 1).

    Raises:
        ValueError: not such a variant.
    """
    source, _, target = variant.removeprefix(PEER_PREFIX).partition("-")
    return int(source), int(target)


def distributes(text: str) -> bool:
    """Return whether the text of a script spreads a batch over several devices by itself."""
    return "Strategy(" in text or "DataParallel(" in text


def all_reduce_mib(capability: str) -> int:
    """Return the MiB of each sum of an all-reduce: "all-reduce:64" -> 64."""
    return 256 if capability == ALL_REDUCE else int(capability.removeprefix(ALL_REDUCE_PREFIX))


def check(event: Mapping[str, Any]) -> None:
    """Check one event against EVENTS; unknown fields are ignored.

    Raises:
        ProtocolError: unknown kind, missing field, or wrong type.
    """
    kind = event.get("kind")
    if not isinstance(kind, str) or kind not in EVENTS:
        raise ProtocolError(f"unknown event kind {kind!r}")
    fields = EVENTS[kind]
    if missing := sorted(fields.keys() - event.keys()):
        raise ProtocolError(f"event {kind!r}: fields {missing} missing")
    for name, types in fields.items():
        value = event[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ProtocolError(f"event {kind!r}: {name} is {type(value).__name__}")


def read_events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a file's lines; ignore a truncated last line.

    Raises:
        ProtocolError: an invalid line; the message has its number.
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
