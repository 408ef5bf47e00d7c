"""NVML's field values: many readings by one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from harness.telemetry.nvml_gpu import Failed, Handle, Reading

_ALL_LINKS = 0xFFFFFFFF
_VALUE = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
_WIDE = (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: `scale` takes NVML's unit to the metric's.

    `wide` fields are byte counters that some drivers keep in 32 bits, which PCIe 5 fills within 0.1 s:
    then they tell nothing.
    """

    id: int
    metric: str
    scale: float = 1
    scope: int = 0
    wide: bool = False


# Identifiers above 250 are not used: NVML 12 and 13 give them different meanings.
FAST = (
    Field(id=pynvml.NVML_FI_DEV_POWER_INSTANT, metric="power_instant_w", scale=1e-3),
    Field(id=pynvml.NVML_FI_DEV_PERF_POLICY_POWER, metric="power_capped_s", scale=1e-9),
)
# The energy counter keeps a CPU busy for over 3 ms and thermal capping for 1 ms; the average and the
# temperature change too slowly to be worth asking for at every tick.
SLOW = (
    Field(id=pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, metric="energy_j", scale=1e-3),
    Field(id=pynvml.NVML_FI_DEV_POWER_AVERAGE, metric="power_average_w", scale=1e-3),
    Field(id=pynvml.NVML_FI_DEV_MEMORY_TEMP, metric="mem_temperature_c"),
    Field(id=pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, metric="thermal_capped_s", scale=1e-9),
    Field(id=pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT, metric="power_limit_w", scale=1e-3),
    Field(id=pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, metric="ecc_corrected"),
    Field(id=pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, metric="ecc_uncorrected"),
    Field(id=pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, metric="pcie_replays"),
)
# What crossed the GPU's links. Each PCIe counter takes half a millisecond, each of NVLink's 3: GPM's rates
# tell the same for a tenth of that.
TRAFFIC = (
    Field(id=pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, metric="pcie_send_bytes", wide=True),
    Field(id=pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, metric="pcie_receive_bytes", wide=True),
    Field(
        id=pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        metric="nvlink_send_bytes",
        scale=1024,
        scope=_ALL_LINKS,
    ),
    Field(
        id=pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        metric="nvlink_receive_bytes",
        scale=1024,
        scope=_ALL_LINKS,
    ),
)


class Fields(Reading):
    """Some fields of a GPU, by one call.

    Args:
        fields: what to ask for; those that fail for good are dropped.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._ids = [(field.id, field.scope) for field in fields]
        self.answered = False

    @property
    def metrics(self) -> Sequence[str]:
        """Return what is still asked for."""
        return tuple(field.metric for field in self._fields)

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Ask for all fields at once; each succeeds or fails by itself."""
        values: dict[str, float] = {}
        if not self._fields:
            return values
        answers = pynvml.nvmlDeviceGetFieldValues(handle, self._ids)
        self.answered = True
        for field, answer in zip(self._fields, answers, strict=True):
            code = answer.nvmlReturn
            if code == pynvml.NVML_SUCCESS and field.wide and answer.valueType not in _WIDE:
                code = pynvml.NVML_ERROR_NOT_SUPPORTED
            if code == pynvml.NVML_SUCCESS:
                values[field.metric] = round(number(answer.valueType, answer.value) * field.scale, 9)
            else:
                failed(field.metric, code)
        return values

    def drop(self, metric: str) -> None:
        """Leave `metric` out of the call."""
        self._fields = tuple(field for field in self._fields if field.metric != metric)
        self._ids = [(field.id, field.scope) for field in self._fields]


def number(kind: int, value: Any) -> float:
    """Read NVML's union `value` as the type that `kind` says."""
    result: float = getattr(value, _VALUE[kind])
    return result
