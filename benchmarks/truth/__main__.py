"""`make truth`: run planted bottlenecks and compare the reports' findings with what was planted.

    python -m benchmarks.truth [--case NAME ...] [--device gpu] [--replay]

Each case is run as `tfbench bench` would run its workload file, in a container, with short windows. What was
run before is kept in --folder and judged again; remove a case's folder to run it anew. --replay judges the
runs that are kept in benchmarks/truth/recordings and runs nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.truth import peers, scoring
from benchmarks.truth.case import Case
from benchmarks.truth.judging import Judged, judge
from benchmarks.truth.recordings import pack, packed_answers, unpack
from benchmarks.truth.running import Settings, finished_run, run_case
from benchmarks.truth.suites import SUITES
from harness.errors import TfbenchError


def main() -> int:
    """Run or replay the cases and print the tables; the exit code is 5 when a case could not be run."""
    parser = _parser()
    given = parser.parse_args()
    cases = _chosen(parser, given)
    folder = (given.folder or Path("build/truth") / given.device) / "runs"
    settings = Settings(folder=folder, engine=given.engine, gpus=given.gpus)
    with tempfile.TemporaryDirectory() as temporary:
        if given.replay:
            settings = Settings(folder=unpack(given.device, Path(temporary)))
        todo = [case for case in cases if not finished_run(case, settings)]
        if given.replay:
            todo = [case for case in todo if case.recording]
        ran = [_run(case, settings) for case in todo]
        judged = judge_all(cases, settings)
    sys.stdout.write("\n".join(tables(judged, packed_answers(given.device), replayed=given.replay)) + "\n")
    if given.pack:
        pack(cases, settings.folder, given.pack)
    return 0 if all(ran) else 5


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", default=[], help="one of them; again for more")
    parser.add_argument("--device", default="cpu", choices=tuple(SUITES))
    parser.add_argument("--folder", type=Path, help="where runs are kept; default: build/truth/DEVICE")
    parser.add_argument("--replay", action="store_true", help="judge the recordings, run nothing")
    parser.add_argument("--engine", default="docker", help="docker or local")
    parser.add_argument("--gpus", default="0", help="which GPU, as in tfbench bench")
    parser.add_argument("--pack", type=Path, help="archive (.tar.xz) to put the runs into")
    return parser


def _chosen(parser: argparse.ArgumentParser, given: argparse.Namespace) -> list[Case]:
    cases = {case.name: case for case in SUITES[given.device]}
    if unknown := set(given.case) - cases.keys():
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(cases)}")
    return [cases[name] for name in dict.fromkeys(given.case or cases)]


def tables(judged: Sequence[Judged], answers: peers.Answers, *, replayed: bool) -> Iterator[str]:
    """Yield all tables as Markdown, and the score once more, as a screen shows the end."""
    if not judged:
        yield "No case has been run."
        return
    yield from scoring.summary(judged)
    yield ""
    yield from scoring.confusion(judged)
    yield ""
    yield from scoring.cases_table(judged)
    if answers:
        yield ""
        yield from peers.peers_table(list(peers.compared(judged, answers)))
    runs = "Recorded runs (benchmarks/truth/recordings), judged again." if replayed else "Runs judged."
    yield ""
    yield f"{runs} Bold is wrong; AU is MLPerf Storage's accelerator utilisation. See docs/truth.md."
    yield from scoring.summary(judged)


def judge_all(cases: Sequence[Case], settings: Settings) -> list[Judged]:
    """Judge the cases that were run, each with its control if that was run too."""
    return [judge_one(case, settings) for case in cases if finished_run(case, settings)]


def judge_one(case: Case, settings: Settings) -> Judged:
    """Judge one case that was run."""
    control = settings.folder / case.control
    there = bool(case.control) and (control / "stops.json").exists()
    return judge(case, settings.folder / case.name, control if there else None)


def _run(case: Case, settings: Settings) -> bool:
    """Run a case and print how it was judged; return whether it could be run."""
    began = time.monotonic()
    try:
        run_case(case, settings)
    except TfbenchError as error:
        sys.stderr.write(f"{case.name}: {error.message} {error.hint}\n")
        return False
    judged = judge_one(case, settings)
    sys.stderr.write(
        f"{'right' if judged.right else 'WRONG'}  {case.name} ({time.monotonic() - began:.0f} s): planted "
        f"{case.planted} {scoring.percent(judged.planted)}, found {judged.answer} ({judged.cause}) "
        f"{scoring.percent(judged.share)}, unexplained {scoring.percent(judged.unexplained)}\n"
    )
    sys.stderr.flush()
    return True


if __name__ == "__main__":
    sys.exit(main())
