"""The words that a report explains where they stand, and once more at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term and what it means here, in a sentence or two."""

    name: str
    text: str


# Key, as templates name it -> the term; in the order of the list at the end of a report.
TERMS: Mapping[str, Term] = {
    "sample": Term(
        name="Sample, step, batch",
        text="A sample is one training example. A step trains on one batch of them.",
    ),
    "variant": Term(
        name="Variant",
        text="One way of running a workload: baseline (the published code), tuned (same model and data, "
        "remedies applied), input alone (the input pipeline drained with no model), model alone (one batch "
        "that stays in memory, fed again and again).",
    ),
    "trial": Term(
        name="Trial, window",
        text="A trial is one container that runs all variants once. A window is a stretch of steps of one variant "
        "within it, timed as a whole; the variants take turns, window by window.",
    ),
    "steady": Term(
        name="Steady state",
        text="The time after imports, compilation and warm-up, in which step times have settled. Speeds are "
        "measured there.",
    ),
    "interval": Term(
        name="95 % interval",
        text="If the same trials were repeated, the median would fall into such an interval 95 times in 100. "
        "Two speeds whose intervals overlap should not be called different.",
    ),
    "waiting": Term(
        name="Waiting for input",
        text="The share of the steady time in which the step waited for its next batch. “Not visible” where "
        "the input is fetched inside the compiled step.",
    ),
    "utilisation": Term(
        name="GPU utilisation, SM activity",
        text="Utilisation is the share of time in which some kernel was resident, however small. SM activity "
        "is the share of the GPU's CPUs (streaming multiprocessors) that were busy, and the more "
        "honest of the two.",
    ),
    "throttled": Term(
        name="Throttled", text="The GPU ran below the clock asked for, because of power or heat."
    ),
    "launch": Term(
        name="Launch-bound",
        text="The time goes into starting kernels from Python rather than into running them.",
    ),
    "xla": Term(
        name="XLA, jit_compile", text="TensorFlow's compiler, which fuses many small kernels into few."
    ),
    "card": Term(
        name="ECC, MIG",
        text="ECC is error correction in the GPU's memory, which costs some speed. MIG parts one GPU "
        "into several that do not share.",
    ),
}
