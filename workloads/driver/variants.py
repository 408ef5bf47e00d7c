"""Which variants of the breakdown apply to a call, and which are worth measuring after earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.driver.remedies import LONGEST_CALL_S, RELEVANT_SHARE
from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    BETWEEN_EPOCHS,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    STEPS_PER_CALL,
    THREADS_PREFIX,
    WITHOUT_COPY,
    WITHOUT_EPOCHS,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    WITHOUT_PREFIX,
    number_of,
)

if TYPE_CHECKING:
    from workloads.driver.job import Job

# On a GPU, whose idle time tells what launches cost, they are skipped for longer steps: such models take up to minutes
# to compile.
LONGEST_GPU_STEP_S = 0.1


def kind_of(variant: str) -> str:
    """Return the kind of a variant: its name, or its prefix with the colon."""
    name, colon, _ = variant.partition(":")
    return name + colon


def skipped(job: Job, variant: str) -> str:
    """Return why a variant of the breakdown is not measured here; "" if it is."""
    if not applies(job, variant):
        return "not informative for this workload and device"
    return _uninformative(job, variant)


def applies(job: Job, variant: str) -> bool:
    """Return whether a variant means something for the call and the device."""
    spec, call = job.spec, job.call
    reads, one_device = spec.requests is None, spec.gpus <= 1
    pipeline = reads and call.is_pipeline
    if variant == STAGES:
        return pipeline or (reads and call.in_python)
    if variant == MODEL_ONLY:
        return True
    if variant.startswith(BATCH_PREFIX):
        return one_device and not call.new_tokens  # has batches of its own
    if variant in (INPUT_ONLY, WITHOUT_INPUT):
        return reads
    if variant.startswith(THREADS_PREFIX):
        return pipeline
    if variant in (HOST_FED, WITHOUT_COPY):
        return job.gpu and one_device and reads and (variant == HOST_FED or pipeline)
    if variant.startswith(CALLS_PREFIX):
        # Several steps of inference on one batch give the same, which compilers notice.
        return one_device and call.trains
    if variant == WITHOUT_EPOCHS:
        return one_device and reads and call.trains and not call.in_python
    if variant == CUSTOM_LOOP or variant.startswith(WITHOUT_PREFIX):
        return one_device and reads
    raise ValueError(f"{variant} is no variant of the breakdown")


def _uninformative(job: Job, variant: str) -> str:
    """Return why earlier results make a variant uninformative."""
    results = job.results
    base, model = results.step_s(BASELINE), results.step_s(MODEL_ONLY)
    times = (
        STEPS_PER_CALL[job.spec.device]
        if variant == WITHOUT_LAUNCH
        else number_of(variant, BATCH_PREFIX, CALLS_PREFIX)
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
    calls = results.steps_s(CALLS_PREFIX)
    if variant == WITHOUT_LAUNCH and calls and model - min(calls.values()) < RELEVANT_SHARE * base:
        return "several steps per call save little"
    host_fed, loop = results.step_s(HOST_FED), results.step_s(CUSTOM_LOOP) or base
    if variant == WITHOUT_COPY and (host_fed or model * 2) - model < RELEVANT_SHARE * base:
        return "copying costs little"
    input_related = variant in (WITHOUT_INPUT, STAGES) or variant.startswith(THREADS_PREFIX)
    waits = results.wait_share
    # What the custom loop loses relative to the same step with a ready batch.
    lost = (min(base, loop) - (host_fed or model)) / base
    if input_related and waits is not None and max(waits, lost) < RELEVANT_SHARE:
        return "input costs little"
    return ""
