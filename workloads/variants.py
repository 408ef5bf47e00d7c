"""The variants of a script that are measured: one row for each kind, which says everything about it but how it runs.

Standard library only, as workloads/protocol.py. A variant is written as the name of its kind, with an argument if the
kind takes one: "model-only", "batch:4". How a variant of the breakdown is measured is in workloads/driver; see also
docs/step-time.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

BASELINE, TUNED = "baseline", "tuned"
INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, HOST_FED = "input-only", "model-only", "custom-loop", "host-fed"
# Stand for all stages of the input, which the container finds, and for all remedies that are worth trying.
STAGES, FIXES = "stages", "fixes"
# Ablations: the baseline without one part of its step.
WITHOUT_INPUT, WITHOUT_LAUNCH = "without:input", "without:launch"
WITHOUT_FRAMEWORK, WITHOUT_COPY = "without:framework", "without:copy"
WITHOUT_EPOCHS = "without:epochs"


class Part(str, Enum):  # noqa: UP042 - images may have Python 3.10
    """A part of the step time; the parts of a breakdown add up to the measured step."""

    __str__ = str.__str__

    COMPUTE = "compute"  # the device works
    LAUNCH = "launch"  # the device waits for the next kernel or call
    FRAMEWORK = "framework"  # Python around the compiled step, or inside it
    EPOCHS = "between epochs"  # validation, callbacks and a new iterator, spread over the steps of an epoch
    INPUT_WAIT = "input wait"  # the step waits for its batch
    INPUT_SLOWDOWN = "input interference"  # the step is slower while the pipeline runs
    COPY = "copy"  # host to device
    EXCHANGE = "all-reduce"  # gradients between devices
    HOST = "host contention"  # CPU quota, steal, other programs
    UNEXPLAINED = "unexplained"  # the remainder, which may be negative


INPUT_PARTS = (Part.INPUT_WAIT, Part.INPUT_SLOWDOWN)


class Need(Enum):
    """What a variant of the breakdown needs to mean something, with the reason why it is not measured without it.

    workloads/driver/needless.py tells whether it is met.
    """

    GPU = "it tells of GPUs only"
    ONE_DEVICE = "it is of one device, and each batch is spread over several"
    NO_REQUESTS = "the workload answers requests"
    PIPELINE = "the input is no tf.data pipeline"
    STAGED_INPUT = "the input has no stages"
    NATIVE_INPUT = "the input is written in Python"
    TRAINING = "the call does not train"
    OTHER_BATCHES = "the model has one batch size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of variants.

    Attributes:
        name: of the variant, or what comes before its argument.
        label: what reports call it; {} stands for the argument.
        takes: whether variants have an argument.
        usual: the argument in the breakdown; users can choose another number. "" if it is not a number.
        is_speed: whether its speed is a result.
        own_script: whether a reading is a run of its own script; others are made of the baseline's call.
        changed: whether it is the baseline with a change.
        ablation: whether it is the baseline without something, as a test.
        breakdown: whether it serves the step-time breakdown, in which kinds are measured in the order of KINDS.
        again: whether it is read again, backward: what the breakdown's differences are made of.
        trees: whether boosted trees have it too.
        needs: what it needs of call and device to mean something.
        removes: the parts of the baseline's step that it is without.
        stands_for: the name of the kind of variants that it stands for; "" if for itself.
    """

    name: str
    label: str
    takes: bool = False
    usual: str = ""
    is_speed: bool = False
    own_script: bool = False
    changed: bool = False
    ablation: bool = False
    breakdown: bool = False
    again: bool = False
    trees: bool = False
    needs: frozenset[Need] = frozenset()
    removes: tuple[Part, ...] = ()
    stands_for: str = ""

    def of(self, argument: object) -> str:
        """Return the variant with an argument: BATCH.of(4) is "batch:4"."""
        return f"{self.name}:{argument}"

    def argument(self, variant: str) -> str:
        """Return the argument of a variant of this kind; "" for others."""
        return variant.removeprefix(f"{self.name}:") if self.takes and self.has(variant) else ""

    def number(self, variant: str) -> int:
        """Return the number that is the argument of a variant of this kind; 1 for others."""
        return int(self.argument(variant) or 1)

    def has(self, variant: str) -> bool:
        """Return whether a variant is of this kind."""
        return variant.startswith(f"{self.name}:") if self.takes else variant == self.name

    def among(self, variants: Iterable[str]) -> list[str]:
        """Return those of some variants that are of this kind."""
        return [variant for variant in variants if self.has(variant)]

    @property
    def in_breakdown(self) -> str:
        """The variant of the breakdown; "" if there is none."""
        if not self.breakdown or (self.takes and not self.usual):
            return ""
        return self.of(self.usual) if self.takes else self.name


def _ablation(name: str, label: str, *removes: Part, needs: Sequence[Need] = ()) -> Kind:
    return Kind(
        name=name, label=label, changed=True, ablation=True, breakdown=True, again=True, removes=removes,
        needs=frozenset({Need.NO_REQUESTS, Need.ONE_DEVICE, *needs}),
    )  # fmt: skip


# A script of the workload's ladder, and the baseline's script with one remedy or several joined with "+".
OPTIMIZATION = Kind(name="opt", label="{}", takes=True, is_speed=True, own_script=True, changed=True)
FIX = Kind(name="fix", label="{}", takes=True, own_script=True, changed=True)
# model-only with a batch N times as large, or with N steps per call.
BATCH = Kind(
    name="batch", label="model alone, {}x batch", takes=True, usual="4", breakdown=True,
    needs=frozenset({Need.ONE_DEVICE, Need.OTHER_BATCHES}),
)  # fmt: skip
CALLS = Kind(
    name="calls", label="model alone, {} steps per call", takes=True, usual="10", breakdown=True,
    needs=frozenset({Need.ONE_DEVICE, Need.TRAINING}),
)  # fmt: skip
# The input up to and including a stage, and on N threads.
STAGE = Kind(name="stage", label="input up to {}", takes=True)
THREADS = Kind(
    name="threads", label="input alone, {} thread", takes=True, usual="1", breakdown=True,
    needs=frozenset({Need.NO_REQUESTS, Need.PIPELINE}),
)  # fmt: skip

