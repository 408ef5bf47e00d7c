import errno
import io
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.engines import Exit
from harness.engines.container_init import GONE
from harness.errors import EngineError
from harness.model.run import Answer, Status, Window
from harness.run import events
from harness.run.events import EventLog, EventTail, read_log
from harness.run.outcome import End, outcome
from harness.untrusted import printable, sanitized
from tests.commands import output_of
from tests.fakes import error_line, good_events, line, start_line, window_line
from workloads.protocol import LONGEST_REASON, NO_GPU_EXIT, EventWriter, ProtocolError
from workloads.variants import BASELINE, TUNED


def nested(depth: int) -> list:
    return [nested(depth - 1)] if depth else []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_messages_have_no_secrets(file):
    with file.open("w", encoding="utf-8") as lines:
        writer = EventWriter(lines)
        writer.hidden = ['hunter"2', "baseline"]
        writer.write("start")
        writer.write("facts", facts={"host": 'hunter"2', "cores": 2})
        writer.write("script", variant="baseline", diff='+x = "hunter"2"', text="", fixes=["fix:xla"])
        writer.left_out("tuned", 'no access for hunter"2')
        writer.metric("baseline", 'variable:dense_hunter"2/kernel', 3)
        writer.write("error", type="OSError", message='token=hunter"2')
    log = read_log(file)
    assert log.left_out == {"tuned": "no access for ***"}
    assert log.facts == {"host": "***", "cores": 2}
    assert (log.scripts[0].variant, log.scripts[0].diff) == ("baseline", '+x = "hunter"2"'), "it must run"
    assert log.error["message"] == "token=***"
    assert [each.name for each in log.metrics] == ["variable:dense_***/kernel"]


def test_fields_that_a_kind_of_event_does_not_have_are_not_written():
    written = io.StringIO()
    with pytest.raises(ProtocolError, match="wall_ns"):
        EventWriter(written).write("start", wall_ns=1)
    EventWriter(written).write("end")
    assert written.getvalue() == '{"kind":"end"}\n'


def test_every_kind_of_event_is_read(file):
    with file.open("w", encoding="utf-8") as lines:
        writer = EventWriter(lines)
        writer.write("start")
        writer.write("facts", facts={"tensorflow": "2.21.0", "gpus": 0, "devices": ["cpu"]})
        writer.write("facts", facts={"threads": 8})
        changes = [{"what": "batch_size", "before": "32", "after": "64"}]
        writer.write("variant", variant="tuned", params={"batch_size": 64, "jit_compile": True}, changes=[])
        writer.write("variant", variant="tuned", params={"batch_size": 64}, changes=changes)
        writer.write("phase", name="import", variant="", start_ns=1, end_ns=2)
        span = {"start_ns": 5, "end_ns": 99}
        writer.write("window", variant="tuned", index=0, **span, steps=2, samples=128, wait_ns=-1)
        writer.write("steps", variant="tuned", window=0, step_ns=[2, 2])
        writer.metric("tuned", "accuracy", 0.5)
        writer.metric("tuned", "test_loss", math.nan)
        writer.write("answer", variant="tuned", gpu=1, name="step", t_ns=77, value=0xFFFFFFFF)
        writer.warning("slow disk")
        writer.left_out("opt:xla", f"InvalidArgumentError: no kernel {'x' * 999} Try it.\nand more")
        writer.write("error", type="KeyError", message="first")
        writer.write("error", type="ValueError", message="last")
        writer.write("end")
    log = read_log(file)
    assert (log.problem, log.ended) == ("", True)
    assert log.error["message"] == "last"
    assert log.facts == {"tensorflow": "2.21.0", "gpus": 0, "threads": 8}, "only scalars are kept"
    (again,) = log.variants
    assert (again.changes[0].after, again.params) == ("64", {"batch_size": 64}), "the last one wins"
    assert log.phases[0].name == "import"
    assert log.parts()["answers"] == (Answer(variant="tuned", gpu=1, name="step", t_ns=77, value=2**32 - 1),)
    assert (log.windows[0].samples, log.windows[0].wait_ns) == (128, -1)
    assert log.steps[0].step_ns.dtype == np.int64
    assert log.steps[0].step_ns.tolist() == [2, 2]
    assert [metric.value for metric in log.metrics] == [0.5]
    assert log.left_out.keys() == {"opt:xla"}
    assert log.left_out["opt:xla"].startswith("InvalidArgumentError: no kernel xx")
    assert log.left_out["opt:xla"].endswith("x Try it.")
    assert len(log.left_out["opt:xla"]) == LONGEST_REASON
    not_finite, told = log.warnings
    assert "test_loss is nan" in not_finite and told == "slow disk"


