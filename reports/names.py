"""What things are called: devices, variants, parts, phases, metrics."""

from __future__ import annotations

from harness.model.analysis import Analysis, Part
from harness.telemetry.metrics import METRICS
from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    BUILD,
    CACHED_EPOCH,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    DATA,
    EVALUATE,
    FIRST_EPOCH,
    FIRST_STEP,
    HOST_FED,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    PARALLEL_INPUT,
    STAGE_PREFIX,
    STEADY,
    THREADS_PREFIX,
    TUNED,
    WARM_UP,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
)

PHASE_NAMES = {
    IMPORT: "import",
    DATA: "data",
    BUILD: "model build",
    FIRST_STEP: "first step",
    WARM_UP: "warm-up",
    STEADY: "measured",
    EVALUATE: "evaluation",
}
VARIANT_NAMES = {
    BASELINE: "baseline",
    TUNED: "tuned",
    INPUT_ONLY: "input alone",
    MODEL_ONLY: "model alone",
    CUSTOM_LOOP: "bare loop",
    HOST_FED: "model fed from the host",
    FIRST_EPOCH: "input alone, first epoch",
    CACHED_EPOCH: "input alone, cached",
    PARALLEL_INPUT: "parallel input",
    WITHOUT_INPUT: "fed from memory",
    WITHOUT_LAUNCH: "several steps a call",
    WITHOUT_FRAMEWORK: "compiled, no callbacks",
    WITHOUT_COPY: "prefetch to device",
}
_NUMBERED = {
    BATCH_PREFIX: "model alone, {}x batch",
    CALLS_PREFIX: "model alone, {} steps a call",
    THREADS_PREFIX: "input alone, {} thread",
    STAGE_PREFIX: "input up to {}",
}
# NVML's clocks event reasons, nvmlClocksEventReason*: an idle GPU and clocks set by the user are no throttling.
THROTTLE_REASONS = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
SHORT_PARTS = {Part.INPUT_WAIT: "input", Part.INPUT_SLOWDOWN: "input", Part.HOST: "host"}


def is_gpu(device: str) -> bool:
    """Tell whether a trial's device is one GPU or several."""
    return device.startswith("gpu")


def device_name(device: str, *, alone: bool = False) -> str:
    """Return a device's name: "CPU", "GPU 0" ("GPU" where it is the only one), "4 GPUs"."""
    parts = device.split("+")
    if len(parts) > 1:
        return f"{len(parts)} GPUs"
    kind, index = device[:3].upper(), device[3:]
    if kind not in ("CPU", "GPU") or (index and not index.isdecimal()):
        return device
    return kind if alone else f"{kind} {index}".strip()


def variant_name(variant: str) -> str:
    """Return a variant's name in words."""
    for prefix, words in _NUMBERED.items():
        if variant.startswith(prefix):
            return words.format(variant.removeprefix(prefix))
    return VARIANT_NAMES.get(variant, variant.removeprefix(OPTIMIZATION_PREFIX))


def phase_name(phase: str) -> str:
    """Return a phase's name in words."""
    return PHASE_NAMES.get(phase, phase)


def metric_label(key: str) -> str:
    """Return the label of "source.device.metric", with the device where it says something."""
    _, device, metric = key.split(".", 2)
    known = METRICS.get(metric.removesuffix("_per_s"))
    label = known.label if known else metric
    return f"{label} ({device_name(device)})" if is_gpu(device) else label


def throttle_names(reasons: int) -> tuple[str, ...]:
    """Name the reasons in a bit mask for which a GPU ran below the clock that it was asked for."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit)


def titles_of(analysis: Analysis) -> dict[str, str]:
    """Return each workload's title by its name; the name itself where nothing is declared."""
    titles = {workload.name: workload.title or workload.name for workload in analysis.run.workloads}
    for group in (analysis.run.planned, analysis.run.trials, analysis.summaries):
        for each in group:
            titles.setdefault(each.workload, each.workload)
    return titles
