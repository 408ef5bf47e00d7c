"""Check that training worked: the speed of a model that does not learn is meaningless."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.analysis.case import Case
from harness.model.analysis import Cause, Finding
from harness.model.run import Run
from harness.model.workload import Workload
from workloads.protocol import BASELINE, TUNED

STEPS_TRAINED = "steps_trained"
# Standard errors above the accuracy of guessing; exceeded by chance in 3e-7 of cases.
_SIGMAS = 5.0


def required_accuracy(run: Run, workload: Workload | None) -> float | None:
    """Return the minimum accuracy on held-out data that shows learning; None if the workload needs none.

    On procedural data this is declared by the workload. On real data, where a short measurement trains for
    only a few seconds, it is the chance level plus five standard errors of a binomial proportion.
    """
    if workload is None or workload.min_accuracy <= 0 or workload.requests is not None:
        return None
    kinds = {data.kind for data in run.manifest.data if data.workload == workload.name}
    if kinds != {"real"}:
        return workload.min_accuracy
    data = workload.datasets[0]
    chance = 1.0 / data.classes
    return chance + _SIGMAS * math.sqrt(chance * (1.0 - chance) / data.test)


def learned(accuracy: float | None, needed: float | None, epochs: float | None) -> bool | None:
    """Return whether training worked; None if unknown.

    Training for less than one epoch can show that training works, but not that it fails.
    """
    if accuracy is None or needed is None:
        return None
    if accuracy >= needed:
        return True
    return None if epochs is not None and epochs < 1 else False


def not_learning(case: Case) -> Iterator[Finding]:
    """Yield a finding if baseline or tuned did not learn, for the worse of the two."""
    needed = required_accuracy(case.run, case.workload)
    failed = [
        (summary.accuracy, variant)
        for variant in (BASELINE, TUNED)
        if (summary := case.variants.get(variant))
        and summary.accuracy_ok is False
        and summary.accuracy is not None
    ]
    if needed is not None and failed:
        accuracy, variant = min(failed)
        yield Finding(
            workload=case.name,
            device=case.device,
            cause=Cause.NOT_LEARNING,
            facts={"accuracy": accuracy, "needed": needed, "tuned": float(variant == TUNED)},
        )
