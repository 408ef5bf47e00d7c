# ruff: noqa: N802 - the functions have NVML's names
"""A stand-in for NVIDIA's library below the real binding, with the NVML calls that this project uses.

Its behaviour is a script of lines:

    gpu INDEX UUID MIG                   add a GPU; MIG is its number of instances, -1 without MIG support
    fail FUNCTION CODE [FROM [UNTIL]]    fail calls FROM to UNTIL of a function, or of all calls for "gpu:0"
    field ID CODE                        fail a field value
    value NAME NUMBER...                 the results of a call, in turn
    name HEX                             the name of every GPU, as bytes
"""

import ctypes
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import pynvml
import pytest

from harness.model.platform import Gpu
from harness.system.gpus import discover
from harness.telemetry import Source, Target
from harness.telemetry.sampler import default_sources

UUID = "GPU-11111111-2222-3333-4444-555555555555"
ONE_GPU = f"gpu 0 {UUID} -1\n"
MEMORY_BYTES = 150754820096

# Calls of the form (device, out) and (device, which, out): name of the value in scripts, and default.
NUMBERS = {
    "nvmlDeviceGetPowerUsage": ("power_usage", 300000),
    "nvmlDeviceGetEnforcedPowerLimit": ("limit", 700000),
    "nvmlDeviceGetPowerManagementDefaultLimit": ("default_limit", 700000),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("max_gen", 5),
    "nvmlDeviceGetMaxPcieLinkWidth": ("max_width", 16),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("gen", 5),
    "nvmlDeviceGetCurrPcieLinkWidth": ("width", 16),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ("reasons", 0),
    "nvmlDeviceGetPersistenceMode": ("persistence", 1),
    "nvmlDeviceGetRetiredPagesPendingStatus": ("retired_pending", 0),
}
CHOICES = {
    "nvmlDeviceGetClockInfo": ("clock", 1980),
    "nvmlDeviceGetMaxClockInfo": ("max_clock", 1980),
    "nvmlDeviceGetTemperature": ("temperature", 40),
    "nvmlDeviceGetTemperatureThreshold": ("threshold", 89),
    "nvmlDeviceGetApplicationsClock": ("app_clock", 1980),
    "nvmlDeviceGetDefaultApplicationsClock": ("default_app_clock", 1980),
}
WHOLE_ONLY = {
    *NUMBERS, *CHOICES, "nvmlDeviceGetMinorNumber", "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetSamples", "nvmlDeviceRegisterEvents", "nvmlGpmSampleGet",
}  # fmt: skip


@dataclass(eq=False)
class Device:
    """The target of a handle: a GPU or a MIG instance."""

    index: int
    uuid: str
    mig: int
    instance: int = -1
    handle: Any = dataclasses.field(default_factory=pynvml.struct_c_nvmlDevice_t)


