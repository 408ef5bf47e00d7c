"""What things are called in a report: devices, phases and the telemetry that is drawn."""

from __future__ import annotations

from workloads.protocol import (
    BUILD,
    DATA,
    EVALUATE,
    FIRST_STEP,
    IMPORT,
    STEADY,
    WARM_UP,
)

PHASE_NAMES = {
    IMPORT: "TensorFlow import",
    DATA: "data preparation",
    BUILD: "model building",
    FIRST_STEP: "first step",
    WARM_UP: "warm-up",
    STEADY: "measuring",
    EVALUATE: "evaluation",
}

# NVML's clocks event reasons, nvmlClocksEventReason*: an idle GPU and clocks set by the user are no
# throttling.
THROTTLE_REASONS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


def phase_name(phase: str) -> str:
    """Say a phase's name in words."""
    return PHASE_NAMES.get(phase, phase)


def is_gpu(device: str) -> bool:
    """Tell whether a trial's device is one GPU or several."""
    return device.startswith("gpu")


def device_name(device: str) -> str:
    """Say a device's name: "CPU", "GPU 0", "4 GPUs"."""
    parts = device.split("+")
    if len(parts) > 1:
        return f"{len(parts)} GPUs"
    kind, number = device[:3].upper(), device[3:]
    if kind not in ("CPU", "GPU") or (number and not number.isdecimal()):
        return device
    return f"{kind} {number}".strip()


def throttle_names(reasons: int) -> tuple[str, ...]:
    """Name the reasons in a bit mask for which a GPU ran below the clock that it was asked for."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit)
