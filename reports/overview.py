"""The first screen of page, Markdown and terminal: a verdict, a row per workload, and the ladder of its changes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.fixes import rule_of
from harness.model.analysis import (
    Analysis,
    Capacity,
    CaseResult,
    Cause,
    Estimate,
    PublishedComparison,
    RatioKind,
    StepTime,
    VariantResult,
)
from harness.model.device import CPU, is_gpu, positions
from harness.model.platform import target_for
from harness.model.run import Run, VariantScript
from harness.model.workload import Workload
from harness.notebooks import notebook_of
from reports import numbers
from reports.messages import limit, limiting_part
from reports.text import SHORT_PARTS, devices_of
from workloads.cells import NOTEBOOK
from workloads.variants import BASELINE, FIX, TUNED, variant_name

# A service at this share of its device's speed, or more, is limited by its device.
SATURATED = 0.9
_LEARNING = {"batch_size": "batch", "precision": "precision", "input_type": "input"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A changed script.

    Attributes:
        text: what the change does.
        safety: what it does to the numbers; "" if unknown.
        gain: speed over the baseline's.
        speed: samples/s, or requests/s.
        fixes: the remedies in it, as variants; () for a script of its own.
        differences: what may change how the model learns, as "batch 8 → 32".
        diff: lines that begin with "+", "-", "@" or a space.
    """

    variant: str
    name: str
    text: str
    safety: str
    gain: Estimate
    diff: tuple[str, ...]
    speed: Estimate | None = None
    readings: int = 0
    fixes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload on one device.

    Attributes:
        name: the workload, with the device if it ran on several besides the CPU.
        case: its results.
        bound_s: the latency bound of a workload that serves requests; its speeds are requests/s within it.
        baseline, tuned: samples/s.
        cpu: the baseline's samples/s on the CPU; None if this is the CPU or the CPU was not measured.
        over_cpu, tuned_over_cpu: speed on the device / speed on the CPU, for baseline and tuned.
        scaling, tuned_scaling: speed per GPU / speed of a single GPU.
        gain: tuned / baseline.
        serving: what limits the baseline as a service; "" if it does not serve.
        changes: the changes that were measured, largest gain first; tuned is last.
        published: the published speed or time to show with the baseline.
        grew: the part of the step that grew most from one GPU; "" if unknown.
    """

    name: str
    case: CaseResult
    bound_s: float | None
    baseline: Estimate | None
    tuned: Estimate | None
    cpu: Estimate | None
    over_cpu: Estimate | None
    tuned_over_cpu: Estimate | None
    scaling: Estimate | None
    tuned_scaling: Estimate | None
    gain: Estimate | None
    step_time: StepTime | None
    published: PublishedComparison | None
    serving: str = ""
    grew: str = ""
    changes: tuple[Step, ...] = ()

    @property
    def gpus(self) -> int:
        """How many GPUs it used."""
        return len(positions(self.case.device))

    @property
    def each_gpu(self) -> Estimate | None:
        """Samples/s of each GPU, if there are several: of the baseline, or else of tuned."""
        speed = self.baseline or self.tuned
        return speed.map(lambda value: value / self.gpus, speed.unit) if speed and self.gpus > 1 else None

    @property
    def contradicted(self) -> bool:
        """Whether the measurements contradict each other, so that no share or gain is to be shown."""
        return self.case.limit is not None and self.case.limit.cause is Cause.IMPOSSIBLE

    @property
    def holding(self) -> tuple[Step, ...]:
        """The changes whose gain is worth it and clear, the largest first."""
        held = () if self.contradicted else tuple(step for step in self.changes if numbers.is_gain(step.gain))
        return tuple(sorted(held, key=lambda step: -step.gain.median))

    @property
    def best(self) -> Step | None:
        """The change with the largest gain that holds; a remedy rather than a tuned script that is the same."""
        held = self.holding
        equal = [step for step in held if step.gain == held[0].gain]
        return next((step for step in equal if step.variant != TUNED), equal[0]) if held else None

    @property
    def others(self) -> tuple[Step, ...]:
        """The other changes that hold; not tuned beside a remedy that is all of it."""
        best = self.best
        return tuple(
            step for step in self.holding if step is not best and not (best and step.gain == best.gain)
        )

    @property
    def path(self) -> tuple[tuple[str, float], ...]:
        """Names and factors that multiply to the best change's gain; () if it is a single one."""
        best = self.best
        if best is None or best.variant != TUNED or len(best.fixes) == 1:
            return ()
        # The first remedy of a composed script, or the best one next to a script of its own.
        wanted = best.fixes[:1]
        first = next((step for step in self.others if not wanted or step.variant in wanted), None)
        if first is None:
            return ()
        rest = " + ".join(map(variant_name, best.fixes[1:])) or "other changes"
        return (first.name, first.gain.median), (rest, best.gain.median / first.gain.median)


