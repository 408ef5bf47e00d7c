"""NVML's errors: what they mean for a reading, and sentences for people."""

from __future__ import annotations

import pynvml

_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "No NVIDIA driver is installed: libnvidia-ml.so.1 is not found.",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "The NVIDIA kernel driver is not loaded: try nvidia-smi, or reboot.",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "The NVIDIA library and kernel driver are of different versions: the driver was updated; reboot."
    ),
    pynvml.NVML_ERROR_GPU_IS_LOST: "The GPU is lost: it has fallen off the bus; reset it or reboot.",
    pynvml.NVML_ERROR_RESET_REQUIRED: "The GPU must be reset before it can be used again.",
    pynvml.NVML_ERROR_NO_PERMISSION: "NVML requires privileges for this.",
    pynvml.NVML_ERROR_UNINITIALIZED: "NVML is not initialised: the driver was reset.",
    pynvml.NVML_ERROR_NOT_FOUND: "NVML no longer finds this GPU.",
    pynvml.NVML_ERROR_NO_DATA: "NVML has no value at the moment.",
    pynvml.NVML_ERROR_UNKNOWN: "NVML reports an unknown error.",
}
# The metric will never be available to this GPU, driver or user.
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
# The whole GPU cannot be read. All other errors are temporary.
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
    """Describe an error in one sentence; `uuid` tells MIG instances from GPUs."""
    if not isinstance(error, pynvml.NVMLError):
        return str(error)
    code = error.value
    if uuid.startswith("MIG-") and code in UNSUPPORTED:
        return "Not available on a MIG instance, only for the whole GPU."
    if code in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT):
        return "This GPU does not support it."
    if code in UNSUPPORTED and code not in _HINTS:
        return "The installed driver does not offer it."
    return _HINTS.get(code) or f"NVML reports an error: {error}."
