"""`tfbench bench`: run the workloads and write the report."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from harness.bench import Options, resolve
from harness.cli.app import Json, Price, Quiet, app, err, out, places
from harness.cli.console import Terminal, show_error, show_summary
from harness.cli.rendering import targets, write_reports
from harness.errors import Interrupted, StoreError, TfbenchError, TrialError, UsageError
from harness.model import Status
from harness.session import Prepared, execute, prepare, resume
from harness.store import RunFolder, TrialRecord

_RUN = "What to run"
_WHERE = "Where to run it"
_HOW = "How to measure"

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@app.command()
def bench(
    workload: Annotated[
        list[str] | None,
        typer.Option(
            "--workload",
            "-w",
            help="A workload by name, or `all`; again for more. Default: the default suite.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    workload_file: Annotated[
        list[Path] | None,
        typer.Option(help="A workload file of your own; see examples/my_workload.py.", rich_help_panel=_RUN),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", "-p", help="smoke, quick or full.", rich_help_panel=_RUN)
    ] = "quick",
    legs: Annotated[
        str,
        typer.Option(
            help="Comma-separated: as-written, input-only, model-only, tuned. Default: all.",
            rich_help_panel=_RUN,
        ),
    ] = "",
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis/--no-analysis",
            help="Measure what holds each workload back, or its speed alone.",
            rich_help_panel=_RUN,
        ),
    ] = True,
    param: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, e.g. batch_size=64; again for more.", rich_help_panel=_RUN),
    ] = None,
    data: Annotated[
        str, typer.Option(help="auto, real (fail without it) or procedural.", rich_help_panel=_RUN)
    ] = "auto",
    device: Annotated[
        str,
        typer.Option(
            "--device",
            "-d",
            help="auto, cpu, gpu, gpu0, gpu0+gpu1, scaling (1, 2, 4 ... GPUs); comma-separated.",
            rich_help_panel=_WHERE,
        ),
    ] = "auto",
    gpus: Annotated[
        str,
        typer.Option(
            help="Which cards: indices, UUIDs or MIG UUIDs, comma-separated, or all.", rich_help_panel=_WHERE
        ),
    ] = "0",
    engine: Annotated[
        str,
        typer.Option(
            "--engine", "-e", help="auto, docker or local (nothing isolated).", rich_help_panel=_WHERE
        ),
    ] = "auto",
    image: Annotated[
        list[str] | None,
        typer.Option(
            help="cpu=REF or cuda=REF: an image of your own that has Python and TensorFlow.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    base: Annotated[str | None, typer.Option(help="Base image to build on.", rich_help_panel=_WHERE)] = None,
    cpus: Annotated[
        str, typer.Option(help="Pin containers to these processors, e.g. 0-3,8.", rich_help_panel=_WHERE)
    ] = "",
    cpu_quota: Annotated[
        float | None,
        typer.Option(help="Processors' worth of time for each container.", rich_help_panel=_WHERE, min=0.01),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            help="Memory limit in GiB. Default: 90 % of the host's.", rich_help_panel=_WHERE, min=0.1
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Exactly so many trials instead of the profile's.", rich_help_panel=_HOW, min=1),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(help="Telemetry samples a second; 0 for none.", rich_help_panel=_HOW, min=0, max=100),
    ] = 10,
    stall: Annotated[
        float | None,
        typer.Option(help="End a trial that says nothing for so many seconds.", rich_help_panel=_HOW, min=1),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For weights, shuffling and procedural data.", rich_help_panel=_HOW)
    ] = 1,
    price: Price = "",
    runs: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for run folders.", rich_help_panel=_HOW)
    ] = Path("runs"),
    resume_run: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Go on with an interrupted run folder; other options are taken from it.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the workloads in containers, sample the host meanwhile, and write one report.

    Exit codes: 0 all went well, 2 usage, 3 engine, 4 image, 5 a trial failed, 6 disk, 7 another run,
    8 GPU, 9 data, 130 interrupted. Finished trials and a report of them are kept whatever happens.
    """  # fmt: skip
    progress = Terminal(err(), quiet=quiet)
    with _stoppable():
        if resume_run:
            prepared = resume(resume_run, places(), progress)
        else:
            options = Options(
                profile=profile,
                engine=engine,
                device=device,
                gpus=gpus,
                workloads=_split(workload),
                files=tuple(path.absolute() for path in workload_file or ()),
                images=_pairs(image, "--image"),
                base=base,
                legs=legs,
                analysis=analysis,
                params=_pairs(param, "--param"),
                trials=trials,
                out=runs,
                data=data,
                interval_s=1 / rate if rate else 0.0,
                cpus=cpus,
                cpu_quota=cpu_quota,
                memory_bytes=None if memory is None else int(memory * 2**30),
                stall_s=stall,
                seed=seed,
                price=price,
            )
            prepared = prepare(resolve(options), places(), progress)
        _announce(progress, prepared)
        failure: TfbenchError | None = None
        records: Sequence[TrialRecord] = ()
        try:
            records = execute(prepared, progress)
        except TfbenchError as error:
            failure = error
        if prepared.folder.exists():
            _conclude(prepared.folder, failure, as_json=as_json, quiet=quiet)
    if failure is not None:
        raise failure
    _raise_for(records)


