"""Every source there is, held against the registry of metrics."""

import importlib
import os
import pkgutil
import threading

import harness.telemetry
from harness.telemetry import Target
from harness.telemetry.metrics import METRICS, Kind
from harness.telemetry.network import NetworkSource
from harness.telemetry.sources import default_sources
from harness.telemetry.ticks import MonotonicClock, TickLoop

NO_CARD = {"gpu0": "GPU-00000000-0000-0000-0000-000000000000"}
UNITS = {
    "_pct": "%", "_w": "W", "_j": "J", "_mhz": "MHz", "_c": "degC", "_bytes": "B", "_s": "s", "_per_s": "/s",
}  # fmt: skip


# Only trials over several machines have one more.
SOURCES = (*default_sources(), NetworkSource())


class Kept:
    def __init__(self):
        self.columns, self.samples = {}, []

    def begin(self, source, columns):
        self.columns[source] = columns

    def write(self, samples):
        self.samples += samples


def test_every_source_file_is_in_the_list():
    listed = {type(source) for source in SOURCES}
    for module in pkgutil.iter_modules(harness.telemetry.__path__):
        result = importlib.import_module(f"harness.telemetry.{module.name}")
        for name, value in vars(result).items():
            if isinstance(value, type) and name.endswith("Source") and name not in ("Source", "GpuSource"):
                assert value in listed, f"{name} is not in the list"


def test_names_are_unique_and_fit_into_file_names():
    names = [source.name for source in SOURCES]
    assert len(set(names)) == len(names)
    assert not [name for name in names if "-" in name or "." in name]


def test_all_that_sources_declare_and_yield_here_is_registered():
    sources, sink = (*default_sources(), NetworkSource()), Kept()
    for source in sources:
        stop = threading.Event()
        stop.set()
        loop = TickLoop([source], 0.1, sink, MonotonicClock())
        loop.run(Target(pid=os.getpid(), gpus=NO_CARD), stop)
        for gap in loop.gaps.close(0):
            assert gap.metric == "*" or gap.metric in METRICS
            assert gap.reason.endswith((".", ")")), gap.reason
    for source, columns in sink.columns.items():
        for metrics in columns.values():
            for metric in metrics:
                assert source in METRICS[metric].sources, (source, metric)
    for sample in sink.samples:
        assert sample.values.keys() <= set(sink.columns[sample.source][sample.device])
    assert {"host", "process"} <= {sample.source for sample in sink.samples}


def test_every_registered_source_exists():
    names = {source.name for source in SOURCES}
    for metric, entry in ((name, METRICS[name]) for name in METRICS):
        assert entry.sources, metric
        assert set(entry.sources) <= names, metric


def test_names_carry_their_units():
    for name in METRICS:
        metric = METRICS[name]
        suffix = max((end for end in UNITS if name.endswith(end)), key=len, default="")
        if suffix and suffix != "_per_s":
            assert metric.unit == UNITS[suffix], name
        if suffix == "_per_s":
            assert metric.kind is Kind.RATE, name
        assert metric.label[0].isupper(), name
        assert metric.description, name


def test_a_numbered_metric_is_found_by_its_family():
    assert METRICS["core17_util_pct"].label == "Core 17 busy"
    assert "core17_util_pct" in METRICS
    assert "core_util_pct" not in METRICS
    assert "gpu17_util_pct" not in METRICS
