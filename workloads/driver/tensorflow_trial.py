"""Run one trial with TensorFlow: run the scripts, and measure the variants one after the other."""

from __future__ import annotations

import ast
import os
import re
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from workloads.cells import difference
from workloads.driver import devices, draining, inference, ladder, script, step_variants, training
from workloads.driver.call import Call
from workloads.driver.flops import flops_per_sample
from workloads.driver.interception import Interception, MarkedSteps
from workloads.driver.job import Job, Shared
from workloads.driver.ladder import Needless, changes, measure_each
from workloads.driver.preparation import Preparation
from workloads.driver.script import ScriptError
from workloads.driver.stand_ins import mounted, plotting
from workloads.driver.timing import Meter
from workloads.driver.variants import skipped, worth_trying
from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    BUILD,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIXES,
    FLOPS,
    HOST_FED,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    THREADS_PREFIX,
    TUNED,
    WORTH,
    EventWriter,
    Fix,
    NoGpuError,
    Script,
    Spec,
    measures_speed,
)

# Errors whose type says more than a line of the script.
_TYPED = (ArithmeticError, MemoryError, NoGpuError, tf.errors.ResourceExhaustedError)
_OUT_OF_MEMORY = re.compile("resource_exhausted|out of memory|cudaerrormemoryallocation", re.IGNORECASE)

# More than a program such as git takes, and less than the import of TensorFlow.
_BUSY_S = 1.0

# Variables that TensorFlow and its libraries read when they start.
_AT_START = re.compile("(TF|OMP|KMP|MKL|CUDA)_(?!CPP_)")


def run(spec: Spec, events: EventWriter, began_ns: int) -> None:
    """Run the trial that `spec` describes.

    Args:
        began_ns: when the import of TensorFlow began.

    Raises:
        NoGpuError: the requested GPUs are not available.
        ScriptError: the baseline's script cannot be measured.
    """
    names = devices.select(spec.device, spec.gpus)
    strategy = tf.distribute.MirroredStrategy(names) if len(names) > 1 else None
    devices.prove(names)
    events.phase(IMPORT, began_ns)
    events.write("facts", facts=devices.facts(names))
    trial = Trial(spec, events, names, strategy)
    # The breakdown is made from the baseline's call, before other scripts replace its state.
    scripts = [
        variant
        for variant in spec.variants
        if variant == FIXES or (measures_speed(variant) and variant != BASELINE)
    ]
    scripts.sort(key=lambda variant: variant == TUNED)  # tuned is made of the remedies that gained
    first = [variant for variant in spec.variants if variant not in scripts]
    measure_each([*first, *scripts], trial.measure, events)