class Library:
    """Replaces the loaded library; functions not defined here are missing in the driver."""

    def __init__(self, script: str) -> None:
        self._users = 0
        self._name = b"NVIDIA Stand-in"
        self._devices: dict[int, Device] = {}
        self._rules: list[list[Any]] = []
        self._fields: dict[int, int] = {}
        self._values: dict[str, Any] = {}
        self._samples: dict[int, Any] = {}
        self._taken: set[int] = set()
        for line in script.splitlines():
            match line.split():
                case "gpu", index, uuid, mig:
                    self._add_gpu(int(index), uuid, int(mig))
                case "fail", name, code, *calls:
                    first, until = map(int, (*calls, *("0", "1000000000")[len(calls) :]))
                    self._rules.append([name, int(code), first, until, 0])
                case "field", number, code:
                    self._fields[int(number)] = int(code)
                case "name", text:
                    self._name = bytes.fromhex(text)
                case "value", name, *numbers:
                    self._values[name] = cycle(map(float, numbers))
        for name in dir(type(self)):
            if name.startswith("nvml"):
                setattr(self, name, partial(self._call, name, getattr(self, name)))
        for name in ("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlDeviceRegisterEvents"):
            setattr(self, name, partial(self._call, name, lambda *_: 0))
        for name, (key, default) in NUMBERS.items():
            setattr(self, name, partial(self._call, name, partial(self._number, key, default)))
        for name, (key, default) in CHOICES.items():
            setattr(self, name, partial(self._call, name, partial(self._choice, key, default)))

    def _add_gpu(self, index: int, uuid: str, mig: int) -> None:
        for instance in range(-1, max(0, mig)):
            device_uuid = uuid if instance < 0 else f"MIG-{instance}-{uuid}"
            device = Device(index, device_uuid, mig, instance)
            self._devices[ctypes.addressof(device.handle)] = device

    def _value(self, name: str, default: float) -> int | float:
        value = next(self._values[name]) if name in self._values else default
        return int(value) if value == int(value) else value

    def _failure(self, name: str, device: Device | None) -> int:
        """Count the call for every matching rule; return the code of the first rule that fails it, else 0."""
        result = 0
        for rule in self._rules:
            if rule[0] in (name, f"gpu:{device.index}" if device else ""):
                if rule[2] <= rule[4] < rule[3]:
                    result = result or rule[1]
                rule[4] += 1
        return result

    def _call(self, name: str, function: Any, *arguments: Any) -> int:
        if name != "nvmlInitWithFlags" and not self._users:
            return pynvml.NVML_ERROR_UNINITIALIZED
        device = None
        if arguments and isinstance(arguments[0], pynvml.c_nvmlDevice_t):
            device = self._devices[ctypes.addressof(arguments[0].contents)]
            arguments = (device, *arguments[1:])
        if not name.startswith("nvmlDeviceGetHandle") and (code := self._failure(name, device)):
            return code
        if device and device.instance >= 0 and name in WHOLE_ONLY:
            return pynvml.NVML_ERROR_NOT_SUPPORTED
        return function(*arguments) or 0

    def _number(self, key: str, default: int, device: Device, out: Any) -> None:
        out._obj.value = self._value(key, default)

    def _choice(self, key: str, default: int, device: Device, which: Any, out: Any) -> None:
        out._obj.value = self._value(f"{key}{which.value}", default)

    def _find(self, name: str, out: Any, **attributes: Any) -> int:
        for device in self._devices.values():
            if all(getattr(device, key) == value for key, value in attributes.items()):
                out._obj.contents = device.handle
                return self._failure(name, device)
        return pynvml.NVML_ERROR_NOT_FOUND

    def nvmlInitWithFlags(self, flags):
        self._users += 1

    def nvmlShutdown(self):
        self._users -= 1

    def nvmlSystemGetDriverVersion(self, text, length):
        text.value = b"580.65.06"

    def nvmlSystemGetCudaDriverVersion_v2(self, out):
        out._obj.value = 13000

    def nvmlDeviceGetCount_v2(self, out):
        out._obj.value = sum(device.instance < 0 for device in self._devices.values())

    def nvmlDeviceGetHandleByIndex_v2(self, index, out):
        return self._find("nvmlDeviceGetHandleByIndex_v2", out, index=index.value, instance=-1)

    def nvmlDeviceGetHandleByUUID(self, uuid, out):
        return self._find("nvmlDeviceGetHandleByUUID", out, uuid=uuid.value.decode())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu, index, out):
        return self._find("nvmlDeviceGetHandle", out, index=gpu.index, instance=index.value)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, mig_device, out):
        return self._find("nvmlDeviceGetHandle", out, index=mig_device.index, instance=-1)

    def nvmlDeviceGetUUID(self, device, text, length):
        text.value = device.uuid.encode()

    def nvmlDeviceGetName(self, device, text, length):
        text.value = self._name + (b"" if device.instance < 0 else b" MIG 1g.18gb")

    def nvmlDeviceGetMigMode(self, device, current, pending):
        current._obj.value = 1
        return pynvml.NVML_ERROR_NOT_SUPPORTED if device.mig < 0 else 0

    def nvmlDeviceGetMaxMigDeviceCount(self, device, out):
        out._obj.value = 7

    def nvmlDeviceGetGpuInstanceId(self, mig_device, out):
        out._obj.value = mig_device.instance

    def nvmlDeviceGetMinorNumber(self, device, out):
        out._obj.value = device.index

    def nvmlDeviceGetEccMode(self, device, current, pending):
        current._obj.value = 1

    def nvmlDeviceGetTotalEccErrors(self, device, kind, counter, out):
        out._obj.value = self._value(f"ecc{kind.value}{counter.value}", 0)

    def nvmlDeviceGetRemappedRows(self, device, *outs):
        for name, out in zip(("corrected", "uncorrected", "pending", "failed"), outs, strict=True):
            out._obj.value = self._value(f"remap_{name}", 0)

    def nvmlDeviceGetNvLinkState(self, device, link, out):
        out._obj.value = self._value(f"nvlink{link}", 1)
        return pynvml.NVML_ERROR_INVALID_ARGUMENT if link >= 18 else 0

    def nvmlDeviceGetPowerManagementLimitConstraints(self, device, least, most):
        least._obj.value, most._obj.value = 200000, 700000

    def nvmlDeviceGetPciInfo_v3(self, device, out):
        out._obj.busId = f"00000000:{0x3B + device.index:02X}:00.0".encode()

    def nvmlDeviceGetP2PStatus(self, device, other, capability, out):
        out._obj.value = self._value("p2p", 0)

    def nvmlDeviceGetTopologyCommonAncestor(self, device, other, out):
        out._obj.value = self._value("topology", 50)

    def nvmlSystemGetConfComputeState(self, out):
        out._obj.ccFeature = self._value("confidential", 0)

    def nvmlDeviceGetCudaComputeCapability(self, device, major, minor):
        major._obj.value = 9

    def nvmlDeviceGetMemoryInfo(self, device, out):
        out._obj.total, out._obj.used = MEMORY_BYTES, self._value("memory_v1", 3e9)

    def nvmlDeviceGetMemoryInfo_v2(self, device, out):
        out._obj.total, out._obj.used = MEMORY_BYTES, self._value("memory", 2e9)

    def nvmlDeviceGetUtilizationRates(self, device, out):
        out._obj.gpu, out._obj.memory = self._value("util", 50), self._value("mem_util", 20)

    def nvmlDeviceGetFieldValues(self, device, count, out):
        for field in out._obj:
            unsupported = pynvml.NVML_ERROR_NOT_SUPPORTED if device.instance >= 0 else 0
            field.nvmlReturn = unsupported or self._fields.get(field.fieldId, 0)
            field.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
            field.value.ullVal = self._value(f"field{field.fieldId}", 1000 * field.fieldId)

    def nvmlDeviceGetSamples(self, device, kind, since, type_, count, out):
        """Return twenty samples, 20 ms apart, up to now: 200 ms at 100 %, 200 ms at 0."""
        newest = time.time_ns() // 20_000_000 * 20_000
        stamps = [newest - age * 20_000 for age in reversed(range(20))]
        new = [stamp for stamp in stamps if stamp > since.value]
        type_._obj.value = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        if not new:
            return pynvml.NVML_ERROR_NOT_FOUND
        if out is None:
            count._obj.value = len(new)
            return 0
        count._obj.value = min(len(new), count._obj.value)
        for index, stamp in enumerate(new[: count._obj.value]):
            out[index].timeStamp, out[index].sampleValue.uiVal = stamp, 100 * (stamp // 200_000 % 2)
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device, count, out):
        pid = self._value("process", 0)
        count._obj.value = 1 if pid else 0
        if pid and out is None:
            return pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        if pid:
            out[0].pid, out[0].usedGpuMemory = pid, 2**30
        return 0

    def nvmlEventSetWait_v2(self, events, out, timeout_ms):
        out._obj.eventData = self._value("xid", 0)
        return 0 if out._obj.eventData else pynvml.NVML_ERROR_TIMEOUT

    def nvmlGpmQueryDeviceSupport(self, device, out):
        out._obj.isSupportedDevice = self._value("gpm", 1)

    def nvmlGpmSampleAlloc(self, out):
        sample = pynvml.struct_c_nvmlGpmSample_t()
        self._samples[ctypes.addressof(sample)] = sample
        out._obj.contents = sample

    def nvmlGpmSampleFree(self, buffer):
        del self._samples[ctypes.addressof(buffer.contents)]

    def nvmlGpmSampleGet(self, device, buffer):
        self._taken.add(ctypes.addressof(buffer.contents))

    def nvmlGpmMigSampleGet(self, device, instance, buffer):
        self._taken.add(ctypes.addressof(buffer.contents))

    def nvmlGpmMetricsGet(self, request):
        query = request._obj
        samples = {ctypes.addressof(sample.contents) for sample in (query.sample1, query.sample2)}
        if query.version != pynvml.NVML_GPM_METRICS_GET_VERSION or len(samples & self._taken) != 2:
            return pynvml.NVML_ERROR_INVALID_ARGUMENT
        for metric in query.metrics[: query.numMetrics]:
            metric.value = self._value(f"gpm{metric.metricId}", metric.metricId)
            metric.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if metric.value < 0 else 0
        return 0


