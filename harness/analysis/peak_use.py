"""How much of a device's peak each workload's products use: model FLOPs utilisation (MFU).

As Chowdhery et al. 2022 ("PaLM", appendix B) define it: the operations that the model needs, not those that ran,
over the peak of the precision that it computes in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.case import Case
from harness.model.analysis import Capability, PeakUse
from workloads.protocol import BASELINE, FLOPS, measures_speed

_PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


def peak_use(cases: Sequence[Case], measured: Sequence[Capability]) -> tuple[PeakUse, ...]:
    """Return the use of the measured and the data sheet's peak, of each variant whose operations are known."""
    return tuple(each for case in cases for each in _of_case(case, measured))


def _of_case(case: Case, measured: Sequence[Capability]) -> Iterator[PeakUse]:
    devices = case.gpus or (case.device,)
    peaks = {each.name: each for each in measured if each.device == devices[0]}
    for variant, summary in case.variants.items():
        # Tuned trains the same model, and its own step may have no count.
        flops = case.metric(variant, FLOPS) or case.metric(BASELINE, FLOPS)
        if not flops or not measures_speed(variant):
            continue
        precision = _precision(case, variant, peaks)
        peak = peaks.get(precision)
        yield PeakUse(
            workload=case.name,
            device=case.device,
            variant=variant,
            flops_per_sample=flops,
            flops_per_s=flops * summary.throughput.median,
            precision=precision,
            measured_peak=peak.value.median * len(devices) if peak else None,
            sheet_peak=peak.sheet * len(devices) if peak and peak.sheet else None,
        )


def _precision(case: Case, variant: str, peaks: dict[str, Capability]) -> str:
    """Return the capability that a variant's products use: float32 is TF32 where the GPU has it."""
    chosen = [
        str(info.params.get("precision", ""))
        for trial in case.trials
        for info in trial.variants
        if info.variant == variant
    ]
    name = max(chosen, key=chosen.count, default="").removeprefix("mixed_")
    return _PRECISIONS.get(name) or ("tf32" if "tf32" in peaks else "fp32")
