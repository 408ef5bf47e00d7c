"""`tfbench sweep`: measure a workload over a grid of its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from harness.cli import options as given
from harness.cli.app import Json, Quiet, app, command_line, err, paths
from harness.cli.console import Terminal
from harness.cli.measuring import measure, stoppable
from harness.cli.options import absolute, bytes_of, pairs, seconds_between
from harness.errors import UsageError, did_you_mean
from harness.run.options import Options, Resolved, resolve
from harness.run.prepare import Prepared, prepare, resume

_HINT = "For example: tfbench sweep cifar100-mlp --batch-size 32,64,128 --steps-per-execution 1,10"


# Options that are not its own are parameters of the workload, and go to `words` with their values.
@app.command(context_settings={"ignore_unknown_options": True})
def sweep(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORKLOAD --PARAMETER V1,V2,... ...",
            help="The workload, and each parameter to vary with its values; `tfbench list` shows both.",
            show_default=False,
        ),
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=V1,V2: the same for a parameter that is called like an option.",
            rich_help_panel=given.RUN,
        ),
    ] = None,
    workload_file: given.WorkloadFile = None,
    profile: given.Profile = "quick",
    variants: Annotated[
        str,
        typer.Option(
            help="Comma-separated: baseline, input-only, model-only, tuned.", rich_help_panel=given.RUN
        ),
    ] = "baseline",
    param: given.Param = None,
    data: given.DataMode = "auto",
    weights: given.Weights = None,
    device: given.Device = "auto",
    gpus: given.Gpus = "0",
    engine: given.Engine = "auto",
    image: given.Image = None,
    base: given.Base = None,
    cpus: given.Cpus = "",
    cpu_quota: given.CpuQuota = None,
    memory: given.Memory = None,
    trials: given.Trials = None,
    rate: given.Rate = 10,
    stall: given.Stall = None,
    seed: given.Seed = 1,
    cloud_metadata: given.CloudMetadata = True,
    runs: given.Runs = given.RUNS,
    resume_run: given.Resume = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a workload at every combination of some parameters' values, and find the fastest.

    tfbench sweep cifar100-mlp --batch-size 32,64,128 --steps-per-execution 1,10,50

    Its trials are interleaved and kept like those of `tfbench bench`, whose exit codes it has; running out of
    memory is a point's result, not a failure. What is interrupted goes on with --resume.
    """  # fmt: skip

    def ready(progress: Terminal) -> Prepared:
        if resume_run:
            return resume(resume_run, paths(), progress)
        workloads, axes = read_words(words or (), own_options(context))
        for name, text in pairs(axis, "--axis").items():
            axes = {**axes, name: values_in(text)}
        options = Options(
            profile=profile,
            engine=engine,
            device=device,
            gpus=gpus,
            workloads=workloads,
            files=absolute(workload_file),
            images=pairs(image, "--image"),
            base=base,
            variants=variants,
            params=pairs(param, "--param"),
            trials=trials,
            out=runs,
            data=data,
            weights=None if weights is None else weights.absolute(),
            interval_s=seconds_between(rate),
            cpus=cpus,
            cpu_quota=cpu_quota,
            memory_bytes=bytes_of(memory),
            stall_s=stall,
            seed=seed,
            cloud_metadata=cloud_metadata,
            axes=axes,
        )
        _check(options)
        prepared = prepare(
            _resolved(options, own_options(context)), paths(), progress, command=command_line()
        )
        _announce(prepared, progress)
        return prepared

    progress = Terminal(err(), quiet=quiet)
    with stoppable():
        measure(ready(progress), progress, as_json=as_json, quiet=quiet)


def own_options(context: typer.Context) -> tuple[str, ...]:
    """Return the long options that the command itself has, with their dashes."""
    return tuple(option for one in context.command.params for option in one.opts if option.startswith("--"))


def read_words(
    words: Sequence[str], options: Iterable[str]
) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """Tell workloads from axes, "--batch-size 32,64" or "--batch-size=32,64".

    Args:
        options: what the command knows, for whoever has mistyped one of them.

    Raises:
        UsageError: an axis without values, or one that is there twice, or nearly an option of the command.
    """
    workloads: list[str] = []
    axes: dict[str, tuple[str, ...]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            workloads += [part for part in word.split(",") if part]
            continue
        option, equals, text = word.partition("=")
        name = option.lstrip("-").replace("-", "_")
        if not equals and rest and not rest[0].startswith("--"):
            text = rest.pop(0)
        if not text or not option.startswith("--"):
            hint = f"{did_you_mean(option, options, cutoff=0.8)}List its values: {option} 1,2,4."
            raise UsageError(f"{option} is no option, and as a parameter it has no values.", hint=hint)
        if name in axes:
            raise UsageError(f"{option} is there twice.", hint="List all of its values once.")
        axes[name] = values_in(text)
    return tuple(workloads), axes


def _resolved(options: Options, known: Iterable[str]) -> Resolved:
    """Resolve the options; whoever has mistyped one is told so, since it was taken for a parameter."""
    try:
        return resolve(options)
    except UsageError as error:
        meant = [
            did_you_mean(f"--{name.replace('_', '-')}", known, cutoff=0.8)
            for name in options.axes
            if repr(name) in str(error)
        ]
        raise UsageError(error.message, hint=f"{''.join(meant)}{error.hint}") from error


def values_in(text: str) -> tuple[str, ...]:
    """Split an axis' values."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check(options: Options) -> None:
    count = len(options.workloads) + len(options.files)
    if count != 1 or "all" in options.workloads:
        raise UsageError(
            "A sweep is of one workload." if count else "No workload is named to sweep.",
            hint=f"Name one that `tfbench list` shows. {_HINT}",
        )
    if not options.axes:
        raise UsageError("No parameter is named to vary.", hint=_HINT)


def _announce(prepared: Prepared, progress: Terminal) -> None:
    planned = prepared.resolved.planned
    points = len(dict.fromkeys(trial.point for trial in planned))
    devices = dict.fromkeys(trial.device for trial in planned)
    profile = prepared.resolved.profile
    trials = (
        f"{profile.trials} to {profile.max_trials}"
        if profile.max_trials > profile.trials
        else f"{profile.trials}"
    )
    progress.line(f"Sweep: {points} points on {', '.join(devices)}; trials of each: {trials}")
