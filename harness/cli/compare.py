"""`tfbench compare`: compare runs on one page, and check them against a baseline in CI."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from harness.cli.console import Terminal, err
from harness.cli.output_files import STDOUT, output_paths, write_outputs
from harness.cli.render_comparison import NamedRun, page_path, parse_run, read_extracts, render_comparison
from harness.cli.shared_options import Formats, Price, Target, split
from harness.errors import SlowerError, UsageError
from harness.model.analysis import Caveat
from harness.model.comparison import Extract, Gate, Versus
from harness.run.extract_files import reference_path


def command(
    runs: Annotated[
        list[str], typer.Argument(help="Run folders or report files; NAME=PATH sets a display name.")
    ],
    baseline: Annotated[
        str | None, typer.Option(help="Compare all other runs with this one; [NAME=]PATH.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="A machine whose results ship with tfbench, e.g. h200.")
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(help="Exit with code 10 if a run is slower than the baseline by this much, e.g. 5%."),
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

    Ratios are relative to --baseline, else --reference, else the first of up to 20 runs, else the median run of
    the same kind of machine. With --fail-if-slower the exit code is 10 if anything is significantly slower by that
    much, was measured in the baseline only, or if nothing could be decided.
    """  # fmt: skip
    from harness.analysis.gate import gate  # noqa: PLC0415 - kept off the start of commands
    from harness.analysis.versus import versus  # noqa: PLC0415
    from reports.compare_messages import headline, notes, warnings  # noqa: PLC0415

    limit = _parse_limit(fail_if_slower) if fail_if_slower is not None else None
    requested, baseline_index = _runs_to_compare(runs, baseline, reference)
    paths = output_paths(formats, target, page_path, inputs=[run.path for run in requested])
    if limit is not None and baseline_index is None:
        raise UsageError(
            "--fail-if-slower needs a baseline.", hint="Set the reference run with --baseline RUN."
        )
    extracted = read_extracts(requested, price=price, progress=Terminal(err()))
    comparison = versus(
        filtered(extracted, split(workload or ()), split(device or ())), reference=baseline_index
    )
    gate_result = gate(comparison, limit) if limit is not None else None
    write_outputs(render_comparison(comparison, gate_result, tuple(paths)), paths)
    if STDOUT not in paths.values():
        for line in (headline(comparison), *warnings(comparison, gate_result), *notes(comparison)):
            err().print(Text(line), soft_wrap=True)
    if gate_result is not None:
        _raise_if_failed(gate_result, comparison)


def filtered(
    runs: Sequence[Extract], workloads: Sequence[str], devices: Sequence[str]
) -> tuple[Extract, ...]:
    """Keep only the speeds and caveats of the given workloads and devices; an empty list keeps all.

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
    return tuple(
        replace(
            run,
            speeds=tuple(
                speed
                for speed in run.speeds
                if (not workloads or speed.workload in workloads) and (not devices or speed.device in devices)
            ),
            caveats=tuple(each for each in run.caveats if _concerns(each, workloads, devices)),
        )
        for run in runs
    )


def _concerns(caveat: Caveat, workloads: Sequence[str], devices: Sequence[str]) -> bool:
    """Return whether a caveat is about these workloads and devices; one about the whole machine always is."""
    parts = {part for device in devices for part in (device, *device.split("+"))}
    return (not workloads or caveat.workload in ("", *workloads)) and (
        not devices or caveat.device in ("", *parts)
    )


def _runs_to_compare(
    runs: Sequence[str], baseline: str | None, reference: str | None
) -> tuple[list[NamedRun], int | None]:
    """Return the runs to read and the index of the baseline, which is put first unless it is one of the runs."""
    requested = [parse_run(text) for text in runs]
    references = [NamedRun(path=reference_path(reference), label=reference)] if reference is not None else []
    if baseline is None:
        selected, position = [*references, *requested], 0 if references else None
    else:
        base = parse_run(baseline)
        selected = [*requested, *references]
        same = (run.path.resolve() == base.path.resolve() or run.label == baseline for run in requested)
        position = next((index for index, is_base in enumerate(same) if is_base), None)
        if position is None:
            selected, position = [base, *selected], 0
        elif base.label:
            selected[position] = base
    if len(selected) < 2:
        raise UsageError(
            "Only one run to compare.", hint="Name two or more, or add --baseline RUN or --reference NAME."
        )
    return selected, position


def _parse_limit(text: str) -> float:
    """Parse "5%", "5 %" or "0.05"; a bare "5" is ambiguous and rejected.

    Raises:
        UsageError: not a share between 0 and 1.
    """
    number, percent, rest = text.strip().partition("%")
    with suppress(ValueError):
        share = float(number) / (100 if percent else 1)
        if 0 < share < 1 and not rest:
            return share
    raise UsageError(f"--fail-if-slower {text} is not between 0 and 100 %.", hint="Write it as 5% or 0.05.")


def _raise_if_failed(gate_result: Gate, comparison: Versus) -> None:
    from reports.compare_messages import NOTHING_COMPARED  # noqa: PLC0415 - kept off the start of commands

    reasons = [
        f"slower than the baseline: {comparison.runs[each.run].label} {each.workload} {each.device} {each.variant} "
        f"({each.ratio.median:.2f}x)"
        for each in (check.result for check in gate_result.failed)
        if each.ratio is not None
    ]
    reasons += [
        f"only in the baseline: {' '.join(key)} ({comparison.runs[run].label})"
        for run, key in gate_result.missing
    ]
    if gate_result.is_empty:
        reasons.append(NOTHING_COMPARED)
    if reasons:
        raise SlowerError(
            f"The check failed: {'; '.join(reasons)}.",
            hint="See “What differs” on the page; filter with --workload and --device, or repeat both runs with "
            "--trials 7 for narrower intervals.",
        )
