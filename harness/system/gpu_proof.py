"""Test a container's GPU access with TensorFlow matrix products in the CUDA image."""

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

LIMIT_S, _POLL_S = 300.0, 0.05


def prove_gpu(engine: Engine, image: ImageInfo, access: GpuAccess) -> str:
    """Run matrix products on each GPU; return a text with their speeds.

    Raises:
        GpuError: TensorFlow did not use the GPU; the message includes the end of the container's log.
    """
    with tempfile.TemporaryDirectory(prefix="tfbench-") as out:
        spec = ContainerSpec(
            image=image,
            command=("python3", "-m", "workloads.driver.probe", "gpu", str(len(access.uuids))),
            environment={"PYTHONPATH": str(Path(WORKLOADS_DIR).parent)},
            out=Path(out),
            mounts=(Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),),
            trial_id="doctor",
            run_id="doctor",
            gpu=access,
        )
        exit_, log = run_to_end(engine, spec, LIMIT_S)
    # TensorFlow logs to the same stream.
    result: dict[str, Any] = next(
        (json.loads(line) for line in log.splitlines() if line.startswith('{"ok"')), {}
    )
    if exit_.code != 0 or not result.get("ok"):
        text = result.get("message") or "\n".join(log.strip().splitlines()[-5:]) or "nothing"
        raise GpuError(
            f"A matrix product in the CUDA image failed (GPU access: {access.kind}): {text}",
            hint="Check the driver with nvidia-smi on the host, and that no other process uses the GPU.",
        )
    speeds = (
        f"{device}: " + ", ".join(f"{name.split('_')[1]} {rate:.0f} TFLOP/s" for name, rate in rates.items())
        for device, rates in result["rates"].items()
    )
    return "; ".join(speeds)


def run_to_end(engine: Engine, spec: ContainerSpec, limit_s: float) -> tuple[Exit, str]:
    """Run a container to its end, remove it, and return its exit and log.

    Raises:
        EngineError: the engine failed, or the container did not end within `limit_s` seconds.
    """
    container = engine.start(spec)
    try:
        deadline = time.monotonic() + limit_s
        while (exit_ := container.poll()) is None:
            if time.monotonic() > deadline:
                raise EngineError(
                    f"{spec.trial_id} did not end within {limit_s:g} s.",
                    hint="Check the machine's load and the kernel log (dmesg).",
                )
            time.sleep(_POLL_S)
        return exit_, container.log()
    finally:
        container.remove()
