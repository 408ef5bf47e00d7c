import pytest

from harness.engines import Exit
from harness.errors import EngineError
from harness.model.run import Status, Window
from harness.run.events import EventLog, trial_outcome
from workloads.protocol import BASELINE, NO_GPU_EXIT, TUNED

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
        (ended(137, out_of_memory=True), GOOD, None, Status.OUT_OF_MEMORY, "of 1.5 GiB. Raise --memory"),
        (ended(137), GOOD, None, Status.FAILED, "exited with code 137"),
        (ended(1), raised("boom"), None, Status.FAILED, "raised ValueError: boom. See log.txt"),
        (
            ended(1),
            raised("Graph error:\n  at f\n\nOSError: no disk\n\n\t [[{{node F}}]]\n [[Next]] [Op]"),
            None,
            Status.FAILED,
            "raised ValueError: OSError: no disk. See",
        ),
        (ended(1), raised("x", "_ArrayMemoryError"), None, Status.OUT_OF_MEMORY, "Lower the batch size"),
        (ended(1), raised("RESOURCE_EXHAUSTED: y", "XlaError"), None, Status.OUT_OF_MEMORY, "ran out"),
        (ended(1), raised("cuda: out of memory", "XGBoostError"), None, Status.OUT_OF_MEMORY, "ran out"),
        (ended(NO_GPU_EXIT), raised("Registered 0 of 1 GPUs", "NoGpu"), None, Status.NO_GPU, "0 of 1 GPUs."),
        (ended(NO_GPU_EXIT), EventLog(), None, Status.NO_GPU, "did not find the GPU. Run `tfbench doctor`"),
        (ended(0), EventLog(problem="line 3: nonsense"), None, Status.BAD_EVENTS, "line 3: nonsense. See"),
        (ended(0), EventLog(), None, Status.BAD_EVENTS, "the last event is missing"),
    ],
)
def test_trial_outcome(how, log, cause, status, expected):
    result, message = trial_outcome(how, log, cause, MEMORY_BYTES, (BASELINE,))
    assert result is status
    assert expected in message
    assert (message == "") == (status is Status.OK)


@pytest.mark.parametrize(
    ("windows", "left_out", "planned", "status"),
    [
        ([WINDOW], {TUNED: "no need"}, (BASELINE, TUNED), Status.OK),
        ([WINDOW], {}, (BASELINE, TUNED), Status.BAD_EVENTS),
        ([], {BASELINE: "no", TUNED: "no"}, (BASELINE, TUNED), Status.BAD_EVENTS),
        ([WINDOW], {TUNED: "no"}, (TUNED,), Status.BAD_EVENTS),
        ([], {}, (BASELINE,), Status.BAD_EVENTS),
    ],
)
def test_trial_is_ok_only_if_planned_variants_were_measured_or_left_out(windows, left_out, planned, status):
    log = EventLog(ended=True, windows=windows, left_out=left_out)
    result, message = trial_outcome(ended(), log, None, MEMORY_BYTES, planned)
    assert result is status
    assert ("--variants" in message) == (bool(left_out) and status is Status.BAD_EVENTS)


@pytest.mark.parametrize("text", ["Graph execution error:\n" + "  at frame\n" * 100, "x" * 5000])
def test_long_error_is_truncated_to_one_line(text):
    _, message = trial_outcome(ended(1), raised(text), None, MEMORY_BYTES, (BASELINE,))
    assert "\n" not in message
    assert len(message) < 500
