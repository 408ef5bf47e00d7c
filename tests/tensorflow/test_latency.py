"""Latency by MLPerf's scenarios, in which a late server cannot hide its delay."""

import itertools

import pytest

from workloads.protocol import SERVER, SINGLE_STREAM
from workloads.variants import BASELINE, MODEL_ONLY, TUNED

pytestmark = pytest.mark.tensorflow

SMALL = """
import keras
import numpy as np
sizes = set()
class Net(keras.Sequential):
    def predict_on_batch(self, x):
        sizes.add(len(x))
        return super().predict_on_batch(x)
model = Net([keras.layers.Input((8,)), keras.layers.Dense(2)])
model.compile(jit_compile=False)
model.predict(np.ones((SAMPLES, 8), "float32"), batch_size=2)
print("sizes", sorted(sizes))
"""
REQUESTS = {"batch_sizes": [1, 2, 4], "bounds_ms": [50.0]}


@pytest.fixture(scope="module")
def outcome(drive):
    text = SMALL.replace("SAMPLES", "64")
    compiled = text.replace("jit_compile=False", "jit_compile=True")
    return drive(
        text, others={TUNED: compiled}, variants=[BASELINE, MODEL_ONLY, TUNED], windows=1, window_s=0.2,
        requests=REQUESTS,
    )  # fmt: skip


def test_single_stream_at_each_batch_size(outcome):
    for variant in (BASELINE, TUNED):
        # The baseline is read again if the model alone seemed slower.
        result = outcome.of("requests", variant=variant, scenario=SINGLE_STREAM)[-3:]
        assert [event["batch_size"] for event in result] == [1, 2, 4]
        assert all(len(event["latency_ns"]) == event["planned"] >= 10 for event in result)
        assert all(sum(e["latency_ns"]) <= e["end_ns"] - e["start_ns"] for e in result)
    (single,) = outcome.of("requests", variant=MODEL_ONLY)
    assert (single["scenario"], single["batch_size"]) == (SINGLE_STREAM, 2)


def test_batches_are_full_even_with_few_samples(drive):
    done = drive(SMALL.replace("SAMPLES", "3"), windows=1, requests={"batch_sizes": [1, 2, 4]}, full=True)
    assert "sizes [1, 2, 4]" in done.log


def test_server_bisects_for_the_largest_rate(outcome):
    for variant in (BASELINE, TUNED):
        series = outcome.of("requests", variant=variant, scenario=SERVER)[-5:]
        assert len(series) == 5
        steps = [abs(b["rate_per_s"] - a["rate_per_s"]) for a, b in itertools.pairwise(series)]
        assert all(b == pytest.approx(a / 2) for a, b in itertools.pairwise(steps))
        for event in series:
            duration_s = (event["end_ns"] - event["start_ns"]) / 1e9
            assert duration_s > 0.5 * len(event["latency_ns"]) / event["rate_per_s"], "on schedule"


STALL = """
import json, time
from types import SimpleNamespace
import numpy as np
from workloads.driver import inference
from workloads.protocol import Spec
batches, written = [], {}
events = SimpleNamespace(write=lambda kind, **values: written.update(values))
job = SimpleNamespace(variant="tuned", spec=Spec(scripts={}, window_s=0.25), events=events)
inference.LASTS_BOUNDS = 0
def serve(batch):
    batches.append(len(batch))
    time.sleep(0.3 if len(batches) == 20 else 0.001)
pool = np.zeros((16, 1), np.float32)
fastest = inference.fastest_sizes({1: 1, 4: 1.1, 8: 1.2})
within_bound = inference.Client(job, serve, pool).offer(fastest, 1, 100.0, 10_000.0, 0)
latency_ms = [value / 1e6 for value in written["latency_ns"]]
print(json.dumps({"within_bound": within_bound, "planned": written["planned"], "latency_ms": latency_ms,
                  "batches": batches}))
"""


def test_a_stall_delays_all_requests_that_arrive_during_it(execute):
    result = execute(STALL)
    assert result["within_bound"], "the bound is ten seconds"
    assert len(result["latency_ms"]) == result["planned"] == 100
    late = [value for value in result["latency_ms"] if value > 30]
    # At 100 requests/s about 30 arrive during 0.3 s; a loop that waits for each response would see one.
    assert len(late) > 15
    assert max(late) > 250
    assert max(result["batches"]) == 8, "waiting requests are batched"
    assert set(result["batches"]) <= {1, 4, 8}


