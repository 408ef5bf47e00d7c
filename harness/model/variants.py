"""What variants are called in sentences, tables and charts."""

from __future__ import annotations

from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CACHED_EPOCH,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIRST_EPOCH,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    STAGE_PREFIX,
    THREADS_PREFIX,
    TUNED,
    WITHOUT_INPUT,
)

VARIANT_NAMES = {
    BASELINE: "baseline",
    TUNED: "tuned",
    INPUT_ONLY: "input alone",
    MODEL_ONLY: "model alone",
    CUSTOM_LOOP: "loop that sees the wait",
    HOST_FED: "model fed from the host",
    WITHOUT_INPUT: "only the pipeline tuned",
    FIRST_EPOCH: "input alone, first epoch",
    CACHED_EPOCH: "input alone, cached",
}

PROBE_NAMES = {
    BATCH_PREFIX: "model alone, {}x the batch",
    CALLS_PREFIX: "model alone, {} steps a call",
    THREADS_PREFIX: "input alone, threads: {}",
}


def variant_name(variant: str) -> str:
    """Return a variant's name in words."""
    if variant.startswith(STAGE_PREFIX):
        return f"input up to {variant.removeprefix(STAGE_PREFIX)}"
    for prefix, words in PROBE_NAMES.items():
        if variant.startswith(prefix):
            return words.format(variant.removeprefix(prefix))
    return VARIANT_NAMES.get(variant, variant.removeprefix(OPTIMIZATION_PREFIX))
