"""Discover NVIDIA GPUs and MIG instances, select those of a run, and check that driver and GPUs are new enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pynvml
from packaging.version import Version

from harness.errors import GpuError, UsageError
from harness.model.platform import Gpu
from harness.telemetry.gpu_source import explain
from harness.untrusted import printable

T = TypeVar("T")
# CUDA 12's minor-version compatibility: CUDA Compatibility guide, table 2 (Linux).
MIN_DRIVER = "525.60.13"
# TensorFlow 2.21's wheels contain machine code for 6.0 to 9.0, and 9.0 PTX for newer GPUs.
MIN_CAPABILITY = "6.0"
MAX_COMPILED_CAPABILITY = "9.0"
# Compiling PTX needs a driver of the same CUDA release or newer; the image's libraries are CUDA 12.9.
PTX_DRIVER = "575.51.03"
# What users report of the image's TensorFlow, or versions next to it, on GPUs of a newer compute capability: major
# number -> what happens, and the issues of tensorflow/tensorflow. Not tried by us.
REPORTED: Mapping[int, tuple[str, tuple[int, ...]]] = {
    10: ("nobody reports whether it works there; the reports of 12.0 may apply", (89272,)),
    12: (
        "kernels compiled by the driver fail with CUDA_ERROR_INVALID_PTX, and XLA aborts because its PTX 8.5 lacks "
        "this target",
        (89272, 101746, 111958),
    ),
}


def discover() -> tuple[tuple[Gpu, ...], str]:
    """Return the GPUs in NVML's order, and why some or all are missing ("" if none is missing).

    A GPU in MIG mode is replaced by its instances; `uuid` is then the GPU's, `mig_uuid` the instance's.
    """
    try:
        pynvml.nvmlInit()
        try:
            return _gpus()
        finally:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return (), explain(error)


def _gpus() -> tuple[tuple[Gpu, ...], str]:
    driver = _or_none(lambda: _text(pynvml.nvmlSystemGetDriverVersion)) or ""
    version = _or_none(pynvml.nvmlSystemGetCudaDriverVersion_v2)
    cuda = f"{version // 1000}.{version % 1000 // 10}" if version else ""
    gpus: list[Gpu] = []
    problems: list[str] = []
    count = pynvml.nvmlDeviceGetCount()
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpu = _gpu(index, handle, driver, cuda)
        except pynvml.NVMLError as error:
            problems.append(f"GPU {index}: {explain(error)}")
            continue
        instances = [_instance(gpu, instance) for instance in _instances(handle)] if gpu.mig_enabled else []
        gpus += instances or [gpu]
        if gpu.mig_enabled and not instances:
            problems.append(
                f"GPU {index} is in MIG mode but has no instances. Create one with nvidia-smi mig -cgi."
            )
    if not count:
        problems.append("The NVIDIA driver is loaded but reports no GPU.")
    return tuple(gpus), " ".join(problems)


def _gpu(index: int, handle: Any, driver: str, cuda: str) -> Gpu:
    """Describe a GPU; raise NVMLError if it is lost, when even its name is unavailable."""
    memory = _or_none(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    capability = _or_none(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    mig = _or_none(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    ecc = _or_none(lambda: pynvml.nvmlDeviceGetEccMode(handle))
    limit = _or_none(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    default_limit = _or_none(lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
    return Gpu(
        index=index,
        uuid=_text(lambda: pynvml.nvmlDeviceGetUUID(handle)),
        name=_text(lambda: pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory,
        driver_version=driver,
        cuda_version=cuda,
        compute_capability=".".join(map(str, capability)) if capability else None,
        power_limit_w=None if limit is None else limit / 1000,
        power_default_limit_w=None if default_limit is None else default_limit / 1000,
        ecc_enabled=None if ecc is None else bool(ecc[0]),
        # None if the GPU has no MIG mode.
        mig_enabled=bool(mig[0]) if mig else False,
        pcie_gen=_or_none(lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        pcie_width=_or_none(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        clock_max_sm_mhz=_or_none(lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        clock_max_mem_mhz=_or_none(lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        minor_number=_or_none(lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
    )


def _instances(handle: Any) -> Iterator[Any]:
    for index in range(_or_none(lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0):
        # NVML fails for an index without an instance.
        with suppress(pynvml.NVMLError):
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)


def _instance(gpu: Gpu, handle: Any) -> Gpu:
    return replace(
        gpu,
        mig_uuid=_text(lambda: pynvml.nvmlDeviceGetUUID(handle)),
        mig_enabled=True,
        name=_or_none(lambda: _text(lambda: pynvml.nvmlDeviceGetName(handle))) or f"{gpu.name} MIG",
        memory_bytes=_or_none(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total),
    )


def _text(call: Callable[[], str]) -> str:
    """Return a printable text from NVML, which may not be UTF-8."""
    try:
        return printable(call())
    except UnicodeDecodeError as error:
        return printable(error.object.decode("utf-8", "replace"))


def _or_none(call: Callable[[], T]) -> T | None:
    """Return what NVML returns; None after an error, or for a number of which all bits are set: unknown."""
    try:
        result = call()
    except pynvml.NVMLError:
        return None
    return None if result in (2**32 - 1, 2**64 - 1) else result


def select_gpus(gpus: Sequence[Gpu], selection: str) -> tuple[Gpu, ...]:
    """Return the selected GPUs, in the order of `selection` and without duplicates.

    Args:
        selection: "all", or indices, UUIDs or MIG UUIDs separated by commas.

    Raises:
        UsageError: a name matches no GPU or several; the message lists the GPUs.
    """
    usable = [gpu for gpu in gpus if gpu.mig_uuid or not gpu.mig_enabled]
    names = [] if selection == "all" else selection.split(",")
    selected = [_find(usable, name.strip(), gpus) for name in names] or usable
    if not selected:
        raise UsageError(
            f"No GPU matches --gpus {selection}. Available: {_list(gpus)}",
            hint="Remove --gpus, or run `tfbench doctor`.",
        )
    return tuple({gpu.cuda_id: gpu for gpu in selected}.values())


def _find(usable: Sequence[Gpu], name: str, gpus: Sequence[Gpu]) -> Gpu:
    result = [gpu for gpu in usable if name in (str(gpu.index), gpu.cuda_id)]
    if len(result) == 1:
        return result[0]
    raise UsageError(
        f"{name!r} matches {len(result) or 'no'} GPUs. Available: {_list(gpus)}",
        hint="Use indices, UUIDs or MIG UUIDs, separated by commas, or all.",
    )


def _list(gpus: Sequence[Gpu]) -> str:
    return "; ".join(
        f"{gpu.index} {gpu.name} {gpu.cuda_id}" + (" (in MIG mode)" if gpu.mig_enabled else "")
        for gpu in gpus
    )


def reported(gpu: Gpu) -> str:
    """Return what is reported of TensorFlow on a GPU's compute capability, with its source; "" for none."""
    major = Version(gpu.compute_capability or MIN_CAPABILITY).major
    if major not in REPORTED:
        return ""
    what, issues = REPORTED[major]
    source = ", ".join(f"tensorflow#{issue}" for issue in issues)
    return f"compute capability {gpu.compute_capability}: {what} ({source}; not tried by us)"


