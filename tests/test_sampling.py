import os
import re
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.errors import EngineError, StoreError
from harness.model.metrics import METRICS, MetricKind, metric_named
from harness.model.run import Series
from harness.run.downsampling import downsample_run
from harness.telemetry import Sample, Target
from harness.telemetry.csvfile import TelemetryWriter, read_series
from harness.telemetry.nvml import GPM_METRICS, NvmlSlowSource, NvmlSource
from harness.telemetry.sampler import Clock, GapTracker, TickLoop, default_sources, sample
from reports.telemetry_chart import _rates
from tests.builders import cpu_run
from tests.conftest import ROOT

TARGET = Target(pid=None, gpus={})
MS = 1_000_000


class FakeClock:
    """Time advances only by waiting and by the durations of fake reads."""

    def __init__(self, end_ms: int) -> None:
        self.ns = 5_000 * MS
        self.end_ns = self.ns + end_ms * MS
        self.cpu = 0.0

    def now_ns(self) -> int:
        return self.ns

    def cpu_s(self) -> float:
        return self.cpu

    def wait_until(self, due_ns, stop):
        self.ns = max(self.ns, min(due_ns, self.end_ns))
        if due_ns > self.end_ns:
            stop.set()
        return stop.is_set()


class FakeSource:
    """Returns the number of the read.

    Args:
        durations_ms: number of the read -> milliseconds it takes.
        failures: number of the read -> exception to raise, or metric to report as a gap.
    """

    def __init__(self, clock, name="fake", durations_ms=(), failures=None, interval_s=None):
        self.clock, self.name, self.interval_s = clock, name, interval_s
        self.durations_ms, self.failures = dict(durations_ms), failures or {}
        self.reads = 0
        self.stopped = False

    def start(self, target, gap):
        self.gap = gap
        return {"device": ("load1", "pids")}

    def read(self):
        number, t_ns = self.reads, self.clock.now_ns()
        self.reads += 1
        self.clock.ns += self.durations_ms.get(number, 0) * MS
        self.clock.cpu += 0.001
        failure = self.failures.get(number)
        if isinstance(failure, Exception):
            raise failure
        values = {"load1": number, "pids": number}
        if failure:
            self.gap("device", failure, "no reading")
            values.pop(failure)
        return (Sample(t_ns=t_ns, device="device", values=values),)

    def stop(self):
        self.stopped = True


