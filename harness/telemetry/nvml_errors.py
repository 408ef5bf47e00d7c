"""Classify NVML errors and describe them to users."""

from __future__ import annotations

import pynvml

_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "No NVIDIA driver is installed: libnvidia-ml.so.1 was not found.",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "The NVIDIA kernel driver is not loaded. Run nvidia-smi, or reboot.",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "The NVIDIA library and kernel driver have different versions after a driver update. Reboot."
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: "The GPU has fallen off the bus. Reset it or reboot.",
    pynvml.NVML_ERROR_RESET_REQUIRED: "The GPU must be reset before it can be used again.",
    pynvml.NVML_ERROR_NO_PERMISSION: "The current user has no permission for this NVML call.",
    pynvml.NVML_ERROR_UNINITIALIZED: "NVML is not initialised: the driver was reset.",
    pynvml.NVML_ERROR_NOT_FOUND: "NVML no longer finds this GPU.",
    pynvml.NVML_ERROR_NO_DATA: "NVML has no value, or an impossible one.",
    pynvml.NVML_ERROR_UNKNOWN: "NVML reports an unknown error.",
}
# The metric is not available with this GPU, driver or user.
UNSUPPORTED = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_NO_PERMISSION,
    )
)
# The whole GPU is unreadable. All other errors are temporary.
GPU_LOST = frozenset(
    (
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_NOT_FOUND,
    )
)


def explain(error: Exception, uuid: str = "") -> str:
    """Describe an error in a sentence; `uuid` is that of the GPU or MIG instance."""
    if not isinstance(error, pynvml.NVMLError):
        return str(error)
    code = error.value
    if uuid.startswith("MIG-") and code in UNSUPPORTED:
        return "Not available on a MIG instance, only for the whole GPU."
    if code in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT):
        return "This GPU does not support this metric."
    if code in UNSUPPORTED and code not in _HINTS:
        return "The installed driver does not support this metric."
    return _HINTS.get(code) or f"NVML error: {error}."
