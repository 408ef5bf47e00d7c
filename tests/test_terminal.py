import io
from dataclasses import replace

import pytest
from rich.console import Console

from harness.analysis import analyse
from harness.cli.console import Terminal
from harness.model.analysis import Analysis
from harness.model.run import CPU
from harness.progress import LoggedTask
from reports import numbers
from reports.overview import rows
from reports.terminal import summary
from tests import builders
from tests.report_pages import RUNS, analysis


def printed(name: str, *, width: int = 100) -> str:
    return text_of(analysis(name), width=width)


def text_of(analysed: Analysis, *, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    console.print(summary(analysed))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", RUNS)
def test_every_run_has_a_summary_that_fits_the_width(name: str, width: int) -> None:
    text = printed(name, width=width)
    assert text.strip()
    assert not {"…", "\u202e", numbers.SPACE} & set(text)
    assert max(len(line) for line in text.splitlines()) <= width


@pytest.mark.slow
def test_the_default_suite_fits_in_25_lines() -> None:
    text = printed("suite")
    assert len(text.splitlines()) <= 25
    for row in rows(analysis("suite")):
        (line,) = (line for line in text.splitlines() if line.startswith(f"{row.workload} ") and "/s" in line)
        for number in (numbers.speed(row.cpu), numbers.speed(row.baseline)):
            assert number in line
        assert numbers.factor(row.gain.median).replace("×", "x") in line


def test_a_workload_without_a_gpu_trial_is_listed_on_the_cpu() -> None:
    on_gpu = builders.gpu_run()
    on_cpu = builders.run({CPU: builders.CPU_RESNET}, name="resnet50")
    both = replace(
        on_gpu, workloads=on_gpu.workloads + on_cpu.workloads, planned=on_gpu.planned + on_cpu.planned,
        trials=on_gpu.trials + on_cpu.trials,
    )  # fmt: skip
    cells = [line.split() for line in text_of(analyse(both)).splitlines()]
    devices = [each[1] for each in cells if each[:1] in (["cifar100-mlp"], ["resnet50"])]
    assert devices == ["GPU", "CPU"]


def test_a_log_has_the_first_note_and_then_a_line_every_twenty_seconds():
    now, lines = [100.0], list[str]()
    task = LoggedTask(lines.append, "Trials", 4.0, clock=lambda: now[0])
    for _ in range(120):
        task.note(f"tuned, window {now[0] - 100:g}")
        now[0] += 0.5
        task.advance(0.015625)
    assert lines == [
        "Trials:   0 %    0 s  tuned, window 0",
        "Trials:  16 %   20 s  tuned, window 19.5",
        "Trials:  31 %   40 s  tuned, window 39.5",
        "Trials:  47 %   60 s  tuned, window 59.5",
    ]


@pytest.mark.parametrize("forced", [False, True])
def test_a_log_gets_no_control_characters_even_where_colour_is_forced(forced, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
    file = io.StringIO()
    with Terminal(Console(file=file, width=20, stderr=True)).task("Trials", 2.0) as task:
        task.note("mlp on cpu: as long as it is")
        task.advance(1)
    assert file.getvalue() == ("Trials:   0 %    0 s  mlp on cpu: as long as it is\n")
