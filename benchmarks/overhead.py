"""`make overhead`: what sampling costs the workload, and what the harness adds to a start.

    python -m benchmarks.overhead [sampling] [start] [--rounds N] [--device gpu] [--workload NAME]

Sampling: one container trains, window after window, while samplers take turns of a few seconds: none, ours,
and others' (on a CPU `docker stats` and CodeCarbon, on a GPU nvitop, Zeus and CodeCarbon). Only windows that
lie wholly inside a turn count, and every turn is compared with the turn without a sampler of the same round,
so that a drifting machine cancels out.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import sampling, starting

PARTS = ("sampling", "start")


def main() -> int:
    """Run the parts that the command line names and print a Markdown table of each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"out of {', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=12, help="how often each thing is measured")
    parser.add_argument("--device", default="cpu", help="cpu, gpu, gpu0 ...: for sampling")
    parser.add_argument("--workload", default="cifar100-mlp", help="what trains: for sampling and start")
    parser.add_argument("--engine", default="docker", help="docker or local: for sampling")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    measure = {
        "sampling": lambda: sampling.measure(given.rounds, given.workload, given.device, given.engine),
        "start": lambda: starting.measure(given.rounds, given.workload),
    }
    for name in given.parts or PARTS:
        for line in measure[name]():
            sys.stdout.write(f"{line}\n")
        sys.stdout.write("\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
