"""Run one trial: each run of a script in a process of its own, and what earlier ones show decides what runs next.

Standard library only. What dies with its process is a variant, never the trial.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from workloads.cells import place
from workloads.driver.edits import at_sites
from workloads.driver.endings import Ending, difference, follows, unrepeated
from workloads.driver.processes import Death, End, Processes
from workloads.driver.remedies import candidates, joins, may_gain, worth_trying
from workloads.driver.results import STEPS, Results, ResultsFile
from workloads.protocol import TOLERANCE, WORTH, Aim, EventWriter, Spec
from workloads.variants import BASELINE, FIX, FIXES, MODEL_ONLY, TUNED, measures_speed, refused, together

# Remedies between two readings of the baseline that they are compared with.
_BETWEEN_REFERENCES = 3
# A remedy that gains this share of the best one's gain may be the best: it is read again.
_CONTENDS = 0.9
# A combination of remedies is what it gains in so many readings at least.
_CERTAIN = 2

# Remedies that write and print less often, as their own text says.
_QUIETER = {FIX.of("callbacks-per-epoch")}
# What rounding may do to a later number of a script whose training is shortened, as a share of it.
_WITHIN = {"cpu": 5e-3, "gpu": 2e-2}

# Remedies of a script, as variants.
Fixes = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What one process does: it runs a script and measures variants.

    Attributes:
        script: the variant whose script it runs.
        variants: what it measures, in order. The script's own is measured in the script's own call; the others, of the
            breakdown, are made from that call.
        fixes: the remedies in the script.
        short: whether the script is measured as briefly as variants of the breakdown.
        rehearses: whether the script is not measured, but runs to its end, shortened.
    """

    script: str
    variants: tuple[str, ...]
    fixes: Fixes = ()
    short: bool = False
    rehearses: bool = False

    def text(self) -> str:
        """Return it as text for a fresh interpreter."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Task:
        """Read the text of a task."""
        fields = json.loads(text)
        return cls(**{**fields, "variants": tuple(fields["variants"]), "fixes": tuple(fields["fixes"])})


# Does a task in its own process; writes events.
Work = Callable[[Task, Spec, EventWriter, Results, End], None]


class Trial:
    """One trial.

    Args:
        events: of the trial, in the file of `results`.
        work: does a task.
        command: starts a fresh interpreter for a task, if forks do not work.
    """

    def __init__(
        self, spec: Spec, events: EventWriter, results: ResultsFile, work: Work, command: Sequence[str]
    ) -> None:
        self._spec = spec
        self._events = events
        self._file = results
        self._work = work
        self._endings: list[Ending] = []
        self._judged: dict[str, str] = {}
        self._processes = Processes(command, results.size, spec.stall_s, self._stopped)

    def run(self) -> Results:
        """Measure all variants of the spec, or say why not."""
        spec = self._spec
        if not spec.scripts:  # the capabilities of the machine
            return self._run(Task(script="", variants=spec.variants))
        scripts = [each for each in spec.variants if measures_speed(each) and each in spec.scripts]
        # Made of the baseline's call, and from there in one process.
        parts = tuple(
            each for each in spec.variants if not measures_speed(each) and each not in (FIXES, TUNED)
        )
        first = [BASELINE] if parts and BASELINE not in scripts else []
        for script in [*first, *scripts]:
            own = (script,) if script in spec.variants else ()
            self._run(Task(script=script, variants=(*own, *(parts if script == BASELINE else ()))))
        if FIXES in spec.variants:
            self._race()
        if TUNED in spec.variants and TUNED not in spec.scripts:
            self._tune()
        if self._doubtful():
            self._read(())
        if FIXES in spec.variants:
            for name in may_gain(spec.fixes, self._file.read()):
                self._holds((name,))
        return self._file.read()

    def _run(self, task: Task) -> Results:
        """Run a task in a process; what is left after a process has died runs in the next."""
        pending, repeated = task.variants, False
        results = self._file.read()
        while pending and "NoGpuError" not in results.errors:
            work = replace(task, variants=pending)
            begun = sum(map(results.begun_count, pending))
            death = self._processes.run(partial(self._begin, work), work.text())
            results = self._file.read()
            if death is None:
                again = results.unlike.keys() - results.left_out.keys()
                if not repeated and again.intersection(pending):
                    self._read(())  # how much the baseline's own losses differ from reading to reading
                pending = () if repeated else tuple(e for e in pending if e in again or results.disturbed(e))
                repeated = True
                continue
            running = results.begun if sum(map(results.begun_count, pending)) > begun else ""
            pending = self._bury(death, running, pending, results)
            results = self._file.read()
        return results

    def _begin(self, task: Task, end: End) -> None:
        """Do a task; called in its process."""
        self._events.listener = self._file.results.add
        self._work(task, self._spec, self._events, self._file.results, end)

    def _stopped(self, start_ns: int, end_ns: int) -> None:
        """Say that all processes of this container stood still."""
        self._events.write("stopped", start_ns=start_ns, end_ns=end_ns)
        self._events.warning(
            f"All processes of the container were stopped from outside for {(end_ns - start_ns) / 1e9:.1f} s, as by "
            "docker pause. What was measured meanwhile does not count."
        )

    def _bury(
        self, death: Death, running: str, pending: tuple[str, ...], results: Results
    ) -> tuple[str, ...]:
        """Record what a death has cost; return the variants that are still to be measured."""
        script = self._spec.scripts.get(running) or self._spec.scripts.get(BASELINE)
        text = script.text if script else ""
        where = place(death.at[0], text, death.at[1]) if death.at else ""
        reason = death.sentence(running, where)
        lost = [running] if running in pending else [each for each in pending if not results.settled(each)]
        for variant in lost:
            if results.settled(variant):
                # Its windows stand; only the rest of it is missing.
                if variant == BASELINE and not self._spec.requests and results.call_cut_short():
                    self._events.write("error", type=death.kind, message=reason)
                else:
                    self._events.warning(f"{variant}: {death.sentence(running, where, measured=True)}")
            else:
                self._events.left_out(variant, reason)
                if variant == BASELINE or BASELINE not in self._spec.variants:
                    self._events.write("error", type=death.kind, message=reason)
        after = pending[pending.index(running) + 1 :] if running in pending else ()
        after = tuple(each for each in after if not results.settled(each))
        if running == BASELINE and not results.read(BASELINE):
            for variant in after:
                self._events.left_out(variant, "The baseline could not be measured.")
            return ()
        return after

    def _doubtful(self) -> bool:
        """Return whether the baseline's only reading is faster than its model alone, which is impossible."""
        results = self._file.results
        whole, model = results.step_s(BASELINE), results.step_s(MODEL_ONLY)
        return bool(whole and model and whole < model * (1 - TOLERANCE) and results.read(BASELINE) == 1)

    def _read(self, fixes: Fixes) -> None:
        """Read the baseline's script with remedies, or as it is, briefly, in a process of its own."""
        variant = together(fixes) if fixes else BASELINE
        self._run(Task(script=variant, variants=(variant,), fixes=fixes, short=True))

    def _race(self) -> None:
        """Read each remedy that is aimed at a part of the baseline's step, and those that may be the best again."""
        results = self._file.read()
        if BASELINE in results.left_out:
            self._events.needless(FIXES, "the baseline could not be measured")
            return
        fixes = at_sites(self._spec.fixes, results.sites)
        for name in self._spec.fixes.keys() - fixes.keys():
            self._events.needless(name, "It changes other calls than the one that is measured.")
        aims = worth_trying(self._spec, results)
        known = refused(self._spec.judged)
        for name in known.keys() & fixes.keys():
            self._events.left_out(name, known[name])
        worth = [name for name, fix in fixes.items() if fix.aim in aims and name not in known]
        if not worth:
            self._events.needless(FIXES, "no remedy is aimed at a part of this step")
            return
        # A larger batch changes training: it is tried only if nothing else gains.
        for larger in (False, True):
            if not candidates(fixes, self._file.read()):
                self._compare([(each,) for each in worth if (fixes[each].aim is Aim.BATCH) == larger])
                for name in candidates(fixes, self._file.read()):
                    self._holds((name,))
        if TUNED not in self._spec.scripts:
            results = self._file.read()
            again = self._contenders(results)
            # Tuned will be made of them. The two best together are read in the same minute.
            best = candidates(self._spec.fixes, results)[:2]
            if TUNED in self._spec.variants and len(best) > 1 and joins(best[1], best[:1]):
                again.append(self._combined(*best))
            self._compare(again)

    def _contenders(self, results: Results) -> list[Fixes]:
        """Return the remedies that may be the best, by what they gain alone."""
        gained = candidates(self._spec.fixes, results)
        best = max(map(results.gain, gained), default=0.0)
        return [(each,) for each in gained if results.gain(each) >= _CONTENDS * best]

    def _combined(self, *names: str) -> Fixes:
        """Return a combination of remedies; it is the same one in any order."""
        return tuple(sorted(names, key=list(self._spec.fixes).index))

    def _compare(self, compared: Sequence[Fixes]) -> None:
        """Read combinations of remedies, with the baseline after every few and after the last."""
        for number, fixes in enumerate(compared, 1):
            self._read(fixes)
            if number % _BETWEEN_REFERENCES == 0 or number == len(compared):
                self._read(())

    def _tune(self) -> None:
        """Measure tuned: the remedies that together are fastest, each read at least twice."""
        kept = self._composed() if self._spec.tuned is None else self._spec.tuned
        if not kept:
            lost = BASELINE in self._file.read().left_out
            self._events.needless(
                TUNED, "the baseline could not be measured" if lost else "no remedy made the script faster"
            )
            return
        self._run(Task(script=TUNED, variants=(TUNED,), fixes=kept))
        if self._spec.tuned is None:
            self._read(())

    def _composed(self) -> Fixes:
        """Return the fastest combination of remedies that was read twice; () if none is worth it.

        That is the best alone, with each other that adds to those before it, unless one alone holds up better.
        """
        kept: Fixes = ()
        left_out = len(self._file.read().left_out)
        for name in candidates(self._spec.fixes, self._file.results):
            tried = self._combined(*kept, name)
            if kept and joins(name, kept) and not self._file.results.read(together(tried)):
                self._compare([tried])
            results = self._file.read()
            if not kept or results.gain(together(tried)) >= WORTH * results.gain(together(kept)):
                kept = tried
        if not kept:
            return ()
        finalists = dict.fromkeys([kept, *self._contenders(self._file.read())])
        self._compare([each for each in finalists if self._file.results.read(together(each)) < _CERTAIN])
        results = self._file.read()
        certain = [each for each in finalists if results.read(together(each)) >= _CERTAIN]
        certain.sort(key=lambda each: results.gain(together(each)), reverse=True)
        best = next((each for each in certain if self._holds(each)), ())
        if not best and len(self._file.read().left_out) > left_out:
            return self._composed()  # of the others
        return best if best and results.gain(together(best)) >= WORTH else ()

    def _holds(self, fixes: Fixes) -> bool:
        """Return whether the rest of the script is with these remedies what it is as written; run it, if not yet."""
        variant = together(fixes)
        known = {**self._spec.judged, **self._judged}
        sites = self._file.read().sites
        if sites and sites[0] and not follows(self._spec.scripts[BASELINE].text, sites[0][-1][0]):
            return True
        if variant not in known:
            if not self._endings:
                self._endings.append(self._rehearse(()))
                self._tell_of_early_end(self._endings[0])
            ending = self._rehearse(fixes)
            if refused_there := self._file.read().left_out.get(variant):
                self._judged[variant] = refused_there
                return False
            compare = partial(
                difference, ending, within=_WITHIN[self._spec.device],
                exact=self._file.results.alike.get(variant) == STEPS, acts=not _QUIETER & {*fixes},
            )  # fmt: skip
            reason = compare(self._endings[0], self._endings[-1])
            if reason and len(self._endings) == 1:
                self._endings.append(self._rehearse(()))
                reason = compare(*self._endings)
                if differs := unrepeated(*self._endings):
                    self._events.warning(
                        "What follows the training differs from run to run as written, so these numbers were not "
                        f"compared with those of remedies: {differs}."
                    )
            known = {variant: reason}
            self._judged |= known
            self._events.write("judged", variant=variant, reason=known[variant])
        return not known[variant]

    def _tell_of_early_end(self, written: Ending) -> None:
        if written.error and not written.error.startswith("os._exit("):
            self._events.warning(
                "A shortened run of the whole script ends with an error as written, so remedies were not tried with "
                f"what follows it: {written.error}"
            )

    def _rehearse(self, fixes: Fixes) -> Ending:
        """Run the script to its end, shortened, with remedies, in a process of its own."""
        variant = together(fixes) if fixes else BASELINE
        task = Task(script=variant, variants=(), fixes=fixes, rehearses=True)
        before = len(self._file.read().endings.get(variant, []))
        death = self._processes.run(partial(self._begin, task), task.text())
        found = self._file.read().endings.get(variant, [])
        if len(found) > before:
            return found[-1]
        # It has not ended as scripts do; without a death, it did not come to its call.
        return Ending(error=death.how if death else "", whole=death is not None)
