import errno
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

from harness.analysis import analyse
from harness.cli.app import COMMANDS, build_app
from harness.cli.rendering import REPORT_FILES
from harness.errors import INTERRUPTS, StoreError, TfbenchError, on_disk
from harness.model.platform import Level
from harness.run.catalogue import built_in
from harness.run.recording import pack
from harness.system.doctor_checks import DoctorCheck
from tests.builders import bare_run, cpu_run, gpu_run
from tests.commands import Printed, loaded_by, output_of, tfbench
from tests.conftest import ROOT
from tests.folders import write_files, write_run
from tests.report_pages import keep_charts

Run = Callable[..., Printed]


@pytest.fixture(name="tfbench")
def tfbench_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command line in this process, in a temporary folder, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TFBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    keep_charts(tmp_path / "cache")
    return tfbench


class TestHelp:
    def test_no_arguments_lists_commands_without_importing_them(self):
        words = loaded_by("from harness.cli import main\ntry: main()\nexcept SystemExit: pass")
        assert set(COMMANDS) < words
        assert not {name for name in words if name.startswith(("harness.run", "harness.cli.b", "numpy"))}

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_and_option_has_help(self, tfbench, name):
        command = command_named(name)
        assert command.help
        assert [item.name for item in command.params if not getattr(item, "help", None)] == []
        printed = tfbench(name, "-h")
        assert (printed.code, printed.err) == (0, "")
        assert f"tfbench {name}" in printed.out

    def test_fleet_has_the_options_of_bench_that_concern_every_node(self):
        ours, others = ({item.opts[0] for item in command_named(each).params} for each in ("bench", "fleet"))
        assert ours - others == {"--fail-if-unhealthy", "--accept", "--reference", "--metrics-file"}

    def test_help_lists_every_exit_code(self, tfbench):
        assert tfbench("--version").out == "tfbench 0.1.0\n"
        text = "".join(tfbench(name, "--help").out for name in ("bench", "compare", "fleet"))
        for kind in TfbenchError.__subclasses__():
            assert f" {kind.exit_code} " in text, kind.__name__


def command_named(name: str) -> Any:
    return typer.main.get_command(build_app(name)).commands[name]


