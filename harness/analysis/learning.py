"""Did training work? A speed of a model that learns nothing may be the speed of a broken one."""

from __future__ import annotations

import math
from statistics import median

from harness.analysis.case import Case
from harness.analysis.words import percent
from harness.model.analysis import Evidence, Finding, Remedy, Verdict
from harness.model.run import Run
from workloads.protocol import BASELINE, TUNED, Workload

STEPS_TRAINED = "steps_trained"
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


def learned(accuracy: float | None, needed: float | None, epochs: float | None) -> bool | None:
    """Return whether training worked; None when nothing tells.

    A measurement that ended before every sample was seen once may prove that training works, never that it
    does not.
    """
    if accuracy is None or needed is None:
        return None
    if accuracy >= needed:
        return True
    return None if epochs is not None and epochs < 1 else False


def epochs_seen(case: Case, variant: str) -> float | None:
    """Return how often a variant went through the training data until its accuracy was taken, by the median."""
    steps = [
        metric.value
        for trial in case.run.trials
        if (trial.workload, trial.device) == (case.name, case.device)
        for metric in trial.metrics
        if (metric.variant, metric.name) == (variant, STEPS_TRAINED)
    ]
    if not steps or case.workload is None or case.workload.data.train <= 0 or variant not in case.variants:
        return None
    return median(steps) * case.variants[variant].batch_size / case.workload.data.train


def not_learning(case: Case) -> Verdict | None:
    """Tell whether the model learned: baseline's accuracy on held-out data against `required_accuracy`."""
    rule = "not-learning"
    needed = required_accuracy(case.run, case.workload)
    if needed is None:
        return None
    accuracies = {
        variant: one.accuracy
        for variant, one in case.variants.items()
        if one.accuracy is not None and variant in (BASELINE, TUNED)
    }
    if not accuracies:
        return case.verdict(
            rule, Finding.INCONCLUSIVE, "Whether training worked cannot be told: no accuracy was reported."
        )
    evidence = [
        Evidence(
            metric=f"accuracy on held-out data ({variant})",
            observed=percent(value),
            threshold=percent(needed),
        )
        for variant, value in accuracies.items()
    ]
    failed = [variant for variant in accuracies if case.variants[variant].accuracy_ok is False]
    short = [variant for variant in accuracies if case.variants[variant].accuracy_ok is None]
    variant = min(failed or short or accuracies, key=lambda name: accuracies[name])
    least = accuracies[variant]
    if not failed and short:
        sentence = (
            f"Whether training works cannot be told ({variant}): {percent(least)} of unseen samples are "
            f"right, but "
            f"it was too short to see every sample once."
        )
        return case.verdict(rule, Finding.INCONCLUSIVE, sentence, evidence=evidence)
    if not failed:
        sentence = f"Training works: {percent(least)} of unseen samples are right."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence)
    return case.verdict(
        rule,
        Finding.FOUND,
        f"The model did not learn ({variant}): only {percent(least)} of unseen samples are right, "
        f"{percent(needed)} are "
        f"expected. Its speed may be that of a broken training.",
        cause="training does not work",
        evidence=evidence,
        remedy=Remedy(
            text="Look into loss, learning rate and precision before trusting the speed; a longer "
            "measurement also "
            "trains for longer.",
            code=f"tfbench bench --profile full --workload {case.name}",
            predicted_gain=None,
            measured_gain=None,
        ),
    )
