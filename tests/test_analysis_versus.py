import itertools
from dataclasses import replace

import pytest

from benchmarks.reference import to_json
from harness.analysis import analyse
from harness.analysis.extract import extract, facts
from harness.analysis.versus import gate, versus
from harness.errors import StoreError
from harness.model.comparison import Extract, Outcome, Section
from harness.model.workload import BESIDE
from harness.options import Options
from harness.run.recording import read_extract_file
from reports.compare_page import shown_runs
from tests import builders
from tests.comparisons import again, faster, fleet, whole
from tests.report_pages import RUNS


def changed(run: Extract, section: Section, field: str, value: str) -> Extract:
    return replace(run, facts={**run.facts, section: {**run.facts[section], field: value}})


class TestExtract:
    def test_has_speeds_of_each_trial_step_times_and_main_findings(self):
        extracted = replace(extract(analyse(builders.gpu_run(trials=4))), label="lab")
        keys = set(itertools.product(("cifar100-mlp",), ("cpu", "gpu0"), ("baseline", "tuned")))
        assert extracted.label == "lab"
        assert {each.key for each in extracted.speeds if each.breakdown and each.finding} == keys
        assert {len(each.throughput) for each in extracted.speeds} == {4}
        assert len(to_json(extracted)) < 20_000
        run = builders.gpu_run(trials=1)
        options = Options(cpus="0-1", cpu_quota=1.5)
        limited = extract(analyse(replace(run, manifest=replace(run.manifest, options=options))))
        assert limited.machine == "NVIDIA H200 · AMD EPYC 9354, 2 of 16 vCPU, quota of 1.5 CPUs"

    @pytest.mark.parametrize(
        ("options", "section"),
        [
            ({"arguments": ("--width=8",)}, Section.SETTINGS),
            ({"call": 2}, Section.SETTINGS),
            ({"public_environment": {"TF_NUM_INTRAOP_THREADS": "1"}}, Section.SETTINGS),
            ({"environment": {"TOKEN": "***"}}, Section.SETTINGS),
            ({"params": {"WIDTH": "8"}}, Section.SETTINGS),
            ({"cpu_quota": 0.5}, Section.LIMITS),
            ({"cpus": "0"}, Section.LIMITS),
        ],
    )
    def test_an_option_that_one_run_has_is_a_difference(self, options, section):
        run = builders.gpu_run(trials=3)
        other = replace(run, manifest=replace(run.manifest, options=Options(**options)))
        compared = versus(
            [
                replace(extract(analyse(each)), label=name)
                for name, each in zip("ab", (run, other), strict=True)
            ]
        )
        assert [(each.section, each.field) for each in compared.differences] == [(section, *options)]
        decisive = section is Section.SETTINGS
        assert all((section in each.not_comparable) is decisive for each in compared.results if each.run == 1)

    @pytest.mark.parametrize("kind", ["gpu", "machine", "empty", "hostile"])
    def test_survives_a_round_trip_through_its_file(self, kind):
        extracted = extract(analyse(RUNS[kind]()))
        assert len(versus((extracted, extracted)).runs) == 2
        again = read_extract_file(to_json(extracted))
        # Unprintable characters are replaced.
        assert (again == extracted) is (kind != "hostile")
        assert read_extract_file(to_json(again)) == again

    def test_other_files_and_versions_are_rejected(self):
        older = to_json(whole()).replace('"schema_version": 3', '"schema_version": 2')
        for text in (older, "{", "[]", "{}"):
            with pytest.raises(StoreError, match="Not an extract of this version"):
                read_extract_file(text)


