"""`tfbench compare`: many runs on one page, and a check against a baseline for machines that decide."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from harness.cli.comparing import Named, comparison_texts, extracts, named, page_in
from harness.cli.console import Terminal, err
from harness.cli.output import PRINTED, deliver, destinations
from harness.cli.shared_options import Formats, Price, Target, split
from harness.errors import SlowerError, UsageError
from harness.model.comparison import Extract, Gate, Versus
from harness.run.extracts import reference_path


def command(
    runs: Annotated[
        list[str], typer.Argument(help="Run folders or report files; NAME=PATH gives one a name.")
    ],
    baseline: Annotated[
        str | None, typer.Option(help="The run to compare all others with; [NAME=]PATH.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="A machine whose results ship with tfbench, e.g. h200.")
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(help="Exit with 10 when a run is slower than the baseline by this much, e.g. 5%."),
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
    """Compare runs: speeds with intervals, where a step's time goes, and what differs between the machines.

    Ratios are over --baseline, else --reference, else the first of up to 20 runs, else the median run of each kind
    of machine. With --fail-if-slower the exit code is 10 when anything is slower by that much, all intervals taken
    together, was measured in the baseline only, or when nothing could be judged.
    """  # fmt: skip
    from harness.analysis.gate import gate  # noqa: PLC0415 - kept off the start of commands
    from harness.analysis.versus import versus  # noqa: PLC0415
    from reports.compare_messages import headline, notes, warnings  # noqa: PLC0415

    limit = _share(fail_if_slower) if fail_if_slower is not None else None
    asked, base = _asked(runs, baseline, reference)
    paths = destinations(formats, target, page_in, inputs=[run.path for run in asked])
    if limit is not None and base is None:
        raise UsageError(
            "--fail-if-slower needs a baseline.", hint="Name the run to beat with --baseline RUN."
        )
    read = extracts(asked, price=price, progress=Terminal(err()))
    made = versus(narrowed(read, split(workload or ()), split(device or ())), reference=base)
    checked = gate(made, limit) if limit is not None else None
    deliver(comparison_texts(made, checked, tuple(paths)), paths)
    if PRINTED not in paths.values():
        for line in (headline(made), *warnings(made, checked), *notes(made)):
            err().print(Text(line), soft_wrap=True)
    if checked is not None:
        _raise_for(checked, made)


def narrowed(
    runs: Sequence[Extract], workloads: Sequence[str], devices: Sequence[str]
) -> tuple[Extract, ...]:
    """Return runs with the speeds of some workloads and devices only; of all where none is named.

    Raises:
        UsageError: no run has measured one of them.
    """
    speeds = [speed for run in runs for speed in run.speeds]
    for wanted, measured in (
        (workloads, {speed.workload for speed in speeds}),
        (devices, {speed.device for speed in speeds if not workloads or speed.workload in workloads}),
    ):
        if missing := set(wanted) - measured:
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
        )
        for run in runs
    )


def _asked(
    runs: Sequence[str], baseline: str | None, reference: str | None
) -> tuple[list[Named], int | None]:
    """Return what to read and the baseline's position, which comes first unless it is among the runs already."""
    asked = [named(word) for word in runs]
    machine = [Named(path=reference_path(reference), label=reference)] if reference is not None else []
    if baseline is None:
        every, position = [*machine, *asked], 0 if machine else None
    else:
        base = named(baseline)
        every = [*asked, *machine]
        same = (each.path.resolve() == base.path.resolve() or each.label == baseline for each in asked)
        position = next((number for number, is_base in enumerate(same) if is_base), None)
        if position is None:
            every, position = [base, *every], 0
    if len(every) < 2:
        raise UsageError(
            "Only one run to compare.", hint="Name two or more, --baseline RUN or --reference NAME."
        )
    return every, position


def _share(text: str) -> float:
    """Read "5%" or "5 %" or "0.05"; a bare 5 does not say hundredths of what, and is refused.

    Raises:
        UsageError: it is no share between 0 and 1.
    """
    number, percent, rest = text.strip().partition("%")
    with suppress(ValueError):
        share = float(number) / (100 if percent else 1)
        if 0 < share < 1 and not rest:
            return share
    raise UsageError(
        f"--fail-if-slower {text} is not a share between 0 and 1.", hint="Write it as 5% or 0.05."
    )


def _raise_for(checked: Gate, made: Versus) -> None:
    reasons = [
        f"slower than the baseline: {made.runs[each.run].label} {each.workload} {each.device} {each.variant} "
        f"({each.ratio.median:.2f}x)"
        for each in (check.result for check in checked.failed)
        if each.ratio is not None
    ]
    reasons += [
        f"only in the baseline: {' '.join(key)} ({made.runs[run].label})" for run, key in checked.missing
    ]
    if not any(check.result.ratio and check.result.ratio.n > 1 for check in checked.checks):
        reasons.append("nothing could be judged: nothing was measured in both, or single trials only")
    if reasons:
        raise SlowerError(
            f"The check failed, {'; '.join(reasons)}.",
            hint="See “What differs” in the page; select with --workload and --device, or repeat both runs with "
            "--trials 7 for narrower intervals.",
        )
