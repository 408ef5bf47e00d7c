"""A workload: a script, what its metadata say of it, and the data that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workloads.protocol import TENSORFLOW, Requests
from workloads.variants import BASELINE

Suite = Literal["default", "gpu", "cpu", "extra"]
# Units of published results; see Published.
UNITS = ("s", "samples/s", "ratio", "requests ratio", "gain", "accuracy", "utilisation")

# How the names of files end that are workloads.
SCRIPTS = (".py", ".ipynb")

# Between the folder of a package and the path of a module in it that is run, as in rsync.
INSIDE = "/./"

# Before the name of a workload: the files beside its script that are not Python, as one hash of a run's sources.
BESIDE = "files beside "


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file as it was: its SHA-256, or size and time where it was too large to be read; and these by themselves."""

    content: str
    size: int
    changed_ns: int

    def same(self, other: FileState | None) -> bool:
        """Return whether this is known to be the same file."""
        if other is None:
            return False
        if " " in self.content + other.content:  # one of them was not read
            return (self.size, self.changed_ns) == (other.size, other.changed_ns)
        return self.content == other.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The files in the folders of the user's scripts: workload -> path from there -> state."""

    scripts: Mapping[str, Mapping[str, FileState]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published result for a workload.

    Attributes:
        source, system: publisher with year, and hardware as named there.
        device: "cpu" or "gpu".
        value: the result in `unit`; the lower end of a published range.
        unit: "s" for the whole training, "samples/s", "ratio" for GPU over CPU, "requests ratio" for the same
            in requests/s within a latency bound, "gain" for tuned over baseline, "accuracy" on held-out data
            or "utilisation" of the GPU, both 0 to 1.
        note: caveats for a comparison, or "".
        upto: the upper end of a published range, 0 for a single number.
        variant: what it is compared with: "baseline", "tuned" or an "opt:NAME".
    """

    system: str
    device: str
    value: float
    unit: str
    source: str = ""
    note: str = ""
    upto: float = 0.0
    variant: str = BASELINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A data set that tfbench provides.

    Attributes:
        name: a known data set ("cifar10", "cifar100", "fashion-mnist"), or any other name for one that is
            generated from the shape below.
        shape: of one sample, e.g. (32, 32, 3).
        dtype: NumPy name of the stored type.
        kind: "arrays" for four NumPy files, "table" for the same with tabular rows, or "jpeg" for JPEG files
            <split>/<class>/<name>.jpg with splits "train" and "test"; shape is then the mean image size
            (height, width, 3); or "clicks" for TFRecord files <split>-<number>.tfrecord, with the shape (numbers,
            categories) of a sample.
        vocabulary: number of different tokens for token sequences, with shape (maximum length,); else 0.
        class_names: class folders of JPEG files in alphabetical order; () for "class-0" and so on.
        constant: the script's constant that holds the folder; "" for data sets of keras.datasets.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    train: int
    test: int
    dtype: str = "uint8"
    kind: Literal["arrays", "table", "jpeg", "clicks"] = "arrays"
    class_names: tuple[str, ...] = ()
    vocabulary: int = 0
    constant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A step between the published and the tuned script: one of the two with other values of its constants.

    Attributes:
        device: "cpu" or "gpu" if it differs from its script only there; "" for both.
    """

    script: str
    device: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A script with its metadata; see docs/workloads.md.

    Attributes:
        module: its dotted name if the script runs as a module of a package; else "".
        scripts: file name -> text of the script and of those that tuned and ladder name.
        components: file name -> text of files from workloads/components that the tuned script imports.
        tuned: file name of the tuned script, "" for none.
        ladder: name -> step; runs as the variant "opt:NAME".
        params: constants of the script that hold literals, with this workload's values.
        device_params: "cpu" or "gpu" -> values for this kind of device.
        requests: what to measure of a script for inference; None for training.
        suite: "default" runs by default, "gpu" too but on GPUs only, "cpu" only on machines without GPUs, "extra" on
            request.
        min_accuracy: minimum accuracy (0 to 1) on held-out generated data for successful training; 0 for none.
        image: image family, "tensorflow" or "trees" (XGBoost).
    """

    name: str
    file: str = ""
    module: str = ""
    title: str = ""
    scripts: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[str, str] = field(default_factory=dict)
    tuned: str = ""
    ladder: Mapping[str, Rung] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    device_params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    datasets: tuple[Data, ...] = ()
    published: tuple[Published, ...] = ()
    requests: Requests | None = None
    source: str = ""
    suite: Suite = "extra"
    min_accuracy: float = 0.0
    image: str = TENSORFLOW