SEARCHED = """
import json
from types import SimpleNamespace
from workloads.driver import inference
from workloads.protocol import Spec
class Modelled(inference.Client):
    'A server that is late where two batches take longer than the bound, or near its peak.'
    def model(self, latency_ms):
        self.latency_ms, self.offered = latency_ms, []
        return self
    def offline(self, fastest, batch_ns, in_flight):
        return max(size / self.latency_ms[size] * 1e3 for size in fastest)
    def offer(self, fastest, in_flight, rate, bound_ms, probe):
        self.offered.append((bound_ms, max(fastest)))
        return 2 * self.latency_ms[max(fastest)] <= bound_ms and rate <= 0.9 * self.offline(fastest, 0.0, 1)
def searched(bounds_ms, latency_ms, compared_ms=0.0):
    job = SimpleNamespace(variant="tuned", spec=Spec(scripts={}, window_s=0.3), events=SimpleNamespace(warning=print))
    client = Modelled(job, None, None).model(latency_ms)
    medians = {size: latency * 1e6 for size, latency in latency_ms.items()}
    client.search(bounds_ms, medians, medians[1] / 1e6, compared_ms)
    return client.offered
searches = [((57.0, 200.0), {1: 8.0, 4: 20.0, 8: 30.0}), ((4.01, 60.0), {1: 4.0, 8: 10.0}),
            ((57.0, 200.0), {1: 8.0, 4: 20.0, 8: 30.0}, 200.0)]
print(json.dumps([
    inference.sizes_within({1: 4e6, 4: 7e6, 16: 8e6}, 15.0), inference.sizes_within({1: 9e6, 4: 9.1e6}, 15.0),
    *[searched(*each) for each in searches],
]))
"""


def test_server_batches_are_limited_by_the_latency_bound(execute):
    two_sizes, one_size, first, second, compared = execute(SEARCHED)
    assert two_sizes == [1, 4]
    assert one_size == [1], "the smallest size is always allowed"
    # Two batches of eight take 60 ms, more than the bound of 57 ms.
    assert first == [[57.0, 4]] * 5, "the tightest bound with a useful rate ends the search"
    # Two single requests take 8 ms, so 4.01 ms is never useful and the next bound is tried. Its rates fall until
    # they are too low for the fewest requests of a series.
    assert second[0] == [4.01, 1]
    assert second[-5:] == [[60.0, 8]] * 5
    assert compared == [[57.0, 4]] * 5 + [[200.0, 8]] * 5, "the bound of the baseline follows"


PIPELINED = """
import json, threading, time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
import numpy as np
from workloads.driver import inference
from workloads.protocol import Spec
inference.LASTS_BOUNDS, inference.MAX_SERVER_REQUESTS = 0, 100
pool = np.tile(np.arange(16), 2)
def served(peaks):
    firsts, copied, at_once, most = [], [], 0, 0
    events = SimpleNamespace(write=lambda kind, **values: None, warning=print)
    job = SimpleNamespace(variant="tuned", spec=Spec(scripts={}, window_s=0.25), events=events)
    counting = threading.Lock()
    def serve(batch):
        nonlocal at_once, most
        firsts.append(int(batch[0]))
        copied.append(not np.shares_memory(batch, pool))
        with counting:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with counting:
            at_once -= 1
    client = inference.Client(job, serve, pool)
    client.offline(inference.fastest_sizes({1: 20e6, 16: 20e6}), 20e6, 2)
    alone, most = most, 0
    client.offline = lambda fastest, batch_ns, in_flight: peaks[in_flight]
    client.search((100.0,), {1: 20e6, 16: 20e6}, 1.0)
    return {"offline": alone, "server": most, "firsts": len(set(firsts)), "copied": any(copied)}
with ThreadPoolExecutor() as threads:
    print(json.dumps([*threads.map(served, [{1: 300.0, 2: 320.0}, {1: 300.0, 2: 310.0}])]))
"""


@pytest.fixture(scope="module")
def pipelined(execute):
    return execute(PIPELINED)


def test_a_batch_is_copied_while_another_computes_if_that_serves_more(pipelined):
    more, equal = pipelined
    assert (more["offline"], more["server"]) == (2, 2)
    assert (equal["offline"], equal["server"]) == (2, 1), "3 % more is not worth it"


def test_a_batch_is_a_view_of_the_samples_that_arrived(pipelined):
    for result in pipelined:
        assert not result["copied"]
        assert result["firsts"] > 8, "each batch begins where the last one ended"
