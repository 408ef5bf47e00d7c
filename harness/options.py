"""The options of a run, each declared once.

A field of `Options` carries how it is given, checked, compared and repeated, which the command line, `resolve`,
comparisons and `rerun` read. A new option needs a field here, and the code that it affects.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from harness.defaults import GPUS, PROFILE, RATE_HZ, RUNS
from harness.errors import UsageError, on_disk
from harness.model.workload import SCRIPTS

# Headings of `tfbench bench --help`.
WHAT, WHERE, HOW = "What to run", "Where to run it", "How to measure"


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """How a field of Options is given, checked, compared and repeated.

    Attributes:
        names: on the command line, separated by spaces; "" for an argument. "--a/--no-a" is a switch.
        help: text of `--help`; `heading`: where it stands there.
        parse: flag and text (for collections: the texts) -> value; None if the text is parsed by its type alone.
        least, most: the range of a number, inclusive; the default may lie outside.
        useless_beside: another option as a pattern ("--a", "--a value") -> why this one has no effect then.
        compared: the section of a comparison that shows a difference; "" if runs remain comparable.
        on_rerun: "repeat" it; "ask" before repeating it, as for what a hostile report could misuse; or "replace" it,
            where `rerun` has the option itself.
        unit: printed after a value.
    """

    names: str
    help: str
    _: KW_ONLY
    heading: str = HOW
    parse: Callable[[str, Any], Any] | None = None
    least: float | None = None
    most: float | None = None
    useless_beside: Mapping[str, str] = field(default_factory=dict)
    compared: Literal["", "limits", "settings"] = ""
    on_rerun: Literal["repeat", "ask", "replace"] = "repeat"
    unit: str = ""

    @property
    def flag(self) -> str:
        """The long name, "" for an argument; of a switch, the one that turns it on."""
        return re.split("[ /]", self.names)[0]

    def check(self, value: float) -> None:
        """Check that a number is in range.

        Raises:
            UsageError: it is not.
        """
        least, most = self.least or 0, math.inf if self.most is None else self.most
        if not least <= value <= most:
            raise UsageError(
                f"{self.flag} is out of range.", hint=f"Use a value from {least:.10g} to {most:.10g}."
            )

    def text(self, value: Any) -> str:
        """Return a value as it is written on the command line, collections joined by ", "."""
        if isinstance(value, Mapping):
            value = [f"{name}={text}" for name, text in value.items()]
        if isinstance(value, (tuple, list)):
            return ", ".join(map(str, value))
        text = "on" if value is True else f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"{text} {self.unit}".strip()


_what, _where, _how = (partial(Option, heading=heading) for heading in (WHAT, WHERE, HOW))


def split(values: Sequence[str]) -> tuple[str, ...]:
    """Split words at commas and spaces."""
    return tuple(part for value in values for part in value.replace(",", " ").split())


def _words(flag: str, values: Sequence[str]) -> tuple[str, ...]:
    if not all(split([value]) for value in values):
        raise UsageError(f"{flag} is empty.", hint="Leave it out. A shell variable may be empty.")
    return split(values)


def _verbatim(_flag: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(values)


def _workloads(_flag: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return names of workloads, and paths of scripts as absolute ones."""
    if not all(value.strip(", ") for value in values):
        raise UsageError(
            "The name of a workload is empty.", hint="A shell variable may be empty. See `tfbench list`."
        )
    names: list[str] = []
    for value in values:
        if value.endswith(SCRIPTS):
            names.append(str(Path(value).absolute()))
        else:
            names += split([value])
    return tuple(names)


def _pairs(flag: str, values: Sequence[str]) -> Mapping[str, str]:
    parts = [value.partition("=") for value in values]
    # Only a variable of the environment may be empty.
    if not all(name and sign and (text or flag.startswith("--env")) for name, sign, text in parts):
        example = "cpu=NAME or --image cuda=NAME" if flag == "--image" else "name=value"
        raise UsageError(f"{flag} takes NAME=VALUE.", hint=f"Write it as {flag} {example}.")
    pairs = {name: text for name, _, text in parts}
    names = [name for name, _, _ in parts]
    if len(pairs) < len(values):
        raise UsageError(
            f"{flag} has a name twice: {max(names, key=names.count)}.",
            hint="Give each name once"
            + ("; a sweep is --param BATCH_SIZE=32,64." if flag == "--param" else "."),
        )
    return pairs


