"""Rules on moving data: out of storage, and onto the device."""

from __future__ import annotations

from harness.analysis.breakdown import copy_share, input_share
from harness.analysis.case import Case
from harness.analysis.remedies import COPYING, DISK, remedy, without
from harness.analysis.remedy_code import DISK_CACHE, copy_code
from harness.analysis.rules_input import HIGHLY, MODERATELY
from harness.analysis.words import percent, significant
from harness.model.analysis import Evidence, Finding, Verdict
from workloads.protocol import BASELINE, CUSTOM_LOOP, HOST_FED, INPUT_ONLY, MODEL_ONLY

# A disk is the reason for waiting when tasks were stalled on I/O for half of it at least.
EXPLAINS = 0.5


def copy_bound(case: Case) -> Verdict | None:
    """Tell whether copying batches to the device takes a share of the time worth speaking of.

    xprof counts the host-to-device copy as input: from 20 % of the step time high, from 5 % moderate.
    """
    rule = "copy-bound"
    share = copy_share(case)
    if share is None:
        if not case.on_gpu:
            return None
        return case.verdict(
            rule,
            Finding.INCONCLUSIVE,
            "What copying batches to the device costs cannot be told without the model-only and host-fed "
            "variants.",
        )
    evidence = [
        Evidence(
            metric="time copying batches to the device",
            observed=percent(share),
            threshold=f"moderate from {percent(MODERATELY)}, high from {percent(HIGHLY)}",
        )
    ]
    fed, model = case.speed(HOST_FED), case.speed(MODEL_ONLY)
    if fed and model:
        evidence.append(
            Evidence(
                metric="one batch fed from host memory, against the device's own",
                observed=f"{significant(fed)} against {significant(model)} samples/s",
                threshold="",
            )
        )
    if share < MODERATELY:
        sentence = f"Copying batches to the device costs {percent(share)} of the time."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=share)
    return case.verdict(
        rule,
        Finding.FOUND,
        f"{percent(share)} of the time goes into copying batches from the computer's memory to the device, "
        f"which waits meanwhile.",
        cause="copying batches to the device",
        evidence=evidence,
        cost=share,
        remedy=remedy(
            case,
            COPYING,
            "Copy the next batch while this one is computed, keep data that fits on the device, and send "
            "small types: bytes instead of floats, converted on the device.",
            copy_code,
            without(share) if case.speed(BASELINE) else None,
        ),
    )


def disk_bound(case: Case) -> Verdict | None:
    """Tell whether the data that training waits for is waited for on a disk.

    Threshold: xprof's 5 % of the time waiting for input, of which tasks were stalled on I/O for half
    (pressure stall information, else the CPUs' I/O wait).
    """
    rule = "disk-bound"
    found = input_share(case)
    variant = CUSTOM_LOOP if CUSTOM_LOOP in case.variants else BASELINE
    stalled = stalled_share(case, variant)
    if found is not None and found.share < MODERATELY:
        return case.verdict(
            rule, Finding.CLEAR, "Training does not wait for its data, so no disk holds it up.", cost=0.0
        )
    if found is None or stalled is None:
        said = "too short to tell" if case.too_short("host") else "neither pressure nor I/O wait was recorded"
        return case.verdict(rule, Finding.INCONCLUSIVE, f"Whether a disk holds the input up: {said}.")
    read = case.host(variant, "cgroup", "io_read_bytes_per_s") or case.host(
        variant, "host", "disk_read_bytes_per_s"
    )
    evidence = [
        Evidence(
            metric="time in which tasks were stalled on I/O",
            observed=percent(stalled),
            threshold=f"from {percent(EXPLAINS)} of the time waiting for input, {percent(found.share)}",
        )
    ]
    for name, one in ((variant, read), (INPUT_ONLY, case.host(INPUT_ONLY, "host", "disk_read_bytes_per_s"))):
        if one is not None:
            evidence.append(
                Evidence(
                    metric=f"read from disks, not from the page cache ({name})",
                    observed=f"{significant(one / 1e6)} MB/s",
                    threshold="",
                )
            )
    if stalled < EXPLAINS * found.share:
        sentence = "What training waits for is not a disk: little of that time was spent on I/O."
        return case.verdict(rule, Finding.CLEAR, sentence, evidence=evidence, cost=0.0)
    rate = f" It delivers {significant(read / 1e6)} MB/s." if read else ""
    return case.verdict(
        rule,
        Finding.FOUND,
        f"Training waits {percent(found.share)} of the time for its data, and its data waits for the disk."
        f"{rate}",
        cause="the disk that the data lies on",
        evidence=evidence,
        cost=found.share,
        remedy=remedy(
            case,
            DISK,
            "Put the data on a faster disk or into memory, read large files one after the other instead "
            "of many small ones, or keep it in memory from the first epoch on.",
            lambda program: DISK_CACHE if program.keras else "",
            without(found.share),
        ),
    )


def stalled_share(case: Case, variant: str) -> float | None:
    """Return the share of the time in which some task was stalled on I/O: in the container, else at all."""
    for source in ("cgroup", "host"):
        value = case.host(variant, source, "io_pressure_some_s_per_s")
        if value is not None:
            return min(1.0, value)
    waiting = case.host(variant, "host", "cpu_iowait_pct")
    total = case.run.manifest.host_facts.get("cpus")
    # One task that waits leaves one CPU in I/O wait.
    return min(1.0, waiting / 100 * total) if waiting is not None and isinstance(total, int) else None