def description(run: Run) -> list[str]:
    """Return driver, framework, engine, profile, time and duration of a run in a few words each."""
    manifest = run.manifest
    words = (
        f"driver {manifest.gpus[0].driver_version}" if manifest.gpus else "",
        run.framework,
        manifest.engine.name,
        manifest.profile.name,
        numbers.when(manifest.created),
        numbers.duration(run.duration_s) if run.trials else "",
        f"rerun of {manifest.rerun_of}" if manifest.rerun_of else "",
    )
    return [word for word in words if word]


def rows(analysis: Analysis) -> tuple[Row, ...]:
    """Return a row for each workload and GPU device, and for each workload that ran only on the CPU."""
    names = devices_of(analysis)
    on_gpu = Counter(case.workload for case in analysis.cases if case.device != CPU)
    return tuple(
        _row(
            analysis,
            case,
            name=f"{case.workload} ({names[case.device]})" if on_gpu[case.workload] > 1 else case.workload,
        )
        for case in analysis.cases
        if case.device != CPU or case.workload not in on_gpu
    )


def _row(analysis: Analysis, case: CaseResult, *, name: str) -> Row:
    alike = analysis.cases_of(case.workload)
    on_cpu = next((other for other in alike if other.device == CPU), None)
    baseline = case.variants.get(BASELINE)
    served = next(iter(baseline.capacities), None) if baseline else None
    over_cpu = RatioKind.REQUESTS_GPU_OVER_CPU if case.serves else RatioKind.GPU_OVER_CPU
    return Row(
        name=name,
        case=case,
        bound_s=served.bound_s if served else None,
        baseline=case.speed(BASELINE),
        tuned=case.speed(TUNED),
        cpu=on_cpu.speed(BASELINE) if on_cpu and case is not on_cpu else None,
        over_cpu=case.ratio(over_cpu, BASELINE),
        tuned_over_cpu=case.ratio(over_cpu, TUNED),
        scaling=case.ratio(RatioKind.SCALING, BASELINE),
        tuned_scaling=case.ratio(RatioKind.SCALING, TUNED),
        gain=case.gain(TUNED),
        step_time=case.breakdown(BASELINE),
        serving=operating_point(baseline, served) if baseline and served else "",
        grew=grew_most(alike, case, BASELINE) or grew_most(alike, case, TUNED),
        changes=_changes(analysis, case),
        published=next(
            (
                comparison
                for comparison in analysis.published
                if (comparison.workload, comparison.device) == (case.workload, case.device)
                and comparison.number.variant == BASELINE
                and comparison.factor is not None
                and comparison.number.unit in ("samples/s", "s")
            ),
            None,
        ),
    )


def operating_point(variant: VariantResult, capacity: Capacity) -> str:
    """Return what limits a service at its rate: its device, or the wait for other requests within the bound."""
    alone = [one.samples_per_s.median for one in variant.latencies if one.rate_per_s is None]
    if capacity.rate_per_s is None or not alone:
        return ""
    share = capacity.rate_per_s.median / max(alone)
    what = "latency bound" if share < SATURATED else "the device"
    return f"{what}: {numbers.percent(share)} of its speed in back-to-back batches"


