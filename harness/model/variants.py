"""The kinds of variants: where they apply, what they are called, and which of them the step-time breakdown needs."""

from __future__ import annotations

import re
from typing import NamedTuple

from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIX_PREFIX,
    FIXES,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    STAGE_PREFIX,
    STAGES,
    THREADS_PREFIX,
    TUNED,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
)


class VariantKind(NamedTuple):
    """A variant, or the variants that begin with a prefix.

    Attributes:
        name: of the variant, or the prefix, which ends with a colon.
        label: its name in reports; {} stands for what follows the prefix.
        number: follows the prefix in the breakdown; users can choose another. "" if there are no numbers.
        trees: whether boosted trees have it too.
        gpu_only: whether CPUs do not have it.
    """

    name: str
    label: str
    number: str = ""
    trees: bool = False
    gpu_only: bool = False


# Those of the breakdown are in the order measured: the driver skips those that earlier ones show to be uninformative.
# See docs/step-time.md.
_KINDS = (
    VariantKind(BASELINE, "baseline", trees=True),
    VariantKind(TUNED, "tuned", trees=True),
    VariantKind(OPTIMIZATION_PREFIX, "{}"),
    VariantKind(FIX_PREFIX, "{}"),
    VariantKind(INPUT_ONLY, "input alone", trees=True),
    VariantKind(MODEL_ONLY, "model alone", trees=True),
    VariantKind(CUSTOM_LOOP, "custom training loop"),
    VariantKind(HOST_FED, "model fed from the host", gpu_only=True),
    VariantKind(BATCH_PREFIX, "model alone, {}x batch", number="4"),
    VariantKind(CALLS_PREFIX, "model alone, {} steps per call", number="10"),
    VariantKind(WITHOUT_FRAMEWORK, "compiled, no callbacks"),
    VariantKind(WITHOUT_LAUNCH, "multiple steps per call"),
    VariantKind(WITHOUT_INPUT, "fed from memory"),
    VariantKind(STAGES, "stages of the input"),
    VariantKind(STAGE_PREFIX, "input up to {}"),
    VariantKind(WITHOUT_COPY, "prefetch to device", gpu_only=True),
    VariantKind(THREADS_PREFIX, "input alone, {} thread", number="1"),
    VariantKind(FIXES, "fixes"),
)
_BY_NAME = {kind.name: kind for kind in _KINDS}

BREAKDOWN = tuple(
    f"{kind.name}{kind.number}"
    for kind in _KINDS
    if kind.name not in (BASELINE, TUNED) and (kind.number or not kind.name.endswith(":"))
)
GPU_ONLY = frozenset(kind.name for kind in _KINDS if kind.gpu_only)
OF_TREES = frozenset(kind.name for kind in _KINDS if kind.trees)


def _kind_of(variant: str) -> VariantKind | None:
    return _BY_NAME.get(variant) or _BY_NAME.get(variant[: variant.find(":") + 1])


def usual(variant: str) -> str:
    """Return the breakdown's variant that differs only in the number; if there is none, the variant itself."""
    kind = _kind_of(variant)
    numbered = kind and kind.number and re.fullmatch(r"[1-9]\d{0,3}", variant.removeprefix(kind.name))
    return f"{kind.name}{kind.number}" if kind and numbered else variant


def variant_name(variant: str) -> str:
    """Return the name of a variant in reports; names that are no variant's stay."""
    kind = _kind_of(variant)
    return kind.label.format(variant.removeprefix(kind.name)) if kind else variant
