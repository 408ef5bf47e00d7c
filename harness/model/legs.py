"""What legs are called in sentences, tables and charts."""

from __future__ import annotations

from workloads.protocol import (
    AS_WRITTEN,
    BATCH_PREFIX,
    CACHED_EPOCH,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIRST_EPOCH,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    RUNG_PREFIX,
    STAGE_PREFIX,
    THREADS_PREFIX,
    TUNED,
    TUNED_INPUT,
)

LEG_NAMES = {
    AS_WRITTEN: "as written",
    TUNED: "tuned",
    INPUT_ONLY: "input alone",
    MODEL_ONLY: "model alone",
    CUSTOM_LOOP: "loop that sees the wait",
    HOST_FED: "model fed from the host",
    TUNED_INPUT: "only the pipeline tuned",
    FIRST_EPOCH: "input alone, first epoch",
    CACHED_EPOCH: "input alone, cached",
}

PROBE_NAMES = {
    BATCH_PREFIX: "model alone, {}x the batch",
    CALLS_PREFIX: "model alone, {} steps a call",
    THREADS_PREFIX: "input alone, threads: {}",
}


def leg_name(leg: str) -> str:
    """Say a leg's name in words: a step of a ladder by its own, a stage as what is drained up to it."""
    if leg.startswith(STAGE_PREFIX):
        return f"input up to {leg.removeprefix(STAGE_PREFIX)}"
    for prefix, words in PROBE_NAMES.items():
        if leg.startswith(prefix):
            return words.format(leg.removeprefix(prefix))
    return LEG_NAMES.get(leg, leg.removeprefix(RUNG_PREFIX))
