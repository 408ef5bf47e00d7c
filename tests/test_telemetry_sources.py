"""Every source there is, held against the table of metrics in docs/telemetry.md."""

import os
import re
import threading
from pathlib import Path

from harness.telemetry import Target
from harness.telemetry.metrics import BIT_MASKS, COUNTERS
from harness.telemetry.nvml import fast_readings, slow_readings
from harness.telemetry.sampler import Clock, TickLoop
from harness.telemetry.sources import default_sources
from tests.test_telemetry_sampler import Kept

LOST_GPU = {"gpu0": "GPU-00000000-0000-0000-0000-000000000000"}
SOURCES = default_sources()


def documented() -> dict[str, tuple[str, str, set[str]]]:
    """Return each metric's unit, kind and sources."""
    table = (Path(__file__).parent.parent / "docs/telemetry.md").read_text().partition("## Metrics")[2]
    rows = {}
    for line in table.splitlines():
        if line.startswith("| `"):
            names, unit, sources, _ = line.strip("| ").split(" | ")
            *units, kind = unit.split(", ")
            for name in re.findall("`(.+?)`", names):
                rows[name] = ("".join(units), kind, set(sources.split(", ")))
    return rows


METRICS = documented()


def family(metric: str) -> str:
    return re.sub(r"^core\d+_", "core{n}_", metric)


def test_all_that_sources_declare_and_yield_here_is_documented():
    sources, sink = default_sources(), Kept()
    for source in sources:
        stop = threading.Event()
        stop.set()
        loop = TickLoop([source], 0.1, sink, Clock())
        loop.run(Target(pid=os.getpid(), gpus=LOST_GPU), stop)
        for gap in loop.close(0):
            assert gap.metric == "*" or gap.metric in METRICS
            assert gap.reason.endswith((".", ")")), gap.reason
    for source, columns in sink.columns.items():
        for metrics in columns.values():
            for metric in metrics:
                assert source in METRICS[family(metric)][2], (source, metric)
    for sample in sink.samples:
        assert any(sample.values.keys() <= set(each.get(sample.device, ())) for each in sink.columns.values())
    assert {"host", "container"} <= {sample.device for sample in sink.samples}


def test_what_nvml_is_asked_for_is_documented():
    for source, readings in (("nvml", fast_readings()), ("nvml_slow", slow_readings(None))):
        for metric in (name for reading in readings for name in reading.metrics):
            assert source in METRICS[metric][2], metric


def test_documented_sources_exist_and_kinds_are_those_that_analysis_uses():
    names = {source.name for source in SOURCES}
    assert len(names) == len(SOURCES)
    assert not [name for name in names if "-" in name], "it parts a file's name"
    for metric, (unit, kind, sources) in METRICS.items():
        assert sources <= names, metric
        assert (kind == "counter") == (metric in COUNTERS), metric
        assert (unit == "bits") == (metric in BIT_MASKS), metric
    assert METRICS.keys() >= COUNTERS | BIT_MASKS
