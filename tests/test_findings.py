from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.model.analysis import Cause, Finding
from harness.model.run import Metric, Run
from reports import causes
from reports.causes import explanation, fix
from reports.messages import limit
from tests.builders import BUSY_GPU, GpuLoad, VariantSpeed, run, taking
from workloads.protocol import (
    BATCH_BYTES,
    BETWEEN_EPOCHS,
    CALLBACKS,
    COMPUTE_BITS,
    EPOCH_CALLBACK_PREFIX,
    FILLING,
    PYTHON_IN_STEP,
    RARE_CALLBACKS,
    RECURRENT_PREFIX,
    VARIABLE_PREFIX,
)
from workloads.variants import (
    BASELINE,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    TUNED,
    WITHOUT_EPOCHS,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
)

FRAMEWORK: Mapping[str, VariantSpeed] = {
    BASELINE: taking(40), TUNED: taking(5), INPUT_ONLY: taking(1), MODEL_ONLY: taking(10),
    CUSTOM_LOOP: taking(10, wait_share=0.0),
}  # fmt: skip
INPUT = {**FRAMEWORK, CUSTOM_LOOP: taking(40, wait_share=0.75), INPUT_ONLY: taking(40)}


def first(played: Run) -> Finding:
    return analyse(played).cases[0].findings[0]


def with_metrics(played: Run, **values: float) -> Run:
    metrics = tuple(Metric(variant=BASELINE, name=name, value=value) for name, value in values.items())
    trials = tuple(replace(trial, metrics=(*trial.metrics, *metrics)) for trial in played.trials)
    return replace(played, trials=trials)


def with_params(played: Run, **params: bool) -> Run:
    trials = [
        replace(
            each, variants=tuple(replace(info, params={**info.params, **params}) for info in each.variants)
        )
        for each in played.trials
    ]
    return replace(played, trials=tuple(trials))


@pytest.mark.parametrize(
    ("metrics", "cause"),
    [
        ({CALLBACKS: 0.025}, Cause.CALLBACKS),
        ({CALLBACKS: 0.0001}, Cause.CALLBACKS),
        ({PYTHON_IN_STEP: 0.0}, Cause.KERAS_LOOP),
        ({}, Cause.KERAS_LOOP),
    ],
)
def test_the_framework_part_has_a_cause(metrics: dict[str, float], cause: Cause) -> None:
    finding = first(with_metrics(run({"gpu0": FRAMEWORK}, noise=0.001, min_accuracy=0), **metrics))
    assert finding.cause is cause
    assert finding.share.median == pytest.approx(0.75, abs=0.02)
    assert finding.gain == pytest.approx(4.0, rel=0.1)


def test_an_eager_step_is_the_cause_also_where_the_call_has_not_ended() -> None:
    played = run({"gpu0": FRAMEWORK}, noise=0.001, min_accuracy=0)
    assert first(with_params(played, run_eagerly=True)).cause is Cause.RUN_EAGERLY


@pytest.mark.parametrize(
    ("params", "advice"),
    [
        ({"validates": True}, "validation"),
        ({}, "samples per epoch"),
        ({"epochs": 1}, "samples per epoch"),
        ({"trains": False}, "predict_on_batch"),
    ],
)
def test_time_between_epochs_is_that_around_the_only_one_and_between_calls_of_predict(
    params: dict[str, object], advice: str
) -> None:
    played = with_metrics(run({"gpu0": FRAMEWORK}, noise=0.001, min_accuracy=0), **{BETWEEN_EPOCHS: 0.2})
    finding = first(with_params(played, **params))
    assert finding.cause is Cause.EPOCHS
    assert advice in fix(finding)
    assert ("validation" in explanation(finding)) is ("validates" in params)
    assert ("between calls" in limit(finding, None)) is ("trains" in params)
    assert ("before and after the epoch" in limit(finding, None)) is ("epochs" in params)
    assert ("before and after the epoch" in explanation(finding)) is ("epochs" in params)


def test_without_callbacks_the_loop_of_keras_stays() -> None:
    played = run({"gpu0": {**FRAMEWORK, WITHOUT_FRAMEWORK: taking(15)}}, noise=0.001, min_accuracy=0)
    for eager, left_ms in ((False, 15), (True, 10)):
        finding = first(with_params(with_metrics(played, **{CALLBACKS: 0.025}), run_eagerly=eager))
        assert finding.ablation.predicted.median == pytest.approx(40 / left_ms, rel=0.02)


