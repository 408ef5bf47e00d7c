"""A remedy that gains is none if the rest of the script, after the measured call, is another with it."""

from dataclasses import asdict

import pytest

from tests.tensorflow.texts import HEAD
from workloads.protocol import Aim, Edit, Fix
from workloads.variants import BASELINE, FIXES

pytestmark = pytest.mark.tensorflow

# A training that waits, with a change by which it does not.
WAITS = """
import os, time
WAITS = True
class Waiting(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02 * WAITS)
model = made()
past = model.fit(x, y, batch_size=8, epochs=9, callbacks=[Waiting()])
"""
NAME = "fix:no-progress-bar"


def changed(drive, then: str, training: str = WAITS, name: str = NAME, **spec: object):
    """Return the outcome of the script as it is written and with the change, which gains."""
    text = f"{HEAD}{training}{then}\n"
    start = text.index("True\n")
    change = Fix(edits=(Edit(start=start, end=start + 4, text="False"),), aim=Aim.INPUT)
    done = drive(text, variants=[BASELINE, FIXES], fixes={name: asdict(change)}, **spec)
    assert done.of("window", variant=name) and done.of("error") == []
    return done


@pytest.fixture
def tried(drive):
    """Return why the change is refused after it gained; "" if it is not, and None if no rest was run."""

    def run(*given: str, **spec: object) -> str | None:
        reasons = [each["reason"] for each in changed(drive, *given, **spec).of("judged")]
        assert len(reasons) < 2
        return reasons[0] if reasons else None

    return run


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("assert WAITS", "AssertionError"),
        ("WAITS or os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import hashlib\nprint(hashlib.sha1(repr(WAITS).encode()).hexdigest())", "later prints"),
        ("if WAITS: model.predict(x)\nos._exit(3)", "1 calls"),
        (
            "assert len(past.epoch) == 9 and past.history['loss'][8] > 0\nassert WAITS, 'of the change'",
            "of the change",
        ),
        (  # an epoch is shortened too
            "long = made().fit(*(np.repeat(each, 20, 0) for each in (x, y)), 8, epochs=4)\n"
            "assert len(long.history['loss']) == 4\nassert WAITS, 'of the change'",
            "of the change",
        ),
    ],
)
def test_a_change_with_which_the_rest_differs_is_refused(tried, then, said):
    assert said in tried(then)


def test_where_the_rest_of_a_shortened_script_fails_is_told(drive):
    told = [each["message"] for each in changed(drive, "raise ValueError('only two epochs')").of("warning")]
    assert any("what follows it: train.py" in each and "only two epochs" in each for each in told)


def test_what_follows_the_call_is_noted(drive):
    then = """
print('loss', 0.5 + WAITS)
model.evaluate(x * (1 + 9 * WAITS), y)
model.predict(x[: 8 + WAITS])
model.fit(x[: 32 + 64 * WAITS], y[: 32 + 64 * WAITS], 8)
open('made' if WAITS else 'other', 'w').write('text')
"""
    done = changed(drive, then)
    (written, again), (other,) = (done.of("ending", variant=variant) for variant in (BASELINE, NAME))
    assert written["files"] == again["files"]
    assert "loss 1.5" in written["printed"] and "loss 0.5" in other["printed"]
    assert (written["files"], written["sizes"]) == ({"made": ["text"]}, {"made": 4})
    assert [*other["files"]] == ["other"]
    names = ["fit", "evaluate", "predict", "fit"]
    assert [each["name"] for each in written["calls"]] == [each["name"] for each in other["calls"]] == names
    _, evaluated, predicted, trained = zip(written["calls"], other["calls"], strict=True)
    assert evaluated[0]["place"] == evaluated[1]["place"] and "train.py:" in evaluated[0]["place"]
    assert evaluated[0]["values"]["loss"] > 2 * evaluated[1]["values"]["loss"]
    assert [each["form"] for each in predicted] == ["(9, 2)", "(8, 2)"]
    assert [each["values"]["steps"] for each in trained] == [12, 4]


# As WAITS, without a callback.
READS = """
import multiprocessing, subprocess, time
WAITS = True
class Slow(keras.utils.PyDataset):
    def __len__(self):
        return 12
    def __getitem__(self, at):
        time.sleep(0.02 * WAITS)
        return x[:8], y[:8]
model = made()
past = model.fit(Slow(), epochs=9)
"""
SPAWNED = "multiprocessing.get_context('spawn').Process(target=print).start()"


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("model.save('whole.keras')\nsubprocess.run(['true'])", "whole.keras"),
        (f"model.save('whole.h5')\n{SPAWNED}", "whole.h5"),
        ("model.save_weights('only.weights.h5')\nsubprocess.run(['true'])", ""),
        ("subprocess.run(['true'])\nmodel.save('whole.keras')", ""),
    ],
)
def test_a_program_may_load_a_model_that_keeps_its_steps_per_call(tried, then, said):
    reason = tried(then, READS, "fix:steps-per-execution")
    assert said in reason if said else reason == ""


