"""Training loops of a script's own, whose steps end at comment lines `# tfbench: step BATCH_SIZE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from workloads.driver.job import Job
from workloads.driver.script import ScriptError, Taken
from workloads.protocol import BUILD

_MARK = re.compile(r"^(?P<indent>[ \t]*)# tfbench: step (?P<samples>.+?)\s*$", re.MULTILINE)
_NAME = "_tfbench_step"


class MarkedSteps:
    """Time steps that a script marks; only its throughput is known."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._began_ns = job.meter.clock()
        self.done = False

    def inserted(self, text: str) -> str:
        """Return a script with a call in place of each mark; lines keep their numbers."""
        return _MARK.sub(rf"\g<indent>{_NAME}(\g<samples>)", text)

    def names(self) -> Mapping[str, Callable[[int], None]]:
        """Return the names to define in the script."""
        return {_NAME: self._step}

    def _step(self, samples: int) -> None:
        meter = self._job.meter
        if not int(samples) > 0:
            raise ScriptError(f"`# tfbench: step {samples}`: a step has one sample or more.")
        if not self.done:
            self.done = True
            meter.phase(BUILD, self._began_ns)
            params = {"batch_size": int(samples)}
            self._job.events.write("variant", variant=self._job.variant, params=params, changes=[])
            # The first step lies before the first mark.
            meter.begin()
            return
        if not meter.tick(1, int(samples)):
            raise Taken
