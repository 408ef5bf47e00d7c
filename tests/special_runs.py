"""Simulated runs of other kinds: sweeps, inference requests, the machine itself and its health."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harness.model.platform import HOST, Health, State, Xid
from harness.model.run import Metric, PlannedTrial, Point, RequestTimes, Run, Scalar, Status, Trial
from harness.model.workload import Published
from harness.run.plan import grid
from tests.builders import VariantSpeed, gpu_run, manifest, trial, workload
from tests.builders_telemetry import SECOND_NS, GpuLoad
from workloads.protocol import BASELINE, MACHINE, RATE, SERVER, SINGLE_STREAM, SOAK, WORK, Requests

AXES: Mapping[str, Sequence[Scalar | None]] = {"batch_size": (32, 128, 4096), "steps_per_execution": (1, 10)}


def sweep_run(
    axes: Mapping[str, Sequence[Scalar | None]] = AXES,
    *,
    trials: int = 3,
    noise: float = 0.01,
    seed: int = 1,
    device: str = "cpu",
) -> Run:
    """Simulate a sweep in which larger batches help, steps per call hardly, and 4096 exhausts memory."""
    name = "cifar100-mlp"
    points = grid(axes)
    planned = [
        PlannedTrial(
            id=f"{name}.{device}.p{number:02d}.{index}", workload=name, device=device, index=index,
            variants=(BASELINE,), params=dict(point), point=point,
        )
        for index in range(trials)
        for number, point in enumerate(points, 1)
    ]  # fmt: skip
    played: list[Trial] = []
    now = 1_000 * SECOND_NS
    out_of_memory: set[Point] = set()
    for number, item in enumerate(planned):
        if item.point in out_of_memory:
            continue
        speed = VariantSpeed(step_s=_step_s(item.point), batch=int(dict(item.point).get("batch_size", 32)))
        speeds = {BASELINE: speed}
        each = trial(name, device, item.index, speeds=speeds, seed=seed + number, start_ns=now, noise=noise)
        each = replace(each, id=item.id, point=item.point)
        if dict(item.point).get("batch_size") == 4096:
            out_of_memory.add(item.point)
            each = replace(
                each, status=Status.OUT_OF_MEMORY, exit_code=137, windows=(), steps=(), metrics=(),
                message="It was killed for reaching its memory limit of 2.0 GiB.",
            )  # fmt: skip
        played.append(each)
        now = each.ended_ns + SECOND_NS
    described, workloads = manifest(seed=seed), (workload(name),)
    return Run(manifest=described, workloads=workloads, planned=tuple(planned), trials=tuple(played))


def _step_s(point: Point) -> float:
    """Return the overhead of a step, partly shared by the steps of a call, plus a time per sample."""
    values = dict(point)
    batch, steps = int(values.get("batch_size", 32)), int(values.get("steps_per_execution", 1))
    return 0.001 + 0.00002 / steps + batch * 2e-5


BATCHES = (1, 4, 16)
# Milliseconds (per request, per sample).
COSTS = {"cpu": (8.0, 30.0), "gpu0": (1.5, 0.2)}
RATES = {"cpu": (5.0, 12.0, 20.0), "gpu0": (400.0, 900.0, 1300.0)}
START_NS = 2_000_000_000


def single(variant: str, batch: int, milliseconds: float, count: int = 200, seed: int = 0) -> RequestTimes:
    """Return sequential requests of one batch size with latencies spread by 10 %."""
    random = np.random.default_rng((batch, seed))
    latency = (milliseconds * 1e6 * (1 + 0.1 * random.random(count))).astype(np.int64)
    return RequestTimes(
        variant=variant, scenario=SINGLE_STREAM, batch_size=batch, rate_per_s=0.0, planned=count,
        start_ns=START_NS, end_ns=START_NS + int(latency.sum()), latency_ns=latency,
    )  # fmt: skip


def offered(variant: str, rate: float, milliseconds: list[float], planned: int = 0) -> RequestTimes:
    latency = (np.asarray(milliseconds) * 1e6).astype(np.int64)
    return RequestTimes(
        variant=variant, scenario=SERVER, batch_size=max(BATCHES), rate_per_s=rate, planned=planned or
        len(latency), start_ns=START_NS, end_ns=START_NS + int(len(latency) / rate * 1e9), latency_ns=latency,
    )  # fmt: skip


def serving_run(trials: int = 3) -> Run:
    """Return an inference run on the CPU and one GPU; the CPU cannot meet the 15 ms bound."""
    run = gpu_run(trials=trials)
    declared = replace(
        run.workloads[0],
        requests=Requests(batch_sizes=BATCHES, bounds_ms=(15.0, 100.0)),
        published=(
            Published(source="An article", system="3 nodes over 5", device="gpu", value=8.04,
                      unit="requests ratio"),
        ),
    )  # fmt: skip
    return replace(run, workloads=(declared,), trials=tuple(_with_requests(trial) for trial in run.trials))


def _with_requests(trial: Trial) -> Trial:
    per_request, per_sample = COSTS[trial.device]
    low, middle, high = RATES[trial.device]
    fast = [per_request + per_sample] * 200
    return replace(
        trial,
        requests=(
            *(single(BASELINE, size, per_request + per_sample * size, seed=trial.index) for size in BATCHES),
            offered(BASELINE, low, fast),
            offered(BASELINE, middle + trial.index, [*fast[:198], 90.0, 90.0]),
            # Stopped after five late requests.
            offered(BASELINE, high, [*fast[:50], *[2000.0] * 5], planned=400),
        ),
    )


def health(**changed: float | str) -> Health:
    """Return what a healthy H200 and its host report, with changed readings of the GPU after the run."""
    gpu_values: dict[str, float | str] = {
        "ecc_uncorrected": 0.0, "remapping_pending": 0.0, "remapping_failed": 0.0, "nvlinks": 18.0,
        "nvlinks_active": 18.0, "pcie_max_gen": 5.0, "pcie_max_width": 16.0, "pcie_replays": 0.0,
        "slowdown_c": 89.0, "temperature_c": 40.0, "power_limit_w": 700.0, "power_default_w": 700.0,
        "clock_set_mhz": 1980.0, "clock_default_mhz": 1980.0, "persistence": 1.0, "mig": 0.0,
        "confidential": 0.0, "processes": 0.0, "numa_node": 0.0,
    }  # fmt: skip
    host: dict[str, float | str] = {
        "cpu_s": 0.0, "steal_s": 0.0, "swapped_bytes": 0.0, "governor": "performance",
        "huge_pages": "madvise", "numa_nodes": "0", "memory_errors": 0.0, "disk_type": "ext4",
        "disk_free_share": 0.6,
    }  # fmt: skip
    before = State(t_ns=0, values={"gpu0": gpu_values, HOST: host})
    after = State(t_ns=60 * SECOND_NS, values={"gpu0": gpu_values | changed, HOST: host | {"cpu_s": 960.0}})
    return Health(before=before, after=after)


# What an H200 and a CPU of 16 could do: capability -> rate.
ABLE: Mapping[str, Mapping[str, float]] = {
    "cpu": {
        "fp32-core": 1.2e11, "fp32": 1.7e12, "memory-core": 1.4e10, "memory": 2.1e11, "jpeg-core": 520.0,
        "jpeg": 7900.0, "read": 1.9e9,
    },
    "gpu0": {
        "fp64": 5.9e13, "fp32": 5.1e13, "tf32": 3.9e14, "bf16": 7.2e14, "fp16": 7.23e14, "memory": 4.1e12,
        "to-device": 1.1e10, "to-device-pinned": 5.5e10, "from-device": 1.0e10, "from-device-pinned": 5.4e10,
        "launch": 4.2e5,
    },
}  # fmt: skip


def machine_trial(device: str, index: int, *, scale: float = 1.0) -> Trial:
    """Simulate a trial that measures a device, at `scale` of its usual speed."""
    rates = {name: rate * scale * (1 + 0.004 * index) for name, rate in ABLE[device].items()}
    load = GpuLoad(util=99, power_w=698) if device != "cpu" else None
    speeds = {name: VariantSpeed(step_s=0.05, batch=1, load=load) for name in rates}
    simulated = trial(MACHINE, device, index, speeds=speeds, windows=1, accuracy=0)
    metrics = tuple(Metric(variant=name, name=RATE, value=rate) for name, rate in rates.items())
    return replace(simulated, metrics=metrics, steps=())


def measured_machine_run(*, scale: float = 1.0) -> Run:
    """Return a healthy GPU run with three trials of the machine on each device."""
    whole = gpu_run()
    machine = tuple(machine_trial(device, index, scale=scale) for index in range(3) for device in ABLE)
    return replace(whole, trials=(*machine, *whole.trials), health=health())


def soaked_run(speeds: NDArray[np.float64]) -> Run:
    """Return a GPU run with a load without pause of windows of a second, whose speeds are given in steps/s."""
    whole = gpu_run(trials=1)
    load = VariantSpeed(step_s=0.01, batch=1, load=GpuLoad(util=100, power_w=690))
    soak = trial(MACHINE, "gpu0", speeds={SOAK: load}, windows=len(speeds), accuracy=0)
    windows = tuple(
        replace(each, steps=round(speed * (each.end_ns - each.start_ns) / 1e9))
        for each, speed in zip(soak.windows, speeds, strict=True)
    )
    metrics = (Metric(variant=SOAK, name=WORK, value=1e12),)
    return replace(whole, trials=(*whole.trials, replace(soak, windows=windows, metrics=metrics, steps=())))


def unhealthy_run() -> Run:
    """Return a GPU run in which memory errors and a fallen NVLink appeared."""
    seen = health(ecc_uncorrected=2.0, nvlinks_active=17.0)
    return replace(gpu_run(), health=replace(seen, xids=(Xid(device="gpu0", code=48, during=True),)))