@pytest.mark.parametrize(
    ("garbage", "expected"),
    [
        (b"not json\n", "line 3"),
        (b'{"kind":"dream"}\n', "unknown event kind 'dream'"),
        (b'{"kind":"window"}\n', "missing"),
        (b'{"kind":"warning","message":5}\n', "message is int"),
        (b'{"kind":"steps","variant":"x","window":0,"step_ns":["a"]}\n', "invalid literal"),
        (b'{"kind":"variant","variant":"x","params":{},"changes":[{"what":"a"}]}\n', "missing"),
        (b'{"kind":"steps","variant":"x","window":0,"step_ns":[[1]]}\n', "plain list"),
        (b"[" * 200_000 + b"\n", "recursion"),
        (window_line(0).encode(), "without steps, samples"),
        (window_line(10**11).encode(), "impossible speed"),
        (line("metric", variant="x", name="y", value=float("inf")).encode(), "not finite"),
        (line("steps", variant="x", window=0, step_ns=[-5]).encode(), "negative duration"),
        (line("facts", facts={str(n): n for n in range(1000)}).encode(), "values in one place"),
        (line("variant", variant="x", params={"x": nested(90)}, changes=[]).encode(), "nested too deeply"),
        (line("phase", name="data", variant="", start_ns=2, end_ns=1).encode(), "ends before"),
    ],
    ids=lambda value: None if isinstance(value, str) else "garbage",
)  # fmt: skip
def test_malformed_line_ends_reading_but_keeps_earlier_events(file, garbage, expected):
    before = start_line() + window_line(100)
    file.write_bytes(before.encode() + garbage + window_line(100).encode())
    log = read_log(file)
    assert expected in log.problem
    assert len(log.windows) == 1
    assert not log.ended


def test_files_without_a_start_or_too_large(file):
    assert "no events" in read_log(file).problem
    for text in ("", line("end")):
        file.write_text(text, encoding="utf-8")
        assert "no events" in read_log(file).problem
    params = {str(n): "y" * 1000 for n in range(400)}
    large = (line("variant", variant=f"x{number}", params=params, changes=[]) for number in range(40))
    file.write_text(start_line() + "".join(large), encoding="utf-8")
    log = read_log(file)
    assert 0 < len(log.variants) < 40, "each event is below its limit, but their sum is not"
    assert "characters" in log.problem
    os.truncate(file, events.MAX_BYTES + 1)
    assert "larger than 256 MiB" in read_log(file).problem


def test_all_text_is_made_printable(file):
    bad = "a\ud800\x1b[31mred\x1b]0;title\x07\x00\u202e"
    change = {"what": bad, "before": bad, "after": bad}
    file.write_text(
        start_line()
        + line("facts", facts={bad: bad})
        + line("variant", variant=bad, params={bad: [bad]}, changes=[change])
        + line("metric", variant=bad, name=bad, value=1.0)
        + line("left-out", variant=bad, reason=bad)
        + line("warning", message=bad * 1000)
        + error_line(bad, bad)
    )
    log = read_log(file)
    good = "a\ufffdred\ufffd\ufffd"
    assert log.problem == ""
    assert log.facts == {good: good}
    assert (log.variants[0].params, log.variants[0].changes[0].after) == ({good: [good]}, good)
    assert (log.metrics[0].name, log.left_out) == (good, {good: good})
    assert len(log.warnings[0]) == events.MAX_TEXT
    assert log.error["message"] == good
    assert repr(log).encode()


