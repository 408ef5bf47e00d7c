"""The capability driver on this CPU."""

import json

import numpy as np
import pytest

from workloads.protocol import ANSWERS_CHECKED, CPU_CAPABILITIES, RATE, read_events

pytestmark = pytest.mark.tensorflow


def run(warm, folder, **spec):
    whole = {
        "device": "cpu",
        "gpus": 0,
        "data": {},
        "window_s": 0.05,
        "variants": CPU_CAPABILITIES,
        "scripts": {},
        **spec,
    }
    (folder / "spec.json").write_text(json.dumps(whole))
    code, log = warm("driver", [str(folder / "spec.json"), str(folder / "events.jsonl")])
    assert code == 0, log
    with (folder / "events.jsonl").open() as file:
        return list(read_events(file))


def test_every_capability_of_the_cpu_is_measured(warm, tmp_path):
    lacking = run(warm, tmp_path, variants=["read", "all-reduce", "all-reduce:16", "peer:0-1"])
    reasons = {event["variant"]: event["reason"] for event in lacking if event["kind"] == "left-out"}
    assert "no files" in reasons["read"] and "two GPUs" in reasons["all-reduce"]
    assert "two GPUs" in reasons["all-reduce:16"] and "CUDA runtime" in reasons["peer:0-1"]
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "x.npy", np.zeros(20 << 20, np.uint8))
    events = run(warm, tmp_path, data={"x": str(data)})
    rates = {event["variant"]: event["value"] for event in events if event.get("name") == RATE}
    assert tuple(rates) == CPU_CAPABILITIES
    assert 1e9 < rates["fp32-core"] < 1e13
    assert 1e8 < rates["memory-core"] < 1e12
    assert 10 < rates["jpeg-core"] < 1e5
    windows = [event for event in events if event["kind"] == "window"]
    assert [event["variant"] for event in windows] == list(CPU_CAPABILITIES)
    assert all(event["start_ns"] < event["end_ns"] for event in windows)


def test_a_soak_gives_all_devices_the_same_work(warm):
    code = """
import io, math
import tensorflow as tf
from workloads.driver import capability
from workloads.protocol import WORK, EventWriter, read_events
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, 2 * [tf.config.LogicalDeviceConfiguration()])
file = io.StringIO()
capability.soak(["CPU:0", "CPU:1"], 0.1, EventWriter(file))
[work] = [event["value"] for event in read_events(io.StringIO(file.getvalue())) if event.get("name") == WORK]
assert work in [2 * 2 * math.prod(shape) for shape in capability.CPU_SHAPES], work
"""
    status, log = warm("code", code)
    assert status == 0, log


def test_a_flipped_bit_during_a_load_is_an_answer_that_differs(warm, tmp_path):
    code = """
import sys
import numpy as np
import tensorflow as tf
from workloads.driver import capability, repeatability
from workloads.protocol import SOAK, EventWriter
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, 2 * [tf.config.LogicalDeviceConfiguration()])
repeatability.PRODUCT, repeatability.STEP = (8, 64, 8), (16, 8, 4)
capability.SOAK_WINDOW_S, capability.SOAK_CHECK_S = 0.02, 0.0
capability.CPU_SHAPES = ((64, 64, 64),)
kept, calls = repeatability.Kept(), []
def flipped(name):
    calls.append(name)
    if name == "CPU:1" and calls.count(name) == 2:  # after the first window
        left, *others = kept._inputs[name]
        bits = left.numpy().view(np.uint16)
        bits[3, 17] ^= 1 << 9  # one bit of one number
        kept._inputs[name] = (tf.constant(bits.view(np.float16)), *others)
    return kept.checksums(name)
with open("PATH", "w") as file:
    events = EventWriter(file)
    capability.soak(["CPU:0", "CPU:1"], 0.1, events, repeatability.Answers(["CPU:0", "CPU:1"], SOAK, events, flipped))
""".replace("PATH", str(tmp_path / "events.jsonl"))
    status, log = warm("code", code)
    assert status == 0, log
    with (tmp_path / "events.jsonl").open() as file:
        events = list(read_events(file))
    found = [event for event in events if event["kind"] == "answer"]
    assert [(each["gpu"], each["name"]) for each in found] == [
        (0, "product"), (0, "step"), (1, "product"), (1, "step"), (1, "product")
    ]  # fmt: skip
    first, _, second, _, wrong = (each["value"] for each in found)
    assert first == second != wrong
    windows = [event for event in events if event["kind"] == "window"]
    assert windows[0]["end_ns"] <= found[-1]["t_ns"]
    assert all(one["start_ns"] > found[-1]["t_ns"] for one in windows[1:]), "outside of windows"
    (checked,) = (event["value"] for event in events if event.get("name") == ANSWERS_CHECKED)
    assert checked == 4 * (len(windows) + 2), "before the first window, after each, and at the end"


