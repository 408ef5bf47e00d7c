"""Which variants of the breakdown apply to a call, and which are worth measuring after earlier ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    STEPS_PER_CALL,
    THREADS_PREFIX,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    WITHOUT_PREFIX,
)

if TYPE_CHECKING:
    from workloads.driver.job import Job

# Larger batches and more steps per call are skipped if a call would take longer.
LONGEST_CALL_S = 1.5
# On a GPU, whose idle time tells what launches cost, they are skipped for longer steps: such models take up to minutes
# to compile.
LONGEST_GPU_STEP_S = 0.1
# Parts below this share of a step are not investigated further; xprof calls 5 % moderate.
RELEVANT_SHARE = 0.05


def factor(variant: str, *prefixes: str) -> int:
    """Return the number in a variant such as "batch:4"; 1 for variants without these prefixes."""
    return int(variant.partition(":")[2]) if variant.startswith(prefixes) else 1


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
        return one_device
    if variant in (INPUT_ONLY, WITHOUT_INPUT):
        return reads
    if variant.startswith(THREADS_PREFIX):
        return pipeline
    if variant in (HOST_FED, WITHOUT_COPY):
        return job.gpu and one_device and reads and (variant == HOST_FED or pipeline)
    if variant.startswith(CALLS_PREFIX):
        # Several steps of inference on one batch give the same, which compilers notice.
        return one_device and call.trains
    if variant == CUSTOM_LOOP or variant.startswith(WITHOUT_PREFIX):
        return one_device and reads
    return True


def _uninformative(job: Job, variant: str) -> str:
    """Return why earlier results make a variant uninformative."""
    step_ns = job.shared.step_ns
    base, model = step_ns.get(BASELINE, 0.0), step_ns.get(MODEL_ONLY, 0.0)
    times = (
        STEPS_PER_CALL[job.spec.device]
        if variant == WITHOUT_LAUNCH
        else factor(variant, BATCH_PREFIX, CALLS_PREFIX)
    )
    longest_s = min(LONGEST_CALL_S / times, LONGEST_GPU_STEP_S if job.gpu else LONGEST_CALL_S)
    if times > 1 and model > longest_s * 1e9:
        return "a call would take too long"
    if variant == WITHOUT_FRAMEWORK and not (job.shared.eager or job.shared.callbacks):
        return "Keras fit compiles the step and there are no per-batch callbacks"
    if not base or not model or job.spec.steps:
        return ""
    if variant == WITHOUT_LAUNCH and job.shared.eager:
        return "Keras cannot run several eager steps per call"
    if variant == WITHOUT_LAUNCH:
        calls = min((ns for name, ns in step_ns.items() if name.startswith(CALLS_PREFIX)), default=None)
        if calls is not None and model - calls < RELEVANT_SHARE * base:
            return "several steps per call save little"
    if variant == WITHOUT_COPY and step_ns.get(HOST_FED, model * 2) - model < RELEVANT_SHARE * base:
        return "copying costs little"
    input_related = variant in (WITHOUT_INPUT, STAGES) or variant.startswith(THREADS_PREFIX)
    waits = job.shared.wait_share
    # What the custom loop loses relative to the same step with a ready batch.
    lost = (min(base, step_ns.get(CUSTOM_LOOP, base)) - step_ns.get(HOST_FED, model)) / base
    if input_related and waits is not None and max(waits, lost) < RELEVANT_SHARE:
        return "input costs little"
    return ""


def worth_trying(job: Job, answers: str) -> bool:
    """Return whether a remedy answers a part of the baseline's step, as far as it was measured.

    Args:
        answers: see workloads.protocol.Fix.
    """
    shared, step_ns = job.shared, job.shared.step_ns
    if job.spec.gpus > 1:
        return False
    base, model = step_ns.get(BASELINE, 0.0), step_ns.get(MODEL_ONLY, 0.0)
    if answers in ("launch", "batch") and STEPS_PER_CALL[job.spec.device] * base > LONGEST_CALL_S * 1e9:
        return False  # what a launch costs is nothing beside such a step
    if job.spec.steps or not base or not model:
        return True
    ready = step_ns.get(HOST_FED, model)
    lost_to_input = max(shared.wait_share or 0.0, 1 - ready / min(base, step_ns.get(CUSTOM_LOOP, base)))
    around = 1 - step_ns.get(CUSTOM_LOOP, base) / base
    calls = min((ns for name, ns in step_ns.items() if name.startswith(CALLS_PREFIX)), default=model)
    larger = min(
        (ns / factor(name, BATCH_PREFIX) for name, ns in step_ns.items() if name.startswith(BATCH_PREFIX)),
        default=model,
    )
    relevant = {
        "input": lost_to_input >= RELEVANT_SHARE,
        "cache": lost_to_input >= RELEVANT_SHARE and _fits_memory(job),
        "loader": lost_to_input >= RELEVANT_SHARE and job.call.in_python,
        "eager": shared.eager,
        "framework": around >= RELEVANT_SHARE,
        "launch": not shared.eager and max(around, (model - calls) / base) >= RELEVANT_SHARE,
        "device": not shared.eager and model >= RELEVANT_SHARE * base,
        "batch": model - larger >= RELEVANT_SHARE * base,
    }
    return relevant[answers]


def _fits_memory(job: Job) -> bool:
    """Return whether the samples of an epoch fit into half of the free memory."""
    call = job.call
    if not call.samples_per_epoch:
        return False
    return call.batch_bytes / call.epoch.batch * call.samples_per_epoch <= free_memory() / 2


def free_memory() -> int:
    """Return the bytes of memory that can still be used, of the container or the host."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            texts = (Path("/sys/fs/cgroup", name).read_text(encoding="ascii") for name in (limit, used))
            most, current = (int(text) if text.strip() != "max" else free for text in texts)
        except (OSError, ValueError):
            continue
        free = min(free, max(0, most - current))
    return free
