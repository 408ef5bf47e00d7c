"""Do one task of a trial with TensorFlow: run a script up to its call, and measure variants there.

Everything is measured inside the script's own call: what it has set up is in place, and what it would do afterwards
delays nothing.
"""

from __future__ import annotations

import ast
import atexit
import os
import re
import resource
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import tensorflow as tf

from workloads.cells import difference, one_line, place
from workloads.driver import (
    breakdown,
    devices,
    edits,
    generation,
    inference,
    measuring,
    repeatability,
    script,
    training,
)
from workloads.driver.advice import LEGACY
from workloads.driver.call import Call
from workloads.driver.edits import changes
from workloads.driver.fitting import misfit, misfit_after
from workloads.driver.flops import flops_per_sample
from workloads.driver.foresight import foreseen
from workloads.driver.interception import Interception, MarkedSteps
from workloads.driver.job import Job, call_late
from workloads.driver.losses import UnlikeError, comparable
from workloads.driver.measuring import Needless, measure_each, report
from workloads.driver.needless import needless
from workloads.driver.own_code import children
from workloads.driver.own_code.callbacks import acts_every
from workloads.driver.own_code.reached import is_own
from workloads.driver.preparation import Preparation
from workloads.driver.processes import End
from workloads.driver.rehearsal import Rehearsal
from workloads.driver.results import Results
from workloads.driver.retraced import Retraced
from workloads.driver.script import ScriptError
from workloads.driver.sites import changed_from, is_caught
from workloads.driver.stand_ins import mounted, plotting
from workloads.driver.threads import BusyThreads
from workloads.driver.timing import LossError, Meter
from workloads.driver.trial import Task
from workloads.fits import calls_of_fit, first_name
from workloads.protocol import (
    BETWEEN_EPOCHS,
    BUILD,
    FLOPS,
    PROGRAMS,
    EventWriter,
    NoGpuError,
    Script,
    Spec,
    distributes,
    reason_of,
    shortened,
    text_of,
)
from workloads.variants import BASELINE, FIX, FIXES, STAGES, TUNED, kind_of, measures_speed, together

# Errors whose type says more than a line of the script.
_TYPED = (LossError, NoGpuError, tf.errors.ResourceExhaustedError)
_OUT_OF_MEMORY = re.compile("resource_exhausted|out of memory|cudaerrormemoryallocation", re.IGNORECASE)

# More than a program such as git takes, and less than the import of TensorFlow.
_BUSY_S = 1.0

# So long callbacks may take for what they do in later epochs.
_FORESIGHT_S = 30.0

# An ablation that takes longer to compile is not read again.
_LONGEST_AGAIN_S = 1.5


def work(task: Task, spec: Spec, events: EventWriter, results: Results, end: End) -> None:
    """Do a task in this process, which has not initialised TensorFlow.

    Args:
        end: ends this process when all is measured.
    """
    if (programs := os.environ.pop(PROGRAMS, "")) and spec.keeps_programs:
        devices.keep_programs(f"{programs}/{task.script}")
    try:
        names = devices.registered(spec.device, spec.gpus)
    except NoGpuError as error:
        report(events, error)
        return
    do(task, spec, events, results, end, names)


def do(task: Task, spec: Spec, events: EventWriter, results: Results, end: End, names: Sequence[str]) -> None:
    """Do a task on the devices of these names."""
    try:
        run = ScriptRun(task, spec, events, results, end, names)
    except ValueError as error:  # remedies that do not go together
        for variant in task.variants:
            events.left_out(variant, f"{str(error).capitalize()}.")
        return
    events.write("process", script=task.script)
    if run.measured:
        events.write("reading", variant=task.script)
    try:
        run.run()
    except Exception as error:  # scripts can raise anything
        run.failed(error)


