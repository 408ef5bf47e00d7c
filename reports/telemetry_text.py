"""Telemetry means as text, by the registry's labels and units."""

from __future__ import annotations

from harness.telemetry.metrics import METRICS
from reports import numbers
from reports.names import device_name


def metric_label(key: str) -> str:
    """Name a "source.device.metric" key for people; a metric that is not known keeps its name."""
    source, device, metric = _parts(key)
    label = METRICS[metric].label if metric in METRICS else metric
    return f"{label} ({device_name(device) if device.startswith('gpu') else source})"


def metric_value(value: float, key: str) -> str:
    """Write a mean of such a key in its unit."""
    metric = _parts(key)[2]
    unit = METRICS[metric].unit if metric in METRICS else ""
    if unit == "B":
        return numbers.size(value)
    if unit == "B/s":
        return f"{numbers.size(value)}/s"
    if unit == "s":
        return numbers.duration(value)
    return f"{numbers.number(value)}{numbers.THIN}{unit.replace('degC', '°C')}".rstrip(numbers.THIN)


def _parts(key: str) -> tuple[str, str, str]:
    source, _, rest = key.partition(".")
    device, _, metric = rest.rpartition(".")
    return source, device, metric
