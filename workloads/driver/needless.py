"""Which variants of the breakdown apply to a call, and which are worth measuring after earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.driver.remedies import LONGEST_CALL_S, RELEVANT_SHARE
from workloads.protocol import BETWEEN_EPOCHS, STEPS_PER_CALL
from workloads.variants import (
    BASELINE,
    BATCH,
    CALLS,
    CUSTOM_LOOP,
    HOST_FED,
    MODEL_ONLY,
    STAGES,
    THREADS,
    WITHOUT_COPY,
    WITHOUT_EPOCHS,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    Need,
    kind_of,
)

if TYPE_CHECKING:
    from workloads.driver.job import Job

# On a GPU, whose idle time tells what launches cost, they are skipped for longer steps: such models take up to minutes
# to compile.
LONGEST_GPU_STEP_S = 0.1


def needless(job: Job, variant: str) -> str:
    """Return why a variant of the breakdown is not measured here; "" if it is."""
    return unmet(job, variant) or _by_earlier_results(job, variant)


def unmet(job: Job, variant: str) -> str:
    """Return why a variant means nothing for the call and the device; "" if it means something.

    Raises:
        ValueError: it is no variant of the breakdown.
    """
    kind = kind_of(variant)
    if not kind.breakdown:
        raise ValueError(f"{variant} is no variant of the breakdown")
    missing = kind.needs - _met(job)
    return next((need.value for need in Need if need in missing), "")


def _met(job: Job) -> set[Need]:
    """Return the needs of variants that the call and the device meet."""
    spec, call = job.spec, job.call
    met = {
        Need.GPU: job.gpu,
        Need.ONE_DEVICE: spec.gpus <= 1,
        Need.NO_REQUESTS: spec.requests is None,
        Need.PIPELINE: call.is_pipeline,
        Need.STAGED_INPUT: call.is_pipeline or call.in_python,
        Need.NATIVE_INPUT: not call.in_python,
        Need.TRAINING: call.trains,
        Need.OTHER_BATCHES: not call.new_tokens,
    }
    return {need for need in Need if met[need]}


def _by_earlier_results(job: Job, variant: str) -> str:
    """Return why earlier results make a variant needless; "" if they do not."""
    results = job.results
    base, model = results.step_s(BASELINE), results.step_s(MODEL_ONLY)
    times = (
        STEPS_PER_CALL[job.spec.device]
        if variant == WITHOUT_LAUNCH
        else BATCH.number(variant) * CALLS.number(variant)
    )
    longest_s = min(LONGEST_CALL_S / times, LONGEST_GPU_STEP_S if job.gpu else LONGEST_CALL_S)
    if times > 1 and model > longest_s:
        return "a call would take too long"
    if variant == WITHOUT_FRAMEWORK and not (results.eager or results.callbacks):
        return "Keras fit compiles the step and there are no callbacks"
    if not base or not model or job.spec.steps:
        return ""
    if (
        variant == WITHOUT_EPOCHS
        and (results.metric(BASELINE, BETWEEN_EPOCHS) or 0.0) < RELEVANT_SHARE * base
    ):
        return "ends of epochs cost little"
    if variant == WITHOUT_LAUNCH and 0 < (job.call.steps_per_epoch or 0) < times:
        return "an epoch has fewer steps than such a call"
    if variant == WITHOUT_LAUNCH and results.eager:
        return "Keras cannot run several eager steps per call"
    calls = results.steps_s(CALLS)
    if variant == WITHOUT_LAUNCH and calls and model - min(calls.values()) < RELEVANT_SHARE * base:
        return "several steps per call save little"
    host_fed, loop = results.step_s(HOST_FED), results.step_s(CUSTOM_LOOP) or base
    if variant == WITHOUT_COPY and (host_fed or model * 2) - model < RELEVANT_SHARE * base:
        return "copying costs little"
    input_related = variant in (WITHOUT_INPUT, STAGES) or THREADS.has(variant)
    waits = results.wait_share
    # What the custom loop loses relative to the same step with a ready batch.
    lost = (min(base, loop) - (host_fed or model)) / base
    if input_related and waits is not None and max(waits, lost, results.filling_share()) < RELEVANT_SHARE:
        return "input costs little"
    return ""
