"""All sources match the table of metrics in docs/telemetry.md."""

import os
import re
import threading

from harness.telemetry import Target
from harness.telemetry.metric_kinds import BIT_MASKS, COUNTERS
from harness.telemetry.nvml import NvmlSlowSource, NvmlSource
from harness.telemetry.sampler import Clock, TickLoop, default_sources
from tests.conftest import ROOT
from tests.test_telemetry_sampler import RecordingWriter

LOST_GPU = {"gpu0": "GPU-00000000-0000-0000-0000-000000000000"}
SOURCES = default_sources()


def documented() -> dict[str, tuple[str, str, set[str]]]:
    table = (ROOT / "docs/telemetry.md").read_text().partition("## Metrics")[2]
    rows = {}
    for line in table.splitlines():
        if line.startswith("| `"):
            names, unit, sources, _ = line.strip("| ").split(" | ")
            *units, kind = unit.split(", ")
            for name in re.findall("`(.+?)`", names):
                rows[name] = ("".join(units), kind, set(sources.split(", ")))
    return rows


METRICS = documented()


def documented_name(metric: str) -> str:
    return re.sub(r"^core\d+_", "core{n}_", metric)


def test_metrics_of_this_host_are_documented():
    sources, writer = default_sources(), RecordingWriter()
    for source in sources:
        stop = threading.Event()
        stop.set()
        loop = TickLoop([source], 0.1, writer, Clock())
        loop.run(Target(pid=os.getpid(), gpus=LOST_GPU), stop)
        for gap in loop.close(0):
            assert gap.metric == "*" or gap.metric in METRICS
            assert gap.reason.endswith((".", ")")), gap.reason
    for source, columns in writer.columns.items():
        for metrics in columns.values():
            for metric in metrics:
                assert source in METRICS[documented_name(metric)][2], (source, metric)
    for sample in writer.samples:
        declared = (set(columns.get(sample.device, ())) for columns in writer.columns.values())
        assert any(sample.values.keys() <= metrics for metrics in declared)
    assert {"host", "container"} <= {sample.device for sample in writer.samples}


def test_nvml_metrics_are_documented():
    for source in (NvmlSource(), NvmlSlowSource()):
        readings = source.readings("", Target(pid=None, gpus={}))
        for metric in (name for reading in readings for name in reading.metrics):
            assert source.name in METRICS[metric][2], metric


def test_documented_sources_and_kinds_match_code():
    names = {source.name for source in SOURCES}
    assert len(names) == len(SOURCES)
    assert not [name for name in names if "-" in name], "the hyphen separates source and device in file names"
    for metric, (unit, kind, sources) in METRICS.items():
        assert sources <= names, metric
        assert (kind == "counter") == (metric in COUNTERS), metric
        assert (unit == "bits") == (metric in BIT_MASKS), metric
    assert METRICS.keys() >= COUNTERS | BIT_MASKS
