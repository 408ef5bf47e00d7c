"""The verdict in one or two sentences, from typed facts."""

from __future__ import annotations

from dataclasses import replace

from harness.analysis import analyse
from harness.model.analysis import PeakUse
from reports import numbers
from reports.overview import rows, verdict
from tests import builders, builders_requests


def said(analysis) -> str:
    return verdict(analysis, rows(analysis)).replace(numbers.SPACE, " ")


def test_cpu_and_gpu() -> None:
    analysis = analyse(builders.gpu_run())
    text = said(analysis)
    assert "limits" in text
    assert "fast as this machine's CPUs" in text
    assert "peak" not in text


def test_use_of_the_peak_is_a_range_over_workloads() -> None:
    analysis = analyse(builders.gpu_run())
    use = PeakUse(
        workload="a", device="gpu0", variant="baseline", flops_per_sample=1e6, flops_per_s=2e13, precision="tf32",
        measured_peak=4e14, sheet_peak=5e14,
    )  # fmt: skip
    used = (
        use,
        replace(use, workload="b", flops_per_s=4e13),
        replace(use, variant="tuned", flops_per_s=2e14),
    )
    text = said(replace(analysis, peak_use=used))
    assert "The code as written uses 5.0 to 10 % of the GPU's peak, tuned 50 %" in text
    # A CPU's peak is no GPU's.
    assert "peak" not in said(replace(analysis, peak_use=(replace(use, device="cpu"),)))


def test_nothing_measured_says_nothing() -> None:
    assert said(replace(analyse(builders.gpu_run()), summaries=(), findings=(), comparisons=())) == ""


def test_no_gain_is_said() -> None:
    analysis = analyse(builders.gpu_run())
    overview = [replace(row, gain=replace(row.gain, median=0.99)) for row in rows(analysis) if row.gain]
    assert "no change of the code made it faster" in verdict(analysis, overview)


def test_requests_within_the_bound_that_was_kept() -> None:
    text = said(analyse(builders_requests.serving_run()))
    assert "requests a second within" in text
