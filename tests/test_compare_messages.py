import re
from dataclasses import replace

import pytest

from harness.analysis.versus import gate, versus
from harness.model.comparison import Extract, Section, Versus
from reports.compare_messages import headline, notes, warnings
from tests.comparisons import COMPARISONS, again, comparison, whole


def only(run: Extract, *, trials: int = 3) -> Extract:
    """Return a run with only `trials` trials of the baseline of its first workload on the CPU."""
    first = next(each for each in run.speeds if (each.device, each.variant) == ("cpu", "baseline"))
    return replace(run, speeds=(replace(first, throughput=first.throughput[:trials]),))


def line(compared: Versus) -> str:
    return headline(compared).replace("\u202f", " ")


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_headline_has_at_most_two_sentences(name: str) -> None:
    text = line(comparison(name))
    assert text.endswith(".")
    assert len(re.findall(r"\.(?: |$)", text)) <= 2


BASE = only(again(whole(3), 1, label="a", noise=0.001))
SLOW = only(again(whole(3), 2, label="b", noise=0.001, factor=0.8))


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (
            (BASE, SLOW),
            r"b is 0\.80× \(.*\) as fast as a, by .* of 1 workload\. Slower: .*, CPU, baseline \(0\.80×\)\.",
        ),
        ((BASE, again(BASE, 3, noise=0.001)), r".* No difference: 1 comparison\."),
        ((BASE, again(BASE, 3, noise=0.1)), r".* Undecided: 1 comparison\."),
        ((only(BASE, trials=1),) * 2, r".* Single trials cannot show a difference\."),
        ((BASE, replace(SLOW, speeds=())), r"No workload was measured in more than one run\."),
        (
            (BASE, SLOW, BASE),
            r"a \(2\), the fastest of the others, is 1\.00× .* as a, by .*\. Slower: b; no difference: 1 of 2 .*\.",
        ),
    ],
)
def test_headlines(runs: tuple[Extract, ...], expected: str) -> None:
    assert re.fullmatch(expected, line(versus(runs, reference=0)))


def test_warnings_name_smoke_runs_and_decisive_fields() -> None:
    base = whole(3)
    other = {**base.facts, Section.DATA: {**base.facts[Section.DATA], "cifar100-mlp": "other data"}}
    smoke = {**other, Section.SETTINGS: {"profile": "smoke"}}
    compared = versus([replace(base, label="a"), replace(base, label="b", facts=smoke)])
    *_, data, settings = warnings(compared, None)
    assert "Ignore the numbers of b." in headline(compared)
    assert "(cifar100-mlp)" in data
    assert "(profile)" in settings


def test_incomplete_runs_are_noted_once() -> None:
    base = whole(3)
    runs = [
        replace(base, label="sweep", swept=4, speeds=()),
        replace(base, label="empty", speeds=()),
        replace(base, label="b", speeds=()),
        replace(base, label="cut", unfinished=True, ok=1, planned=3),
        replace(base, label="whole"),
    ]
    runs = [replace(each, run_id=each.label) for each in runs]
    assert [text.partition(":")[0] for text in notes(versus(runs), None)] == ["sweep", "empty, b", "cut"]


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (SLOW, "1 of 1 speed slower than in a by 5.0 % or more"),
        (replace(SLOW, speeds=()), "1 speed measured in a only; nothing could be compared"),
        (only(SLOW, trials=1), "nothing could be compared"),
    ],
)
def test_a_failed_check_has_a_warning(new: Extract, reason: str) -> None:
    made = versus([BASE, new], reference=0)
    first, *_ = warnings(made, gate(made))
    assert first.replace("\u202f", " ").startswith(f"Check failed: {reason}")
    lenient = versus([BASE, new], reference=0, limit=0.5)
    assert not [text for text in warnings(lenient, gate(lenient)) if "slower" in text]


def test_what_the_runs_could_show_and_could_not_decide_is_noted() -> None:
    made = versus([BASE, again(BASE, 3, noise=0.1, trials=5)], reference=0)
    first, second = (text.replace("\u202f", " ") for text in notes(made, gate(made))[:2])
    assert re.fullmatch(r"These runs could show a difference of \d+ % or more\.", first)
    assert second.startswith("1 of 1 speed may be slower by 5.0 % or more")


def test_the_same_recording_fails_a_check_and_is_named() -> None:
    made = versus([BASE, replace(BASE, label="copy")], reference=0)
    check, copy = warnings(made, gate(made))
    assert check == "Check failed: copy: the same recording as a."
    assert copy.startswith("copy is the same recording as a")