# In the order measured: the driver skips those that earlier ones make needless. Of two that remove a part,
# the first removes fewer others.
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name=BASELINE, label=BASELINE, is_speed=True, own_script=True, trees=True),
        Kind(name=TUNED, label=TUNED, is_speed=True, own_script=True, trees=True),
        OPTIMIZATION,
        FIX,
        Kind(
            name=INPUT_ONLY, label="input alone", breakdown=True, again=True, trees=True,
            needs=frozenset({Need.NO_REQUESTS}),
        ),
        Kind(name=MODEL_ONLY, label="model alone", breakdown=True, again=True, trees=True),
        # Training with next() outside the compiled step, which tells how long the step waits for its input.
        Kind(
            name=CUSTOM_LOOP, label="custom training loop", breakdown=True, again=True,
            needs=frozenset({Need.NO_REQUESTS, Need.ONE_DEVICE}),
        ),
        # model-only with the batch in host memory, which tells what copies to the device cost.
        Kind(
            name=HOST_FED, label="model fed from the host", breakdown=True,
            needs=frozenset({Need.GPU, Need.NO_REQUESTS, Need.ONE_DEVICE}),
        ),
        BATCH,
        CALLS,
        _ablation(WITHOUT_FRAMEWORK, "compiled, no callbacks", Part.FRAMEWORK),
        _ablation(WITHOUT_EPOCHS, "one long epoch", Part.EPOCHS, needs=[Need.TRAINING, Need.NATIVE_INPUT]),
        _ablation(WITHOUT_LAUNCH, "multiple steps per call", Part.LAUNCH, Part.FRAMEWORK),
        Kind(
            name=WITHOUT_INPUT, label="fed from memory", changed=True, ablation=True, breakdown=True, again=True,
            needs=frozenset({Need.NO_REQUESTS}), removes=INPUT_PARTS,
        ),
        Kind(
            name=STAGES, label="stages of the input", breakdown=True,
            needs=frozenset({Need.NO_REQUESTS, Need.STAGED_INPUT}), stands_for=STAGE.name,
        ),
        STAGE,
        _ablation(WITHOUT_COPY, "prefetch to device", Part.COPY, needs=[Need.GPU, Need.PIPELINE]),
        THREADS,
        Kind(name=FIXES, label="remedies", breakdown=True, stands_for=FIX.name),
    )
}  # fmt: skip

# The variants of the breakdown, in the order measured.
BREAKDOWN = tuple(kind.in_breakdown for kind in KINDS.values() if kind.in_breakdown)
# Ablation -> the parts of the baseline's step that it is without, if it is without whole parts.
REMOVED_PARTS: Mapping[str, tuple[Part, ...]] = {
    kind.name: kind.removes for kind in KINDS.values() if kind.removes
}


# What is measured of a machine, and unknown names.
OTHER = Kind(name="other", label="{}")


def kind_of(variant: str) -> Kind:
    """Return the kind of a variant; OTHER for what is measured of a machine, and for unknown names."""
    kind = KINDS.get(variant) or KINDS.get(variant.partition(":")[0])
    return kind if kind and kind.has(variant) else OTHER


def variant_name(variant: str) -> str:
    """Return what reports call a variant; names that are no variant's stay."""
    kind = kind_of(variant)
    return variant if kind is OTHER else kind.label.format(kind.argument(variant))


def measures_speed(variant: str) -> bool:
    """Return whether a variant's speed is a result; other variants serve the step-time breakdown."""
    return kind_of(variant).is_speed


def runs_script(variant: str) -> bool:
    """Return whether a reading of a variant is a run of its own script; others are made of the baseline's call."""
    return kind_of(variant).own_script


def changes_baseline(variant: str) -> bool:
    """Return whether a variant is a changed baseline: a step of the ladder, a remedy or an ablation."""
    return kind_of(variant).changed


def usual(variant: str) -> str:
    """Return the breakdown's variant that differs only in the number; if there is none, the variant itself."""
    kind = kind_of(variant)
    number = kind.argument(variant) if kind.usual else ""
    valid = number.isascii() and number.isdigit() and number[:1] != "0" and len(number) <= len("9999")
    return kind.in_breakdown if valid else variant


def standing_for(measured: Iterable[str]) -> set[str]:
    """Return the variants that stand for others, of which some were measured."""
    found = {kind_of(variant).name for variant in measured}
    return {kind.name for kind in KINDS.values() if kind.stands_for in found}


def together(names: Sequence[str]) -> str:
    """Return the variant with several remedies."""
    return FIX.of("+".join(map(FIX.argument, names)))


def refused(judged: Mapping[str, str]) -> dict[str, str]:
    """Return the variants with remedies that may not be offered, with the reason, of those that were judged."""
    return {variant: reason for variant, reason in judged.items() if reason}


def has_any(fixes: Iterable[str], variants: Iterable[str]) -> bool:
    """Return whether a script with these remedies has all of one of some variants with remedies.

    >>> has_any(["fix:cache+prefetch"], ["fix:cache"])
    True
    """
    own = {name for each in fixes if FIX.has(each) for name in FIX.argument(each).split("+")}
    return any(own.issuperset(FIX.argument(each).split("+")) for each in variants if FIX.has(each))