class RecordingWriter:
    def __init__(self):
        self.samples, self.columns = [], {}

    def begin(self, source, columns):
        self.columns[source] = columns

    def write(self, source, samples):
        self.samples += samples

    def times_ms(self):
        return [each.t_ns // MS - 5_000 for each in self.samples]


def run(clock, source):
    writer = RecordingWriter()
    loop = TickLoop([source], 0.1, writer, clock)
    loop.run(TARGET, threading.Event())
    return loop, writer


def span_ms(gap):
    return gap.start_ns // MS - 5_000, gap.end_ns // MS - 5_000


def test_ticks_are_at_multiples_of_interval_and_missed_ones_are_counted():
    clock = FakeClock(end_ms=950)
    loop, writer = run(clock, FakeSource(clock, durations_ms={n: 7 * (n % 3) for n in range(20)}))
    assert writer.times_ms() == [*range(0, 1000, 100), 950], "with a final read at the end"
    assert (loop.ticks, loop.missed) == (11, 0)
    clock = FakeClock(end_ms=950)
    loop, writer = run(clock, FakeSource(clock, durations_ms={2: 350}))
    assert writer.times_ms()[:-1] == [0, 100, 200, 600, 700, 800, 900]
    assert loop.missed == 3
    assert loop.close(clock.ns) == ()
    clock = FakeClock(end_ms=3_000)
    loop, _ = run(clock, FakeSource(clock, durations_ms={2: 1_550}))
    (gap,) = loop.close(clock.ns)
    assert (gap.source, gap.device, gap.metric) == ("fake", "*", "*"), "a long delay is a gap"
    assert (span_ms(gap), "1.5 s" in gap.reason) == ((300, 1_750), True)


def test_gap_lasts_from_first_failed_read_to_next_success():
    clock = FakeClock(end_ms=950)
    loop, _ = run(clock, FakeSource(clock, failures={3: "pids", 4: "pids", 8: "load1"}))
    gaps = loop.close(clock.ns)
    assert {gap.metric: span_ms(gap) for gap in gaps} == {"pids": (300, 500), "load1": (800, 900)}
    assert gaps[0].reason == "no reading"
    clock = FakeClock(end_ms=950)
    loop, writer = run(clock, FakeSource(clock, failures=dict.fromkeys((2, 3), RuntimeError("odd"))))
    (gap,) = loop.close(clock.ns)
    assert (gap.source, gap.device, gap.reason) == ("fake", "*", "RuntimeError: odd")
    assert (span_ms(gap), len(writer.samples)) == ((200, 400), 9)


def test_device_gap_ends_with_next_sample_of_that_device():
    tracker = GapTracker("nvml")
    tracker.open(10, "gpu0", "*", "lost")
    tracker.open(10, "gpu1", "*", "lost")
    tracker.open(20, "gpu0", "*", "still lost")
    tracker.update([Sample(t_ns=30, device="gpu1", values={"power_w": 1.0})])
    gaps = {gap.device: (gap.source, gap.start_ns, gap.end_ns, gap.reason) for gap in tracker.close(50)}
    assert gaps == {"gpu0": ("nvml", 10, 50, "lost"), "gpu1": ("nvml", 10, 30, "lost")}


class RealTimeSource(FakeSource):
    """A source on the real clock; reads wait for the event `hold`."""

    def __init__(self, name, interval_s=None, hold=None):
        super().__init__(None, name=name, interval_s=interval_s)
        self.hold = hold

    def read(self):
        self.reads += 1
        if self.hold:
            self.hold.wait()
        return (Sample(t_ns=time.monotonic_ns(), device="device", values={"load1": 1}),)


def test_slow_source_does_not_delay_fast_sources(tmp_path):
    held = threading.Event()
    quick, slow = RealTimeSource("quick"), RealTimeSource("slow", interval_s=3600, hold=held)
    with sample([quick, slow], TARGET, tmp_path / "telemetry", 100) as sampling:
        while quick.reads <= 10:
            time.sleep(0.001)
        assert slow.reads == 1
        assert sampling.cost == {}
        held.set()
    series = {each.source: len(each.t_ns) for each in read_series(tmp_path / "telemetry")[0]}
    assert series == {"quick": quick.reads, "slow": slow.reads}
    assert sampling.cost["quick.reads"] == sampling.cost["ticks"] == quick.reads
    assert sampling.cost["slow.reads"] == slow.reads == 2, "one read at the start and one at the end"
    assert 0 <= sampling.cost["cpu_s"] < sampling.cost["wall_s"] * 2
    assert sampling.gaps == ()
    assert quick.stopped
    assert slow.stopped


def test_write_error_is_raised_unless_body_raises(tmp_path):
    (tmp_path / "quick-device.csv").symlink_to("/dev/full")
    source = RealTimeSource("quick")
    with pytest.raises(StoreError, match="disk is full"), sample([source], TARGET, tmp_path, 100):
        pass
    source = RealTimeSource("quick")
    with pytest.raises(EngineError), sample([source], TARGET, tmp_path, 100) as sampling:
        raise EngineError("gone", hint="start it")
    assert source.stopped
    assert sampling.cost["ticks"] == source.reads


def test_round_trip_with_missing_values_as_empty_cells(tmp_path):
    with TelemetryWriter(tmp_path) as writer:
        writer.begin("nvml_slow", {"gpu0": ("energy_j", "pids"), "gpu-1a": ("energy_j",), "gpu2": ()})
        for t_ns, device, values in (
            (1, "gpu0", {"energy_j": 0.1 + 0.2, "pids": 2**53}), (2, "gpu-1a", {"energy_j": 5}),
            (4, "gpu0", {"pids": 7}), (3, "gpu0", {"pids": 6}),
        ):  # fmt: skip
            writer.write("nvml_slow", [Sample(t_ns=t_ns, device=device, values=values)])
        # Read before the file is closed, as after a kill.
        frame = pd.read_csv(tmp_path / "nvml_slow-gpu0.csv")
    (second, first), _ = read_series(tmp_path)
    assert (first.source, first.device, second.device) == ("nvml_slow", "gpu0", "gpu-1a")
    assert first.t_ns.dtype == np.int64
    np.testing.assert_array_equal(first.t_ns, [1, 3, 4], "sorted by time")
    np.testing.assert_array_equal(first.columns["energy_j"], [0.1 + 0.2, np.nan, np.nan])
    np.testing.assert_array_equal(first.columns["pids"], [2.0**53, 6, 7])
    assert frame["t_ns"].tolist() == [1, 4, 3]
    assert frame["energy_j"].isna().tolist() == [False, True, True]


@pytest.mark.parametrize(
    "text",
    ["t_ns,load1\n1,zebra\n", "time,load1\n1,2\n", "t_ns,load1\n1,2,3\n"],
)
def test_truncated_last_line_is_ignored_and_an_invalid_file_a_gap(tmp_path, text):
    path = tmp_path / "host-host.csv"
    for content, columns in (
        ("t_ns,load1\n1,0.5\n2,0.25\n3,0.1", {"load1": [0.5, 0.25]}), ("t_ns,lo", {}), ("t_ns,load1\n", {"load1": []}),
    ):  # fmt: skip
        path.write_text(content)
        ((series,), _) = read_series(tmp_path)
        assert {name: values.tolist() for name, values in series.columns.items()} == columns
    path.write_text(text)
    series, (gap,) = read_series(tmp_path)
    assert (series, gap.source, gap.device) == ((), "host", "host")
    assert gap.reason.startswith("host-host.csv is damaged: ")


LOST_GPU = {"gpu0": "GPU-00000000-0000-0000-0000-000000000000"}
SOURCES = default_sources()


def test_metrics_of_this_host_are_documented():
    sources, writer = default_sources(), RecordingWriter()
    for source in sources:
        stop = threading.Event()
        stop.set()
        loop = TickLoop([source], 0.1, writer, Clock())
        loop.run(Target(pid=os.getpid(), gpus=LOST_GPU), stop)
        for gap in loop.close(0):
            assert gap.metric == "*" or metric_named(gap.metric)
            assert gap.reason.endswith((".", ")")), gap.reason
    for source, columns in writer.columns.items():
        for metrics in columns.values():
            for metric in metrics:
                known = metric_named(metric)
                assert known is not None, metric
                assert source in known.sources.split(), (source, metric)
    for each in writer.samples:
        declared = (set(columns.get(each.device, ())) for columns in writer.columns.values())
        assert any(each.values.keys() <= metrics for metrics in declared)
    assert {"host", "container"} <= {each.device for each in writer.samples}


def test_the_table_of_metrics_matches_the_sources():
    names = {source.name for source in SOURCES}
    assert len(names) == len(SOURCES)
    assert not [name for name in names if "-" in name], "the hyphen separates source and device in file names"
    for metric in METRICS.values():
        assert metric.sources and set(metric.sources.split()) <= names, metric
        assert metric.kind is not MetricKind.RATE or metric.unit.symbol in ("%", "B/s"), metric
    for source in (NvmlSource(), NvmlSlowSource()):
        readings = source.readings("", Target(pid=None, gpus={}))
        for metric in (name for reading in readings for name in reading.metrics):
            assert (source.name, metric) in METRICS[metric].readings
    assert all(("gpm", metric) in METRICS[metric].readings for metric in GPM_METRICS)


def test_what_is_documented_of_sources_and_metrics_exists():
    text = (ROOT / "docs/telemetry.md").read_text(encoding="utf-8")
    sources = re.findall(r"^\| `(\w+)` \|.*\|.*\|.*\|.*\|$", text.partition("## Overhead")[0], re.MULTILINE)
    assert set(sources) == {source.name for source in SOURCES}
    ends = "pct|bytes|s|j|w|c|mhz|events"
    for name in re.findall(rf"`((?!tfbench)[a-z]\w+_(?:{ends}))`", text):
        assert name in METRICS, name


def test_counters_keep_their_rates_when_downsampled():
    t_ns = np.arange(1000, dtype=np.int64) * 10**8
    columns = {"context_switches": np.arange(1000.0) * 50, "load1": np.tile([0.0, 1.0], 500)}
    series = Series(source="host", device="host", t_ns=t_ns, columns=columns)
    run = cpu_run()
    run = replace(run, trials=(replace(run.trials[0], telemetry=(series,), steps=(), requests=()),))
    (kept,) = downsample_run(run, 100).trials[0].telemetry
    assert len(kept.t_ns) < 100
    rates = np.diff(kept.columns["context_switches"]) / (np.diff(kept.t_ns) / 1e9)
    assert rates == pytest.approx(500.0)
    assert set(kept.columns["load1"]) == {0.0, 1.0}


def test_counters_are_drawn_as_rates_over_gaps():
    t_s, rates = _rates(np.array([0.0, 1.0, 2.0, 2.0, 4.0]), np.array([10.0, np.nan, 30.0, 31.0, 71.0]))
    assert (t_s.tolist(), rates.tolist()) == ([2.0, 4.0], [10.0, 20.0])


def test_the_smallest_rate_waits_for_a_finite_time(tmp_path):
    source = RealTimeSource("quick")
    with sample([source], TARGET, tmp_path / "telemetry", 1e-320) as sampling:
        while not source.reads:
            time.sleep(0.001)
    assert (source.reads, sampling.gaps) == (2, ()), "one read at the start and one at the end"
