"""The ladder of each workload: what each change of its script gained, as the code that ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.fixes import note
from harness.model.analysis import Analysis, Estimate, Key
from harness.model.platform import target_for
from harness.model.run import VariantScript
from reports.names import is_gpu, variant_name
from reports.overview import Row
from workloads.protocol import FIX_PREFIX, TENSORFLOW, TUNED


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A changed script.

    Attributes:
        text: what the change does.
        safety: what it does to the numbers; "" if unknown.
        gain: speed over the baseline's.
        diff: lines that begin with "+", "-", "@" or a space.
    """

    variant: str
    name: str
    text: str
    safety: str
    gain: Estimate
    diff: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The changes that were measured for a workload on a device, largest gain first; tuned is apart.

    Attributes:
        file, script: name and text of the tuned script; "" without one.
        command: runs the tuned script in the image that measured it, beside nothing else; "" without an image.
        components: further files that the tuned script imports: name -> text.
        parts: the remedies that tuned consists of, by name; () for a script of its own.
    """

    row: Row
    steps: tuple[Step, ...]
    tuned: Step | None
    file: str = ""
    script: str = ""
    command: str = ""
    parts: tuple[str, ...] = ()
    components: Mapping[str, str] = field(default_factory=dict)


def ladders(analysis: Analysis, rows: Sequence[Row]) -> list[Ladder]:
    """Return the ladder of each row that has a finding or measured changes."""
    result = (_ladder(analysis, row) for row in rows)
    return [each for each in result if each.steps or each.tuned or each.row.finding]


def _ladder(analysis: Analysis, row: Row) -> Ladder:
    ran: dict[str, VariantScript] = {}
    for trial in analysis.run.trials:
        if (trial.workload, trial.device) == (row.workload, row.device):
            ran |= {script.variant: script for script in trial.scripts if script.variant not in ran}
    steps = [step for script in ran.values() if (step := _step(analysis, row, script))]
    tuned = ran.get(TUNED)
    components = (
        each.components for each in analysis.run.workloads if each.name == row.workload and each.tuned
    )
    return Ladder(
        row=row,
        # Combinations are rungs on the way to tuned.
        steps=tuple(
            sorted(
                (step for step in steps if step.variant != TUNED and "+" not in step.variant),
                key=lambda step: -step.gain.median,
            )
        ),
        tuned=next((step for step in steps if step.variant == TUNED), None),
        file=f"{row.workload}-tuned.py" if tuned else "",
        script=tuned.text if tuned else "",
        command=_command(analysis, row) if tuned else "",
        parts=tuple(variant_name(name) for name in tuned.fixes) if tuned else (),
        components=next(components, {}) if tuned else {},
    )


def _command(analysis: Analysis, row: Row) -> str:
    """Return the command that runs the tuned script of a row in its image, in the current folder."""
    declared = (each.image for each in analysis.run.workloads if each.name == row.workload)
    target = target_for(next(declared, TENSORFLOW), gpu=is_gpu(row.device))
    image = next((each.reference for each in analysis.run.manifest.images if each.target == target), "")
    gpus = " --gpus all" if is_gpu(row.device) else ""
    return (
        f'docker run --rm{gpus} -v "$PWD":/work -w /work {image} python3 {row.workload}-tuned.py'
        if image
        else ""
    )


def _step(analysis: Analysis, row: Row, script: VariantScript) -> Step | None:
    gain = analysis.gain(Key(row.workload, row.device, script.variant))
    if gain is None:
        return None
    what = note(script.variant) if script.variant.startswith(FIX_PREFIX) else None
    return Step(
        variant=script.variant,
        name=variant_name(script.variant),
        text=what.text if what else "",
        safety=what.safety if what else "",
        gain=gain,
        diff=tuple(script.diff.splitlines()[2:]),
    )
