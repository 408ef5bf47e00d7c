"""Runs side by side: who is faster beyond doubt, what is not alike, and who falls out of its kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis import analyse
from harness.analysis.extract import extract
from harness.analysis.gate import gate
from harness.analysis.versus import MANY, versus
from harness.model.comparison import Extract, Outcome, Word
from tests import builders
from tests.comparisons import again, fleet, whole


def changed(run: Extract, section: str, field: str, value: str) -> Extract:
    facts = {**run.facts, section: {**run.facts[section], field: value}}
    return replace(run, facts=facts)


def outcomes(*runs: Extract) -> set[Outcome]:
    return {one.outcome for one in versus(runs).ratios if one.tested}


class TestExtract:
    def test_has_a_value_a_trial_of_every_variant(self) -> None:
        run = builders.gpu_run(trials=4)
        made = extract(analyse(run), label="lab")
        assert made.label == "lab"
        assert {(one.device, one.variant) for one in made.speeds} >= {("cpu", "tuned"), ("gpu0", "baseline")}
        assert all(len(one.throughput) == len(one.trial_ids) == 4 for one in made.speeds)

    def test_names_the_machine_and_its_limits(self) -> None:
        run = builders.gpu_run(trials=1)
        parameters = {**run.manifest.parameters, "options": {"cpus": "0-1", "cpu_quota": 1.5}}
        made = extract(analyse(replace(run, manifest=replace(run.manifest, parameters=parameters))))
        assert made.machine == ("1 × NVIDIA H200, 16 vCPU AMD EPYC 9354, on CPUs 0-1, 1.5 CPUs' time")

    @pytest.mark.parametrize(
        "settings", [({"trials": 3, "max_trials": 7}, True), ({"trials": 3, "max_trials": 3}, False)]
    )
    def test_knows_whether_the_interval_chose_the_trials(self, settings) -> None:
        run = builders.cpu_run(trials=1)
        run = replace(run, manifest=replace(run.manifest, parameters={"settings": settings[0]}))
        assert extract(analyse(run)).adaptive is settings[1]

    def test_names_the_family_of_images_and_the_version_of_its_framework(self) -> None:
        run = builders.cpu_run(trials=1)
        (trial,) = run.trials
        facts = {"xgboost": "3.0.0", "python": "3.13"}
        run = replace(run, workloads=(replace(run.workloads[0], image="trees"),))
        made = extract(analyse(replace(run, trials=(replace(trial, facts=facts),))))
        assert made.families == {"cifar100-mlp": "trees"}
        assert made.facts["software"]["xgboost"] == "3.0.0"

    @pytest.mark.parametrize(
        "run", [builders.bare_run, builders.empty_run, builders.failed_run, builders.hostile_run]
    )
    def test_of_whatever_is_left_of_a_run(self, run) -> None:
        made = extract(analyse(run()))
        assert versus((made, made)).headline


class TestOutcomes:
    def test_like_with_like_is_quiet(self) -> None:
        assert outcomes(again(whole(), 1), again(whole(), 2)) == {Outcome.SAME}

    def test_a_slowdown_is_slower_and_a_speed_up_is_faster(self) -> None:
        assert outcomes(again(whole(), 1), again(whole(), 2, factor=0.8)) == {Outcome.SLOWER}
        assert outcomes(again(whole(), 1), again(whole(), 2, factor=1.3)) == {Outcome.FASTER}

    def test_one_trial_says_nothing(self) -> None:
        assert outcomes(again(whole(), 1, trials=1), again(whole(), 2, factor=0.5, trials=1)) == {
            Outcome.UNKNOWN
        }

    def test_more_comparisons_make_each_more_careful(self) -> None:
        few = versus([again(whole(), seed) for seed in (1, 2)])
        many = versus([again(whole(), seed) for seed in range(1, 9)])
        assert many.tests == 7 * few.tests
        width = {len(made.runs): made.ratios[0].joint.high - made.ratios[0].joint.low for made in (few, many)}
        assert width[8] > width[2]
        assert many.ratios[0].ratio == few.ratios[0].ratio, "the interval of one ratio alone stays"

    def test_other_variants_are_shown_and_not_tested(self) -> None:
        made = versus([again(whole(), 1), again(whole(), 2)])
        assert {one.variant for one in made.ratios if not one.tested} == {"input-only", "model-only"}
        assert made.tests == sum(one.tested for one in made.ratios)

    def test_says_what_could_be_found_and_what_it_takes(self) -> None:
        made = versus([again(whole(), 1, noise=0.03), again(whole(), 2, noise=0.03)], target=0.05)
        one = made.ratios[0]
        assert one.detectable > 0.05
        assert one.trials_needed > 5


class TestStandings:
    def test_the_fastest_device_and_variant_counts(self) -> None:
        made = versus([again(whole(3), 1, label="cpu only"), again(whole(0), 2, label="card")])
        first = made.standings[0]
        assert made.runs[first.run].label == "card"
        best = {one.workload: (one.device, one.variant) for one in made.bests if one.run == first.run}
        assert best == {"cifar100-mlp": ("gpu0", "tuned"), "resnet50": ("gpu0", "tuned")}

    def test_what_did_not_learn_does_not_count(self) -> None:
        run = again(whole(), 1)
        bad = replace(
            run,
            speeds=tuple(
                replace(one, accuracy_ok=False if one.variant == "tuned" else None) for one in run.speeds
            ),
        )
        assert {one.variant for one in versus([bad, bad]).bests} == {"baseline"}

    def test_kinds_hold_the_runs_of_the_same_machines(self) -> None:
        made = versus([again(whole(kind), seed) for seed, kind in enumerate((0, 1, 0, 1, 3))])
        assert [len(kind.runs) for kind in made.kinds] == [2, 2, 1]
        assert made.kinds[0].machine.startswith("1 × NVIDIA H200")


class TestUnlike:
    @pytest.mark.parametrize(
        ("section", "field", "subject"),
        [("images", "cpu", "image"), ("data", "cifar100-mlp", "data"), ("driver", "driver_version", "driver"),
         ("profile and parameters", "profile", "profile"),
         ("workloads", "cifar100-mlp declaration", "workload"),
         ("software", "tensorflow", "software")],
    )  # fmt: skip
    def test_each_is_warned_of_by_name(self, section: str, field: str, subject: str) -> None:
        base = changed(whole(), section, field, "one")
        made = versus(
            [again(base, 1, label="old"), again(changed(base, section, field, "other"), 2, label="new")]
        )
        (warning,) = made.unlikes
        assert warning.subject == subject
        assert all(word in warning.sentence for word in ("one in old", "other in new", field))
        assert any(subject in one.unlike for one in made.ratios)

    @pytest.mark.parametrize(
        ("section", "field", "subject"),
        [("images", "trees-cpu", "image"), ("software", "xgboost", "software")],
    )
    def test_of_another_family_of_images_only_its_own_workloads(self, section, field, subject) -> None:
        base = replace(whole(3), families={"cifar100-mlp": "trees", "resnet50": "tensorflow"})
        made = versus([changed(base, section, field, value) for value in ("one", "other")])
        assert [one.subject for one in made.unlikes] == [subject]
        for one in made.ratios:
            assert one.unlike == ((subject,) if one.workload == "cifar100-mlp" else ())

    def test_the_machine_itself_may_differ(self) -> None:
        other = changed(whole(), "machine", "host_processor_model_name", "Xeon")
        made = versus([whole(), other])
        assert made.unlikes == ()
        (found,) = made.differences
        assert (found.field, found.values[1]) == ("host_processor_model_name", "Xeon")

    def test_what_one_side_does_not_know_is_no_warning(self) -> None:
        made = versus([whole(), changed(whole(), "driver", "driver_version", "")])
        assert made.unlikes == ()

    def test_another_batch_is_another_thing(self) -> None:
        run = again(whole(), 1)
        doubled = replace(
            run, speeds=tuple(replace(one, batch_size=2 * one.batch_size) for one in run.speeds)
        )
        found = {one.variant: one.unlike for one in versus([run, doubled]).ratios}
        assert found["baseline"] == ("batch size",)
        assert found["tuned"] == (), "a tuned variant chooses its own"


class TestFleet:
    def test_a_node_that_falls_out_of_its_kind_is_named_and_no_other(self) -> None:
        made = versus(fleet(90, slow=(31,)))
        assert made.reference is None
        assert {made.runs[one.run].label for one in made.ratios if one.outcome is Outcome.SLOWER} == {
            "node-031"
        }
        assert "node-031" in made.headline

    def test_kinds_are_not_slower_than_one_another(self) -> None:
        made = versus(fleet(60))
        assert {one.outcome for one in made.ratios if one.tested} == {Outcome.SAME}
        assert made.kinds[0].score.median > 5 * made.kinds[-1].score.median

    def test_a_named_reference_holds_for_any_number(self) -> None:
        assert versus(fleet(MANY + 10), reference=4).reference == 4

    def test_a_few_are_over_the_first(self) -> None:
        assert versus(fleet(MANY)).reference == 0

    def test_runs_of_one_name_are_told_apart(self) -> None:
        made = versus([again(whole(), seed, label="x") for seed in (1, 2, 3)])
        assert [run.label for run in made.runs] == ["x", "x (2)", "x (3)"]


class TestGate:
    def word(self, *, factor: float, noise: float = 0.002, limit: float = 0.05, trials: int = 5) -> set[Word]:
        runs = [
            again(whole(), 1, noise=noise, trials=trials),
            again(whole(), 2, noise=noise, factor=factor, trials=trials),
        ]
        return {one.word for one in gate(versus(runs, reference=0), limit).checks}

    def test_as_fast(self) -> None:
        assert self.word(factor=1.0) == {Word.WITHIN}

    def test_slower_by_more_than_the_limit(self) -> None:
        assert self.word(factor=0.9) == {Word.SLOWER}

    def test_slower_by_less(self) -> None:
        assert self.word(factor=0.98, noise=0.0005) == {Word.SLIGHTLY}

    def test_faster(self) -> None:
        assert self.word(factor=1.2) == {Word.WITHIN}

    def test_too_noisy_to_tell(self) -> None:
        assert self.word(factor=1.0, noise=0.2) == {Word.OPEN}
        assert self.word(factor=0.5, trials=1) == {Word.OPEN}

    def test_what_the_baseline_alone_has_is_missing(self) -> None:
        run = again(whole(), 2, label="new")
        without = replace(run, speeds=tuple(one for one in run.speeds if one.device == "cpu"))
        checked = gate(versus([again(whole(), 1), without], reference=0), 0.05)
        assert "new: resnet50 gpu0 tuned" in checked.missing
        assert gate(versus([without, run], reference=0), 0.05).missing == ()
