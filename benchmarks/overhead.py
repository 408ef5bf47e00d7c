"""`make overhead`: what sampling costs the workload, what the harness adds to a start, what a report takes.

    python -m benchmarks.overhead [sampling] [start] [render] [--rounds N] [--device gpu] [--workload NAME]

Sampling: one container trains, window after window, while samplers take turns of a few seconds: none, ours,
and others' (on a CPU `docker stats` and CodeCarbon, on a GPU nvitop, Zeus and CodeCarbon). Only windows that
lie wholly inside a turn count, and every turn is compared with the turn without a sampler of the same round,
so that a drifting machine cancels out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import rendering, sampling, starting
from benchmarks.settings import Settings

PARTS: dict[str, Callable[[Settings], Sequence[str]]] = {
    "sampling": sampling.measure,
    "start": starting.measure,
    "render": rendering.measure,
}


def main() -> int:
    """Run the parts that the command line names and print a Markdown table of each."""
    default = Settings()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"out of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=default.rounds)
    parser.add_argument("--work", type=Path, default=default.work, help="folder for what is written")
    parser.add_argument("--device", default=default.device, help="cpu, gpu, gpu0 ...: for sampling")
    parser.add_argument("--workload", default=default.workload, help="what trains: for sampling and start")
    parser.add_argument("--variant", default=default.variant, help="of the workload: for sampling")
    parser.add_argument("--image", action="append", default=[], help="TARGET=REFERENCE, as in tfbench bench")
    parser.add_argument("--engine", default=default.engine, help="docker or local: for sampling and start")
    parser.add_argument("--python", type=Path, help="interpreter of the other samplers")
    parser.add_argument("--turn", type=float, default=default.turn_s, help="seconds that a sampler watches")
    parser.add_argument("--recording", type=Path, default=default.recording, help="run folder: for render")
    given = parser.parse_args()
    unknown = set(given.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    settings = Settings(
        rounds=given.rounds,
        work=given.work,
        device=given.device,
        workload=given.workload,
        variant=given.variant,
        images=dict(one.partition("=")[::2] for one in given.image),
        engine=given.engine,
        python=given.python,
        turn_s=given.turn,
        recording=given.recording,
    )
    for name in given.parts or PARTS:
        for line in PARTS[name](settings):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write("\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
