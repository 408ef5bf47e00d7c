"""`make truth`: run scripts with planted bottlenecks and check the findings of their reports.

    python -m benchmarks.truth [--case NAME ...] [--suite gpu] [--replay]

Each case is a script that runs as by `tfbench bench` in a container. Finished runs are
kept in --folder and evaluated again; remove a case's folder to repeat it. --replay evaluates the recorded
runs in benchmarks/truth/recordings and runs nothing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.truth import scoring
from benchmarks.truth.case import Case
from benchmarks.truth.judging import Judged, judge
from benchmarks.truth.running import Settings, finished_run, run_case
from benchmarks.truth.suites import ABLATIONS, SUITES, pack_runs, packed_answers, unpack
from harness.errors import TfbenchError


def main(
    names: Annotated[list[str] | None, typer.Option("--case", help="case to run; repeat for more")] = None,
    suite_name: Annotated[
        str, typer.Option("--suite", "--device", help=f"one of {', '.join(SUITES)}")
    ] = "cpu",
    folder: Annotated[
        Path | None,
        typer.Option(help="folder of the runs; default: build/truth/SUITE, also for its ablations"),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="evaluate the recorded runs, run nothing")] = False,
    engine: Annotated[str, typer.Option(help="docker or local")] = "docker",
    gpus: Annotated[str, typer.Option(help="GPU, as in tfbench bench")] = "0",
    cpus: Annotated[str, typer.Option(help="CPUs, as in tfbench bench")] = "",
    images: Annotated[list[str] | None, typer.Option("--image", help="as in tfbench bench")] = None,
    pack: Annotated[Path | None, typer.Option(help="archive (.tar.xz) to write the runs to")] = None,
) -> None:
    """Run or replay the cases and print the tables; exit with 5 if a case failed to run."""
    suite = {case.name: case for case in SUITES[suite_name]}
    if unknown := set(names or ()) - suite.keys():
        raise typer.BadParameter(
            f"unknown case: {', '.join(sorted(unknown))}; choose from: {', '.join(suite)}"
        )
    cases = [suite[name] for name in dict.fromkeys(names or suite)]
    with tempfile.TemporaryDirectory() as temporary:
        default = Path("build/truth", suite_name.removesuffix(ABLATIONS))
        runs = unpack(suite_name, Path(temporary)) if replay else (folder or default) / "runs"
        settings = Settings(
            folder=runs, engine=engine, gpus=gpus, cpus=cpus,
            images=dict(each.split("=", 1) for each in images or ()),
        )  # fmt: skip
        pending = [case for case in cases if not finished_run(case.name, settings)]
        succeeded = [_run(case, settings) for case in pending if case.recording or not replay]
        judged = judge_all(cases, settings)
    print("\n".join(tables(judged, packed_answers(suite_name), replayed=replay)))
    if pack:
        pack_runs(cases, runs, pack)
    sys.exit(0 if all(succeeded) else 5)


def tables(judged: Sequence[Judged], answers: scoring.Answers, *, replayed: bool) -> Iterator[str]:
    """Yield all tables as Markdown; the score comes first and again at the end, where a terminal shows it."""
    if not judged:
        yield "No case has been run."
        return
    parts = [scoring.summary(judged), scoring.by_cause(judged), scoring.cases_table(judged)]
    for part in (*parts, scoring.peers_table(judged, answers)) if answers else parts:
        yield from (*part, "")
    runs = "Recorded runs (benchmarks/truth/recordings), evaluated again." if replayed else "Evaluated runs."
    yield f"{runs} Wrong answers are bold; AU is MLPerf Storage's accelerator utilisation. See docs/truth.md."
    yield from scoring.summary(judged)


def judge_all(cases: Sequence[Case], settings: Settings) -> list[Judged]:
    """Judge all finished cases, each with its control if that is finished."""
    return [
        judge(case, run, finished_run(case.control, settings))
        for case in cases
        if (run := finished_run(case.name, settings))
    ]


def _run(case: Case, settings: Settings) -> bool:
    """Run a case and print its verdict; return whether it ran successfully."""
    began = time.monotonic()
    try:
        run_case(case, settings)
    except TfbenchError as error:
        print(f"{case.name}: {error.message} {error.hint}", file=sys.stderr)
        return False
    (judged,) = judge_all([case], settings)
    print(
        f"{'right' if judged.right else 'WRONG'}  {case.name} ({time.monotonic() - began:.0f} s): planted "
        f"{case.planted} {scoring.percent(judged.planted)}, answer {judged.answer} "
        f"{scoring.percent(judged.share)}, unexplained {scoring.percent(judged.unexplained)}",
        file=sys.stderr,
        flush=True,
    )
    return True


if __name__ == "__main__":
    typer.run(main)
