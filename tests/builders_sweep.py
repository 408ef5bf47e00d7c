"""A simulated sweep of the CIFAR-100 MLP over batch size and steps per execution."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.model.run import PlannedTrial, Point, Run, Scalar, Status, Trial
from harness.run.plan import grid
from tests.builders import VariantSpeed, manifest, trial, workload
from tests.builders_telemetry import SECOND_NS
from workloads.protocol import BASELINE

AXES: Mapping[str, Sequence[Scalar]] = {"batch_size": (32, 128, 4096), "steps_per_execution": (1, 10)}


def sweep_run(
    axes: Mapping[str, Sequence[Scalar]] = AXES,
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