def _environment(flag: str, values: Sequence[str]) -> Mapping[str, str]:
    pairs = _pairs(flag, values)
    for name in pairs:
        if not (name.isascii() and name.isidentifier()):
            raise UsageError(
                f"{name} is not a valid name of an environment variable.",
                hint=f"Use letters, digits and _, e.g. {flag} TF_CPP_MIN_LOG_LEVEL=2.",
            )
    return pairs


def _paths(_flag: str, values: Sequence[str]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(os.path.normpath(Path(value).absolute())) for value in values))


def _folder(flag: str, path: Path) -> Path:
    with on_disk(path):  # its parent may be closed
        if path.is_symlink() and not path.exists():
            raise UsageError(
                f"{flag} {path} is a link to {path.readlink()}, which is missing.",
                hint="Make that folder, or mount its disk, first.",
            )
        if str(path) == "-":
            raise UsageError(f"{flag} - is no folder: a run is one.", hint="Give a folder, e.g. --out runs.")
        if path.is_dir() or not (path.exists() or path.suffix == ".html"):
            return path
    raise UsageError(
        f"{flag} {path} is a file, not a folder.",
        hint="Give a folder for runs, e.g. --out runs. To save a report elsewhere: tfbench report runs --out x.html",
    )


def seconds(flag: str, text: str) -> float:
    """Parse a duration such as 90s, 10m, 1h or 45 (seconds).

    Raises:
        UsageError: not a duration.
    """
    factor = {"s": 1, "m": 60, "h": 3600}.get(text[-1:])
    try:
        return float(text[:-1]) * factor if factor else float(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text} is not a time.", hint="Write it as 90s, 10m or 1h.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options given by the user; see `tfbench bench --help`."""

    # fmt: off
    workloads: Annotated[tuple[str, ...], Option(
        "",
        "Built-in workloads, `all`, or paths of scripts and notebooks. Default: those marked * in `tfbench list`.",
        parse=_workloads
    )] = ()
    arguments: Annotated[tuple[str, ...], _what(
        "--arg", "Command-line argument of the scripts; repeatable.", parse=_verbatim,
        compared="settings", on_rerun="ask"
    )] = ()
    # Runs do not record the values of most; see harness.secrets.
    environment: Annotated[Mapping[str, str], _what(
        "--env", "NAME=VALUE: environment variable of the scripts, recorded without its value; repeatable.",
        parse=_environment, compared="settings", on_rerun="ask"
    )] = field(default_factory=dict)
    public_environment: Annotated[Mapping[str, str], _what(
        "--env-public", "NAME=VALUE: the same, recorded with its value.", parse=_environment,
        compared="settings", on_rerun="ask"
    )] = field(default_factory=dict)
    mounts: Annotated[tuple[Path, ...], _what(
        "--mount", "File or folder that the scripts read, at the same path; repeatable.", parse=_paths,
        on_rerun="ask"
    )] = ()
    call: Annotated[int, _what(
        "--call", "Which call of fit to measure, if a script has several.", least=1, most=1000,
        compared="settings"
    )] = 1
    profile: Annotated[str, _what("--profile -p", "smoke, quick or full.")] = PROFILE
    variants: Annotated[str, _what(
        "--variants", "Comma-separated, e.g. baseline,tuned; see docs/workloads.md.", compared="settings"
    )] = ""
    analysis: Annotated[bool, _what(
        "--analysis/--no-analysis", "Measure what limits each workload, not only its speed.",
        compared="settings"
    )] = True
    machine: Annotated[bool, _what(
        "--machine/--no-machine",
        "Measure what the machine itself can do: half a minute per GPU, ten seconds for the CPU. Not with --variants, "
        "--no-analysis or a sweep.",
        useless_beside={
            "--no-analysis": "the machine is measured with the analysis",
            "--variants": "the machine is measured only with the usual variants",
            "--param .*=[^ =]+,.*": "a sweep measures only its grid points",
        },
    )] = True
    # In a shorter time, a device does not even warm up.
    soak_s: Annotated[float, _what(
        "--soak", "Saturate each device this long, e.g. 10m, to see what it sustains.", parse=seconds,
        least=20, most=86_400
    )] = 0.0
    # Comma-separated values form an axis of a sweep.
    params: Annotated[Mapping[str, str], _what(
        "--param", "NAME=VALUE of a constant of the script, or NAME=32,64,128 for a sweep; repeatable.",
        parse=_pairs, compared="settings"
    )] = field(default_factory=dict)
    data: Annotated[str, _what("--data", "auto, real (fail if unavailable) or procedural.")] = "auto"
    device: Annotated[str, _where(
        "--device -d", "auto, cpu, gpu, gpu0, gpu0+gpu1, scaling (1, 2, 4 ... GPUs); comma-separated.",
        on_rerun="replace"
    )] = "auto"
    gpus: Annotated[str, _where(
        "--gpus", "GPUs to use: indices, UUIDs or MIG UUIDs, comma-separated, or all.",
        useless_beside={"--device cpu": "no GPU is used"}, compared="limits", on_rerun="ask"
    )] = GPUS
    engine: Annotated[str, _where(
        "--engine -e", "auto, docker or local (no isolation).", on_rerun="replace"
    )] = "auto"
    images: Annotated[Mapping[str, str], _where(
        "--image", "cpu=REF or cuda=REF: your own image with TensorFlow 2.16 or newer.", parse=_pairs,
        on_rerun="ask"
    )] = field(default_factory=dict)
    # Runs record the versions of these libraries and of those that they need.
    packages: Annotated[tuple[str, ...], _where(
        "--with", "Libraries to add to the image, e.g. pandas,scikit-learn, or auto: what the scripts import.",
        parse=_words, on_rerun="ask"
    )] = ()
    network: Annotated[bool, _where(
        "--network", "Let the scripts download; what libraries fetch is kept for runs without.",
        on_rerun="ask"
    )] = False
    cpus: Annotated[str, _where(
        "--cpus", "Pin containers to these CPUs, e.g. 0-3,8.", compared="limits", on_rerun="ask"
    )] = ""
    cpu_quota: Annotated[float | None, _where(
        "--cpu-quota", "CPU time limit of each container, in CPUs.", least=0.01, compared="limits",
        on_rerun="ask"
    )] = None
    memory_gib: Annotated[float | None, _where(
        "--memory", "Memory limit in GiB. Default: 90 % of the host's.", least=0.1, most=1 << 20,
        on_rerun="ask", unit="GiB"
    )] = None
    trials: Annotated[int | None, _how(
        "--trials", "Fixed number of trials (rounds of readings). Default: depends on the profile.", least=1,
        most=1000
    )] = None
    time_s: Annotated[float | None, _how(
        "--time",
        "How long to measure, e.g. 15m: each once, then where intervals are widest. Default: about a minute for each "
        "workload and device.",
        parse=seconds, least=10, most=7 * 86_400, useless_beside={"--trials": "their number is fixed"}, unit="s"
    )] = None
    rate_hz: Annotated[float, _how(
        "--rate", "Telemetry samples per second; 0 turns telemetry off.", least=0, most=100,
        compared="settings"
    )] = RATE_HZ
    stall_s: Annotated[float | None, _how(
        "--stall", "Kill a trial after this many seconds without an event.", least=1, most=7 * 86_400,
        compared="settings"
    )] = None
    seed: Annotated[int, _how(
        "--seed", "Random seed for weights, shuffling and procedural data.", least=0, most=2**32 - 1,
        compared="settings"
    )] = 1
    price: Annotated[str, _how(
        "--price", "Price per hour: 0.526, or cpu=0.20,gpu=0.526; electricity=0.30 per kWh. See docs/cost.md.",
        on_rerun="replace"
    )] = ""
    cloud_metadata: Annotated[bool, _how(
        "--cloud-metadata/--no-cloud-metadata",
        "Ask the cloud for instance type, zone, lifecycle, image (at most 1 s) and notices of termination."
    )] = True
    out: Annotated[Path, _how(
        "--out -o", "Parent folder of run folders.", parse=_folder, on_rerun="replace"
    )] = RUNS
    # fmt: on

    @property
    def variables(self) -> Mapping[str, str]:
        """All environment variables of the scripts."""
        return {**self.environment, **self.public_environment}

    @property
    def fixed_params(self) -> Mapping[str, str]:
        """Parameters with a single value, which form no sweep."""
        return {name: text for name, text in self.params.items() if "," not in text}


DEFAULTS = Options()

# Field -> its declaration, in the order of `--help`.
OPTIONS: Mapping[str, Option] = {
    name: get_args(hint)[1] for name, hint in get_type_hints(Options, include_extras=True).items()
}


def given(options: Options) -> Mapping[str, Any]:
    """Return field -> value of the options that differ from their defaults."""
    values = {name: getattr(options, name) for name in OPTIONS}
    return {name: value for name, value in values.items() if value != getattr(DEFAULTS, name)}
