"""Sources in processes of their own against the stand-in library: a line of JSON in, a line out.

A child that has never opened the library answers each request; what takes long to import is there already.
"""

import dataclasses
import json
import os
import sys
import time
import traceback
from pathlib import Path

from harness.system.gpus import discover
from harness.telemetry import Target
from harness.telemetry.csvfile import read_series
from harness.telemetry.gpm import GpmSource
from harness.telemetry.nvml import NvmlSlowSource, NvmlSource
from harness.telemetry.nvml_buffers import POWER, UTILISATION, BufferSource
from harness.telemetry.sampler import sample
from harness.telemetry.sources import default_sources


class Clock:
    """Moves only when a test says so."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


def read(request: dict) -> dict:
    clock = Clock()
    makers = {
        "nvml": lambda: NvmlSource(clock),
        "nvml_slow": lambda: NvmlSlowSource(clock),
        "gpm": lambda: GpmSource(clock),
        "nvml_power": lambda: BufferSource(POWER),
        "nvml_util": lambda: BufferSource(UTILISATION),
    }
    sources = [makers[name]() for name in request["sources"]]
    gaps: list[tuple[int, str, str, str, str]] = []
    columns = {
        source.name: {
            device: list(metrics)
            for device, metrics in source.start(
                Target(pid=request["pid"], gpus=request["gpus"]), lambda *gap: gaps.append((clock.ns, *gap))
            ).items()
        }
        for source in sources
    }
    samples = []
    for _ in range(request["reads"]):
        time.sleep(request["pause_s"])
        clock.ns += round(request["step_s"] * 1e9)
        samples += [dataclasses.asdict(each) for source in sources for each in source.read()]
    for source in sources:
        source.stop()
    return {"columns": columns, "samples": samples, "gaps": gaps}


def trial(request: dict) -> dict:
    """Sample with every source there is until the GPU has been lost and read again."""
    folder, target = Path(request["folder"]), Target(pid=os.getpid(), gpus=request["gpus"])
    give_up = time.monotonic() + 30

    def rows() -> int:
        return sum(len(series.t_ns) for series in read_series(folder) if series.source == "nvml")

    with sample(default_sources(), target, folder, 0.01) as sampling:
        while rows() < request["rows"] and time.monotonic() < give_up:
            time.sleep(0.02)
    gaps = [dataclasses.asdict(gap) for gap in sampling.gaps]
    return {"gaps": gaps, "cost": sampling.cost, "end_ns": time.monotonic_ns()}


def answer(request: dict) -> dict:
    os.environ["NVML_STANDIN"] = request["script"]
    if request["discover"]:
        cards, reason = discover()
        return {"cards": [dataclasses.asdict(card) for card in cards], "reason": reason}
    return trial(request) if "folder" in request else read(request)


def say(answer: dict) -> None:
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


def main() -> None:
    for line in sys.stdin:
        if child := os.fork():
            _, status = os.waitpid(child, 0)
            if status:
                say({"failed": f"The process ended with {status:#x}."})
            continue
        try:
            text = answer(json.loads(line))
        except BaseException:  # whatever it is, the test has to say it
            text = {"failed": traceback.format_exc()}
        say(text)
        os._exit(0)


if __name__ == "__main__":
    main()
