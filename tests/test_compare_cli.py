import csv
import json
import shutil
import statistics
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.cli.compare import filtered
from harness.errors import UsageError
from harness.model.analysis import Caveat, CaveatKind
from harness.run.recording import references
from tests import builders
from tests.commands import Printed
from tests.comparisons import whole
from tests.folders import write_run
from tests.test_cli import tfbench_here

pytestmark = pytest.mark.slow

__all__ = ["tfbench_here"]
Call = Callable[..., Printed]


def written(folder: Path, *, seed: int = 1, slower: float = 1.0, day: int = 1, trials: int = 5) -> Path:
    speeds = {name: replace(each, step_s=each.step_s * slower) for name, each in builders.CPU_SPEEDS.items()}
    run = builders.run({"cpu": speeds}, seed=seed, trials=trials, noise=0.004, window_s=0.2)
    created = (datetime(2026, 5, 1, tzinfo=UTC) + timedelta(days=day)).isoformat()
    manifest = replace(run.manifest, run_id=f"run-{seed}", created=created)
    return write_run(folder, replace(run, manifest=manifest)).path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pair")
    return written(folder / "a", seed=1), written(folder / "b", seed=2, slower=1.12)


class TestCompare:
    def test_writes_a_page_and_the_other_formats(self, tfbench: Call, pair, tmp_path: Path) -> None:
        printed = tfbench("compare", *pair, "-f", "html,md,json,csv", "-o", tmp_path / "out")
        assert printed.code == 0, printed.err
        page = (tmp_path / "out/comparison.html").read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert "run-2 vs run-1" in page
        document = json.loads((tmp_path / "out/comparison.json").read_text(encoding="utf-8"))
        assert document["schema"] == "tfbench-comparison"
        assert {each["outcome"] for each in document["results"] if each["ratio"]} == {"slower"}
        rows = list(csv.DictReader((tmp_path / "out/comparison.csv").read_text().splitlines()))
        assert rows[0]["ratio"] == ""
        assert float(rows[-1]["ratio"]) == pytest.approx(1 / 1.12, rel=0.02)
        assert "slower" in (tmp_path / "out/comparison.md").read_text(encoding="utf-8")
        assert "run-2 is 0.89" in printed.err
        shutil.copytree(pair[1], not_utf_8 := tmp_path / "b\udcff")
        printed = tfbench("compare", not_utf_8, *references(), "-f", "html,md,json", "-o", tmp_path)
        assert printed.code == 0, printed.err
        assert "What the machines can do" in (tmp_path / "comparison.html").read_text(encoding="utf-8")

    def test_accepts_labels_reports_extracts_and_prices(self, tfbench: Call, pair, tmp_path: Path) -> None:
        page = pair[1] / "report.html"
        assert tfbench("report", pair[1]).code == 0
        before = page.read_bytes()
        printed = tfbench("compare", pair[0], page, "-o", page)
        assert (printed.code, printed.out) == (2, "")
        assert "overwrite" in printed.err and page.read_bytes() == before
        extract = tmp_path / "far.extract.json"
        shutil.copy(references()["h200"], extract)
        runs = (f"old={pair[0]}", f"new={pair[1] / 'report.html'}", f"far={extract}", "near=h200")
        printed = tfbench("compare", *runs, "--price", "3.6", "-f", "json", "-o", "-")
        assert printed.err == "", "output on stdout is for other programs"
        made = json.loads(printed.out)["runs"]
        assert [run["label"] for run in made] == ["old", "new", "far", "near"]
        speed = made[1]["speeds"][0]
        middle = statistics.median(speed["throughput"])
        assert speed["cost_per_million"] == pytest.approx(1e6 * 3.6 / 3600 / middle, rel=0.01)

    def test_the_baseline_may_be_a_machine_that_ships_with_tfbench_or_one_of_the_runs(
        self, tfbench: Call, pair
    ) -> None:
        printed = tfbench("compare", pair[0], "--baseline", "h200", "-f", "json", "-o", "-")
        document = json.loads(printed.out)
        assert document["runs"][0]["label"] == "h200"
        assert document["runs"][1]["run_id"] == "run-1"
        assert document["reference"] == 0
        printed = tfbench("compare", *pair, "--baseline", f"old={pair[1]}", "-f", "json", "-o", "-")
        document = json.loads(printed.out)
        assert document["runs"][document["reference"]]["label"] == "old", "it keeps its name"
        assert len(document["runs"]) == 2

    @pytest.mark.parametrize(
        ("arguments", "code", "printed"),
        [
            (("{a}",), 2, "to compare"),
            (("{a}", "{b}", "-f", "pdf"), 2, "Unknown format 'pdf'"),
            (("{a}", "{b}", "-f", ","), 2, "--format is empty"),
            (("{a}", "{b}", "--fail-if-slower", "5%"), 2, "needs a baseline"),
            (("{a}", "--baseline", "{b}", "--fail-if-slower", "much"), 2, "not between 0 and 100 %"),
            (("{a}", "--baseline", "{b}", "--fail-if-slower", "5"), 2, "Write it as 5% or 0.05."),
            (("h200",), 2, "two-epyc-vcpus"),
            (("{a}", "nowhere"), 6, "nowhere"),
            (("{a}", "{b}", "--price", "lots"), 2, "--price"),
            (("{a}", "{b}", "-w", "typo"), 2, "Choose from: cifar100-mlp."),
            (("{a}", "--baseline", "{b}", "-d", "gpu0", "--fail-if-slower", "5%"), 2, "Choose from: cpu."),
        ],
    )  # fmt: skip
    def test_mistakes(self, tfbench: Call, pair, arguments, code: int, printed: str) -> None:
        words = [word.format(a=pair[0], b=pair[1]) for word in arguments]
        done = tfbench("compare", *words)
        assert (done.code, done.out) == (code, "")
        assert printed in done.err
        assert "Try: " in done.err


