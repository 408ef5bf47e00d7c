"""Test a device in a container: whether TensorFlow uses it, and what it can do."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import workloads
from harness.engines import OUT_DIR, WORKLOADS_DIR, ContainerSpec, Engine, Exit, GpuAccess, Mount
from harness.errors import EngineError, GpuError
from harness.model.platform import ImageInfo
from workloads.protocol import RATE, read_events

LIMIT_S, _POLL_S = 300.0, 0.05
# Short: a test need not be exact.
_WINDOW_S = 0.6


def prove_device(
    engine: Engine, image: ImageInfo, access: GpuAccess | None, names: Sequence[str]
) -> Mapping[str, float]:
    """Return the capabilities `names` of GPUs, or of the CPU without `access`; those it lacks are missing.

    Raises:
        GpuError: TensorFlow did not use the device; the message includes the end of the container's log.
    """
    gpus = len(access.uuids) if access else 0
    spec = {
        "variants": names,
        "device": "gpu" if gpus else "cpu",
        "gpus": gpus,
        "data_dir": "",
        "window_s": _WINDOW_S,
    }
    environment = {"PYTHONPATH": str(Path(WORKLOADS_DIR).parent)}
    with tempfile.TemporaryDirectory(prefix="tfbench-") as folder:
        out = Path(folder)
        (out / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        files = (f"{OUT_DIR}/spec.json", f"{OUT_DIR}/events.jsonl")
        container = ContainerSpec(
            image=image,
            command=("python3", "-m", "workloads.driver.capability", *files),
            environment=environment if gpus else {**environment, "CUDA_VISIBLE_DEVICES": "-1"},
            out=out,
            mounts=(Mount(container=WORKLOADS_DIR, host=Path(workloads.__file__).parent),),
            trial_id="doctor",
            run_id="doctor",
            gpu=access,
        )
        exit_, log = run_to_end(engine, container, LIMIT_S)
        events = _events(out / "events.jsonl")
    if exit_.code != 0:
        errors = [str(event["message"]) for event in events if event["kind"] == "error"]
        text = next(iter(errors), "") or "\n".join(log.strip().splitlines()[-5:]) or "nothing"
        way = f" (GPU access: {access.kind})" if access else ""
        raise GpuError(
            f"TensorFlow failed on a device in the image {image.target}{way}: {text}",
            hint="Check the driver with nvidia-smi on the host, and that no other process uses the GPU."
            if access
            else "Run `make images`, and check that enough memory is free.",
        )
    rates = (event for event in events if event["kind"] == "metric" and event["name"] == RATE)
    return {event["variant"]: event["value"] for event in rates}


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            return list(read_events(file))
    except (OSError, ValueError):
        return []


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