def test_each_sum_of_a_call_is_over_all_devices(warm):
    code = """
import tensorflow as tf
from workloads.driver import capability, gpu_exchange
[cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, 2 * [tf.config.LogicalDeviceConfiguration()])
work = gpu_exchange.all_reduce(["CPU:0", "CPU:1"], 1 << 20, sums=4)
assert [float(result) for result in work[0]()] == 2 * [2.0**4]
assert work[1] == 4 << 20
assert 1e6 < capability.rate(work, 0.1)[0] < 1e12
# GPUs have a program each, which XLA compiles with all sums; here it can only be traced.
call, amount, _ = gpu_exchange.all_reduce(["GPU:0", "GPU:1"], 256 << 20)
graph = call.get_concrete_function().graph
programs = [each for each in graph.get_operations() if each.type.endswith("PartitionedCall")]
assert [each.device[-5:] for each in programs] == ["GPU:0", "GPU:1"]
assert all(each.get_attr("_XlaMustCompile") for each in programs)
assert amount == 32 * (256 << 20)
"""
    status, log = warm("code", code)
    assert status == 0, log


def test_pairs_are_copied_in_their_direction_with_peer_access(warm):
    code = """
import ctypes
from workloads.driver.gpu_exchange import Cuda, PEER_BYTES, Peers, UnavailableError
class Library:
    def __init__(self, able):
        self.calls, self.able = [], able
    def __getattr__(self, name):
        def call(*given):
            self.calls.append((name, *(each for each in given if isinstance(each, int))))
            if name == "cudaDeviceCanAccessPeer":
                given[0]._obj.value = self.able
            return 704 if name == "cudaDeviceEnablePeerAccess" else 2 if name == "cudaFail" else 0
        return call
for able in (1, 0):
    library = Library(able)
    peers = Peers(Cuda(library))
    assert peers.access(0, 3) == bool(able)
    assert (("cudaDeviceEnablePeerAccess", 0, 0) in library.calls) == bool(able)
    call, amount, wait = peers.copy(0, 3)
    call()
    assert library.calls[-2:] == [("cudaSetDevice", 3), ("cudaMemcpyPeerAsync", 3, 0)], library.calls
    assert amount == PEER_BYTES
try:
    Cuda(library)("cudaFail")
except UnavailableError as error:
    assert "error 2" in str(error)
else:
    raise AssertionError
"""
    status, log = warm("code", code)
    assert status == 0, log


def test_threads_return_to_all_cpus(warm):
    code = """
import os
from pathlib import Path
from threading import Event, Thread
from workloads.driver.capability import numa_node, one_core
from workloads.driver.gpu_exchange import UnavailableError
end, cpus = Event(), os.sched_getaffinity(0)
with one_core():
    assert len(os.sched_getaffinity(0)) == 1
    Thread(target=end.wait).start()
assert all(os.sched_getaffinity(int(path.name)) == cpus for path in Path("/proc/self/task").iterdir())
end.set()
try:
    with numa_node(4711):
        raise AssertionError
except UnavailableError as error:
    assert "4711" in str(error)
if Path("/sys/devices/system/node/node0").exists():
    with numa_node(0):
        assert os.sched_getaffinity(0) <= cpus
    assert os.sched_getaffinity(0) == cpus
"""
    status, log = warm("code", code)
    assert status == 0, log
