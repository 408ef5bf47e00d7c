"""Simulated runs of other kinds: sweeps, inference requests, the machine itself and its health."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from harness.model.platform import HOST, Health, State, Xid
from harness.model.run import Answer, Metric, PlannedTrial, Point, RequestTimes, Run, Scalar, Status, Trial
from harness.model.workload import Published
from harness.run.plan import grid
from tests.builders import VariantSpeed, four_gpu_run, gpu_run, manifest, trial, workload
from tests.builders_telemetry import SECOND_NS, GpuLoad
from workloads.protocol import (
    ANSWERS_CHECKED,
    ANSWERS_S,
    MACHINE,
    PEER_ACCESS,
    RATE,
    SERVER,
    SINGLE_STREAM,
    SOAK,
    WORK,
    Requests,
    peer,
)
from workloads.variants import BASELINE

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
        "fp64": 5.9e13, "fp32": 5.1e13, "tf32": 3.9e14, "bf16": 7.2e14, "fp16": 7.23e14, "fp8": 1.31e15,
        "memory": 4.1e12, "to-device": 1.1e10, "to-device-pinned": 5.5e10, "from-device": 1.0e10,
        "from-device-pinned": 5.4e10, "launch": 4.2e5,
    },
}  # fmt: skip
# Of several GPUs: the bus bandwidth of an all-reduce.
TOGETHER: Mapping[str, float] = {
    "all-reduce:1": 2.1e10, "all-reduce:4": 6.7e10, "all-reduce:16": 1.5e11, "all-reduce:64": 2.3e11,
    "all-reduce": 2.8e11, "all-reduce:1024": 3.1e11,
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


def several_gpus_run(copies: Sequence[Sequence[float]], *, link: str = "NVLink") -> Run:
    """Return a run of four GPUs with copies between them, in bytes/s by source and target, and the all-reduce."""
    whole, gpus = four_gpu_run(trials=1), range(len(copies))
    alone = [
        replace(
            machine_trial("gpu0", 0, scale=1 - 0.002 * each), id=f"machine.gpu{each}.0", device=f"gpu{each}"
        )
        for each in gpus
    ]
    pairs = {peer(a, b): copies[a][b] for a, b in permutations(gpus, 2)}
    rates = {**pairs, **TOGETHER}
    together = trial(
        MACHINE, "+".join(f"gpu{each}" for each in gpus), windows=1, accuracy=0,
        speeds={name: VariantSpeed(step_s=0.05, batch=1) for name in rates},
    )  # fmt: skip
    metrics = [Metric(variant=name, name=RATE, value=rate) for name, rate in rates.items()]
    metrics += [Metric(variant=name, name=PEER_ACCESS, value=1.0) for name in pairs]
    links = {
        f"gpu{a}": {f"link gpu{b}": link for b in gpus if b != a and link} for a in gpus
    }  # fmt: skip
    usual = health()
    states = [
        replace(state, values={HOST: state.values[HOST]}
                | {f"gpu{each}": {**state.values["gpu0"], **links[f"gpu{each}"]} for each in gpus})
        for state in (usual.before, usual.after) if state
    ]  # fmt: skip
    return replace(
        whole, health=replace(usual, before=states[0], after=states[1]),
        trials=(*alone, replace(together, metrics=tuple(metrics), steps=()), *whole.trials),
    )  # fmt: skip


def answering_run(values: Mapping[str, Sequence[tuple[float, int]]]) -> Run:
    """Return a run of saturated GPUs, each with its answers: seconds after the start, and checksum."""
    whole = soaked_run(np.full(60, 500.0))
    *others, soak = whole.trials
    (gpu,) = whole.manifest.gpus
    trials = []
    for device, seen in values.items():
        start_ns = soak.windows[0].start_ns
        found = tuple(
            Answer(variant=SOAK, gpu=0, name="product", t_ns=start_ns + round(s * SECOND_NS), value=value)
            for s, value in seen
        )
        checked = Metric(variant=SOAK, name=ANSWERS_CHECKED, value=61.0)
        cost = Metric(variant=SOAK, name=ANSWERS_S, value=0.61)
        series = tuple(
            replace(each, device=device) if each.device == "gpu0" else each for each in soak.telemetry
        )
        trials.append(
            replace(soak, id=f"machine.{device}.soak", device=device, answers=found,
                    metrics=(*soak.metrics, checked, cost), telemetry=series)
        )  # fmt: skip
    gpus = tuple(replace(gpu, index=number, uuid=f"{gpu.uuid}{number}") for number in range(len(values)))
    return replace(
        whole, manifest=replace(whole.manifest, gpus=gpus), trials=(*others, *trials), health=health()
    )


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
