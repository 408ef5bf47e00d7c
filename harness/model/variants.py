"""The kinds of variants: where they apply, what they remove, and which of them the step-time breakdown needs."""

from __future__ import annotations

import re
from typing import NamedTuple

from harness.model.analysis import INPUT_PARTS, Part
from harness.model.workload import Workload
from workloads import protocol


class VariantKind(NamedTuple):
    """A variant, or the variants that begin with a prefix.

    Attributes:
        name: of the variant, or the prefix, which ends with a colon.
        number: follows the prefix in the breakdown; users can choose another. "" if there are no numbers.
        trees: whether boosted trees have it too.
        gpu_only: whether CPUs do not have it.
        removes: the parts of the baseline's step that it is without.
    """

    name: str
    number: str = ""
    trees: bool = False
    gpu_only: bool = False
    removes: tuple[Part, ...] = ()


# Those of the breakdown are in the order measured: the driver skips those that earlier ones show to be uninformative.
# What each changes is in workloads/protocol.py; see also docs/step-time.md.
_KINDS = (
    VariantKind(protocol.BASELINE, trees=True),
    VariantKind(protocol.TUNED, trees=True),
    VariantKind(protocol.OPTIMIZATION_PREFIX),
    VariantKind(protocol.FIX_PREFIX),
    VariantKind(protocol.INPUT_ONLY, trees=True),
    VariantKind(protocol.MODEL_ONLY, trees=True),
    VariantKind(protocol.CUSTOM_LOOP),
    VariantKind(protocol.HOST_FED, gpu_only=True),
    VariantKind(protocol.BATCH_PREFIX, number="4"),
    VariantKind(protocol.CALLS_PREFIX, number="10"),
    VariantKind(protocol.WITHOUT_FRAMEWORK, removes=(Part.FRAMEWORK,)),
    VariantKind(protocol.WITHOUT_EPOCHS, removes=(Part.EPOCHS,)),
    VariantKind(protocol.WITHOUT_LAUNCH, removes=(Part.LAUNCH, Part.FRAMEWORK)),
    VariantKind(protocol.WITHOUT_INPUT, removes=INPUT_PARTS),
    VariantKind(protocol.STAGES),
    VariantKind(protocol.STAGE_PREFIX),
    VariantKind(protocol.WITHOUT_COPY, gpu_only=True, removes=(Part.COPY,)),
    VariantKind(protocol.THREADS_PREFIX, number="1"),
    VariantKind(protocol.FIXES),
)

BREAKDOWN = tuple(
    f"{kind.name}{kind.number}"
    for kind in _KINDS
    if kind.name not in (protocol.BASELINE, protocol.TUNED) and (kind.number or not kind.name.endswith(":"))
)
GPU_ONLY = frozenset(kind.name for kind in _KINDS if kind.gpu_only)
OF_TREES = frozenset(kind.name for kind in _KINDS if kind.trees)
# Of two that remove a part, the first removes fewer others.
ABLATIONS = {kind.name: kind.removes for kind in _KINDS if kind.removes}
_NUMBERED = {kind.name: f"{kind.name}{kind.number}" for kind in _KINDS if kind.number}


def one_device_only(workload: Workload, variant: str) -> str:
    """Return why a variant cannot run on several GPUs together; "" if it can, as far as its script tells."""
    if workload.image != protocol.TENSORFLOW:
        return "an XGBoost process uses one GPU"
    if workload.requests is not None:
        return "inference uses one device"
    rung = workload.ladder.get(variant.removeprefix(protocol.OPTIMIZATION_PREFIX))
    file = rung.script if rung else workload.tuned if variant == protocol.TUNED else ""
    if not file or protocol.distributes(workload.scripts.get(file, "")):
        return ""  # the driver trains the script as written in a MirroredStrategy
    if file != workload.file:
        return "its script trains on one device"
    # XLA's known issues: "tf.Variable on a different device"; tried with TensorFlow 2.21.
    if rung and rung.params.get("JIT_COMPILE"):
        return "XLA cannot compile a step of MirroredStrategy"
    return ""


def usual(variant: str) -> str:
    """Return the breakdown's variant that differs only in the number; if there is none, the variant itself."""
    prefix, colon, number = variant.partition(":")
    return _NUMBERED.get(prefix + colon, variant) if re.fullmatch(r"[1-9]\d{0,3}", number) else variant