class ScriptRun:
    """One run of a script, with what is measured in its call.

    Attributes:
        measured: whether the script's own variant is measured, or only variants that are made of its call.
    """

    def __init__(
        self, task: Task, spec: Spec, events: EventWriter, results: Results, end: End, names: Sequence[str]
    ) -> None:
        self._task = task
        self._spec = spec
        self._events = events
        self._results = results
        self._end = end
        self._environment = {**os.environ}
        self._names = names
        self._strategy: tf.distribute.Strategy | None = None
        self._text = _script_of(task, spec, results)
        self._began = 0
        self._preparation = Preparation()
        self._retraced = Retraced()
        self._returned = False
        self._measuring = threading.current_thread()
        self.measured = task.script in task.variants

    def run(self) -> None:
        """Run the script; return when it has ended by itself."""
        spec, text = self._spec, self._text
        if not self._results.facts:
            self._events.write("facts", facts=devices.facts(self._names))
        spreads = distributes(text.text)
        if len(self._names) > 1 and not spreads:
            if text.path != spec.scripts[BASELINE].path:
                raise ScriptError("Its script trains on one device.")
            self._strategy = tf.distribute.MirroredStrategy(self._names)
        changed_from(spec.scripts.get(self._task.script, spec.scripts[BASELINE]).text)
        job = self._job(self._task.script)
        rehearsal = Rehearsal(job, self._end) if self._task.rehearses else None
        marked = MarkedSteps(job, self._prove, self._end_marked, rehearsal.begin if rehearsal else None)
        own_loop = marked.inserted(text.text)
        tf.keras.utils.set_random_seed(spec.seed)
        whole = _call if job.meter.full and self.measured else None
        interception = Interception(
            number=spec.call,
            predicts=spec.requests is not None,
            first=spec.requests is None and own_loop == text.text,
            replicas=1 if spreads else len(self._names),
            take=rehearsal.take if rehearsal else partial(self._take_quietly, job),
            evaluate=partial(training.evaluate, job) if self._evaluates else None,
            rest=rehearsal.follow if rehearsal else whole,
            end=self._end,
        )
        self._began = job.meter.clock()
        children.remember()
        with (
            interception.active(),
            marked.active(),
            mounted(spec.data, spec.mounts),
            plotting(self._without_plots if self._first else lambda _: None),
            self._strategy.scope() if self._strategy else nullcontext(),
            self._preparation,
            self._retraced.noted(),
        ):
            errors: list[str] = []
            try:
                errors = script.run(
                    replace(text, text=own_loop),
                    spec.arguments,
                    marked.names(),
                    rehearsal.over if rehearsal else lambda: self._returned,
                )
                if rehearsal:
                    rehearsal.ended()
            except ScriptError as error:
                if rehearsal:
                    rehearsal.ended(error)
                if self._measuring is not threading.current_thread():
                    self._measuring.join()  # measuring takes longer than the script has time for
                returned = interception.call and (rehearsal or self._returned)
                if not (returned or (marked.done and job.meter.written)):
                    raise
                self._tell_later(f"After the measured call: {error}")
            if interception.other is None and not (interception.call or marked.done):
                # What the script has registered may train; and whatever else there is, this process ends.
                atexit._run_exitfuncs()
            if not (interception.call or marked.done):
                self._take_other(job, interception, errors)
            if marked.done and not job.meter.written:
                raise ScriptError(
                    f"The loop of {Path(text.path).name} ended after {job.meter.steps + 1} steps, before it was "
                    "measured. Let it run longer."
                )
            if marked.done:
                self._settle_marked()

    def _tell_later(self, what: str) -> None:
        """Tell of an error after the call; after a training that was cut short, only the evaluation is wanted."""
        if self._spec.full:
            self._events.warning(what)
        else:
            sys.stderr.write(f"{what}\n")

    def _take_other(self, job: Job, interception: Interception, errors: Sequence[str]) -> None:
        """Measure what a script that has not trained has called instead.

        Args:
            errors: that ended threads of the script.
        """
        other, trained = interception.other, interception.trained
        if other is not None and not trained and not interception.fits:
            if other.folder:
                os.chdir(other.folder)
            self._take_quietly(job, other)
            return
        if errors:
            raise ScriptError(errors[0])
        elsewhere = (
            interception.forked or _has_fork_server() or _children_s() > _BUSY_S or bool(children.running())
        )
        raise ScriptError(_no_call(self._text, self._spec.call, trained=trained, elsewhere=elsewhere))

    def _end_marked(self) -> NoReturn:
        """End the process of a script whose marked steps are measured."""
        self._settle_marked()
        self._end()

    def _settle_marked(self) -> None:
        if self._task.script != BASELINE:
            self._report_script(self._task.script)
        for variant in self._task.variants:
            if not self._results.settled(variant):
                self._events.needless(variant, "only the throughput of marked steps is known")

    def failed(self, error: BaseException) -> None:
        """Record that the script could not be measured, and so nothing that is made of its call."""
        if self._task.rehearses:
            return
        self._fail_own(error)
        reason = "The baseline could not be measured." if self.measured else script.named(error)
        for variant in self._task.variants:
            if not self._results.settled(variant):
                self._events.left_out(variant, reason)

    @property
    def _is_changed(self) -> bool:
        """Whether the script that runs is a change of the baseline's, which is measured too."""
        return self._task.script != BASELINE and BASELINE in self._spec.variants

    @property
    def _first(self) -> bool:
        """Whether this is the trial's first run of the baseline's script."""
        return self._task.script == BASELINE and self._results.begun_count(BASELINE) <= 1

    @property
    def _evaluates(self) -> bool:
        """Whether accuracy is measured: once for each variant that measures speed."""
        variant = self._task.script
        return (
            self.measured
            and self._spec.evaluate
            and measures_speed(variant)
            and not self._task.short
            and self._results.begun_count(variant) <= 1
        )

    def _take_quietly(self, job: Job, call: Call) -> Any:
        """Measure as below: that may warn where the script alone does not, and the script may make warnings errors."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._take(job, call)

    def _take(self, job: Job, call: Call) -> Any:
        """Measure everything in the script's call; return its result if the script has to go on."""
        self._preparation.end()
        self._measuring = threading.current_thread()
        if self._first:
            self._warn(call)
        own, result = self._task.script, None
        call.script = self._text.text
        call.is_broken_down = len(self._task.variants) > 1
        if self.measured:
            self._events.write(
                "call", variant=own, place=call.place, sites=[[*map(list, each)] for each in call.sites]
            )
        try:
            self._prove()
            if self.measured:
                result = self._measure_own(job, call)
        except NoGpuError as error:
            self.failed(error)
            self._end()
        except BaseException as error:  # callbacks and inputs can raise anything
            self._fail_own(self._explained(error, call))
        others = [each for each in self._task.variants if each != own]
        continues = self.measured and self._results.read(own) > 0 and own not in self._results.left_out
        state = call.state() if others and continues else ()
        # In a thread of its own, which is in no scope that the script may have entered around its call.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(self._measure_parts, call, others, tf.keras.config.dtype_policy()).result()
        call.set_state(state)
        if not continues:
            self._end()
        self._returned = True
        return result

    def _measure_parts(self, call: Call, variants: Sequence[str], policy: Any) -> None:
        """Measure variants of the breakdown, forward and backward.

        A machine that gets slower does not move time from one part to another then.
        """
        tf.keras.config.set_dtype_policy(policy)  # Keras has one for each thread
        measure = partial(self._measure_part, call)
        measure_each(variants, measure, self._events)
        measure_each([each for each in reversed(variants) if self._worth_again(each)], measure, self._events)

    def _worth_again(self, variant: str) -> bool:
        """Return whether a variant of the breakdown is read again, which must not mean to compile for long."""
        kind = kind_of(variant)
        if not kind.again or self._spec.steps or self._results.read(variant) != 1:
            return False
        takes_s = self._results.first_step_s.get(variant, 0.0) if kind.ablation else 0.0
        return takes_s < _LONGEST_AGAIN_S

    def _prove(self) -> None:
        """Check that work runs on the devices, once the script has set them up."""
        if len(self._names) > 1 and self._spec.requests is not None:
            raise NoGpuError(
                f"{len(self._names)} GPUs were requested, but inference uses one device. Try --device gpu0."
            )
        devices.prove(self._names)

    def _measure_own(self, job: Job, call: Call) -> Any:
        """Measure the call as the script makes it."""
        if len(self._names) > 1 and not call.trains:
            raise NoGpuError(
                f"{len(self._names)} GPUs were requested, but inference uses one device. Try --device gpu0."
            )
        if not job.meter.full:
            call.renew()
        call.read_batch()
        call.as_written = self._results.params
        for fix in self._task.fixes:
            if reason := _checked(misfit, fix, call):
                self._events.write("judged", variant=fix, reason=reason)
                raise ScriptError(reason)
        job = replace(job, alike_by=comparable(self._task.fixes, call))
        if self._task.fixes:
            self._events.write("alike", variant=job.variant, by=job.alike_by)
        job.meter.phase(BUILD, self._began)
        params = call.params() | ({"acts_every": every} if (every := acts_every(call)) else {})
        before = params if job.variant == BASELINE else self._results.params or params
        if not call.epoch.exact:  # it is that of whichever batch comes first
            before = {**before, "batch_size": params["batch_size"]}
        self._events.write(
            "variant", variant=job.variant, params=params,
            changes=[asdict(change) for change in changes(before, params)],
        )  # fmt: skip
        job.meter.whole_samples = params["epochs"] * params["samples_per_epoch"]
        serves = generation.as_written if call.new_tokens else inference.as_written
        measure = training.as_written if self._spec.requests is None else serves
        threads = BusyThreads()
        result = measure(job, call)
        if self._first:
            for said in filter(None, self._beside(job, threads)):
                self._events.warning(said)
        for name, size in devices.peak_memory(self._names).items():
            job.metric(name, size)
        if measures_speed(job.variant) and not self._task.short:
            repeatability.check(self._names, job.variant, self._events)
        if self._evaluates and not call.new_tokens:
            with suppress(Exception):  # Keras cannot trace some steps, such as data-parallel ones
                job.metric(FLOPS, flops_per_sample(call))
        if job.variant not in (BASELINE, *self._results.scripts) and self._spec.evaluate:
            self._report_script(job.variant)
        self._foresee(call)
        return result

    def _foresee(self, call: Call) -> None:
        """Judge a remedy that was read alone by what may leave a trace in the call; this process ends then."""
        variant = self._task.script
        if not (self._task.short and len(self._task.fixes) == 1 and self._results.begun_count(variant) == 1):
            return
        call_late(self._spec, _FORESIGHT_S, self._end)
        if reason := _checked(misfit_after, variant, call) or foreseen(FIX.argument(variant), call):
            self._events.write("judged", variant=variant, reason=reason)
        self._end()

    def _beside(self, job: Job, threads: BusyThreads) -> Iterator[str]:
        """Yield sentences on what takes time beside the measured call; "" where there is nothing to tell."""
        name, meter = Path(self._text.path).name, job.meter
        yield threads.described(name)
        yield self._retraced.described()
        if meter.samples and meter.whole_samples and not self._spec.steps:
            step_s = meter.step_ns / 1e9 + (job.results.metric(job.variant, BETWEEN_EPOCHS) or 0.0)
            call_s = step_s * meter.steps / meter.samples * meter.whole_samples
            yield self._preparation.described(name, call_s)

    def _measure_part(self, call: Call, variant: str) -> None:
        """Measure a variant of the breakdown, which is made of the call; raise Needless if it tells nothing."""
        job = replace(self._job(variant), measured_call=call)
        if reason := needless(job, variant):
            raise Needless(reason)
        if variant != STAGES:
            self._events.write("variant", variant=variant, params=self._results.params, changes=[])
        eager = tf.config.functions_run_eagerly()
        # An ablation is the script's own training without one part; other variants are of a compiled step.
        tf.config.run_functions_eagerly(eager and kind_of(variant).ablation)
        try:
            breakdown.measure(job, self._meter)
        finally:
            tf.config.run_functions_eagerly(eager)

    def _explained(self, error: BaseException, call: Call) -> BaseException:
        """Return an error of the script's code while its call is measured with what the user can do."""
        path = Path(self._text.path)
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            return ScriptError(
                f"A callback or the input of {path.name} ends the process while it is measured, with {error!r}. "
                "Leave that out."
            )
        if isinstance(error, MemoryError):
            return MemoryError(script.explained(error, path, call.place))
        typed = isinstance(error, _TYPED) or _OUT_OF_MEMORY.search(text_of(error))
        if not typed:
            kind = type(error) if isinstance(error, ScriptError) else ScriptError
            explained = script.explained(error, path, call.place, changed=self._is_changed)
            if call.steps_before_error and not isinstance(error, ScriptError):
                explained += (
                    f" It came after {call.steps_before_error}: measuring takes longer than the script."
                )
                explained += "" if self._is_changed else " Let it train more epochs, or allow more steps."
            elif self._is_changed:
                return kind(explained)
            elif is_own(type(error).__module__) or (is_caught(error) and _is_raised_by_script(error)):
                explained += (
                    " A training is measured for as long as it takes, whatever its epochs: if this error is how the "
                    "script ends it, leave that out."
                )
            # With a later call, earlier ones train for one step.
            if is_caught(error) and not call.failed_late:
                later = f"--call {self._spec.call + 1}"
                explained += f" The script catches it: if it trains again after that, {later} measures that."
            return kind(explained)
        return error

    def _fail_own(self, error: BaseException) -> None:
        """Record that the script's own variant could not be measured."""
        own = self._task.script
        if isinstance(error, UnlikeError) and len(self._results.losses) == 1:
            self._events.write("unlike", variant=own, reason=script.named(error))
        elif self.measured:
            self._events.left_out(own, script.named(error))
            if isinstance(error, UnlikeError):
                self._events.write("judged", variant=together(self._task.fixes), reason=script.named(error))
        planned = self._spec.variants
        if own == BASELINE or (BASELINE not in planned and own in planned) or isinstance(error, NoGpuError):
            report(self._events, error)

    def _without_plots(self, name: str) -> None:
        self._events.warning(f"{name} is not in the image: the scripts' plots are left out.")

    def _warn(self, call: Call) -> None:
        """Warn of other calls, and of what the script has set too late."""
        tree, name, number = ast.parse(self._text.text), Path(self._text.path).name, self._spec.call
        if call.in_module and FIXES in self._spec.variants and not self._spec.fixes:
            self._events.warning(
                f"The measured call is made in {call.place}. Changes are tried in {name} only: to try them, measure a "
                "script that makes the call itself."
            )
        elif FIXES in self._spec.variants and call.trains and not _compiles(tree, call):
            self._events.warning(
                f"{name} does not compile the measured model itself, so changes of compile, such as XLA and several "
                "steps per call, are not tried. Move that call there to try them."
            )
        calls = _own_calls_of_fit(tree)
        if (places := len(calls)) > 1:
            self._events.warning(
                f"{name} calls fit in {places} places; call {number} was measured. Choose another with --call."
            )
        loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
        if any(node in calls for loop in loops for node in ast.walk(loop)):
            self._events.warning(
                f"{name} calls fit in a loop; call {number} was measured, without what comes between calls."
            )
        late = [
            f"--env {variable}={value}"
            for variable, value in os.environ.items()
            if value != self._environment.get(variable) and script.AT_IMPORT.match(variable)
        ]
        if late:
            self._events.warning(
                f"TensorFlow had been imported when {name} set its environment, which may have no effect. "
                f"Use {' '.join(late)}."
            )

    def _report_script(self, variant: str) -> None:
        baseline, own = self._spec.scripts[BASELINE], self._text
        names = (Path(each.path).name for each in (baseline, own))
        diff = difference(baseline.text, own.text, *names)
        whole = own.text if variant == TUNED else ""
        self._events.write("script", variant=variant, diff=diff, text=whole, fixes=list(self._task.fixes))

    def _job(self, variant: str) -> Job:
        return Job(
            spec=self._spec, events=self._events, meter=self._meter(variant), devices=self._names,
            strategy=self._strategy, results=self._results, variant=variant,
        )  # fmt: skip

    def _meter(self, variant: str) -> Meter:
        spec = self._spec
        brief = self._task.short or not measures_speed(variant)
        return Meter(
            variant,
            spec=measuring.brief(spec) if brief else spec,
            events=self._events,
            synchronise=devices.synchronise,
            brief=brief,
            full=spec.full and not brief and spec.requests is None,
        )