@pytest.mark.parametrize("number", INTERRUPTS)
def test_a_signal_ends_any_command_with_a_message(number):
    code = (
        "import os, signal, harness.cli\n"
        f"signal.signal({int(number)}, signal.SIG_DFL)\n"  # nohup ignores one
        "import harness.cli.doctor as doctor\n"
        f"doctor.command = lambda: os.kill(os.getpid(), {int(number)})\n"
        "harness.cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "tfbench: Interrupted.\nTry: Run the same command again.\n"


@pytest.mark.parametrize(
    ("ignored", "code"), [("--default-signal=INT", -signal.SIGINT), ("--ignore-signal=INT", 0)]
)
def test_an_interrupt_among_the_imports_ends_the_program_unless_it_is_ignored(ignored, code):
    script = (
        "import importlib.metadata, os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'harness.cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "(program,) = importlib.metadata.entry_points(group='console_scripts', name='tfbench')\n"
        "sys.argv[1:] = ['--version']\n"
        "program.load()()"
    )
    done = subprocess.run(
        ["env", ignored, sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


class TestUsageErrors:
    @pytest.mark.parametrize(
        ("arguments", "code", "printed", "hint"),
        [
            ("dance", 2, "No such command 'dance'.", "--help"),
            ("bench --trials 0", 2, "--trials is out of range", "from 1 to 1000"),
            ("bench --trials many", 2, "Invalid value for '--trials'", "bench --help"),
            ("bench --profile", 2, "Option '--profile' requires an argument", "bench --help"),
            ("compare", 2, "Missing argument", "compare --help"),
            ("list extra", 2, "Unknown workload 'extra'", "cifar10-mlp"),
            ("bench -p fast", 2, "Unknown profile 'fast'", "smoke, quick, full"),
            ("bench -d cpu ,", 2, "The name of a workload is empty", "variable"),
            ("bench -d cpu --param colour=red", 2, "Unknown parameter 'colour'", "BATCH_SIZE"),
            ("bench -d cpu --param batch_size=1,2", 2, "exactly one workload", "bench cifar100-mlp"),
            ("bench cifar10-mlp -d cpu --param batch_size=8,x", 2, "BATCH_SIZE=x is not", "whole number"),
            ("bench -d cpu --param batch_size", 2, "takes NAME=VALUE", "--param name=value"),
            ("bench cifar10-mlp -d cpu --param epochs=1 --param EPOCHS=2", 2, "a name twice", "BATCH_SIZE=32,64"),
            ("report http://example.org/report.html", 6, "does not exist", "Download it first"),
            ("compare gs://bucket/a runs", 6, "does not exist", "Download it first"),
            ("bench https://example.org/a.py", 2, "No such file", "Download it first"),
            ("bench -d cpu --env PATH", 2, "--env takes NAME=VALUE", "--env name=value"),
            ("bench -d cpu --env A-B=c", 2, "A-B", "letters"),
            ("bench -d cpu --env KERAS_BACKEND=jax", 2, "KERAS_BACKEND=jax", "Leave it out"),
            ("bench --with=,", 2, "--with is empty", "Leave it out"),
            ("bench --device=,", 2, "--device is empty", "Leave it out"),
            ("bench -d cpu --mount none", 2, "none does not exist", "a file or a folder"),
            ("bench -d cpu --data dreams", 2, "Unknown data mode 'dreams'", "auto, real, procedural"),
            ("bench -d cpu --cpus 0-99999", 2, "--cpus 0-99999", "--cpus 0"),
            ("bench -d cpu --image tpu=x", 2, "Unknown image target 'tpu'", "cuda"),
            (f"bench -o {'x' * 300}", 6, "Cannot write xxx", "--out"),
            ("bench none.py", 2, "none.py: No such file", "path"),
            ("bench -m package.of", 2, "There is no module package.of here", "--mount"),
            ("bench -m package", 2, "package is a package without a module __main__", "-m package.MODULE"),
            ("bench .", 2, ". is no Python script", ".py"),
            ("bench -- --lr", 2, "--lr is no workload", "--arg=--lr"),
            ("compare a= b", 2, "a= names no run", "NAME=PATH"),
            (f"compare {'n' * 260}=none b=none", 6, "none does not exist", "runs/"),
            ("bench --metrics-file train.py", 2, "train.py", "train.prom"),
            ("fleet -d gpx", 2, "Unknown device 'gpx'", "gpu0"),
            ("fleet --variants tunde", 2, "Unknown variant 'tunde'", "tuned"),
            ("bench --resume none --trials 3", 2, "keeps its original options", "Leave out --trials or --resume"),
            ("bench --resume none gpt2", 2, "With --resume, workloads would have", "workloads"),
            ("bench -d cpu --gpus all", 2, "With --device cpu, --gpus would have", "--gpus"),
            ("bench -d cpu --param A=1 --param B=1,2 --machine", 2, "With --param A=1 B=1,2, --machine", "--machine"),
            ("bench -d cpu --time 15min", 2, "--time 15min is not a time", "90s, 10m or 1h"),
            ("bench -d cpu --time 1s", 2, "--time is out of range", "from 10"),
            ("bench higgs-trees -d cpu --soak 1m", 2, "--soak would have no effect", "tfbench list"),
            ("bench --resume none", 6, "none does not exist", "runs/"),
        ],
    )  # fmt: skip
    def test_message_names_the_problem_and_hint_the_choices(
        self, tfbench, tmp_path, arguments, code, printed, hint
    ):
        write_files(tmp_path, {"package/__init__.py": ""})
        done = tfbench(*arguments.split())
        assert (done.code, done.out) == (code, "")
        message, _, remedy = done.err.partition("Try: ")
        assert message.startswith("tfbench: ")
        assert printed in message
        assert hint in remedy

    @pytest.mark.parametrize(
        ("words", "code", "printed"),
        [
            ("bench -d cpu -e docker -o runs", 3, "none.sock"),
            ("images cup", 2, "Did you mean cpu? Choose from: cpu, cuda, trees-cpu, trees-cuda."),
            ("bench -d cpu -e local --image cpu=mine:1 -o runs", 2, "With the local engine, --image"),
            ("bench -d cpu -e local --memory 4 -o runs", 2, "With the local engine, --memory"),
        ],
    )
    def test_no_run_folder_without_a_run(self, tfbench, monkeypatch, tmp_path, words, code, printed):
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        done = tfbench(*words.split())
        assert done.code == code
        assert printed in done.err
        assert not (tmp_path / "runs").exists()

    @pytest.mark.parametrize("command", ["bench", "rerun", "fleet"])
    @pytest.mark.parametrize(
        ("out", "printed"),
        [
            *((each, f"--out {each} is a file") for each in ("x.html", "notes", "/dev/null")),
            ("-", "--out - is no"),
        ],
    )
    def test_out_must_be_a_folder(self, tfbench, tmp_path, command, out, printed):
        (tmp_path / "notes").write_text("mine")
        done = tfbench(command, "--out", out)
        assert (done.code, done.out) == (2, "")
        assert printed in done.err
        assert not (tmp_path / "x.html").exists()

    def test_runs_are_not_written_where_a_link_leads_nowhere(self, tfbench, tmp_path):
        (tmp_path / "runs").symlink_to("unmounted")
        done = tfbench("bench", "--out", "runs")
        assert (done.code, done.out) == (2, "")
        assert "unmounted, which is missing" in done.err


def test_doctor_lists_failures_first(tfbench, monkeypatch):
    module = importlib.import_module("harness.cli.doctor")
    levels = (Level.OK, Level.ATTENTION, Level.FAIL)
    checks = [DoctorCheck(f"the {level} one", level, "It is so.") for level in levels]
    monkeypatch.setattr(module, "examine", lambda *_: checks)
    done = tfbench("doctor")
    assert done.code == 1
    # The health of this machine comes with them.
    words = [line.split()[0] for line in done.out.splitlines() if not line.startswith(" ")]
    assert list(dict.fromkeys(words)) == ["fail", "attention", "ok"]


def test_unexpected_error_prints_one_line_and_logs_the_traceback(tfbench, monkeypatch):
    error: Exception = RuntimeError("nobody thought of this")

    def explode() -> None:
        raise error

    monkeypatch.setattr(importlib.import_module("harness.cli.list"), "built_in", explode)
    done = tfbench("list")
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err
    (name,) = re.findall(r"/\S+[.]log", done.err)
    log = Path(name)
    assert "nobody thought of this" in log.read_text(encoding="utf-8").splitlines()[-1]
    log.unlink()
    error = MemoryError()
    done = tfbench("list")
    assert (done.code, done.out) == (1, "")
    assert "not enough memory" in done.err and "ulimit" in done.err


class TestList:
    def test_one_line_per_workload(self, tfbench):
        lines = tfbench("list").out.splitlines()
        assert [line.split()[0] for line in lines[:-1]] == [entry.workload.name for entry in built_in()]
        assert any(line.startswith("cifar10-mlp *c ") for line in lines), "the default suite is marked"

    @pytest.mark.slow
    def test_narrow_terminal_truncates_nothing(self):
        printed = output_of(sys.executable, "-m", "harness", "list", "--long", COLUMNS="80")
        words = " ".join(printed.split())
        assert "…" not in printed
        for entry in built_in():
            assert entry.workload.name in printed
            for published in entry.workload.published:
                assert published.note in words
                assert published.system in words
            assert all(f"{name}={value!r}" in words for name, value in entry.workload.params.items())

    def test_titles_control_no_terminal(self, tfbench, tmp_path):
        text = r'# title = "\u001b]0;x\u0007\u001b[2JMine"'
        write_files(tmp_path, {"train.py": f"# /// tfbench\n{text}\n# ///\n"})
        assert tfbench("list", "train.py").out.startswith("train  Mine\n")

    def test_selected_workloads(self, tfbench, tmp_path):
        write_files(tmp_path, {"train.py": "# /// tfbench\n# title = 'Mine'\n# ///\nRATE = 0.1\n"})
        printed = tfbench("list", "cifar100-mlp", "train.py")
        assert (printed.code, printed.err) == (0, "")
        for text in ("5 min 43 s: NC4as T4 v3", "opt:data-on-device", "BATCH_SIZE=32", "Mine", "RATE=0.1",
                     "made by the script"):  # fmt: skip
            assert text in printed.out
        assert "cifar10-mlp" not in printed.out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("kept") / "run", gpu_run(trials=2)).path


@pytest.mark.slow
class TestReport:
    def test_report_from_run_folder(self, tfbench, folder, tmp_path):
        own = shutil.copytree(folder, tmp_path / "run")
        prices = ("--price", "cpu=0.2,gpu=0.526,currency=EUR")
        printed = tfbench("report", own, "--format", "html,json,md,csv", *prices)
        assert printed.code == 0
        assert f"html: {own / 'report.html'}" in printed.out
        assert "cifar100-mlp" in printed.out
        for name, begins in {"report.html": "<!DOCTYPE", "report.md": "## ", "summary.csv": "run,"}.items():
            assert (own / name).read_text(encoding="utf-8").startswith(begins)
        results = json.loads((own / "results.json").read_text(encoding="utf-8"))
        assert results["run"]["manifest"]["prices"]["gpu"] == 0.526
        costs = {case["device"]: case["variants"]["tuned"]["cost"]["training"] for case in results["cases"]}
        assert costs.keys() == {"cpu", "gpu0"} and all(costs.values())
        assert tfbench("report", own, "--price", "cheap").code == 2
        on_cpu = write_run(tmp_path / "cpu", cpu_run()).path
        assert tfbench("report", on_cpu, "--price", "each-gpu=1").code == 2

    def test_report_from_report_file(self, tfbench, tmp_path):
        folder = write_run(tmp_path / "run", bare_run()).path
        assert tfbench("report", folder).code == 0
        page = tmp_path / "from-a-colleague.html"
        shutil.move(folder / "report.html", page)
        assert tfbench("report", page, "--format", "json").code == 0
        results = (folder / "results.json").read_text(encoding="utf-8")
        assert (tmp_path / "from-a-colleague.json").read_text(encoding="utf-8") == results
        assert tfbench("report", page, "--out", tmp_path / "again").code == 0
        assert (tmp_path / "again" / page.name).read_bytes() == page.read_bytes()
        before = page.read_bytes()
        assert tfbench("report", page).code == 0 and page.read_bytes() == before, "only its other formats"
        assert tfbench("report", page, "--format", "html").code == 2, "the input is not overwritten"
        assert tfbench("report", page, "--format", "mlperf,openmetrics,github,bencher").code == 0
        made = {path.name for path in tmp_path.glob("from-a-colleague.*.*")}
        assert made == {f"from-a-colleague.{name}" for name in (
            "mlperf.json", "openmetrics.prom", "github.json", "bencher.json",
        )}  # fmt: skip

    def test_a_file_of_others_is_replaced_only_by_its_name(self, tfbench, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        folder = write_run(tmp_path / "run", bare_run()).path
        assert tfbench("report", folder).code == 0
        page = shutil.copy(folder / "report.html", tmp_path / "model.html")
        names = {"model.json": "json", "model.csv": "csv"}
        for name, kind in names.items():
            (tmp_path / name).write_text("precious\n")
            printed = tfbench("report", page, "--format", kind)
            assert printed.code == 2 and "--out" in printed.err
            assert (tmp_path / name).read_text() == "precious\n"
            assert tfbench("report", page, "--format", kind, "--out", tmp_path / name).code == 0
            assert tfbench("report", page, "--format", kind).code == 0, "it is tfbench's now"
        for name, kind in {
            "report.md": "md",
            "results.json": "json",
            "github-benchmark.json": "github",
        }.items():
            (tmp_path / name).write_text("My notes about tfbench.\n")
            assert tfbench("report", folder, "--format", kind, "--out", tmp_path).code == 2
            (tmp_path / name).unlink()
            for _ in range(2):
                assert tfbench("report", folder, "--format", kind, "--out", tmp_path).code == 0
        for _ in range(2):
            assert (
                tfbench("compare", folder, folder, "--format", "md,html,csv,json", "--out", tmp_path).code
                == 0
            )
        (tmp_path / "page.html.partial").write_text("mine")
        assert tfbench("report", folder, "--out", tmp_path / "page.html").code == 0
        assert (tmp_path / "page.html.partial").read_text() == "mine"
        assert not [*tmp_path.glob(".*partial")]
        (tmp_path / "limits.toml").write_text("limits = ['health = ok']\n")
        assert tfbench("compare", "--write-limits", folder, "--margin", "10%").code == 2
        assert (tmp_path / "limits.toml").read_text() == "limits = ['health = ok']\n"

    def test_name_of_a_script_is_no_option(self, tfbench, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "-dash.py").write_text("")
        printed = tfbench("bench", "-dash.py")
        assert printed.code == 2 and "./-dash.py" in printed.err

    def test_verify_says_whether_a_report_is_altered(self, tfbench, tmp_path, monkeypatch):
        page = write_run(tmp_path / "run", bare_run()).path / "report.html"
        assert tfbench("report", page.parent).code == 0
        printed = tfbench("report", "--verify", page)
        assert printed.code == 0 and "embedded run is unaltered" in printed.out
        monkeypatch.chdir(tmp_path)
        command = re.search("tfbench (report .*) renders", printed.out)
        assert command and tfbench(*shlex.split(command[1])).code == 0
        text = page.read_text(encoding="utf-8")
        other = pack(analyse(gpu_run(trials=1)), whole=True)
        for pattern, new in (('(?<="tfbench-digest">)', " "), ('(?<=xz base64">)[^<]+', other)):
            page.write_text(re.sub(pattern, new, text), encoding="utf-8")
            printed = tfbench("report", "--verify", page)
            assert (printed.code, printed.out) == (6, "")
            assert "is altered" in printed.err and "Try: " in printed.err
        assert "is not a report file" in tfbench("report", "--verify", page.parent).err

    @pytest.mark.parametrize(
        ("options", "path"),
        [
            ("--out new/x.html", "new/x.html"),
            # An existing folder is used as such, whatever its name.
            ("--out there.html -f json", "there.html/results.json"),
        ],
    )
    def test_out_is_a_file_or_a_folder(self, tfbench, folder, tmp_path, options, path):
        (tmp_path / "there.html").mkdir()
        printed = tfbench("report", folder, *options.split())
        assert (printed.code, printed.err) == (0, "")
        assert [item.name for item in (tmp_path / path).parent.iterdir()] == [Path(path).name]
        assert not (folder / "report.html").exists()

    def test_a_table_of_another_run_is_replaced_unlike_one_of_others(self, tfbench, folder, tmp_path):
        table = tmp_path / "summary.csv"
        report = ("report", folder, "-f", "csv", "--out", tmp_path)
        assert tfbench(*report).code == 0
        whole = table.read_text()
        table.write_text(",".join(whole.split(",")[:10]) + "\n")  # of a run without workloads
        assert tfbench(*report).code == 0
        assert table.read_text() == whole
        for name in ("github", "bencher"):
            assert tfbench("report", folder, "-f", name, "--out", tmp_path).code == 0
            (tmp_path / REPORT_FILES[name]).write_text("{}")  # without speeds
            assert tfbench("report", folder, "-f", name, "--out", tmp_path).code == 0
        table.write_text("run,machine,loss,epoch\n1,a,0.5,2\n")
        assert "did not write it" in tfbench(*report).err

    def test_out_may_be_a_pipe_or_a_device(self, tfbench, folder, tmp_path):
        pipe, null = tmp_path / "pipe", Path("/dev/null")
        os.mkfifo(pipe)
        # Opened for both, so that nobody waits; a pipe takes 64 KiB.
        with os.fdopen(os.open(pipe, os.O_RDWR), "rb", buffering=0) as reader:
            assert tfbench("report", folder, "-f", "csv", "-o", pipe).code == 0
            assert reader.read(4) == b"run,"
        assert pipe.is_fifo()
        assert tfbench("report", folder, "-o", null).code == 0
        assert null.is_char_device()
        printed = tfbench("report", folder, "-f", "csv", "-o", "/dev/stdout")
        assert printed.out == tfbench("report", folder, "-f", "csv", "-o", "-").out

    def test_a_pipe_in_the_folder_of_a_run_is_replaced(self, tfbench, folder, tmp_path):
        own = shutil.copytree(folder, tmp_path / "run")
        (own / "summary.csv").unlink(missing_ok=True)
        os.mkfifo(own / "summary.csv")
        with os.fdopen(os.open(own / "summary.csv", os.O_RDWR), "rb"):  # so that nobody waits
            assert tfbench("report", own, "-f", "csv").code == 0
        assert (own / "summary.csv").is_file()

    @pytest.mark.parametrize("name", ["results.json", "trials"])
    def test_part_of_a_run_stands_for_the_run(self, tfbench, folder, tmp_path, name):
        own = shutil.copytree(folder, tmp_path / "run")
        (own / "results.json").write_text("{}")
        assert tfbench("report", own / name, "-f", "csv").code == 0
        assert (own / "summary.csv").exists()
        (tmp_path / "results.json").write_text("{}")
        assert "Give a run folder" in tfbench("report", tmp_path / "results.json").err

    @pytest.mark.parametrize(
        ("options", "code", "printed"),
        [
            (("--out", "notes"), 6, "notes"),
            (("--out", "x.html", "-f", "html,json"), 2, "does not match --format html,json"),
            (("--out", "{run}/manifest.json"), 2, "part of a run"),
            (("--out", "/dev/null/x"), 6, "not in a folder"),
            (("--out", "/dev/null", "-f", "md,csv"), 2, "does not match --format md,csv"),
            (("--out", "x.pdf"), 2, "no format has files with .pdf"),
            (("--out", ""), 2, "--out is empty"),
            (("-f", "html,docx"), 2, "'docx'"),
        ],
    )
    def test_out_must_match_the_formats(self, tfbench, folder, tmp_path, options, code, printed):
        (tmp_path / "notes").write_text("mine")
        done = tfbench("report", folder, *(each.format(run=folder) for each in options))
        assert (done.code, done.out) == (code, "")
        assert printed in done.err
        assert "Try: " in done.err
        assert (tmp_path / "notes").read_text() == "mine"
        assert not (folder / "report.html").exists(), "nothing is written"


def test_a_complete_run_is_reported_without_an_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    folder = write_run(tmp_path / "run", cpu_run())
    folder.close()
    printed = tfbench("bench", "--resume", folder.path)
    assert (printed.code, "already finished" in printed.err) == (0, True), printed.err
    assert (folder.path / "report.html").exists()


def test_a_slow_reader_gets_the_whole_report(tmp_path):
    run = write_run(tmp_path / "run", cpu_run()).path
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-m", "harness", "report", str(run), "-f", "html", "-o", "-"]
    with subprocess.Popen(command, cwd=ROOT, stdout=writer) as process:
        os.close(writer)
        time.sleep(3)  # more than the pipe holds is written meanwhile
        with os.fdopen(reader) as file:
            page = file.read()
    assert process.returncode == 0
    assert len(page) > 1 << 17 and page.rstrip().endswith("</html>")


def test_a_limit_of_processes_is_no_matter_of_permissions(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised, on_disk(tmp_path):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    assert "No more processes" in raised.value.hint
