"""Did training work? A speed of a model that learns nothing may be the speed of a broken one."""

from __future__ import annotations

import math

from harness.model import Run
from workloads.protocol import Workload

# Standard errors of the share of right answers that mere guessing gives; chance exceeds it in 3e-7 of cases.
_SIGMAS = 5.0


def required_accuracy(run: Run, workload: Workload | None) -> float | None:
    """Return the least accuracy on held-out data that shows learning; None where nothing is to be learned.

    On procedural data it is what the workload declares. On real data, where a short measurement trains for
    a few seconds only, it is the chance level plus five standard errors of a binomial proportion.
    """
    if workload is None or workload.min_accuracy <= 0 or workload.task != "train":
        return None
    kinds = {data.kind for data in run.manifest.data if data.workload == workload.name}
    if kinds != {"real"}:
        return workload.min_accuracy
    chance = 1.0 / max(1, workload.data.classes)
    return chance + _SIGMAS * math.sqrt(chance * (1.0 - chance) / max(1, workload.data.test))