class TestBaseline:
    def check(self, tfbench: Call, run: Path, baseline: Path, *more: object) -> Printed:
        return tfbench("compare", run, "--baseline", baseline, "-f", "md", "-o", "-", *more)

    def test_machines_without_a_common_workload_do_not_fail_a_check(
        self, tfbench: Call, tmp_path: Path
    ) -> None:
        first, second = (
            write_run(
                tmp_path / str(seed), builders.run({"cpu": builders.CPU_SPEEDS}, name="mine", seed=seed)
            ).path
            for seed in (1, 2)
        )
        words = ("--baseline", first, "--fail-if-slower", "90%", "-o", tmp_path / "x.md")
        assert tfbench("compare", second, "h200", *words).code == 0
        printed = tfbench("compare", "h200", *words)
        assert printed.code == 10 and "nothing could be compared" in printed.err

    def test_slower_runs_and_undecidable_comparisons_exit_with_10(
        self, tfbench: Call, pair, tmp_path: Path
    ) -> None:
        once = written(tmp_path / "once", trials=1)
        both = write_run(tmp_path / "both", builders.gpu_run(trials=3)).path
        for run, baseline, words, reason in (
            (once, pair[0], (), "nothing could be compared"),
            (both, pair[0], ("-d", "gpu0"), "nothing could be compared"),
            (pair[0], both, (), "speeds measured in"),
        ):
            printed = self.check(tfbench, run, baseline, "--fail-if-slower", "90%", *words)
            assert printed.code == 10
            assert reason in printed.err
        assert self.check(tfbench, pair[0], both, "--fail-if-slower", "0.9", "-d", "cpu").code == 0
        printed = self.check(tfbench, pair[1], pair[0], "--fail-if-slower", "5%")
        assert printed.code == 10
        assert "2 of 2 speeds slower" in printed.err
        assert "❌ slower" in printed.out, "the table is written in any case"


def test_filtering_by_workload_and_device() -> None:
    (made,) = filtered([whole()], workloads=("resnet50",), devices=("gpu0",))
    assert {(item.workload, item.device) for item in made.speeds} == {("resnet50", "gpu0")}
    assert filtered([whole()], workloads=(), devices=("cpu",))[0].speeds
    kept, others = {("", ""), ("", "gpu0"), ("resnet50", "gpu0")}, {("", "gpu1"), ("other", "gpu0")}
    caveats = tuple(
        Caveat(kind=CaveatKind.WORKLOAD_WARNING, workload=workload, device=device)
        for workload, device in kept | others
    )
    (made,) = filtered([replace(whole(), caveats=caveats)], workloads=("resnet50",), devices=("gpu0",))
    assert {(each.workload, each.device) for each in made.caveats} == kept
    with pytest.raises(UsageError, match="measured cpu") as caught:
        filtered([whole()], workloads=("resnet50",), devices=("cpu",))
    assert caught.value.hint == "Choose from: gpu0."
