"""`make overhead`: what sampling costs the workload, what the harness adds to a start, what a report takes.

    python -m benchmarks.overhead [sampling] [start] [render] [--rounds N]

Sampling: one container trains the CIFAR-100 MLP as written, window after window, while samplers take
turns of a few seconds: none, ours, `docker stats`, CodeCarbon. Only windows that lie wholly inside a turn
count, and every turn is compared with the turns without a sampler beside it in the same round, so that
a drifting machine cancels out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import rendering, sampling, starting

PARTS: dict[str, Callable[[int, Path], Sequence[str]]] = {
    "sampling": sampling.measure,
    "start": starting.measure,
    "render": rendering.measure,
}


def main() -> int:
    """Run the parts that the command line names and print a Markdown table of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"out of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--work", type=Path, default=Path("build/overhead"))
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - PARTS.keys()
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name in arguments.parts or PARTS:
        for line in PARTS[name](arguments.rounds, arguments.work):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
