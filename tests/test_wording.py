"""Counts of things in sentences: nothing reads "1 runs" or "0 speeds"."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.analysis.gate import gate
from harness.analysis.versus import versus
from harness.model.comparison import Extract
from harness.rounding import counted, short_digests, three_digits
from reports.compare import render_html, render_markdown
from tests.comparisons import again, fleet, whole

# What a count of one or none must not be followed by; ratios and shares are no counts.
_ODD = re.compile(
    r"(?<![\d.,/–-])\b[01] (?:more )?"
    r"(?:runs|speeds|fields|comparisons|trends|kinds|changes|entries|trials|workloads|values|rules)\b"
)


@pytest.mark.parametrize(
    ("count", "said"), [(0, "no runs"), (1, "1 run"), (2, "2 runs"), (1200, "1,200 runs")]
)
def test_a_count(count: int, said: str) -> None:
    assert counted(count, "run") == said


def test_a_count_of_what_has_a_plural_of_its_own() -> None:
    assert [counted(one, "entry", "entries") for one in range(3)] == ["no entries", "1 entry", "2 entries"]


def only(run: Extract, *variants: str, trials: int = 3) -> Extract:
    """Give a run with these variants of its first workload on the CPU, and so many trials of each."""
    first = run.speeds[0].workload
    speeds = tuple(
        replace(one, throughput=one.throughput[:trials], trial_ids=one.trial_ids[:trials])
        for one in run.speeds
        if (one.workload, one.device) == (first, "cpu") and one.variant in variants
    )
    return replace(run, speeds=speeds)


def said(*runs: Extract, reference: int | None = 0) -> str:
    """Give all that a comparison of runs says, without their tags."""
    made = versus(runs, reference=reference)
    checked = gate(made, 0.05) if reference is not None else None
    made_page = render_html(made, {}, gate=checked, bundle=str)
    text = f"{made_page} {render_markdown(made, gate=checked)}"
    text = re.sub(r"<(script|style|svg|head)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


@pytest.mark.parametrize("trials", [1, 2, 3])
@pytest.mark.parametrize("variants", [("baseline",), ("baseline", "tuned"), ("input-only",), ()])
@pytest.mark.slow
def test_pages_of_few_things_count_them_properly(trials: int, variants: tuple[str, ...]) -> None:
    base = whole(3)
    first, second = (only(again(base, seed, trials=3), *variants, trials=trials) for seed in (1, 2))
    field = next(iter(second.facts["software"]))
    other = {**second.facts, "software": {**second.facts["software"], field: "another"}}
    for runs in ((first, second), (first, first), (first, replace(second, facts=other))):
        assert _ODD.findall(said(*runs)) == []
    assert _ODD.findall(said(first, second, reference=None)) == []


@pytest.mark.slow
def test_pages_of_many_runs_count_them_properly() -> None:
    for count in (9, 10, 25):
        assert _ODD.findall(said(*fleet(count, slow=(4,)), reference=None)) == []


def test_nothing_is_beyond_doubt_where_nothing_has_an_interval() -> None:
    runs = [only(again(whole(3), seed, trials=3), "baseline", trials=1) for seed in (1, 2)]
    text = said(*runs)
    assert "Compared at once no speeds" in text
    assert "nothing is beyond doubt" in text
    assert "over 200" not in text, "how many trials it would take is not known either"
    assert "The only comparison rests on a single trial and has no interval." in text


def test_no_difference_in_any_is_not_one_in_some() -> None:
    made = versus((whole(3), again(whole(3), 1, noise=0.02)), reference=0)
    count = len([one for one in made.ratios if one.tested])
    assert f"No difference could be shown in any of {count} comparisons." in made.headline


class TestHeadlinesNameTheirLegs:
    def test_of_one_workload(self) -> None:
        base = only(whole(3), "baseline")
        made = versus((base, again(base, 1)), reference=0)
        assert f"on {base.speeds[0].workload} (baseline on cpu)" in made.headline

    def test_of_one_workload_with_another_variant_on_each_side(self) -> None:
        base = whole(3)
        made = versus((only(base, "baseline"), only(again(base, 1), "baseline", "tuned")), reference=0)
        assert "(tuned on cpu against baseline on cpu)" in made.headline

    def test_of_several_workloads(self) -> None:
        base = whole(0)
        made = versus((base, again(base, 1)), reference=0)
        assert "over 2 workloads (" in made.headline
        (way,) = re.findall(r"over 2 workloads \(([^)]*)\)", made.headline)
        ways = {f"{one.variant} on {one.device}" for one in made.bests}
        assert way in ways if len(ways) == 1 else way == "each run's fastest device and variant"

    def test_of_many_runs(self) -> None:
        made = versus(fleet(25), reference=None)
        assert "(each run's fastest device and variant)" in made.headline


@pytest.mark.parametrize(
    ("value", "said"), [(0.09514, "0.0951"), (8.33, "8.33"), (61, "61.0"), (1007.2, "1,007"), (0, "0")]
)
def test_three_digits(value: float, said: str) -> None:
    assert three_digits(value) == said


def test_digests_are_cut_wherever_they_stand_and_nothing_else_is() -> None:
    one, name = "0123456789abcdef" * 4, "tfbench-base:b70015400409"
    assert short_digests(f"sha256:{one} and {one}, {name}") == f"0123456789ab and 0123456789ab, {name}"
