"""Which remedies are worth trying, which of them gained, and which go together. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from workloads.driver.results import Results
from workloads.protocol import (
    BASELINE,
    BATCH_BYTES,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIX_PREFIX,
    HOST_FED,
    MODEL_ONLY,
    STEPS_PER_CALL,
    WORTH,
    Fix,
    Spec,
    number_of,
)

# Calls of several steps are not tried where they would take longer, in seconds.
LONGEST_CALL_S = 1.5
# Parts below this share of a step are not investigated further; xprof calls 5 % moderate.
RELEVANT_SHARE = 0.05

# Two ways to the same end.
_EITHER = {f"{FIX_PREFIX}steps-per-execution", f"{FIX_PREFIX}many-steps"}


def worth_trying(spec: Spec, results: Results, answers: str) -> bool:
    """Return whether a remedy answers a part of the baseline's step, as far as it was measured.

    Args:
        answers: see workloads.protocol.Fix.
    """
    if spec.gpus > 1 or results.params.get("new_tokens"):
        return False  # one call generates all tokens: what Keras does around it is nothing beside that
    base, model = results.step_s(BASELINE), results.step_s(MODEL_ONLY)
    if answers in ("launch", "batch") and STEPS_PER_CALL[spec.device] * base > LONGEST_CALL_S:
        return False  # what a launch costs is nothing beside such a step
    if spec.steps or not base or not model:
        return True
    loop, ready = results.step_s(CUSTOM_LOOP) or base, results.step_s(HOST_FED) or model
    lost_to_input = max(results.wait_share or 0.0, 1 - ready / min(base, loop))
    around = 1 - loop / base
    calls = min(results.steps_s(CALLS_PREFIX).values(), default=model)
    larger = min(
        (step / number_of(name, BATCH_PREFIX) for name, step in results.steps_s(BATCH_PREFIX).items()),
        default=model,
    )
    relevant = {
        "input": lost_to_input >= RELEVANT_SHARE,
        "cache": lost_to_input >= RELEVANT_SHARE and _fits_memory(results),
        "loader": lost_to_input >= RELEVANT_SHARE and bool(results.params.get("python_input")),
        "eager": results.eager,
        "framework": around >= RELEVANT_SHARE,
        "launch": not results.eager and max(around, (model - calls) / base) >= RELEVANT_SHARE,
        "device": not results.eager and model >= RELEVANT_SHARE * base,
        "batch": model - larger >= RELEVANT_SHARE * base,
    }
    return relevant[answers]


def _fits_memory(results: Results) -> bool:
    """Return whether the samples of an epoch fit into half of the free memory."""
    params, size = results.params, results.metric(BASELINE, BATCH_BYTES)
    if not size or not params.get("samples_per_epoch"):
        return False
    return bool(size / params["batch_size"] * params["samples_per_epoch"] <= free_memory() / 2)


def free_memory() -> int:
    """Return the bytes of memory that can still be used, of the container or the host."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            texts = (Path("/sys/fs/cgroup", name).read_text(encoding="ascii") for name in (limit, used))
            most, current = (int(text) if text.strip() != "max" else free for text in texts)
        except (OSError, ValueError):
            continue
        free = min(free, max(0, most - current))
    return free


def candidates(fixes: Mapping[str, Fix], results: Results) -> list[str]:
    """Return the remedies that gained when measured alone, largest gain first."""
    # A larger batch changes how fast the model learns, so it is shown alone and not part of tuned.
    gained = [name for name, fix in fixes.items() if fix.answers != "batch" and results.gain(name) >= WORTH]
    return sorted(gained, key=results.gain, reverse=True)


def joins(name: str, kept: Sequence[str]) -> bool:
    """Return whether a remedy can be added to others."""
    return not (name in _EITHER and _EITHER & set(kept))