def grew_most(alike: Sequence[CaseResult], case: CaseResult, variant: str) -> str:
    """Return the part of the step that grew most from one GPU, and by how much; "" if none is known to.

    Args:
        alike: the cases of its workload.
    """
    if len(positions(case.device)) < 2:
        return ""
    single = (other.breakdown(variant) for other in alike if len(positions(other.device)) == 1)
    one, several = next(filter(None, single), None), case.breakdown(variant)
    if one is None or several is None:
        return ""
    added = {
        part: value.median - (one.parts[part].median if part in one.parts else 0.0)
        for part, value in several.parts.items()
    }
    part = max(added, key=lambda name: added[name])
    return f"{part.value} +{numbers.duration(added[part])}" if added[part] > 0 else ""


def verdict(analysis: Analysis, overview: Sequence[Row]) -> str:
    """Return the verdict; "" if nothing was measured, or only whether everything works."""
    if analysis.run.smoke:
        return ""
    sentences = (
        "; ".join(parts)
        for parts in (
            [*_limits(overview), *_gains(overview)],
            [*_peak(analysis), *_beside_cpu(overview)],
            list(_scaling(overview)),
            list(_served(overview)),
        )
    )
    # Names of workloads are written as in commands, also where a sentence begins.
    names = tuple(row.case.workload for row in overview)
    return " ".join(
        f"{sentence if sentence.startswith(names) else f'{sentence[0].upper()}{sentence[1:]}'}."
        for sentence in sentences
        if sentence
    )


def _limits(overview: Sequence[Row]) -> Iterator[str]:
    """Yield how many workloads each part limits: "2 of 4 workloads are limited by input, 2 by compute".

    Several GPUs count only without a row for one; the efficiency is another sentence.
    """
    overview = [row for row in overview if len(positions(row.case.device)) < 2] or overview
    parts = Counter(
        SHORT_PARTS.get(part, part.value)
        for row in overview
        if row.case.limit and not row.contradicted and (part := limiting_part(row.case.limit, row.step_time))
    )
    if not parts:
        return
    if len(overview) == 1:
        yield f"{overview[0].name} is limited by {limit(overview[0].case.limit, overview[0].step_time)}"
        return
    (first, count), *others = parts.most_common()
    what = f"{count} of {len(overview)} workloads {'is' if count == 1 else 'are'} limited by {first}"
    undecided = sum(row.contradicted for row in overview)
    more = [f"{undecided} undecided"] if undecided else []
    yield ", ".join([what, *(f"{number} by {part}" for part, number in others), *more])


def _gains(overview: Sequence[Row]) -> Iterator[str]:
    """Yield what the best change of each workload gains, of those that hold."""
    tried = [row for row in overview if row.changes]
    gains = [row.best.gain.median for row in tried if row.best]
    if not tried:
        return
    if not gains:
        yield "no change of the code made it clearly faster"
    elif len(overview) == 1 and overview[0].best:
        best = overview[0].best
        name = "its tuned script" if best.variant == TUNED else best.name
        alone = "" if best.gain.known else ", by one reading"
        yield f"{name} makes it {numbers.gain(best.gain)} as fast{alone}"
    else:
        which = "they are" if len(gains) == len(overview) else f"{len(gains)} of {len(overview)} are"
        yield f"with the best change, {which} {_range(gains, numbers.factor)} as fast"


def _peak(analysis: Analysis) -> Iterator[str]:
    """Yield the share of the GPU's measured peak that published and tuned code use."""
    shares: dict[str, list[float]] = {BASELINE: [], TUNED: []}
    for case, variant, each in analysis.variants:
        share = each.peak_use.of_measured if each.peak_use else None
        if variant in shares and is_gpu(case.device) and share is not None:
            shares[variant].append(share)
    if shares[BASELINE]:
        tuned = f", tuned {_range(shares[TUNED], numbers.percent)}" if shares[TUNED] else ""
        yield f"the code as written uses {_range(shares[BASELINE], numbers.percent)} of the GPU's measured peak{tuned}"