@dataclass(frozen=True)
class Reading:
    """The output of sources; gaps are (t_ns, source, device, metric, reason)."""

    columns: Mapping[str, Mapping[str, Sequence[str]]]
    samples: Sequence[Mapping[str, Any]]
    gaps: Sequence[tuple[int, str, str, str, str]]

    def values(self, metric: str, device: str = "gpu0") -> list[float | None]:
        """Return a metric's values over time; None if a sample lacks it."""
        return [sample["values"].get(metric) for sample in self.samples if sample["device"] == device]

    def reasons(self) -> dict[tuple[str, str], str]:
        """Return (device, metric) -> the first gap reason."""
        return {(device, metric): reason for _, _, device, metric, reason in reversed(self.gaps)}


class Standin:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def load(self, script: str) -> None:
        self._monkeypatch.setattr(pynvml, "nvmlLib", Library(script))
        self._monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def discover(self, script: str) -> tuple[tuple[Gpu, ...], str]:
        """Return the GPUs, and why some are missing."""
        self.load(script)
        return discover()

    def read(
        self, script: str, *names: str, reads: int = 3, gpus: Mapping[str, str] | None = None, pid: int | None = None,
        pause_s: float = 0.0,
    ) -> Reading:  # fmt: skip
        """Start sources by name, read them `reads` times, each after a pause, and stop them."""
        self.load(script)
        sources = [source for source in default_sources() if source.name in names]
        gaps: list[Any] = []

        def start(source: Source) -> Mapping[str, Sequence[str]]:
            target = Target(pid=pid, gpus=gpus or {"gpu0": UUID})
            return source.start(target, lambda *gap: gaps.append((time.monotonic_ns(), source.name, *gap)))

        columns = {source.name: start(source) for source in sources}
        samples = []
        for _ in range(reads):
            time.sleep(pause_s)
            for source in sources:
                samples += [{"source": source.name, **dataclasses.asdict(each)} for each in source.read()]
        for source in sources:
            source.stop()
        return Reading(columns=columns, samples=samples, gaps=gaps)


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Standin:
    return Standin(monkeypatch)