def _checked(check: Callable[[str, Call], str], fix: str, call: Call) -> str:
    """Return why a remedy does not fit a call, or why that cannot be told: a check calls what the script has made."""
    try:
        return check(FIX.argument(fix), call)
    except Exception as error:
        reason = shortened(reason_of(text_of(error)), 200)
        return f"Whether it changes training cannot be told: {type(error).__name__}: {reason}"


def _script_of(task: Task, spec: Spec, results: Results) -> Script:
    """Return the script that a task runs."""
    given = spec.scripts.get(task.script, spec.scripts[BASELINE])
    fixes = edits.at_sites(spec.fixes, results.sites)
    if not fixes.keys() >= {*task.fixes}:
        raise ValueError("it changes other calls than the one that is measured")
    return replace(given, text=edits.applied(given.text, [fixes[name] for name in task.fixes]))


def _is_raised_by_script(error: BaseException) -> bool:
    """Return whether code of the script, and none that it calls, has raised an error."""
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    return last is not None and is_own(str(last.tb_frame.f_globals.get("__name__")))


def _own_calls_of_fit(tree: ast.AST) -> list[ast.Call]:
    """Return the calls of fit; that of `super()` in a fit is the same call, but for further ones there."""
    calls = calls_of_fit(tree)
    supers = [each for each in calls if first_name(each.func) == "super"]
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    further = [call for each in functions for call in [node for node in ast.walk(each) if node in supers][1:]]
    return [each for each in calls if each not in supers or each in further]