class Trial:
    """The variants of one trial."""

    def __init__(
        self, spec: Spec, events: EventWriter, names: list[str], strategy: tf.distribute.Strategy | None
    ) -> None:
        self._spec = spec
        self._events = events
        self._names = names
        self._strategy = strategy
        self._shared = Shared()

    def measure(self, variant: str) -> None:
        """Measure one variant; raise Needless if it is not informative here."""
        if variant == FIXES:
            self._measure_fixes()
            return
        if variant == TUNED and TUNED not in self._spec.scripts:
            self._measure_together()
            return
        if measures_speed(variant):
            script = self._spec.scripts[variant]
            own = script.path != self._spec.scripts[BASELINE].path
            if own and len(self._names) > 1 and not _distributes(script):
                self._events.left_out(variant, "Its script trains on one device.")
                return
            self._run_script(variant, script)
            return
        if self._shared.call is None:
            if BASELINE in self._spec.variants:
                raise ScriptError("The baseline could not be measured.")
            self._run_script(variant, self._spec.scripts[BASELINE], measured=False)
        job = self._job(variant)
        if reason := skipped(job, variant):
            raise Needless(reason)
        if variant != STAGES:
            self._events.write("variant", variant=variant, params=self._shared.params, changes=[])
        with _folder_of(job.call):
            _run(job, self._meter)
        if job.meter.steps:
            self._shared.step_ns[variant] = job.meter.step_ns

    def _measure_fixes(self) -> None:
        """Measure each remedy alone that answers a part of the baseline's step."""
        for name in self._spec.fixes.keys() - self._fixes.keys():
            self._events.needless(name, "It changes other calls than the one that is measured.")
        fixes = [name for name, fix in self._fixes.items() if worth_trying(self._job(name), fix.answers)]
        if not fixes:
            raise Needless("no remedy answers a part of the step here")
        for name in fixes:
            # A larger batch changes training: it is tried only if nothing else gains.
            if self._fixes[name].answers == "batch" and self._gained():
                continue
            try:
                self._run_script(name, self._with([name]), fixes=[name])
            except Exception as error:  # scripts can raise anything
                self._events.left_out(name, script.named(error))

    def _gained(self) -> list[str]:
        """Return the remedies that gained alone, largest gain first."""
        return ladder.candidates(self._fixes, self._shared.sample_ns)

    @property
    def _fixes(self) -> Mapping[str, Fix]:
        """The remedies, with edits of the calls that the baseline made."""
        call = self._shared.call
        return ladder.at_sites(self._spec.fixes, call.sites if call else ())

    def _measure_together(self) -> None:
        """Measure tuned: the remedies that gained, each kept if it adds to those before it."""
        kept = list(self._spec.tuned or ())
        if self._spec.tuned is None:
            sample_ns = self._shared.sample_ns
            for name in self._gained():
                if not ladder.joins(name, kept):
                    continue
                tried = ladder.together([*kept, name])
                if kept:
                    try:
                        self._run_script(tried, self._with([*kept, name]), fixes=[*kept, name])
                    except Exception as error:  # scripts can raise anything
                        self._events.left_out(tried, script.named(error))
                        continue
                before = sample_ns[ladder.together(kept)] if kept else sample_ns[BASELINE]
                if before >= WORTH * sample_ns.get(tried, before):
                    kept.append(name)
        if not kept:
            raise Needless("no remedy made the script faster")
        self._run_script(TUNED, self._with(kept), fixes=kept)

    def _with(self, names: Sequence[str]) -> Script:
        baseline = self._spec.scripts[BASELINE]
        return replace(baseline, text=ladder.applied(baseline.text, [self._fixes[name] for name in names]))

    def _run_script(
        self, variant: str, text: Script, *, measured: bool = True, fixes: Sequence[str] = ()
    ) -> None:
        """Run a variant's script, or only up to its call."""
        spec = self._spec
        job = self._job(variant)
        marked = MarkedSteps(job)
        own_loop = marked.inserted(text.text)
        # As in a process of its own: names count from the start, and no precision is set.
        tf.keras.utils.clear_session(free_memory=False)
        tf.keras.config.set_floatx("float32")
        tf.keras.utils.set_random_seed(spec.seed)
        preparation = Preparation()
        took = Interception(
            number=spec.call,
            predicts=spec.requests is not None,
            first=spec.requests is None and own_loop == text.text,
            replicas=1 if _distributes(text) else len(self._names),
            measure=partial(self._take, job, preparation=preparation) if measured else lambda call: None,
            evaluate=partial(training.evaluate, job)
            if measured and spec.evaluate and measures_speed(variant)
            else None,
            goes_on=job.meter.full,
            stall_s=spec.stall_s,
        )
        scope = self._strategy.scope() if self._strategy and not _distributes(text) else nullcontext()
        self._began, before, others_s = job.meter.clock(), {**os.environ}, _children_s()
        try:
            with (
                took.active(),
                mounted(spec.data, spec.mounts),
                plotting(self._without_plots if variant == BASELINE else lambda _: None),
                scope,
                preparation,
            ):
                script.run(replace(text, text=own_loop), spec.arguments, marked.names(), spec.stall_s)
        except ScriptError as error:
            if took.call is None and not marked.done:
                raise
            # After the call only its evaluation is wanted.
            sys.stderr.write(f"After the measured call: {error}\n")
        if took.failure is not None:
            raise _failure(took, text)
        call = took.call
        if call is None and took.other is not None and measured and not marked.done and not took.trained:
            call = took.other
            with _folder_of(call):
                self._take(job, call)
        if call is None and not marked.done:
            raise ScriptError(
                _no_call(
                    Path(text.path).name,
                    spec.call,
                    trained=took.trained,
                    elsewhere=_children_s() > others_s + _BUSY_S,
                )
            )
        if marked.done and not job.meter.written:
            raise ScriptError(
                f"The loop of {Path(text.path).name} ended after {job.meter.steps} steps, before it was measured. "
                "Let it run longer."
            )
        if variant == BASELINE or not measured:
            self._shared.call = call
            self._tell_of_other_calls(text)
            self._tell_of_late_settings(text, before)
            self._tell_of_preparation(job, Path(text.path).name, preparation)
        if job.meter.steps:
            self._shared.step_ns[variant] = job.meter.step_ns
            whole_ns = job.meter.step_ns + job.meter.between_ns
            self._shared.sample_ns[variant] = whole_ns * job.meter.steps / job.meter.samples
        if variant != BASELINE and measured and spec.evaluate:
            self._report_script(variant, text, fixes)

    def _without_plots(self, name: str) -> None:
        self._events.warning(f"{name} is not in the image: the scripts' plots are left out.")

    def _tell_of_other_calls(self, script: Script) -> None:
        tree, name = ast.parse(script.text), Path(script.path).name
        if (places := _places_of_fit(tree)) > 1:
            self._events.warning(
                f"{name} calls fit in {places} places; call {self._spec.call} was measured. "
                "Choose another with --call."
            )
        if any(_places_of_fit(node) for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))):
            self._events.warning(
                f"{name} calls fit in a loop; call {self._spec.call} was measured, without what comes between calls."
            )

    def _tell_of_preparation(self, job: Job, name: str, preparation: Preparation) -> None:
        meter = job.meter
        if meter.samples and meter.whole_samples and not self._spec.steps:
            call_s = meter.step_ns * meter.steps / meter.samples * meter.whole_samples / 1e9
            if said := preparation.described(name, call_s):
                self._events.warning(said)

    def _tell_of_late_settings(self, script: Script, before: Mapping[str, str]) -> None:
        late = [
            f"--env {name}={value}"
            for name, value in os.environ.items()
            if value != before.get(name) and _AT_START.match(name)
        ]
        if late:
            self._events.warning(
                f"TensorFlow had started when {Path(script.path).name} set its environment, which may have no effect. "
                f"Use {' '.join(late)}."
            )

    def _report_script(self, variant: str, script: Script, fixes: Sequence[str]) -> None:
        baseline = self._spec.scripts[BASELINE]
        names = (Path(each.path).name for each in (baseline, script))
        diff = difference(baseline.text, script.text, *names)
        whole = script.text if variant == TUNED else ""
        self._events.write("script", variant=variant, diff=diff, text=whole, fixes=list(fixes))

    def _take(self, job: Job, call: Call, preparation: Preparation | None = None) -> Any:
        """Measure the call that a script makes."""
        if preparation is not None:
            preparation.end()
        if len(self._names) > 1 and not call.trains:
            raise NoGpuError(
                f"{len(self._names)} GPUs were requested, but inference uses one device. Try --device gpu0."
            )
        job.meter.phase(BUILD, self._began)
        params = call.params()
        if job.variant == BASELINE:
            self._shared.params = params
        changed = changes(self._shared.params or params, params)
        self._events.write(
            "variant", variant=job.variant, params=params, changes=[asdict(change) for change in changed]
        )
        job.meter.whole_samples = params["epochs"] * params["samples_per_epoch"]
        measure = training.as_written if self._spec.requests is None else inference.as_written
        devices.reset_peak_memory(self._names)
        result = measure(job, call)
        for name, size in devices.peak_memory(self._names).items():
            job.metric(name, size)
        if self._spec.evaluate and measures_speed(job.variant):
            self._report_flops(job, call)
        return result

    def _report_flops(self, job: Job, call: Call) -> None:
        """Report the operations of a sample as far as the model's own step can be traced."""
        # Steps that Keras cannot trace, such as data-parallel ones, have no count.
        with suppress(Exception):
            job.metric(FLOPS, flops_per_sample(call))

    def _job(self, variant: str) -> Job:
        return Job(
            spec=self._spec, events=self._events, meter=self._meter(variant), devices=self._names,
            strategy=self._strategy, shared=self._shared, variant=variant,
        )  # fmt: skip

    def _meter(self, variant: str) -> Meter:
        spec = self._spec
        return Meter(
            variant,
            spec=_windows(spec, variant),
            events=self._events,
            synchronise=devices.synchronise,
            full=spec.full and measures_speed(variant) and spec.requests is None,
        )


