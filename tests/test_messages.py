from dataclasses import replace

import pytest

from harness.model.analysis import (
    Ablation,
    Cause,
    Caveat,
    CaveatKind,
    Estimate,
    Finding,
    Part,
    Remedy,
    StepTime,
)
from reports import numbers
from reports.messages import (
    PART_TEXTS,
    caveat_lines,
    explanation,
    fix,
    gain,
    gain_alone,
    limit,
    trust,
)
from tests.report_pages import analysis
from workloads.protocol import BASELINE, TUNED

FACTS = {
    "cpus": 4.0, "cpus_used": 3.9, "serial": 0.0,
    "dram": 0.71, "sm": 0.3, "tensor": 0.4, "time": 0.2, "accuracy": 0.01, "needed": 0.5,
}  # fmt: skip


def of(median: float, unit: str = "share") -> Estimate:
    return Estimate(median=median, low=median * 0.9, high=median * 1.1, n=3, unit=unit)


def finding(cause: Cause, *parts: Part, share: float | None = 0.5, **facts: float) -> Finding:
    known = of(share) if share else None
    return Finding(workload="w", device="gpu0", cause=cause, parts=parts, share=known, gain=2.0, facts=facts)


def plain(text: str) -> str:
    return text.replace(numbers.SPACE, " ")


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("facts", [{}, FACTS], ids=["without facts", "with facts"])
def test_every_cause_has_an_explanation_a_limit_and_a_fix(cause: Cause, facts: dict[str, float]) -> None:
    each = finding(cause, **facts)
    text = explanation(each)
    assert text.endswith(".")
    assert not text[0].islower()
    assert limit(each, None)
    assert fix(each)


@pytest.mark.parametrize("kind", CaveatKind)
def test_every_caveat_has_a_sentence(kind: CaveatKind) -> None:
    caveat = Caveat(kind=kind, workload="w", device="gpu1", variant=TUNED, value=0.2, text="its text")
    ((text, subjects),) = caveat_lines([caveat], notes=caveat.is_note)
    assert subjects == "w on GPU, tuned"
    assert len(text) > 5
    assert "None" not in text
    assert caveat_lines([caveat], notes=not caveat.is_note) == []


def test_every_part_has_a_text() -> None:
    assert PART_TEXTS.keys() == set(Part)


def test_caveats_of_a_kind_are_grouped_with_the_worst_value() -> None:
    readings = (("WIDE_INTERVAL", 0.06, ""), ("WIDE_INTERVAL", 0.28, ""), ("WIDE_INTERVAL", 0.1, ""),
                ("FAILED_TRIALS", 2, "failed. boom"), ("FAILED_TRIALS", 1, "timeout."))  # fmt: skip
    caveats = [Caveat(kind=CaveatKind[kind], source=str(n), value=n, text=text) for kind, n, text in readings]
    first, second, third = caveat_lines(caveats, notes=False)
    assert "3 intervals" in first[0] and "±28 %" in plain(first[0])
    assert first[1] == "0.06, 0.28, 0.1"
    # Separate, because the reasons differ.
    assert (second[0], third[0]) == ("2 trials failed. boom", "1 trial timeout.")


@pytest.mark.parametrize(
    ("each", "text"),
    [
        (finding(Cause.INPUT, Part.INPUT_WAIT, share=0.94), "input 94 %"),
        (finding(Cause.LAUNCH, Part.LAUNCH, share=0.55), "launch 55 %"),
        (finding(Cause.RUN_EAGERLY, Part.FRAMEWORK, share=0.4), "framework 40 % (run_eagerly)"),
        (finding(Cause.QUOTA, Part.HOST, share=0.3), "host 30 % (CPU quota)"),
        (finding(Cause.MEMORY_BANDWIDTH, Part.COMPUTE, share=0.7), "compute 70 % (memory bandwidth)"),
        (finding(Cause.HEAT, Part.COMPUTE, share=0.1), "heat 10 %"),
        (finding(Cause.IMPOSSIBLE, share=0.3), "impossible measurement"),
        (None, "not analysed"),
    ],
)
def test_limits(each: Finding | None, text: str) -> None:
    assert plain(limit(each, None)) == text


def test_a_cause_smaller_than_compute_is_named_after_it() -> None:
    parts = {Part.COMPUTE: of(0.006, "s"), Part.LAUNCH: of(0.002, "s")}
    total = of(0.01, "s")
    time = StepTime(workload="w", device="cpu", variant="baseline", batch=32, total=total, parts=parts)
    text = plain(limit(finding(Cause.LAUNCH, Part.LAUNCH, share=0.2), time))
    assert text == "compute 60 %, then launch 20 %"


def test_gains_of_single_fixes_and_of_all_fixes() -> None:
    item = finding(Cause.LAUNCH, Part.LAUNCH)
    assert gain(item, None) == "Predicted without it: 2.0×."
    tuned = replace(item, remedy=Remedy(variant=TUNED, gain=of(3.1, "ratio"), alone=True))
    assert gain_alone(tuned) == ""
    assert gain(tuned, of(3.1, "ratio")).endswith("All fixes together (tuned): 3.1×.")
    single = replace(
        item,
        ablation=Ablation(variant="without:launch", predicted=of(2.2, "ratio"), gain=of(2.1, "ratio")),
        remedy=Remedy(variant="opt:xla", gain=of(1.6, "ratio"), alone=True),
    )
    assert (
        gain(single, None)
        == "As a test, multiple steps per call: 2.1× (predicted 2.2×). This fix, xla: 1.6×."
    )
    mixed = replace(single, remedy=replace(single.remedy, alone=False))
    slower = replace(single, remedy=replace(single.remedy, gain=of(0.72, "ratio")))
    assert [gain_alone(each) for each in (None, item, mixed)] == ["", "", ""]
    assert gain_alone(slower) == "tried: 0.72×, do not apply"


def test_the_variant_that_does_not_learn_is_named() -> None:
    for tuned, name in ((0.0, BASELINE), (1.0, TUNED)):
        assert name in explanation(finding(Cause.NOT_LEARNING, share=None, tuned=tuned))


def test_impossible_measurements_are_explained_with_numbers() -> None:
    faster = replace(finding(Cause.IMPOSSIBLE, share=0.3), variants=("baseline", "model-only"))
    assert "faster than model alone" in explanation(faster)
    copied = finding(Cause.IMPOSSIBLE, share=0.3, bytes_per_s=9e10, link_bytes_per_s=3.2e10)
    assert "90 GB/s over a 32 GB/s link" in explanation(copied)


def test_trust_counts_the_speeds_with_a_narrow_interval() -> None:
    assert trust(analysis("empty"))[1] == "alert"
    assert trust(analysis("bare")) == ("1 trial: no intervals, indicative only", "notice")
    text, level = trust(analysis("cpu"))
    assert (plain(text), level) == ("2 of 2 speeds within ±5 %", "good")