def _compiles(tree: ast.AST, call: Call) -> bool:
    """Return whether a call of compile in the script has compiled the call's model."""
    ends = {
        (node.end_lineno, node.end_col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and "compile" in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
    }
    return not ends.isdisjoint(call.sites[1])


def _call(method: Callable[..., Any], model: Any, arguments: dict[str, Any]) -> Any:
    return method(model, **arguments)


def _children_s() -> float:
    """Return the seconds of CPU that processes took which the script has started and which have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _has_fork_server() -> bool:
    """Return whether multiprocessing's fork server runs, whose processes are not the script's children."""
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return getattr(server, "_forkserver_pid", None) is not None


def _no_call(text: Script, number: int, *, trained: bool, elsewhere: bool) -> str:
    name = one_line(Path(text.path).name)
    if elsewhere and not trained:
        return (
            f"{name} trains in processes that it starts, if at all, and only its own process can be measured. Let it "
            "call what trains directly, or give the script that those processes run."
        )
    if "tf_keras" in sys.modules and not trained:
        return f"{name} {LEGACY}"
    if number > 1:
        return (
            f"{name} calls fit fewer than {number} times, as earlier calls train for one step only. Choose another "
            "--call."
        )
    if marking := script.marking():
        return (
            f"{name} ended without a call of fit, evaluate or predict. {marking} marks the end of a step, which counts "
            f"in the script itself: move the loop to {name}."
        )
    calls = calls_of_fit(ast.parse(text.text))
    if trained:
        told = f"{name} trains in a loop of its own. Mark"
    elif calls:
        told = (
            f"{place(name, text.text, calls[0].lineno)}: {name} ended before this call of fit, and made no other. See "
            "whether an argument, a variable of the environment or a file of an earlier run makes it skip the "
            "training. If it trains in a loop of its own, mark"
        )
    else:
        told = f"{name} ended without a call of fit, evaluate or predict. If it trains in a loop of its own, mark"
    return (
        f"{told} the end of each step with a comment line in the loop: `# tfbench: step BATCH_SIZE`, with the number "
        "of samples."
    )