@pytest.mark.parametrize(
    "put",
    [
        lambda path: path.symlink_to("secret"),
        lambda path: path.symlink_to("/dev/null"),
        os.mkfifo,
        Path.mkdir,
    ],
    ids=["link to a file", "link to a device", "pipe", "folder"],
)
def test_only_regular_files_are_opened(file, put):
    """The container controls its folder; the host must neither hang nor read other files."""
    file.with_name("secret").write_text("".join(good_events()), encoding="utf-8")
    put(file)
    assert EventTail(file).read() == []
    log = read_log(file)
    assert log.problem.startswith("the event file cannot be read")
    assert log.windows == []


def test_the_tail_returns_each_event_once_when_complete(file):
    tail = EventTail(file)
    assert tail.read() == []
    first, second = start_line(), window_line(100)
    with file.open("a", encoding="utf-8") as out:
        out.write(first + second[:10])
        out.flush()
        assert [item["kind"] for item in tail.read()] == ["start"]
        assert tail.read() == []
        out.write(second[10:])
        out.flush()
        assert [item["kind"] for item in tail.read()] == ["window"]
        assert tail.read() == []
    file.write_bytes(b"garbage\n\xff\n" + b"[" * 200_000 + b"\n" + window_line(100).encode() + b"[]\n")
    assert [item["kind"] for item in EventTail(file).read()] == ["window"], "malformed lines are skipped"


MEMORY_BYTES = 3 << 29
WINDOW = Window(variant=BASELINE, index=0, start_ns=0, end_ns=9, steps=1, samples=1, wait_ns=-1)
GOOD = EventLog(ended=True, windows=[WINDOW])


def ended(code: int = 0, *, out_of_memory: bool = False) -> Exit:
    return Exit(code=code, out_of_memory=out_of_memory)


def raised(message: str, kind: str = "ValueError") -> EventLog:
    return EventLog(error={"type": kind, "message": message})


LOST = EngineError("The engine does not answer.", hint="Start it again.")


@pytest.mark.parametrize(
    ("how", "log", "cause", "status", "expected"),
    [
        (ended(), GOOD, None, Status.OK, ""),
        (None, EventLog(), LOST, Status.ENGINE_LOST, "does not answer. Start it again."),
        (None, GOOD, KeyboardInterrupt(), Status.INTERRUPTED, "interrupted during this trial"),
        (ended(137, out_of_memory=True), EventLog(started=True), None, Status.OUT_OF_MEMORY,
         "of 1.5 GiB. Raise --memory"),
        (ended(137), GOOD, None, Status.FAILED, "exited with code 137 (SIGKILL)"),
        (ended(-7), GOOD, None, Status.FAILED, "a library: install or copy it again"),
        (ended(1), raised("boom"), None, Status.FAILED, "raised ValueError: boom. See log.txt"),
        (ended(1), raised("Graph error:\n  at f\n\nOSError: no disk\n\n\t [[{{node F}}]]\n [[Next]] [Op]"),
         None, Status.FAILED, "raised ValueError: OSError: no disk. See"),
        (ended(1),
         raised("Exception encountered when calling A.call().\n\n\x1b[1mBad shape.\x1b[0m\n\nArguments:"),
         None, Status.FAILED, "raised ValueError: Bad shape."),
        (ended(1), raised("no x=<zip object at 0x7f6894cdb200> here"), None, Status.FAILED, "x=<zip object> here."),
        (ended(1), raised("Graph error:\n" + "  at frame\n" * 100), None, Status.FAILED,
         "raised ValueError: "),
        (ended(1), raised(f"a.py:1: {'x' * 5000}. Download it.", "ScriptError"), None, Status.FAILED,
         "x. Download it. See log.txt"),
        (ended(1), raised("x", "_ArrayMemoryError"), None, Status.OUT_OF_MEMORY, "allocate less"),
        (ended(1), raised("a.py:4: ResourceExhaustedError: OOM when allocating tensor.", "ScriptError"), None,
         Status.OUT_OF_MEMORY, "a.py:4: ResourceExhaustedError: OOM when allocating tensor. Lower the batch size"),
        (ended(1), raised("a.py:8: InternalError: to run _EagerConst: Dst tensor is not initialized.", "ScriptError"),
         None, Status.OUT_OF_MEMORY, "give it a tf.data.Dataset"),
        (ended(1), raised("RESOURCE_EXHAUSTED: y", "XlaError"), None, Status.OUT_OF_MEMORY, "ran out"),
        (ended(1), raised("cuda: out of memory", "XGBoostError"), None, Status.OUT_OF_MEMORY, "ran out"),
        (ended(NO_GPU_EXIT), raised("Registered 0 of 1 GPUs", "NoGpu"), None, Status.NO_GPU, "0 of 1 GPUs."),
        (ended(NO_GPU_EXIT), EventLog(), None, Status.NO_GPU, "did not find the GPU. Run `tfbench doctor`"),
        (ended(1), EventLog(problem="line 3: nonsense"), None, Status.BAD_EVENTS, "line 3: nonsense. See"),
        (ended(1), EventLog(problem="no events"), None, Status.FAILED, "exited with code 1"),
        (replace(ended(137), removed=True), EventLog(), None, Status.FAILED, "Somebody removed the container"),
        (ended(0), EventLog(started=True), None, Status.BAD_EVENTS, "end before the trial does. See log.txt"),
    ],
)  # fmt: skip
def test_trial_outcome(how, log, cause, status, expected):
    result, message = outcome(
        End(exit=how, log=log, cause=cause, lost=cause is LOST, memory_bytes=MEMORY_BYTES), (BASELINE,)
    )
    assert result is status
    assert expected in message
    assert "\n" not in message and len(message) < 500
    assert (message == "") == (status is Status.OK)


