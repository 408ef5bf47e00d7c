"""`tfbench compare`: many runs on one page, and a check against a baseline for machines that decide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as given
from harness.cli.app import Price, Quiet, app, err, out
from harness.cli.comparing import FORMATS, NAME, texts_of
from harness.cli.console import Terminal
from harness.cli.destinations import PRINTED
from harness.cli.gather import Named, all_of, gather, named, narrowed
from harness.cli.options import split
from harness.cli.pages import deliver, show, wanted_of
from harness.errors import SlowerError, UsageError
from harness.model.comparison import Gate, Versus


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(help="Run folders or report files; NAME=PATH gives one a name.")
    ],
    baseline: Annotated[
        str | None, typer.Option(help="The run that all others are compared with; [NAME=]PATH.")
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(help="Exit with 10 when a run is slower than the baseline beyond doubt, e.g. 5%."),
    ] = None,
    formats: Annotated[
        str | None,
        typer.Option("--format", "-f", help=f"{', '.join(FORMATS)}; comma-separated.", show_default="html"),
    ] = None,
    folder: given.Target = ".",
    workload: given.OnlyWorkloads = None,
    device: given.OnlyDevices = None,
    price: Price = "",
    quiet: Quiet = False,
) -> None:
    """Compare runs: speeds with intervals, costs, verdicts, and what differs between the machines.

    Ratios are over --baseline, else over the first of up to 20 runs, else over the median of all. With
    --fail-if-slower the exit code is 10 when anything is slower by that much beyond doubt, all comparisons
    taken together, was measured in the baseline only, or when nothing could be judged at all.
    """  # fmt: skip
    from harness.analysis.gate import gate  # noqa: PLC0415
    from harness.analysis.versus import TARGET, versus  # noqa: PLC0415

    wanted = wanted_of(formats, folder, FORMATS)
    limit = _share(fail_if_slower) if fail_if_slower is not None else None
    asked, reference = _asked(runs, baseline)
    _spare(asked, wanted.file)
    if limit is not None and reference is None:
        raise UsageError(
            "--fail-if-slower needs a baseline.", hint="Name the run to beat with --baseline RUN."
        )
    progress = Terminal(err(), quiet=quiet)
    found = all_of(gather(asked, price=price, progress=progress))
    narrow = narrowed(found, workloads=split(workload), devices=split(device))
    made = versus(narrow, reference=reference, target=limit or TARGET)
    checked = gate(made, limit) if limit is not None else None
    deliver(out(), NAME, texts_of(made, checked, wanted.formats), folder, wanted.file)
    if not quiet and folder != PRINTED:
        unlike = [f"Unlike things are compared: {one.sentence}" for one in made.unlikes]
        show(err(), made.headline, [one for one in (made.caution, *unlike) if one], made.notes)
    if checked is not None:
        _raise_for(checked, made)


def _asked(runs: Sequence[str], baseline: str | None) -> tuple[list[Named], int | None]:
    """Return what to read and the baseline's position: the first, unless it is among the runs already."""
    asked = [named(word) for word in runs]
    if baseline is None:
        if len(asked) < 2:
            raise UsageError("One run is no comparison.", hint="Name two or more, or --baseline RUN.")
        return asked, None
    base = named(baseline)
    for number, one in enumerate(asked):
        if one.path.resolve() == base.path.resolve() or (one.label and one.label == baseline):
            if len(asked) < 2:
                raise UsageError("The baseline alone is no comparison.", hint="Name another run beside it.")
            return asked, number
    return [base, *asked], 0


def _spare(asked: Sequence[Named], file: Path | None) -> None:
    """Refuse to write over what is compared."""
    if file is not None and any(one.path.resolve() == file.resolve() for one in asked):
        raise UsageError(
            f"{file} would be written over while it is one of the runs compared.",
            hint="Name another file with --out.",
        )


def _share(text: str) -> float:
    """Read "5%" or "5 %" or "0.05"; a bare 5 does not say hundredths of what, and is refused.

    Raises:
        UsageError: it is no share between 0 and 1.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    share = value / 100 if percent else value
    if 0 < share < 1 and not rest:
        return share
    if not percent and 1 <= value < 100:
        raise UsageError(
            f"--fail-if-slower {text} says no unit.", hint=f"Write {value:g}% or {value / 100:g}."
        )
    raise UsageError(
        f"--fail-if-slower {text} is no share of speed between 0 and 1.", hint="Write it as 5% or 0.05."
    )


def _raise_for(checked: Gate, made: Versus) -> None:
    if checked.failed:
        names = [
            f"{made.runs[one.ratio.run].label} {one.ratio.workload} {one.ratio.device} {one.ratio.variant} "
            f"({one.ratio.ratio.median:.3f} times)"
            for one in checked.failed
        ]
        raise SlowerError(
            f"Slower than the baseline beyond doubt: {', '.join(names)}.",
            hint="Look at “What differs” in the page; run both again with --trials 7 to be surer.",
        )
    if checked.missing:
        raise SlowerError(
            f"Measured in the baseline only: {', '.join(checked.missing)}.",
            hint="See why it was not measured, or leave it out with --workload and --device.",
        )
    if not checked.checks:
        raise SlowerError(
            "Nothing could be judged: the baseline has not measured any of it.",
            hint="Measure the same workloads on the same devices for it.",
        )
    if not any(one.ratio.joint for one in checked.checks):
        raise SlowerError(
            "Nothing could be judged: no comparison has an interval, since a side has a single trial.",
            hint="Run both again with --trials 3 or more; the smoke profile has one trial only.",
        )