def _announce(progress: Terminal, prepared: Prepared) -> None:
    engine = prepared.manifest.engine
    if engine.isolated:
        progress.line(f"Engine: {engine.name} {engine.version}")
    else:
        progress.line("Engine: local. NOTHING IS ISOLATED: no container engine is used, so the workloads run")
        progress.line("as plain processes beside everything else here. For containers: make engine")
    progress.line(f"Run folder: {prepared.folder.path}")


def _conclude(folder: RunFolder, failure: TfbenchError | None, *, as_json: bool, quiet: bool) -> None:
    """Render what there is; a failure to do so must not hide why the run itself failed."""
    try:
        places = targets(folder.path, ("json", "html"), None)
        analysis = write_reports(folder.path, places)
    except StoreError as error:
        if failure is None:
            raise
        show_error(err(), error)
        return
    if as_json:
        out().print_json(places["json"].read_text(encoding="utf-8"))
        return
    if not quiet:
        show_summary(out(), analysis)
    out().print(f"Report: {places['html'].resolve()}", soft_wrap=True)


def _raise_for(records: Sequence[TrialRecord]) -> None:
    failed = [record for record in records if record.status is not Status.OK]
    if failed:
        raise TrialError(
            f"{len(failed)} of {len(records)} trials failed, first {failed[0].id}: {failed[0].message}",
            hint="The report has the others; log.txt in each trial's folder has what it printed.",
        )


@contextmanager
def _stoppable() -> Iterator[None]:
    """Have Ctrl-C or a polite kill end the run, once, and say so as an error of ours.

    A second Ctrl-C must not hit the clearing away: from the first one on the process is deaf to them, until
    it ends. Signals that are ignored already, as under nohup, stay ignored.
    """
    stopped = False

    def stop(number: int, frame: FrameType | None) -> Any:
        nonlocal stopped
        stopped = True
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {one: old for one in _STOPPING if (old := signal.getsignal(one)) != signal.SIG_IGN}
    for one in before:
        signal.signal(one, stop)
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("Stopped.", hint="Run the same command again.") from error
    finally:
        if not stopped:
            for one, handler in before.items():
                signal.signal(one, handler)


def _split(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(part for value in values or () for part in value.replace(",", " ").split())


def _pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for value in values or ():
        name, equals, text = value.partition("=")
        if not (name and equals and text):
            raise UsageError(f"{option} {value} is not NAME=VALUE.", hint=f"Write it as {option} name=value.")
        pairs[name] = text
    return pairs