def check_driver(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return remarks on supported GPUs; raise GpuError if the driver or a GPU is too old."""
    remarks = []
    for gpu in gpus:
        if gpu.driver_version and Version(gpu.driver_version) < Version(MIN_DRIVER):
            raise GpuError(
                f"The NVIDIA driver is {gpu.driver_version}; the CUDA 12 image needs {MIN_DRIVER} or newer.",
                hint="Update the driver, use an image that supports it with --image cuda=REF, or use "
                "--device cpu.",
            )
        # An unknown capability is accepted.
        capability = Version(gpu.compute_capability or MIN_CAPABILITY)
        if capability < Version(MIN_CAPABILITY):
            raise GpuError(
                f"{gpu.name} has compute capability {capability}; TensorFlow's wheels need {MIN_CAPABILITY} or "
                "newer.",
                hint="Use an image with an older TensorFlow (--image cuda=REF), or --device cpu.",
            )
        if capability.major > Version(MAX_COMPILED_CAPABILITY).major:
            more = f" Reported of {text}." if (text := reported(gpu)) else ""
            remarks.append(
                f"TensorFlow has no machine code for {gpu.name} (compute capability {capability}): "
                "the first run compiles it, which takes minutes and needs driver "
                f"{PTX_DRIVER} or newer; later runs use a cache.{more}"
            )
    return tuple(dict.fromkeys(remarks))