def _distributes(script: Script) -> bool:
    """Return whether a script spreads a batch over several devices by itself."""
    return "Strategy(" in script.text or "DataParallel(" in script.text


def _places_of_fit(tree: ast.AST) -> int:
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "fit"
        and ast.unparse(node.func.value) != "super()"
        for node in ast.walk(tree)
    )


def _failure(took: Interception, text: Script) -> BaseException:
    """Return the error of a call that failed while it was measured."""
    failure, path = took.failure, Path(text.path)
    assert failure is not None
    if isinstance(failure, (SystemExit, KeyboardInterrupt)):
        error = ScriptError(
            f"A callback or the input of {path.name} ends the process while it is measured, with {failure!r}. "
            "Leave that out."
        )
    elif (
        isinstance(failure, _TYPED)
        or _OUT_OF_MEMORY.search(str(failure))
        or not isinstance(failure, Exception)
    ):
        return failure
    else:
        error = ScriptError(script.explained(failure, path, took.call.place if took.call else ""))
    error.__cause__ = failure
    return error


def _children_s() -> float:
    """Return the seconds of CPU that processes took which this one has started and which have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _no_call(name: str, number: int, *, trained: bool, elsewhere: bool) -> str:
    if elsewhere and not trained:
        return (
            f"{name} trains in processes that it starts, if at all, and only its own process can be measured. Let it "
            "call what trains directly, or give the script that those processes run."
        )
    if number > 1:
        return f"{name} calls fit fewer than {number} times. Choose another --call."
    if trained:
        text = f"{name} trains in a loop of its own. Mark"
    else:
        text = f"{name} ended without a call of fit, evaluate or predict. If it trains in a loop of its own, mark"
    return (
        f"{text} the end of each step with a comment line in the loop: `# tfbench: step BATCH_SIZE`, with the number "
        "of samples."
    )


def _windows(spec: Spec, variant: str) -> Spec:
    """Return the spec with the windows and warm-up of one variant."""
    if measures_speed(variant):
        return spec
    return replace(
        spec,
        window_s=spec.analysis_window_s or spec.window_s,
        windows=spec.analysis_windows or spec.windows,
        warmup_s=spec.analysis_warmup_s or spec.warmup_s,
        variant_s=spec.analysis_variant_s or spec.variant_s,
    )


@contextmanager
def _folder_of(call: Call) -> Iterator[None]:
    """Enter the folder in which the script made its call."""
    before = Path.cwd()
    with suppress(FileNotFoundError):  # a temporary folder of the script's own
        os.chdir(call.folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run(job: Job, meter: Any) -> None:
    """Run a variant of the breakdown until its meter ends it."""
    variant, serves = job.variant, job.spec.requests is not None
    if variant == STAGES:
        draining.drain_stages(job, meter)
    elif variant == INPUT_ONLY or variant.startswith(THREADS_PREFIX):
        draining.drain(job)
    elif variant == MODEL_ONLY and job.strategy is not None:
        step_variants.mirrored_batch(job)
    elif variant in (MODEL_ONLY, HOST_FED) or variant.startswith(BATCH_PREFIX):
        inference.model_only(job) if serves else step_variants.one_batch(job)
    elif variant == CUSTOM_LOOP:
        step_variants.custom_loop(job)
    elif variant.startswith(CALLS_PREFIX):
        step_variants.many_a_call(job)
    else:
        training.ablation(job)