def test_slow_input_is_the_cause_and_fast_input_only_lacks_overlap() -> None:
    finding = first(run({"gpu0": {**INPUT, WITHOUT_INPUT: taking(12)}}, noise=0.001, min_accuracy=0))
    assert (finding.cause, finding.ablation.variant) == (Cause.INPUT, WITHOUT_INPUT)
    assert finding.ablation.predicted.median == pytest.approx(finding.ablation.gain.median, rel=0.25)
    serial = {**INPUT, INPUT_ONLY: taking(8), BASELINE: taking(18), CUSTOM_LOOP: taking(18, wait_share=0.44)}
    played = run({"gpu0": serial}, noise=0.001, min_accuracy=0)
    assert first(played).cause is Cause.OVERLAP
    finding = first(with_params(played, prefetches=True))
    assert finding.cause is Cause.INPUT
    assert "not beside the training" in explanation(finding) and "prefetch" not in fix(finding)
    assert first(run({"gpu0": FRAMEWORK}, accuracy=0.01, min_accuracy=0.5)).cause is Cause.NOT_LEARNING
    finding = first(run({"gpu0": {**FRAMEWORK, MODEL_ONLY: taking(80)}}, noise=0.001, min_accuracy=0))
    assert finding.cause is Cause.IMPOSSIBLE and finding.share.median > 0.9


def test_input_that_alone_is_slower_than_training_is_the_cause() -> None:
    """Training draws on a buffer, or on cheaper samples that come first, while it is measured."""
    speeds = {**FRAMEWORK, INPUT_ONLY: taking(80), CUSTOM_LOOP: taking(40), MODEL_ONLY: taking(20)}
    finding = first(run({"gpu0": {**speeds, BASELINE: taking(40)}}, noise=0.001, min_accuracy=0))
    assert (finding.cause, finding.share.median) == (Cause.INPUT, pytest.approx(0.75, abs=0.02))
    assert finding.facts["later"] == pytest.approx(32 / 0.08, rel=0.02)
    assert finding.ablation is None, "what is fed from memory was not compared with later input"


def test_a_copy_faster_than_the_link_is_impossible() -> None:
    """The link of an H200 has 16 lanes of PCIe 5: 63 GB/s, or 2.5 GB in 40 ms."""
    speeds = {**FRAMEWORK, CUSTOM_LOOP: taking(40, wait_share=0.0), HOST_FED: taking(40)}
    played = run({"gpu0": speeds}, noise=0.001, min_accuracy=0)
    assert first(with_metrics(played, **{BATCH_BYTES: 1.5e9})).cause is Cause.COPY
    assert first(with_metrics(played, **{BATCH_BYTES: 9e9})).cause is Cause.IMPOSSIBLE
    # The other GPU has the link, but the run used the one on four lanes.
    (gpu,) = played.manifest.gpus
    slower = replace(played.manifest, gpus=(replace(gpu, pcie_width=4), gpu))
    narrow = with_metrics(replace(played, manifest=slower), **{BATCH_BYTES: 1.5e9})
    assert first(narrow).cause is Cause.IMPOSSIBLE
    faster = run({"gpu1": speeds}, noise=0.001, min_accuracy=0)
    assert first(with_metrics(replace(faster, manifest=slower), **{BATCH_BYTES: 1.5e9})).cause is Cause.COPY


@pytest.mark.parametrize(
    ("input_ms", "python_s", "rare_s", "left_ms"),
    [(1, 0.0, 0.0, 3), (5, 0.0, 0.0, 7), (1, 0.004, 0.0, 7), (1, 0.0, 0.004, 7)],
)
def test_several_steps_per_call_still_fetch_their_batches_save_and_run_their_python(
    input_ms: float, python_s: float, rare_s: float, left_ms: float
) -> None:
    for device, load in (("cpu", None), ("gpu0", GpuLoad(util=5, power_w=120))):
        idle = replace(taking(10), load=load)
        speeds = {BASELINE: idle, MODEL_ONLY: idle, CUSTOM_LOOP: replace(idle, wait_share=0.0),
                  INPUT_ONLY: taking(input_ms), "batch:4": replace(idle, batch=128),
                  "calls:10": taking(2 + python_s * 1e3), WITHOUT_LAUNCH: taking(5)}  # fmt: skip
        played = with_metrics(
            run({device: speeds}, noise=0.001, min_accuracy=0),
            **{PYTHON_IN_STEP: python_s, RARE_CALLBACKS: rare_s},
        )
        causes = {each.cause: each.ablation for each in analyse(played).cases[0].findings}
        ablation = causes.get(Cause.LAUNCH)
        if device == "cpu" and python_s:
            assert ablation is None, "Python in the step is none of its launches"
        elif device == "cpu":
            assert ablation.predicted.median == pytest.approx(10 / left_ms, rel=0.03)
        else:
            assert ablation.predicted is None, "a GPU's calls fetch their batches while it computes"


