"""Why a measured number differs from the published one: what this run knows of the differences.

Nothing here is written for a workload: hardware, parameters, data, software and what limits the speed are
read from the run, so that each reason is true of it, and those that can be measured come with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.align import gpu_names
from harness.analysis.case import Case, activity
from harness.analysis.learning import epochs_seen
from harness.analysis.rules import primary
from harness.analysis.words import interval, listed, percent, significant, times
from harness.model.analysis import PublishedComparison, Verdict
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED, Published

# A difference below the width of most intervals is none.
SAME = 1.1
COMPUTE_BOUND = "compute-bound"

LEAD = "The GPU's lead over the CPU"


def reasons(
    case: Case, number: Published, one: PublishedComparison, variant: str, verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Yield sentences: how far apart the two are first, then why, the weightiest first.

    Args:
        variant: which variant was measured for it.
    """
    yield from _apart(one)
    yield from _other_variant(number, variant)
    if number.unit == "accuracy":
        yield from _learning(case, variant)
        yield from _data(case, accuracy=True)
        return
    yield from _parameters(case, variant)
    yield from _hardware(case, number)
    yield from _limit(case, number, one, verdicts)
    yield from _software(case, number)
    yield from _data(case, accuracy=False)
    yield from _time(case, number, variant)


def _apart(one: PublishedComparison) -> Iterator[str]:
    if one.measured is None:
        return
    if one.factor is None:
        low, high = one.value, one.upto or one.value
        if low <= one.measured.median <= high:
            yield f"{percent(one.measured.median)} here, as published."
        else:
            yield f"{percent(one.measured.median)} here against {_published(one)} published."
        return
    ratio = one.factor
    what = {"ratio": LEAD, "requests ratio": LEAD, "gain": "The gain by tuning"}.get(one.unit, "This machine")
    verb = "runs at" if one.unit in ("s", "samples/s") else "is"
    same = 1 / SAME <= ratio.median <= SAME or (ratio.n > 1 and ratio.low <= 1 <= ratio.high)
    tail = ": no clear difference" if same else ""
    yield f"{what} {verb} {times(ratio.median)} what was published{interval(ratio)}{tail}."


def _published(one: PublishedComparison) -> str:
    return f"{percent(one.value)} to {percent(one.upto)}" if one.upto else percent(one.value)


def _other_variant(number: Published, variant: str) -> Iterator[str]:
    if number.variant != variant:
        yield (
            f"The published number was taken under other settings ({number.note or number.variant}); the like of "
            f"it is measured by --variants {BASELINE},{number.variant}."
        )


def _parameters(case: Case, variant: str) -> Iterator[str]:
    """Name what was set otherwise than declared: by the user, or for this kind of device."""
    if case.workload is None:
        return
    changed = case.run.manifest.parameters.get("params")
    if isinstance(changed, dict) and changed:
        values = listed([f"{name}={value}" for name, value in changed.items()])
        yield f"It ran with {values}, which was not published."
    elif variant == BASELINE and (
        batch := case.variants[variant].batch_size
    ) != case.workload.batch_size * max(1, len(gpu_names(case.device))):
        yield f"A step takes {batch} samples here instead of the published {case.workload.batch_size}."


def _hardware(case: Case, number: Published) -> Iterator[str]:
    run = case.run
    cpus = case.cpus
    processors = f"{cpus:g} CPUs of " if cpus else ""
    model = run.manifest.system.get("host_processor_model_name") or "unknown make"
    host = f"{processors}{model}"
    names = gpu_names(case.device)
    position = int(names[0].removeprefix("gpu")) if names and names[0].removeprefix("gpu").isdecimal() else -1
    here = (
        f"{run.manifest.gpus[position].name} beside {host}"
        if 0 <= position < len(run.manifest.gpus)
        else host
    )
    yield f"Other hardware: {here} here, {number.system} there."
    if number.unit in ("ratio", "requests ratio"):
        yield "A ratio depends on both sides: on the CPU as much as on the GPU."


def _limit(
    case: Case, number: Published, one: PublishedComparison, verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Say what holds this machine back baseline, and how much faster model and remedies are."""
    found = primary(verdicts, case.name, case.device)
    if found is not None and found.cause:
        cost = f" ({percent(found.cost)} of the time)" if found.cost else ""
        own = found.rule == COMPUTE_BOUND
        about = "speaks of the device itself" if own else "says less about the device than about that"
        yield f"What holds it back here baseline: {found.cause}{cost}, so that the number {about}."
    written = case.speed(BASELINE)
    if not written or number.unit not in ("s", "samples/s") or one.factor is None:
        return
    parts = []
    for variant, words in ((MODEL_ONLY, "the model alone, fed from memory,"), (TUNED, "tuned it")):
        speed = case.speed(variant)
        if speed and not 1 / SAME < speed / written < SAME:
            parts.append(f"{words} runs at {times(one.factor.median * speed / written)} that")
    if parts:
        yield f"{listed(parts)[:1].upper()}{listed(parts)[1:]}."
    busy = activity(case, BASELINE)
    if case.on_gpu and busy is not None and busy[0] < 0.5:
        yield f"The GPU was busy {percent(busy[0])} of the time: another GPU would hardly change it."


def _software(case: Case, number: Published) -> Iterator[str]:
    versions = dict.fromkeys(
        trial.framework + (f" with Keras {trial.facts['keras']}" if "keras" in trial.facts else "")
        for trial in case.run.trials
        if trial.workload == case.name and trial.device == case.device and trial.framework
    )
    if versions:
        there = number.source.removesuffix(".")
        yield f"Other software: {listed(list(versions))} here; {there} used what was current then."


def _data(case: Case, *, accuracy: bool) -> Iterator[str]:
    for one in case.run.manifest.data:
        if one.workload == case.name and one.kind != "real":
            what = (
                "which are easier or harder to learn, so that accuracy cannot be compared"
                if accuracy
                else "of the same number and sizes, so that speed can be compared and accuracy cannot"
            )
            yield f"Other data: {one.kind} samples stand in for {one.name} ({one.why}), {what}."


def _learning(case: Case, variant: str) -> Iterator[str]:
    epochs = epochs_seen(case, variant)
    if epochs is not None and case.workload is not None and epochs < case.workload.epochs:
        yield (
            f"It was taken after {significant(epochs)} passes through the training data instead of a whole "
            "training: --profile full trains to the end."
        )


def _time(case: Case, number: Published, variant: str) -> Iterator[str]:
    summary = case.variants[variant]
    if number.unit == "s" and summary.training_s is not None:
        left_out = sum(seconds for _, seconds in summary.cold_start)
        how = f"It is {summary.training_how}; the" if summary.training_projected else "The"
        yield (
            f"{how} {significant(left_out)} s until steady state (import, data, first step, warm-up) are "
            "left out, and an article's stopwatch has them in."
        )
