"""What a script's callbacks do in epochs that nobody waits for: they are called for these, without training.

Whether code may change what other code reads can be hidden in any library. Here it is seen: what a remedy keeps is
looked at before the script's callbacks have acted in all epochs of a call, and after. Nothing can be measured then.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from time import monotonic  # by a name of its own: clocks are replaced
from typing import Any

from workloads.driver.call import Call
from workloads.driver.clocks import set_clocks_ahead
from workloads.driver.fitting import observed
from workloads.driver.own_code.callbacks import own_callbacks

# Callbacks act for so long with each kind of results, in the last epoch too, around so many batches of an epoch.
_LONGEST_S, _BATCHES = 2.0, 8
# So far clocks go on in an epoch.
_EPOCH_S = 600
# Results of training that a callback may wait for.
_LOW, _HIGH = 0.0, 100.0


def foreseen(remedy: str, call: Call) -> str:
    """Return that a script's callbacks change in later epochs what a remedy keeps; "" if they do not."""
    own = own_callbacks(call)
    before = observed(remedy, call) if own and call.trains else None
    if before is None or before != observed(remedy, call):  # it differs by itself
        return ""
    advance = set_clocks_ahead()
    for logs in _results(call):
        _act(call, own, logs, advance)
        if observed(remedy, call) != before:
            names = sorted({type(each).__name__ for each in own})
            called = f"callback{'s' if len(names) > 1 else ''} {' and '.join(names)}"
            return f"Later calls of the {called} change what would be kept from the first on."
    return ""


def _results(call: Call) -> Iterator[Mapping[str, float]]:
    """Yield results of an epoch: low and high ones, and those of a good model."""
    names = ["loss", *(each for each in call.model.get_metrics_result() if each != "loss")]
    names += [f"val_{each}" for each in names] if call.validates else []
    yield dict.fromkeys(names, _LOW)
    yield dict.fromkeys(names, _HIGH)
    yield {name: _LOW if "loss" in name else _HIGH for name in names}


def _act(call: Call, callbacks: list[Any], logs: Mapping[str, float], advance: Callable[[int], None]) -> None:
    """Let callbacks act as in all epochs of a call, as far as there is time, and in the last.

    Args:
        advance: sets clocks ahead.
    """
    ends_s, last = monotonic() + _LONGEST_S, call.first_epoch + call.epochs - 1
    steps = call.steps_per_epoch or _BATCHES
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for epoch in range(call.first_epoch, last + 1):
            advance(_EPOCH_S)
            _act_in(call, callbacks, epoch, steps, logs)
            if monotonic() > ends_s:
                _act_in(call, callbacks, last, steps, logs)
                break


def _act_in(call: Call, callbacks: list[Any], epoch: int, steps: int, logs: Mapping[str, float]) -> None:
    with suppress(AttributeError):  # an optimizer of the script's own
        call.model.optimizer.iterations.assign((epoch - call.first_epoch) * steps)
    for callback in callbacks:
        _tell(callback.on_epoch_begin, epoch)
        for batch in range(min(steps, _BATCHES)):
            _tell(callback.on_train_batch_begin, batch)
            _tell(callback.on_train_batch_end, batch, logs)
        if call.validates:
            _tell(callback.on_test_begin)
            _tell(callback.on_test_end, logs)
        _tell(callback.on_epoch_end, epoch, logs)


def _tell(hook: Any, *given: Any) -> None:
    with suppress(Exception, SystemExit):  # which it may not raise where it trains
        hook(*(dict(each) if isinstance(each, Mapping) else each for each in given))
