"""Display names of devices, variants and parts."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model.analysis import Analysis, Part
from workloads import protocol

VARIANT_NAMES = {
    protocol.BASELINE: "baseline",
    protocol.TUNED: "tuned",
    protocol.STAGES: "stages of the input",
    protocol.INPUT_ONLY: "input alone",
    protocol.MODEL_ONLY: "model alone",
    protocol.CUSTOM_LOOP: "custom training loop",
    protocol.HOST_FED: "model fed from the host",
    protocol.WITHOUT_INPUT: "fed from memory",
    protocol.WITHOUT_LAUNCH: "multiple steps per call",
    protocol.WITHOUT_FRAMEWORK: "compiled, no callbacks",
    protocol.WITHOUT_COPY: "prefetch to device",
}
_NUMBERED = {
    protocol.BATCH_PREFIX: "model alone, {}x batch",
    protocol.CALLS_PREFIX: "model alone, {} steps per call",
    protocol.THREADS_PREFIX: "input alone, {} thread",
    protocol.STAGE_PREFIX: "input up to {}",
}
SHORT_PARTS = {Part.INPUT_WAIT: "input", Part.INPUT_SLOWDOWN: "input", Part.HOST: "host"}


def is_gpu(device: str) -> bool:
    """Return whether a trial's device is one or more GPUs."""
    return device.startswith("gpu")


def device_name(device: str) -> str:
    """Return a device's name: "CPU", "GPU 0", "4 GPUs"."""
    parts = device.split("+")
    if len(parts) > 1:
        return f"{len(parts)} GPUs"
    kind, index = device[:3].upper(), device[3:]
    if kind not in ("CPU", "GPU") or (index and not index.isdecimal()):
        return device
    return f"{kind} {index}".strip()


def device_names(devices: Iterable[str]) -> dict[str, str]:
    """Return the name of each device; a single GPU is "GPU", or "1 GPU" next to a multi-GPU device."""
    names = {device: device_name(device) for device in devices}
    together = any("+" in device for device in names)
    single = [device for device in names if is_gpu(device) and "+" not in device and device != "gpu"]
    if len(single) == 1:
        names[single[0]] = "1 GPU" if together else "GPU"
    return names


def variant_name(variant: str) -> str:
    """Return the display name of a variant."""
    for prefix, words in _NUMBERED.items():
        if variant.startswith(prefix):
            return words.format(variant.removeprefix(prefix))
    plain = variant.removeprefix(protocol.OPTIMIZATION_PREFIX).removeprefix(protocol.FIX_PREFIX)
    return VARIANT_NAMES.get(variant, plain)


def devices_of(analysis: Analysis) -> dict[str, str]:
    """Return the name of each device in an analysis."""
    groups = (analysis.run.planned, analysis.run.trials, analysis.summaries, analysis.published)
    return device_names(each.device for group in groups for each in group)


def titles_of(analysis: Analysis) -> dict[str, str]:
    """Return workload name -> title, or the name itself without a declared title."""
    groups = (analysis.run.planned, analysis.run.trials, analysis.summaries)
    titles = {workload.name: workload.title or workload.name for workload in analysis.run.workloads}
    return {each.workload: each.workload for group in groups for each in group} | titles
