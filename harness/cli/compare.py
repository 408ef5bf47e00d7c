"""`tfbench compare`: compare runs on one page, and check them against a baseline in CI."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from harness.cli.console import Terminal, err
from harness.cli.rendering import (
    COMPARISON_FILES,
    STDOUT,
    NamedRun,
    comparison_renderers,
    output_paths,
    read_extracts,
    write_outputs,
)
from harness.cli.shared_options import Formats, Price, Target
from harness.errors import SlowerError, UsageError
from harness.model.analysis import RELIABLE_WIDTH, Caveat
from harness.model.comparison import Extract
from harness.model.device import single_devices
from harness.model.platform import HOST
from harness.options import split
from harness.run.recording import open_run, references
from harness.run.store import newest_run
from harness.untrusted import printable


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Run folders or report files; NAME=PATH sets a display name. Or h200, whose results ship with tfbench."
        ),
    ],
    baseline: Annotated[
        str | None, typer.Option(help="Compare all other runs with this one, given in the same way.")
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            help="Exit with code 10 if a run is slower than the baseline by at least this, e.g. 5%."
        ),
    ] = None,
    write_limits: Annotated[
        bool,
        typer.Option(
            "--write-limits",
            help="Write limits that these good runs meet, for `bench --accept`, into --out (default: limits.toml).",
        ),
    ] = False,
    margin: Annotated[
        str | None,
        typer.Option(
            help="With --write-limits: how much worse than the worst of them is accepted. Default: 5%."
        ),
    ] = None,
    formats: Formats = None,
    target: Target = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", help="Only these workloads; repeatable."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", "-d", help="Only these devices; repeatable."),
    ] = None,
    price: Price = "",
) -> None:
    """Compare runs: speeds with intervals, step-time breakdowns, and differences between the machines.

    Ratios are relative to --baseline, else to the first run. With --fail-if-slower the exit code is 10 if the whole
    interval of a speed is at or beyond that limit, if a speed was measured in the baseline only, or if nothing could
    be compared. Undecided speeds are named, but do not fail. With --write-limits the runs are good ones, and only a
    limits file is written.
    """  # fmt: skip
    from harness.analysis.versus import gate, versus  # noqa: PLC0415 - kept off the start of commands
    from reports.compare_messages import failures, headline, notes, warnings  # noqa: PLC0415

    if write_limits:
        others = {
            "--baseline": baseline,
            "--fail-if-slower": fail_if_slower,
            "--format": formats,
            "--price": price,
        }
        _refuse("With --write-limits", {**others, "--workload": workload, "--device": device})
        _write_limits([_parse_run(text).path for text in runs], _share("--margin", margin or "5%"), target)
        return
    _refuse("Without --write-limits", {"--margin": margin})
    if fail_if_slower is not None and baseline is None:
        raise UsageError(
            "--fail-if-slower needs a baseline.", hint="Set the reference run with --baseline RUN."
        )
    limit = None if fail_if_slower is None else _share("--fail-if-slower", fail_if_slower)
    requested = _runs_to_compare(runs, baseline)
    inputs = [run.path for run in requested]
    paths = output_paths(formats, target, Path(), COMPARISON_FILES, inputs=inputs)
    extracted = read_extracts(requested, Terminal(err()), price=price)
    compared = filtered(extracted, split(workload or ()), split(device or ()))
    comparison = versus(compared, limit=limit or RELIABLE_WIDTH)
    gate_result = gate(comparison) if limit is not None else None
    write_outputs(comparison_renderers(comparison, gate_result), paths, target)
    if STDOUT not in paths.values():
        for line in (headline(comparison), *warnings(comparison, None), *notes(comparison, gate_result)):
            err().print(Text(line), soft_wrap=True)
    if gate_result is not None and (reasons := failures(comparison, gate_result)):
        raise SlowerError(
            f"The check failed: {'; '.join(reasons)}.",
            hint="See “What differs” on the page; filter with --workload and --device, or repeat both runs with "
            "--trials 7 for narrower intervals.",
        )


def filtered(
    runs: Sequence[Extract], workloads: Sequence[str], devices: Sequence[str]
) -> tuple[Extract, ...]:
    """Keep only what is about the given workloads and devices; an empty list keeps all.

    Raises:
        UsageError: no run measured one of them.
    """
    speeds = [speed for run in runs for speed in run.speeds]
    for names, measured in (
        (workloads, {speed.workload for speed in speeds}),
        (devices, {speed.device for speed in speeds if not workloads or speed.workload in workloads}),
    ):
        if missing := set(names) - measured:
            raise UsageError(
                f"None of these runs measured {', '.join(sorted(missing))}.",
                hint=f"Choose from: {', '.join(sorted(measured)) or 'nothing'}.",
            )
    others = {speed.workload for speed in speeds} - set(workloads) if workloads else set()
    return tuple(
        replace(
            run,
            speeds=tuple(
                speed
                for speed in run.speeds
                if speed.workload not in others and (not devices or speed.device in devices)
            ),
            # Fields about a workload begin with its name.
            facts={
                section: {
                    name: value for name, value in fields.items() if name.partition(" ")[0] not in others
                }
                for section, fields in run.facts.items()
            },
            caveats=tuple(caveat for caveat in run.caveats if _concerns(caveat, workloads, devices)),
            health=tuple(
                each for each in run.health if not devices or each.device in (HOST, *single_devices(devices))
            ),
        )
        for run in runs
    )


def _concerns(caveat: Caveat, workloads: Sequence[str], devices: Sequence[str]) -> bool:
    """Return whether a caveat is about these workloads and devices; one about the whole machine always is."""
    return (not workloads or caveat.workload in ("", *workloads)) and (
        not devices or caveat.device in ("", *devices, *single_devices(devices))
    )


def _runs_to_compare(runs: Sequence[str], baseline: str | None) -> list[NamedRun]:
    """Return the runs to read, the baseline first, which may be one of the runs."""
    requested = [_parse_run(text) for text in runs]
    if baseline is not None:
        base = next((run for run in requested if baseline in (run.label, str(run.path))), None) or _parse_run(
            baseline
        )
        others = (run for run in requested if run.path.resolve() != base.path.resolve())
        requested = [base, *others]
    if len(requested) < 2:
        raise UsageError(
            "Only one run to compare.",
            hint=f"Name two or more, or one of the machines that ship with tfbench: {', '.join(references())}.",
        )
    return requested


def _parse_run(text: str) -> NamedRun:
    """Parse PATH, NAME=PATH or a reference machine in the place of PATH; an existing path may contain "="."""
    label, equals, path = text.partition("=")
    if os.path.exists(text):  # noqa: PTH110 - Path.exists raises OSError for a long name
        return NamedRun(path=Path(text))
    if equals and label and not path:
        raise UsageError(
            f"{text} names no run.", hint="Write it as NAME=PATH. A shell variable may be empty."
        )
    label, name = (printable(label, 100), path) if equals and label else ("", text)
    return NamedRun(path=references().get(name, Path(name)), label=label)


def _refuse(when: str, options: Mapping[str, object]) -> None:
    """Raise UsageError for the first of some options that was given."""
    for name, value in options.items():
        if value:
            raise UsageError(f"{when}, {name} would have no effect.", hint=f"Leave out {name}.")


def _share(option: str, text: str) -> float:
    """Parse "5%", "5 %" or "0.05"; a bare "5" is ambiguous and rejected.

    Raises:
        UsageError: not a share between 0 and 1.
    """
    number, percent, rest = text.strip().partition("%")
    with suppress(ValueError):
        share = float(number) / (100 if percent else 1)
        if 0 < share < 1 and not rest:
            return share
    raise UsageError(f"{option} {text} is not between 0 and 100 %.", hint="Write it as 5% or 0.05.")


def _write_limits(runs: Sequence[Path], margin: float, target: Path | None) -> None:
    """Write a limits file that good runs meet.

    Raises:
        StoreError: a run cannot be read, or the file cannot be written.
        UsageError: nothing was measured, or --out is no file for limits.
    """
    from harness.analysis import analyse  # noqa: PLC0415 - kept off the start of commands
    from harness.analysis.quantities import values  # noqa: PLC0415
    from harness.run.limits import limits_text  # noqa: PLC0415

    path = target or Path("limits.toml")
    if path != STDOUT and path.suffix != ".toml":
        raise UsageError(f"--out {path} is no limits file.", hint="End its name with .toml.")
    recorded = [open_run(newest_run(run)) for run in runs]
    measured = [values(analyse(run), kept=True) for run in recorded]
    text = limits_text(measured, margin, [run.manifest.run_id for run in recorded])
    if text is None:
        raise UsageError(
            "These runs have no value in common that all of them would meet for certain.",
            hint="Give complete runs of the same plan with --trials 5 or more, or a larger --margin.",
        )
    write_outputs({"limits": lambda: text}, {"limits": path}, target)