def _beside_cpu(overview: Sequence[Row]) -> Iterator[str]:
    ratios = [row.tuned_over_cpu.median for row in overview if row.tuned_over_cpu]
    if ratios:
        yield f"tuned, the GPU is {_range(ratios, numbers.factor)} as fast as this machine's CPUs"


def _scaling(overview: Sequence[Row]) -> Iterator[str]:
    """Yield the lowest efficiency of several GPUs, or else their speed."""
    scaled = [(scaling.median, row) for row in overview if (scaling := row.tuned_scaling or row.scaling)]
    if scaled:
        share, row = min(scaled, key=lambda one: one[0])
        count = len(positions(row.case.device))
        yield f"{row.case.workload} scales to {count} GPUs with {numbers.percent(share)} efficiency"
        return
    for row in overview:
        if row.each_gpu:
            speed = numbers.speed(row.baseline or row.tuned)
            yield (
                f"{row.case.workload}{'' if row.baseline else ' (tuned)'} reaches {speed} on {row.gpus} GPUs, "
                f"{numbers.speed(row.each_gpu)} on each"
            )


def _served(overview: Sequence[Row]) -> Iterator[str]:
    """Yield the requests within the bound of both variants, and those of tuned within a tighter one."""
    for row in overview:
        rates: dict[float, list[str]] = {}
        for variant, result in row.case.variants.items():
            for capacity in result.capacities:
                if capacity.rate_per_s:
                    rate = f"{numbers.speed(capacity.rate_per_s)} ({variant_name(variant)})"
                    rates.setdefault(capacity.bound_s, []).append(rate)
        within = (
            f"within {numbers.duration(bound)} at {' and '.join(speeds)}" for bound, speeds in rates.items()
        )
        if rates:
            yield f"{row.name} answers 99{numbers.SPACE}% of requests {', '.join(within)}"


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Return "2 to 9 %", or one value if both ends read alike."""
    low, high = text(min(values)), text(max(values))
    return high if low == high else f"{low.rstrip(f'%×{numbers.SPACE}')} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """The changes that were measured for a workload on a device, largest gain first; tuned is apart.

    Attributes:
        file, script: name and text of the tuned script; "" without one.
        notebook: the tuned script as a notebook, if the script was one; else "".
        package: the folder of the package in which the tuned script is a module; "" if it is none.
        command: runs the tuned script, in the folder that has its package if it is a module.
        in_image: the same in the image that measured it; "" without an image.
        components: further files that the tuned script imports: name -> text.
        accuracies: baseline and tuned if the accuracy of both is known, else {}.
        parts: the remedies that tuned consists of, by name; () for a script of its own.
    """

    row: Row
    steps: tuple[Step, ...]
    tuned: Step | None
    file: str = ""
    script: str = ""
    notebook: str = ""
    package: str = ""
    command: str = ""
    in_image: str = ""
    parts: tuple[str, ...] = ()
    components: Mapping[str, str] = field(default_factory=dict)
    accuracies: Mapping[str, VariantResult] = field(default_factory=dict)


def ladders(analysis: Analysis, rows: Sequence[Row]) -> list[Ladder]:
    """Return the ladder of each row that has a finding or measured changes."""
    result = (_ladder(analysis, row) for row in rows)
    return [place for place in result if place.steps or place.tuned or place.row.case.limit]


def _ladder(analysis: Analysis, row: Row) -> Ladder:
    tuned = _scripts(analysis, row.case).get(TUNED)
    known = (workload for workload in analysis.run.workloads if workload.name == row.case.workload)
    workload = next(known, Workload(name=row.case.workload))
    script = tuned.text if tuned else ""
    needless = tuned and tuned.fixes and FIX.of("many-steps") not in tuned.fixes
    components = {} if needless else workload.components
    used = {file: text for file, text in components.items() if file.removesuffix(".py") in script}
    is_notebook = workload.file.endswith(NOTEBOOK)
    command = _command(analysis, workload) if tuned and not is_notebook else ""
    step = next((step for step in row.changes if step.variant == TUNED), None)
    if tuned and tuned.fixes and step and step.gain.median < 1:
        step = None  # what gained in one reading did not in more
    return Ladder(
        row=row,
        steps=tuple(step for step in row.changes if step.variant != TUNED),
        tuned=step,
        file=_tuned_file(workload) if tuned else "",
        script=script,
        notebook=notebook_of(script) if tuned and is_notebook else "",
        package="/".join(workload.module.split(".")[:-1]),
        command=command,
        in_image=_in_image(analysis, workload, row, command) if command else "",
        parts=tuple(variant_name(name) for name in tuned.fixes) if tuned else (),
        components=used,
        accuracies=_accuracies(row.case),
    )


def _accuracies(case: CaseResult) -> Mapping[str, VariantResult]:
    """Return baseline and tuned if the accuracy of both is known."""
    found = {name: case.variants[name] for name in (BASELINE, TUNED) if name in case.variants}
    known = all(each.accuracy is not None and each.accuracy_samples for each in found.values())
    return found if known and len(found) == 2 else {}


def _tuned_file(workload: Workload) -> str:
    return f"{workload.name}-tuned.py"


def _command(analysis: Analysis, workload: Workload) -> str:
    """Return the command that runs the tuned script with the arguments of the run."""
    file = _tuned_file(workload)
    package = workload.module.rpartition(".")[0]
    program = ["-m", f"{package}.{file.removesuffix('.py')}"] if package else [file]
    return shlex.join(["python3", *program, *analysis.run.manifest.options.arguments])


def _in_image(analysis: Analysis, workload: Workload, row: Row, command: str) -> str:
    """Return the command that runs another one in the image of a row, in the current folder; "" without an image."""
    target = target_for(workload.image, gpu=is_gpu(row.case.device))
    image = next((image.reference for image in analysis.run.manifest.images if image.target == target), "")
    gpus = " --gpus all" if is_gpu(row.case.device) else ""
    return (
        f'docker run --rm{gpus} --user "$(id -u):$(id -g)" -e HOME=/tmp -v "$PWD":/work -w /work {image} {command}'
        if image
        else ""
    )


def _scripts(analysis: Analysis, case: CaseResult) -> dict[str, VariantScript]:
    ran: dict[str, VariantScript] = {}
    for trial in analysis.run.trials:
        if (trial.workload, trial.device) == (case.workload, case.device):
            ran |= {script.variant: script for script in trial.scripts if script.variant not in ran}
    return ran


def _changes(analysis: Analysis, case: CaseResult) -> tuple[Step, ...]:
    """Return the changes that were measured, largest gain first, then tuned; combinations are on the way to tuned."""
    scripts = _scripts(analysis, case)
    # A tuned script of the harness is measured before it is known.
    names = dict.fromkeys((*scripts, *({TUNED} & case.variants.keys())))
    steps = [step for name in names if "+" not in name and (step := _step(case, name, scripts.get(name)))]
    return tuple(sorted(steps, key=lambda step: (step.variant == TUNED, -step.gain.median)))


def _step(case: CaseResult, variant: str, script: VariantScript | None) -> Step | None:
    gain, result = case.gain(variant), case.variants.get(variant)
    if gain is None or result is None or variant == BASELINE:
        return None
    rule = rule_of(variant)
    return Step(
        variant=variant,
        name=variant_name(variant),
        text=rule.summary if rule else "",
        safety=rule.safety if rule else "",
        gain=gain,
        diff=tuple(script.diff.splitlines()[2:]) if script else (),
        speed=case.speed(variant),
        readings=result.readings,
        fixes=script.fixes if script else (),
        differences=tuple(
            f"{_LEARNING[change.what]} {change.before} → {change.after}"
            for change in result.changes
            if change.what in _LEARNING
        ),
    )