class TestStandings:
    def test_the_fastest_device_and_variant_counts(self):
        compared = versus([again(whole(3), 1, label="cpu only"), again(whole(0), 2, label="gpu")])
        assert [compared.runs[each.run].label for each in compared.standings] == ["gpu", "cpu only"]
        best = [
            max(each.speed.median for each in compared.results if (each.run, each.workload) == (run, name))
            for name in ("cifar100-mlp", "resnet50")
            for run in (0, 1)
        ]
        score = (best[1] / best[0] * best[3] / best[2]) ** 0.5
        assert compared.standings[0].score.median == pytest.approx(score)
        # Models that do not learn are excluded.
        run = again(whole(), 1)
        speeds = tuple(replace(each, learned=each.variant != "tuned") for each in run.speeds)
        compared = versus([replace(run, speeds=speeds), run])
        assert next(each for each in compared.standings if each.run == 1).score.median > 1.5


class TestComparable:
    @pytest.mark.parametrize(
        ("section", "field"),
        [(Section.IMAGES, "cpu"), (Section.DATA, "cifar100-mlp"), (Section.DRIVER, "driver_version"),
         (Section.SETTINGS, "profile"), (Section.WORKLOADS, "declaration of cifar100-mlp"),
         (Section.SOFTWARE, "tensorflow"), (Section.WORKLOADS, "cifar100-mlp cpu batch size")],
    )  # fmt: skip
    def test_decisive_differences_make_speeds_not_comparable(self, section, field):
        base = changed(whole(), section, field, "one")
        compared = versus([again(base, 1), again(changed(base, section, field, "other"), 2)])
        (result,) = compared.differences
        assert (result.section, result.field, result.values) == (section, field, ("one", "other"))
        assert not result.comparable
        assert any(section in each.not_comparable for each in compared.results)

    @pytest.mark.parametrize(
        ("source", "field", "comparable"),
        [("cifar100-mlp", "Python files of cifar100-mlp", False), (f"{BESIDE}a", f"{BESIDE}a", True),
         ("/data/x", "file /data/x", False)],
    )  # fmt: skip
    def test_python_files_decide_and_others_beside_them_are_only_shown(self, source, field, comparable):
        run = builders.cpu_run(trials=1)
        manifests = [replace(run.manifest, sources={source: value}) for value in ("one", "other")]
        compared = versus([extract(analyse(replace(run, manifest=each))) for each in manifests])
        assert [(each.field, each.comparable) for each in compared.differences] == [(field, comparable)]

    @pytest.mark.parametrize(
        ("section", "field"), [(Section.IMAGES, "trees-cpu"), (Section.SOFTWARE, "xgboost")]
    )
    def test_an_image_family_affects_only_its_own_workloads(self, section, field):
        base = replace(whole(3), images={"cifar100-mlp": "trees", "resnet50": "tensorflow"})
        compared = versus([changed(base, section, field, value) for value in ("one", "other")])
        for each in compared.results:
            if each.ratio:
                assert each.not_comparable == ((section,) if each.workload == "cifar100-mlp" else ())

    @pytest.mark.parametrize(
        ("section", "field", "value", "differs", "not_comparable"),
        [
            (Section.MACHINE, "host_processor_model_name", "Xeon", True, set()),
            (Section.DRIVER, "driver_version", "", False, set()),  # unknown
            (Section.WORKLOADS, "cifar100-mlp cpu batch size", "64", True, {("cifar100-mlp", "cpu", "baseline")}),
        ],
    )  # fmt: skip
    def test_other_differences(self, section, field, value, differs, not_comparable):
        compared = versus([whole(), changed(whole(), section, field, value)])
        assert [(each.field, each.values[1]) for each in compared.differences] == [(field, value)] * differs
        assert {each.key for each in compared.results if each.not_comparable} == not_comparable

    def test_mig_instances_of_a_gpu_and_short_batches_are_no_differences(self):
        run = builders.gpu_run(trials=1)
        gpus = [(replace(run.manifest.gpus[0], mig_uuid=f"MIG-{number}"),) for number in (1, 2)]
        first, second = (facts(replace(run, manifest=replace(run.manifest, gpus=each))) for each in gpus)
        assert first == second
        windows = tuple(replace(each, samples=each.samples * 3 // 4) for each in run.trials[0].windows)
        shorter = replace(run, trials=(replace(run.trials[0], windows=windows), *run.trials[1:]))
        assert versus([extract(analyse(each)) for each in (run, shorter)]).differences == (), "of batch sizes"


class TestFleet:
    def test_only_the_outlier_among_nodes_is_slower(self):
        few, many = (versus([again(whole(), seed) for seed in range(1, count)]) for count in (3, 9))
        assert many.tests == 7 * few.tests
        first, second = (next(each.ratio for each in made.results if each.ratio) for made in (few, many))
        assert second.high - second.low > first.high - first.low, "more comparisons widen each interval"
        assert second.median == first.median
        compared = versus(fleet(90, kinds=(0,), slow=(31,)))
        slower = {each.run for each in compared.results if each.outcome is Outcome.SLOWER}
        assert [compared.runs[run].label for run in slower] == ["node-031"]
        assert [compared.runs[run].label for run in shown_runs(compared)] == ["node-000", "node-031"]


class TestGate:
    @pytest.mark.parametrize(
        ("factor", "noise", "trials", "outcome", "failed", "may_fail"),
        [
            (1.0, 0.002, 5, Outcome.SAME, False, False),
            (1.2, 0.002, 5, Outcome.FASTER, False, False),
            (0.9, 0.002, 5, Outcome.SLOWER, True, False),
            (0.98, 0.0005, 5, Outcome.SLOWER, False, False),
            (0.95, 0.002, 5, Outcome.SLOWER, False, True),
            (1.0, 0.2, 5, Outcome.UNDECIDED, False, True),
            (0.5, 0.002, 1, Outcome.UNKNOWN, False, True),
        ],
    )
    def test_decision_table_at_a_limit_of_five_percent(
        self, factor, noise, trials, outcome, failed, may_fail
    ):
        # Trials without chance, so that each interval lies where the table says.
        values = [1 + noise * (n - (trials - 1) / 2) / trials for n in range(trials)]
        speeds = tuple(replace(each, throughput=tuple(values)) for each in whole().speeds)
        base = replace(whole(), speeds=speeds)
        backwards = tuple(replace(each, throughput=each.throughput[::-1]) for each in base.speeds)
        other = replace(base, speeds=backwards) if factor == 1 else faster(base, factor)
        compared = versus([base, other], reference=0)
        count = sum(each.ratio is not None for each in compared.results)
        checked = gate(compared)
        assert {each.outcome for each in compared.results if each.ratio} == {outcome}
        assert (len(checked.failed), len(checked.open)) == (failed * count, may_fail * count)

    def test_speeds_only_in_the_baseline_are_missing(self):
        run = again(whole(), 2, label="new")
        without = replace(run, speeds=tuple(each for each in run.speeds if each.device == "cpu"))
        checked = gate(versus([again(whole(), 1), without], reference=0))
        assert (1, ("resnet50", "gpu0", "tuned")) in checked.missing
        assert gate(versus([without, run], reference=0)).missing == ()

    def test_runs_of_other_workloads_lack_nothing_but_empty_runs_do(self):
        base = again(whole(), 1)
        speeds = tuple(replace(each, workload="other") for each in base.speeds)
        other = replace(base, speeds=speeds, titles={"other": "Other"})
        assert gate(versus([base, again(whole(), 2), other], reference=0)).missing == ()
        assert gate(versus([base, replace(base, speeds=())], reference=0)).missing

    def test_a_copy_of_the_baseline_is_noticed(self):
        base = again(whole(), 1)
        copy = replace(base, run_id="copied", label="copied")
        compared = versus([base, again(whole(), 2), copy], reference=0)
        assert compared.copies == ((2, 0),)
        assert gate(compared).copied == (2,)
        assert versus([base, again(base, 3)]).copies == ()
