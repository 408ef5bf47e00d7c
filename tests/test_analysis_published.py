"""Measured beside published: units, ranges, variants, and why the two differ, told from the run alone."""

from __future__ import annotations

from dataclasses import replace

from harness.analysis import analyse
from harness.model.analysis import PublishedComparison
from harness.model.run import Run
from tests.builders import cpu_run, gpu_run
from workloads.protocol import Published


def beside(run: Run, **fields: object) -> PublishedComparison:
    """Return the comparison of one published number of the first workload on its first device."""
    plain = {
        "source": "A blog, 2020",
        "system": "Some GPU",
        "device": "gpu",
        "unit": "samples/s",
        "value": 100.0,
    }
    number = Published(**{**plain, **fields})  # type: ignore[arg-type]
    first = replace(run.workloads[0], published=(number,))
    return analyse(replace(run, workloads=(first, *run.workloads[1:]))).published[0]


def speed(run: Run, device: str) -> float:
    return next(
        one.throughput.median
        for one in analyse(run).summaries
        if (one.workload, one.device, one.variant) == (run.workloads[0].name, device, "baseline")
    )


def test_the_factor_is_a_speed_whatever_the_unit() -> None:
    run = gpu_run()
    here = speed(run, "gpu0")
    one = beside(run, value=here / 4)
    assert one.factor is not None
    assert one.factor.median == 4
    assert one.reasons[0].startswith("This machine runs at 4 times what was published")
    seconds = beside(run, unit="s", value=1e9)
    assert seconds.factor is not None
    assert seconds.measured is not None
    assert seconds.factor.median == 1e9 / seconds.measured.median, "less time is more speed"


def test_a_published_range_is_compared_by_its_nearer_end() -> None:
    run = gpu_run()
    here = speed(run, "gpu0")
    inside = beside(run, value=here * 0.9, upto=here * 1.2)
    assert inside.factor is not None
    assert inside.factor.median == 1
    assert "no clear difference" in inside.reasons[0]
    below = beside(run, value=here * 2, upto=here * 3)
    assert below.factor is not None
    assert below.factor.median == 0.5


def test_what_was_published_under_other_settings_says_how_to_measure_the_like() -> None:
    one = beside(gpu_run(), variant="opt:no-augment", note="without augmentation")
    assert "baseline" in one.measured_label
    assert any("--variants baseline,opt:no-augment" in text for text in one.reasons)
    assert not any("--variants" in text for text in beside(gpu_run()).reasons)


def test_reasons_name_hardware_software_and_data_of_this_run() -> None:
    run = gpu_run()
    text = " ".join(beside(run).reasons)
    assert run.manifest.gpus[0].name in text
    assert "Some GPU there" in text
    versions = {trial.facts.get("tensorflow") for trial in run.trials}
    assert all(f"TensorFlow {version}" in text for version in versions if version)
    for data in run.manifest.data:
        if data.workload == run.workloads[0].name:
            assert ("Other data" in text) == (data.kind != "real")


def test_parameters_that_were_set_are_named() -> None:
    run = gpu_run()
    manifest = replace(run.manifest, parameters={**run.manifest.parameters, "params": {"batch_size": 64}})
    assert any("batch_size=64" in text for text in beside(replace(run, manifest=manifest)).reasons)
    assert not any("batch_size=64" in text for text in beside(run).reasons)


def test_a_training_time_says_what_it_leaves_out() -> None:
    one = beside(cpu_run(), device="cpu", unit="s", value=1000.0)
    assert any("until steady state" in text for text in one.reasons)
    assert not any("until steady state" in text for text in beside(cpu_run(), device="cpu").reasons)


def test_accuracy_and_utilisation_are_shares_and_have_no_factor() -> None:
    run = gpu_run()
    accuracy = beside(run, unit="accuracy", value=0.8)
    assert accuracy.factor is None
    assert accuracy.measured is not None
    assert 0 <= accuracy.measured.median <= 1
    assert "80 % published" in accuracy.reasons[0]
    busy = beside(run, unit="utilisation", value=0.0, upto=1.0)
    assert busy.factor is None
    if busy.measured is not None:
        assert "as published" in busy.reasons[0]


def test_the_gain_by_tuning() -> None:
    run = gpu_run()
    found = analyse(run)
    gain = next(
        one.ratio.median
        for one in found.comparisons
        if one.kind == "tuned-over-baseline" and one.numerator == "gpu0/tuned"
        and one.workload == run.workloads[0].name
    )  # fmt: skip
    one = beside(run, unit="gain", value=gain)
    assert one.factor is not None
    assert one.factor.median == 1


def test_nothing_measured_has_no_reasons() -> None:
    one = beside(cpu_run(), device="gpu")
    assert (one.measured, one.factor, one.reasons) == (None, None, ())