def test_the_remedy_is_the_change_with_the_largest_gain_or_tuned() -> None:
    idle = replace(taking(10), load=GpuLoad(util=5, power_w=120))
    speeds = {BASELINE: idle, TUNED: taking(5), INPUT_ONLY: taking(1), MODEL_ONLY: idle,
              CUSTOM_LOOP: replace(idle, wait_share=0.0), "batch:4": replace(idle, batch=128),
              "calls:10": taking(2)}  # fmt: skip
    finding = first(run({"gpu0": speeds}, noise=0.001, min_accuracy=0))
    assert finding.cause is Cause.LAUNCH
    assert finding.remedy.variant == TUNED and not finding.remedy.alone
    assert finding.remedy.gain.median == pytest.approx(2.0, rel=0.02)
    # Prefetching answers another cause.
    tried = {"fix:xla": taking(8), "fix:steps-per-execution": taking(6), "fix:prefetch": taking(4)}
    finding = first(run({"gpu0": {**speeds, **tried}}, noise=0.001, min_accuracy=0))
    assert finding.remedy.variant == "fix:steps-per-execution" and finding.remedy.alone
    assert finding.remedy.gain.median == pytest.approx(10 / 6, rel=0.02)


BUSY: Mapping[str, VariantSpeed] = {
    BASELINE: taking(10), MODEL_ONLY: taking(10), INPUT_ONLY: taking(1), CUSTOM_LOOP: taking(10, wait_share=0.0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("device", "bits", "gain", "cause"),
    [
        ("cpu", 16, 4.0, Cause.PRECISION), ("cpu", 16, None, Cause.COMPUTE), ("cpu", 32, None, Cause.COMPUTE),
        # A CPU with matrix units for it.
        ("cpu", 16, 0.5, Cause.COMPUTE), ("gpu0", 16, None, Cause.COMPUTE), ("gpu0", 64, 2.0, Cause.PRECISION),
    ],
)  # fmt: skip
def test_a_precision_in_which_the_device_is_slow_is_the_cause(device, bits, gain, cause) -> None:
    tried = {"fix:precision": taking(10 / gain)} if gain else {}
    speeds = {
        name: replace(speed, load=BUSY_GPU if device == "gpu0" else None) for name, speed in BUSY.items()
    }
    played = run({device: {**speeds, **tried}}, noise=0.001, min_accuracy=0)
    finding = first(with_metrics(played, **{COMPUTE_BITS: bits}))
    assert finding.cause is cause and finding.share.median > 0.9
    if cause is Cause.PRECISION and gain:
        assert finding.remedy.variant == "fix:precision"
    untried = (device, bits, gain) == ("cpu", 16, None)
    assert ("float32 was not measured" in explanation(finding)) is untried


@pytest.mark.parametrize(("callbacks_ms", "named"), [(40, ("Confusion", "Memory")), (4, ())])
def test_callbacks_that_take_the_time_between_epochs_are_named_and_left_out_as_a_test(
    callbacks_ms, named
) -> None:
    speeds = {name: taking(10) for name in (BASELINE, MODEL_ONLY, WITHOUT_FRAMEWORK)}
    metrics = {BETWEEN_EPOCHS: 0.05, f"{EPOCH_CALLBACK_PREFIX}Memory": callbacks_ms * 0.25e-3,
               f"{EPOCH_CALLBACK_PREFIX}Confusion": callbacks_ms * 0.75e-3}  # fmt: skip
    played = with_metrics(run({"cpu": speeds}, noise=0.001, min_accuracy=0), **metrics)
    assert first(played).ablation is None, "none ran through the end of an epoch without callbacks"
    own = Metric(variant=WITHOUT_FRAMEWORK, name=BETWEEN_EPOCHS, value=0.001)
    trials = tuple(replace(each, metrics=(*each.metrics, own)) for each in played.trials)
    finding = first(replace(played, trials=trials))
    assert finding.cause is Cause.EPOCHS and finding.stages == named
    if named:
        assert finding.ablation.variant == WITHOUT_FRAMEWORK
        assert finding.ablation.predicted.median == pytest.approx(3, rel=0.05)


def test_of_changes_that_were_left_out_the_reason_of_the_least_one_is_told() -> None:
    reasons = {
        "fix:precision": "float16 is not taken.",
        "fix:xla": "No kernel for XLA.",
        "fix:cache": "It is shuffled.",
    }
    played = run({"cpu": {BASELINE: taking(10), MODEL_ONLY: taking(10)}}, noise=0.001, min_accuracy=0)
    trials = tuple(replace(each, left_out=reasons) for each in played.trials)
    finding = first(replace(played, trials=trials))
    assert finding.cause is Cause.COMPUTE and finding.refused == "No kernel for XLA."


def test_ends_of_epochs_that_differ_have_a_wide_share() -> None:
    """Of a step of 20 ms, they take 10 ms in the mean, as trials differ by a tenth or by half."""

    def width(times_s: Sequence[float]) -> float:
        played = run({"cpu": {BASELINE: taking(10), MODEL_ONLY: taking(10)}}, noise=0.001, min_accuracy=0)
        times = dict(zip((trial.id for trial in played.trials), times_s, strict=True))
        told = (
            replace(each, metrics=(Metric(variant=BASELINE, name=BETWEEN_EPOCHS, value=times[each.id]),))
            for each in played.trials
        )
        finding = first(replace(played, trials=tuple(told)))
        assert finding.share.median == pytest.approx(0.5, abs=0.02)
        return finding.share.high - finding.share.low

    wide = width([0.005, 0.0075, 0.01, 0.0125, 0.015])
    assert 0.01 < width([0.009, 0.0095, 0.01, 0.0105, 0.011]) < 0.5 * wide


def test_one_long_epoch_shows_what_epochs_add_to_their_steps() -> None:
    """Of 5 ms a step, 1 ms is between epochs, and 1 ms more falls into the first steps of each."""
    speeds = {
        BASELINE: taking(4), MODEL_ONLY: taking(2), CUSTOM_LOOP: taking(3, wait_share=0.0),
        WITHOUT_EPOCHS: taking(3),
    }  # fmt: skip
    played = run({"cpu": speeds}, noise=0.001, min_accuracy=0)
    zero = Metric(variant=WITHOUT_EPOCHS, name=BETWEEN_EPOCHS, value=0.0)
    played = replace(
        played, trials=tuple(replace(each, metrics=(*each.metrics, zero)) for each in played.trials)
    )
    finding = first(with_metrics(played, **{BETWEEN_EPOCHS: 0.001}))
    assert finding.cause is Cause.EPOCHS and finding.share.median == pytest.approx(0.4, abs=0.02)
    assert finding.ablation.variant == WITHOUT_EPOCHS and finding.ablation.predicted is None
    assert finding.ablation.gain.median == pytest.approx(5 / 3, rel=0.02)


@pytest.mark.parametrize(
    ("layer", "larger_ms", "cause"),
    [("lstm: recurrent_dropout=0.2", 11, Cause.RECURRENT), ("lstm: unroll=True", 38, Cause.COMPUTE),
     ("", 11, Cause.COMPUTE)],
)  # fmt: skip
def test_a_recurrent_layer_without_cudnns_kernel_is_the_cause_where_its_time_does_not_grow(
    layer, larger_ms, cause
) -> None:
    speeds = {name: replace(speed, load=BUSY_GPU) for name, speed in BUSY.items()}
    larger = {"batch:4": replace(taking(larger_ms), batch=128, load=BUSY_GPU)}
    played = run({"gpu0": {**speeds, **larger, "fix:cudnn-kernel": taking(2)}}, noise=0.001, min_accuracy=0)
    finding = first(with_metrics(played, **({f"{RECURRENT_PREFIX}{layer}": 1.0} if layer else {})))
    assert finding.cause is cause
    if cause is Cause.RECURRENT:
        assert finding.stages == (layer,) and finding.share.median > 0.9
        assert finding.remedy.variant == "fix:cudnn-kernel"


@pytest.mark.parametrize(
    ("util", "larger_ms", "cause"),
    [(82, None, Cause.COMPUTE), (70, None, Cause.LAUNCH), (82, 33, Cause.LAUNCH), (82, 40, Cause.COMPUTE)],
)
def test_little_idle_time_of_a_gpu_is_launch_only_if_a_larger_batch_confirms_it(
    util, larger_ms, cause
) -> None:
    load = GpuLoad(util=util, power_w=400)
    speeds = {name: replace(speed, load=load) for name, speed in BUSY.items()}
    if larger_ms:
        speeds["batch:4"] = replace(taking(larger_ms), batch=128, load=load)
    assert first(run({"gpu0": speeds}, noise=0.001, min_accuracy=0)).cause is cause


@pytest.mark.parametrize(
    ("calls_ms", "text", "tried"),
    [(9.8, "several steps per call save only", "a larger batch: alone, the model is 3.64× as fast with one"),
     (4, "waits for Python", "untested: multiple steps per call, compiled with XLA")],
)  # fmt: skip
def test_a_gpu_that_idles_between_the_kernels_of_a_step_needs_larger_batches(calls_ms, text, tried) -> None:
    load = GpuLoad(util=40, power_w=400)
    speeds = {name: replace(speed, load=load) for name, speed in BUSY.items()}
    speeds |= {"batch:4": replace(taking(11), batch=128, load=load), "calls:10": taking(calls_ms)}
    finding = first(run({"gpu0": speeds}, noise=0.0, min_accuracy=0))
    assert finding.cause is Cause.LAUNCH and text in explanation(finding)
    assert causes.advice(finding) == tried


@pytest.mark.parametrize(
    ("elements", "larger_ms", "cause"),
    [(1e8, 11, Cause.UPDATE), (1e8, 38, Cause.COMPUTE), (1e4, 11, Cause.COMPUTE), (4e6, 11, Cause.COMPUTE)],
)
def test_an_update_of_a_large_variable_does_not_grow_with_the_batch(elements, larger_ms, cause) -> None:
    larger = {"batch:4": replace(taking(larger_ms), batch=128)}
    played = run({"gpu0": {**BUSY, **larger}}, noise=0.001, min_accuracy=0)
    finding = first(with_metrics(played, **{f"{VARIABLE_PREFIX}table/embeddings": elements}))
    assert finding.cause is cause
    if cause is Cause.UPDATE:
        assert finding.stages == ("table/embeddings",)
        assert finding.share.median == pytest.approx(1 - 0.1 / 3, abs=0.06)


def test_an_input_that_gets_slower_is_found_although_its_interval_includes_zero() -> None:
    """Trials with and without a full buffer."""
    waits = [taking(40, wait_share=share) for share in (0.0, 0.75, 0.75)]
    played = run({"gpu0": INPUT}, noise=0.001, min_accuracy=0, trials=3)
    trials = []
    for trial, speed in zip(played.trials, waits, strict=True):
        windows = tuple(
            replace(window, wait_ns=round((window.end_ns - window.start_ns) * speed.wait_share))
            if window.variant == CUSTOM_LOOP else window
            for window in trial.windows
        )  # fmt: skip
        trials.append(replace(trial, windows=windows))
    finding = first(replace(played, trials=tuple(trials)))
    assert finding.cause is Cause.INPUT and finding.share.low < 0.01 and finding.share.high <= 1.0


def test_a_shuffle_buffer_that_each_epoch_fills_is_input() -> None:
    played = run({"gpu0": FRAMEWORK}, noise=0.001, min_accuracy=0)
    for filling, cause in ((0.0, Cause.EPOCHS), (0.19, Cause.INPUT)):
        filled = Metric(variant=CUSTOM_LOOP, name=FILLING, value=filling)
        ends = with_metrics(played, **{BETWEEN_EPOCHS: 0.2})
        trials = tuple(replace(each, metrics=(*each.metrics, filled)) for each in ends.trials)
        (case,) = analyse(replace(ends, trials=trials)).cases
        assert case.findings[0].cause is cause
        assert sum(part.median for part in case.breakdown(BASELINE).parts.values()) == pytest.approx(
            case.breakdown(BASELINE).total.median, rel=0.01
        )