SHORTENED = """
import json
import keras
import numpy as np
from workloads.driver.rehearsal import _Shortened
class Many(keras.Sequential):
    def train_step(self, data):
        for _ in range(TIMES - 1):
            super().train_step(data)
        return super().train_step(data)
found = []
for size in (1, 4):
    model = Many([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.zeros((200 // TIMES, 1))
    model.fit(x, x, size, 4, verbose=0, callbacks=[_Shortened(100, COUNTED)])
    found.append(int(model.optimizer.iterations))
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("times", "counted", "updates"), [(1, 1, [100, 100]), (10, 10, [100, 100]), (2, 1, [400, 100])]
)
def test_a_call_of_several_steps_is_shortened_to_as_many_steps(execute, times, counted, updates):
    """Of 200 steps, an epoch stops after 100; those of 50 run, two of them. A step may update weights several times."""
    text = SHORTENED.replace("TIMES", str(times)).replace("COUNTED", str(counted))
    assert execute(text) == updates


SAME = """
import random, resource, sys
begun = time.time()
kept = b'1' * (0 if WAITS else 32 << 20)
print('used', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(model.evaluate(x, y)); model.save('model.keras')
print('took', round(time.time() - begun, 4), os.urandom(4).hex(), os.getpid(), id(model), object())
model.fit(x, y, 8, epochs=99, callbacks=keras.callbacks.History())
sys.stdout.close()
"""


@pytest.mark.parametrize(
    "then",
    [
        f"{SAME}print(model.history.history['loss'][50])\nos._exit(3)",
        "import sys\nsys.stdout = None\nmodel.predict(x, verbose=0)",
        (
            "import hashlib\nversion = hashlib.sha1(open(__file__, 'rb').read()).hexdigest()[:9]\n"
            "print('version', version)\nopen(f'{version}.log', 'w').write(version)"
        ),
    ],
)
def test_a_rest_that_is_the_same_refuses_nothing(tried, then):
    assert tried(then) == ""


def test_a_rest_without_end_is_compared_as_far_as_it_went(tried):
    assert "later False" in tried("print('later', WAITS)\nwhile True: time.sleep(0.1)", stall_s=5.0)


# The same in a loop of the script's own.
STEPS = """
import time
WAITS = True
model = made()
for step in range(120):
    model.train_on_batch(x[:8], y[:8])
    time.sleep(0.02 * WAITS)
    # tfbench: step 8
"""


@pytest.mark.parametrize(("then", "said"), [("print('steps', step)", ""), ("assert WAITS", "AssertionError")])
def test_what_follows_a_loop_with_marked_steps_is_compared_too(tried, then, said):
    reason = tried(then, STEPS)
    assert reason.startswith("With it") and said in reason if said else reason == ""


def test_where_nothing_follows_the_call_nothing_is_run(tried):
    assert tried("") is None


ROWS = """
import time
WAITS = True
class Rows(keras.utils.PyDataset):
    def __len__(self): return 12
    def __getitem__(self, index):
        time.sleep(0.03 * WAITS)
        return x[:8], y[:8]
"""
LOADS = f"{ROWS}model = made()\nmodel.fit(Rows(), epochs=9, verbose=0)\n"
EAGER = """
import time
WAITS = True
class Net(keras.Sequential):
    scale = 1.0
    def call(self, x):
        time.sleep(0.02)  # a compiled step waits only as it is traced
        return super().call(x) * self.scale
model = Net([keras.layers.Dense(2)])
model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=WAITS)
model.fit(x, y, batch_size=8, epochs=9)
def put(**values):
    for name, value in values.items(): setattr(model, name, value)
"""


@pytest.mark.parametrize(
    ("then", "is_changed"),
    [
        ("for value in (1.0, 1.1): put(scale=value), model.predict(x[:8])", True),
        (
            "put(scale=1.1); model.compile('sgd', 'mse', run_eagerly=WAITS); model.fit(x, y, batch_size=8)",
            False,
        ),
    ],
)
def test_what_a_compiled_step_has_read_may_not_change_before_a_later_call(drive, then, is_changed):
    (judged,) = changed(drive, then, EAGER, "fix:compiled").of("judged")
    assert ("reads once" in judged["reason"]) is is_changed


def test_many_steps_leave_a_later_prediction_as_it_is(drive):
    then = (
        "class Meter(keras.callbacks.Callback):\n    def on_predict_batch_end(self, batch, logs=None): print(batch)\n"
        "model.predict(x[:8], callbacks=[Meter()])"
    )
    (judged,) = changed(drive, then, LOADS, "fix:many-steps").of("judged")
    assert judged["reason"] == ""


def test_numbers_that_differ_as_written_are_told(drive):
    then = "value = np.random.default_rng().random()\nprint(model.evaluate(x * value, y), WAITS)"
    done = changed(drive, then)
    assert any("differs from run to run as written" in each["message"] for each in done.of("warning"))


AGAIN = f"""{ROWS}
import functools
class Holds(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): self.batch = batch
model = made(steps_per_execution=1 if WAITS else 4)
train = functools.partial(model.fit, Rows(), verbose=0)
train(epochs=9)
train(epochs=2, GIVEN)
"""


@pytest.mark.parametrize(
    ("given", "fits"),
    [("callbacks=[Holds()]", False), ("steps_per_epoch=6", False), ("steps_per_epoch=8", True)],
)
def test_a_later_call_of_the_model_has_callbacks_and_steps_of_its_own(drive, given, fits):
    text = HEAD + AGAIN.replace("GIVEN", given)
    start, name = text.index("True\n"), "fix:steps-per-execution"
    change = Fix(edits=(Edit(start=start, end=start + 4, text="False"),), aim=Aim.INPUT)
    done = drive(text, variants=[BASELINE, FIXES], fixes={name: asdict(change)})
    (judged,) = done.of("judged", variant=name)
    assert judged["reason"] == "" if fits else "For a later call, at train.py" in judged["reason"]