def test_a_trial_whose_connection_was_cut_was_not_killed_by_somebody():
    for output, expected in (("1/9\n", "killed it"), (f"1/9\n{GONE}\n", "was cut")):
        _, message = outcome(End(exit=ended(137), log=GOOD, output=output), (BASELINE,))
        assert expected in message and "--resume" in message


def test_the_last_line_of_what_aborts_is_told():
    output = "terminate called\n  what():  Resource temporarily unavailable\n"
    _, message = outcome(End(exit=ended(-6), log=GOOD, output=output), (BASELINE,))
    assert "SIGABRT" in message and "Resource temporarily unavailable" in message


@pytest.mark.parametrize(
    ("windows", "left_out", "planned", "status"),
    [
        ([WINDOW], {TUNED: "no need"}, (BASELINE, TUNED), Status.OK),
        ([WINDOW], {}, (BASELINE, TUNED), Status.BAD_EVENTS),
        ([], {BASELINE: "no", TUNED: "no"}, (BASELINE, TUNED), Status.BAD_EVENTS),
        ([WINDOW], {TUNED: "no"}, (TUNED,), Status.BAD_EVENTS),
    ],
)
def test_trial_is_ok_only_if_planned_variants_were_measured_or_left_out(windows, left_out, planned, status):
    log = EventLog(ended=True, windows=windows, left_out=left_out)
    result, message = outcome(End(exit=ended(), log=log), planned)
    assert result is status
    assert ("--variants" in message) == (bool(left_out) and status is Status.BAD_EVENTS)


def test_harmless_characters_stay_and_numbers_are_bounded():
    """A script's text is read back as it ran, and no sum or ratio of numbers is infinite."""
    text = "a\u00a0b\u200b\u200d\u00ad\u202f\u3000\f\n"
    assert sanitized({text: text}) == {text: text}
    ran = {"scripts": {"train.py": "a\u202eb\x0c\x1b[1m\u2028\r"}, "other": "a\u202eb"}
    assert sanitized(ran) == {**ran, "other": "a\ufffdb"}
    assert sanitized([ran["scripts"]], verbatim=True) == [ran["scripts"]]
    assert sanitized("\ud800", verbatim=True) == "?"
    assert printable("a\u202eb\u2066\x07") == "a\ufffdb\ufffd\ufffd"
    assert sanitized([1e308, -1e308, 5e-324, 1.5]) == [1e100, -1e100, 0.0, 1.5]


def test_without_free_descriptors_there_is_an_error_and_no_wait_for_ever(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").touch()
    code = (
        "import os, resource, sys, pathlib\nfrom harness.run.events import EventTail\n"
        "tail = EventTail(pathlib.Path(sys.argv[1]))\nprint(tail.read())\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n    tail.read()\nexcept OSError as error:\n    print(error.errno)\n"
    )
    assert output_of(sys.executable, "-c", code, str(tmp_path / "events.jsonl")).split() == [
        "[]",
        str(errno.EMFILE),
    ]
