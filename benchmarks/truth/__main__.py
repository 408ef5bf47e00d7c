"""`make truth`: run planted bottlenecks and hold the reports' verdicts against what was planted.

    python -m benchmarks.truth [--case NAME ...] [--device gpu] [--replay] [--fresh]

Each case is run as `tfbench bench` would run its workload file, in a container, with short windows. What was
run before is kept and judged again; --fresh runs it anew. --replay runs nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.truth import scoring
from benchmarks.truth.case import Case
from benchmarks.truth.cpu_cases import CPU_CASES
from benchmarks.truth.judging import Judged, judge
from benchmarks.truth.running import Settings, kept, run_case
from harness.errors import TfbenchError


def main() -> int:
    """Run or replay the cases and print the tables; the exit code is 5 when a case could not be run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", default=[], help="one of them; again for more")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    parser.add_argument("--folder", type=Path, help="where run folders are kept; default: build/truth/DEVICE")
    parser.add_argument("--replay", action="store_true", help="judge what was kept, run nothing")
    parser.add_argument("--fresh", action="store_true", help="run also what was kept")
    parser.add_argument("--image", action="append", default=[], help="TARGET=REFERENCE, as in tfbench bench")
    parser.add_argument("--engine", default="docker", help="docker or local")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th case from the I-th on")
    parser.add_argument("--markdown", type=Path, help="file to write the tables to")
    given = parser.parse_args()
    cases = [case for case in CPU_CASES if case.device == given.device]
    known = {case.name: case for case in cases}
    if unknown := set(given.case) - known.keys():
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    chosen = [known[name] for name in dict.fromkeys(given.case)] or cases
    index, count = (int(word) for word in given.part.split("/"))
    chosen = chosen[index - 1 :: count]
    settings = Settings(
        folder=given.folder or Path("build/truth") / given.device,
        engine=given.engine,
        images=dict(one.partition("=")[::2] for one in given.image),
    )
    failed = [] if given.replay else list(_run(chosen, settings, fresh=given.fresh))
    judged = list(_judge(chosen, settings))
    lines = list(tables(judged)) if judged else ["No case has been run."]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 5 if failed else 0


def tables(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield all tables as Markdown."""
    yield from scoring.summary(judged)
    yield ""
    yield from scoring.confusion(judged)
    yield ""
    yield from scoring.cases_table(judged)


def _run(cases: Sequence[Case], settings: Settings, *, fresh: bool) -> Iterator[str]:
    """Run what is not kept; yield the names of those that failed."""
    for case in cases:
        if kept(case, settings) and not fresh:
            continue
        began = time.monotonic()
        try:
            run_case(case, settings)
        except TfbenchError as error:
            sys.stderr.write(f"{case.name}: {error.message} {error.hint}\n")
            yield case.name
            continue
        _say(judge_one(case, settings), time.monotonic() - began)


def _judge(cases: Sequence[Case], settings: Settings) -> Iterator[Judged]:
    for case in cases:
        if kept(case, settings):
            yield judge_one(case, settings)


def judge_one(case: Case, settings: Settings) -> Judged:
    """Judge a case that was run, with its control if that was run too."""
    control = settings.folder / case.control if case.control else None
    there = control is not None and (control / "stops.json").exists()
    return judge(case, settings.folder / case.name, control if there else None)


def _say(judged: Judged, seconds: float) -> None:
    mark = "right" if judged.right else "WRONG"
    sys.stderr.write(
        f"{mark}  {judged.case.name} ({seconds:.0f} s): planted {judged.case.planted} "
        f"{scoring.percent(judged.planted)}, said {judged.said} {scoring.percent(judged.cost)}. "
        f"{judged.sentence}\n"
    )
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
