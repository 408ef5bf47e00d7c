"""Test a container's GPU access with matrix products by TensorFlow in the CUDA image."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import workloads
from harness.engines import WORKLOADS_DIR, ContainerSpec, Engine, Exit, GpuAccess, Mount
from harness.errors import EngineError, GpuError
from harness.model.platform import ImageInfo

LIMIT_S, _LOOK_S = 300.0, 0.05


def prove_gpu(engine: Engine, image: ImageInfo, access: GpuAccess) -> str:
    """Return the speed of matrix products on each GPU, for people.

    Raises:
        GpuError: TensorFlow did not use the GPU; the message has the end of the container's log.
    """
    with tempfile.TemporaryDirectory(prefix="tfbench-") as out:
        spec = ContainerSpec(
            image=image,
            command=("python3", "-m", "workloads.probe", "gpu", str(len(access.uuids))),
            environment={"PYTHONPATH": str(Path(WORKLOADS_DIR).parent)},
            out=Path(out),
            mounts=(Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),),
            trial_id="doctor",
            run_id="doctor",
            gpu=access,
        )
        ended, log = run_to_end(engine, spec, LIMIT_S)
    # TensorFlow logs to the same stream.
    answer: dict[str, Any] = next(
        (json.loads(line) for line in log.splitlines() if line.startswith('{"ok"')), {}
    )
    if ended.code != 0 or not answer.get("ok"):
        text = answer.get("message") or "\n".join(log.strip().splitlines()[-5:]) or "nothing"
        raise GpuError(
            f"A matrix product in the CUDA image failed on the GPU passed by {access.kind}: {text}",
            hint="Check the driver with nvidia-smi on the host, and that nothing else uses the GPU.",
        )
    speeds = (
        f"{device}: " + ", ".join(f"{name.split('_')[1]} {rate:.0f} TFLOP/s" for name, rate in rates.items())
        for device, rates in answer["rates"].items()
    )
    return "; ".join(speeds)


def run_to_end(engine: Engine, spec: ContainerSpec, limit_s: float) -> tuple[Exit, str]:
    """Run a container to its end, remove it, and return its exit and log.

    Raises:
        EngineError: the engine fails, or the container has not ended after `limit_s` seconds.
    """
    container = engine.start(spec)
    try:
        end = time.monotonic() + limit_s
        while (exit_ := container.poll()) is None:
            if time.monotonic() > end:
                raise EngineError(
                    f"{spec.trial_id} did not end within {limit_s:g} s.",
                    hint="Check the machine's load and the driver's log (dmesg).",
                )
            time.sleep(_LOOK_S)
        return exit_, container.log()
    finally:
        container.remove()
