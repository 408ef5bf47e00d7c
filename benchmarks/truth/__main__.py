"""`make truth`: run planted bottlenecks and compare the reports' findings with what was planted.

    python -m benchmarks.truth [--case NAME ...] [--device gpu] [--replay]

Each case is run as `tfbench bench` would run its workload file, in a container, with short windows. What was
run before is kept in --folder and judged again; remove a case's folder to run it anew. --replay judges the
runs that are kept in benchmarks/truth/recordings and runs nothing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.truth import peers, scoring
from benchmarks.truth.case import Case
from benchmarks.truth.judging import Judged, judge
from benchmarks.truth.recordings import pack_runs, packed_answers, unpack
from benchmarks.truth.running import Settings, finished_run, run_case
from benchmarks.truth.suites import SUITES
from harness.errors import TfbenchError


def main(
    names: Annotated[list[str] | None, typer.Option("--case", help="one of them; again for more")] = None,
    device: Annotated[str, typer.Option(help="cpu or gpu")] = "cpu",
    folder: Annotated[Path | None, typer.Option(help="of the runs; default: build/truth/DEVICE")] = None,
    replay: Annotated[bool, typer.Option("--replay", help="judge the recordings, run nothing")] = False,
    engine: Annotated[str, typer.Option(help="docker or local")] = "docker",
    gpus: Annotated[str, typer.Option(help="which GPU, as in tfbench bench")] = "0",
    pack: Annotated[Path | None, typer.Option(help="archive (.tar.xz) to put the runs into")] = None,
) -> None:
    """Run or replay the cases and print the tables; the exit code is 5 when a case could not be run."""
    suite = {case.name: case for case in SUITES[device]}
    if unknown := set(names or ()) - suite.keys():
        raise typer.BadParameter(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(suite)}")
    cases = [suite[name] for name in dict.fromkeys(names or suite)]
    with tempfile.TemporaryDirectory() as temporary:
        runs = unpack(device, Path(temporary)) if replay else (folder or Path("build/truth", device)) / "runs"
        settings = Settings(folder=runs, engine=engine, gpus=gpus)
        todo = [case for case in cases if not finished_run(case.name, settings)]
        ran = [_run(case, settings) for case in todo if case.recording or not replay]
        judged = judge_all(cases, settings)
    print("\n".join(tables(judged, packed_answers(device), replayed=replay)))
    if pack:
        pack_runs(cases, runs, pack)
    sys.exit(0 if all(ran) else 5)


def tables(judged: Sequence[Judged], answers: peers.Answers, *, replayed: bool) -> Iterator[str]:
    """Yield all tables as Markdown, and the score once more, as a screen shows the end."""
    if not judged:
        yield "No case has been run."
        return
    parts = [scoring.summary(judged), scoring.by_cause(judged), scoring.cases_table(judged)]
    for part in (*parts, peers.peers_table(judged, answers)) if answers else parts:
        yield from (*part, "")
    runs = "Recorded runs (benchmarks/truth/recordings), judged again." if replayed else "Runs judged."
    yield f"{runs} Bold is wrong; AU is MLPerf Storage's accelerator utilisation. See docs/truth.md."
    yield from scoring.summary(judged)


def judge_all(cases: Sequence[Case], settings: Settings) -> list[Judged]:
    """Judge the cases that were run, each with its control if that was run too."""
    return [
        judge(case, run, finished_run(case.control, settings))
        for case in cases
        if (run := finished_run(case.name, settings))
    ]


def _run(case: Case, settings: Settings) -> bool:
    """Run a case and print how it was judged; return whether it could be run."""
    began = time.monotonic()
    try:
        run_case(case, settings)
    except TfbenchError as error:
        print(f"{case.name}: {error.message} {error.hint}", file=sys.stderr)
        return False
    (judged,) = judge_all([case], settings)
    print(
        f"{'right' if judged.right else 'WRONG'}  {case.name} ({time.monotonic() - began:.0f} s): planted "
        f"{case.planted} {scoring.percent(judged.planted)}, found {judged.answer} "
        f"{scoring.percent(judged.share)}, unexplained {scoring.percent(judged.unexplained)}",
        file=sys.stderr,
        flush=True,
    )
    return True


if __name__ == "__main__":
    typer.run(main)
