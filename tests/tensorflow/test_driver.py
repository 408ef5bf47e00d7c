import itertools
from dataclasses import asdict

import pytest

from harness.fixes import fixes_for
from tests.conftest import ROOT
from tests.tensorflow.texts import FIT, HEAD, piped
from workloads.protocol import ACCURACY, BATCH_BYTES, BETWEEN_EPOCHS, NO_GPU_EXIT, SAMPLES_TRAINED
from workloads.variants import (
    BASELINE,
    CUSTOM_LOOP,
    FIXES,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    TUNED,
    WITHOUT_INPUT,
)

pytestmark = pytest.mark.tensorflow

CLASSES, STEPS, WINDOWS = 100, 60, 2
PUBLISHED = (ROOT / "workloads/cifar100-mlp/published.py").read_text(encoding="utf-8")
TUNED_TEXT = (
    (ROOT / "workloads/cifar100-mlp/tuned.py").read_text(encoding="utf-8").replace("else 52", "else 10")
)


@pytest.fixture(scope="module")
def outcome(drive, arrays):
    data = {"cifar100": arrays((32, 32, 3), CLASSES, 6000)}
    return drive(
        PUBLISHED,
        others={TUNED: TUNED_TEXT},
        variants=(BASELINE, INPUT_ONLY, TUNED),
        windows=WINDOWS,
        steps=STEPS,
        data=data,
    )


def test_events_and_phases_are_in_order(outcome):
    kinds = [event["kind"] for event in outcome.events]
    assert (kinds[0], kinds[-1]) == ("start", "exit")
    assert outcome.of("phase", name="import") == [], "the process of these tests has imported TensorFlow"
    (event,) = outcome.of("facts")
    assert event["facts"]["devices"] == "CPU:0"
    assert event["facts"]["tensorflow"].startswith("2.")
    for variant in (BASELINE, INPUT_ONLY, TUNED):
        phases = outcome.of("phase", variant=variant)
        evaluate = ["evaluate"] if variant in (BASELINE, TUNED) else []
        build = [] if variant == INPUT_ONLY else ["build"]
        wanted = [*build, "first-step", "warm-up", *["steady"] * WINDOWS, *evaluate]
        assert [phase["name"] for phase in phases] == wanted
        assert all(a["end_ns"] <= b["start_ns"] for a, b in itertools.pairwise(phases))


def test_windows_are_consecutive_and_have_the_requested_steps(outcome):
    windows = outcome.of("window")
    assert [(window["variant"], window["index"]) for window in windows] == [
        (variant, index) for variant in (BASELINE, INPUT_ONLY, TUNED) for index in range(WINDOWS)
    ]
    for before, after in itertools.pairwise(windows):
        assert before["end_ns"] <= after["start_ns"]
    for window in windows:
        assert window["steps"] >= STEPS
        # The last batch of an epoch is short in Keras.
        assert 0.8 * 32 * window["steps"] <= window["samples"] <= 32 * window["steps"]
        (single,) = outcome.of("steps", variant=window["variant"], window=window["index"])
        assert all(value > 0 for value in single["step_ns"])
        waited = window["wait_ns"] / (window["end_ns"] - window["start_ns"])
        if window["variant"] == INPUT_ONLY:
            # Windows last a few milliseconds, of which much is not input wait on a busy machine.
            assert 0.3 < waited <= 1.0
        else:
            assert window["wait_ns"] == -1


def test_what_the_scripts_chose_and_how_they_differ(outcome):
    chosen = {each["variant"]: each["params"] for each in outcome.of("variant")}
    assert chosen[BASELINE] == {
        "batch_size": 32, "epochs": 100, "samples_per_epoch": 6000, "steps_per_call": 1, "jit_compile": False,
        "run_eagerly": False, "precision": "float32", "quiet": True,
    }  # fmt: skip
    assert (chosen[TUNED]["batch_size"], chosen[TUNED]["steps_per_call"]) == (32, 10)
    assert chosen[TUNED]["samples_per_epoch"] == 6000 // 320 * 320
    (event,) = outcome.of("variant", variant=TUNED)
    assert {(each["what"], each["before"], each["after"]) for each in event["changes"]} == {
        ("jit_compile", "off", "on"), ("steps_per_call", "1", "10"),
    }  # fmt: skip
    (script,) = outcome.of("script", variant=TUNED)
    assert script["text"] == TUNED_TEXT
    assert "+from many_steps import shuffled, train_many_steps\n" in script["diff"]
    baseline, tuned = (outcome.metric(variant, SAMPLES_TRAINED) for variant in (BASELINE, TUNED))
    assert baseline <= tuned < baseline + 320, "within one call of ten batches"
    assert all(outcome.metric(variant, ACCURACY) > 1 / CLASSES for variant in (BASELINE, TUNED))


def test_what_fails_after_a_whole_training_is_told(drive):
    done = drive(f"{HEAD}made().fit(x, y, 8)\nraise RuntimeError('no display')\n", full=True)
    assert any("After the measured call: train.py" in each["message"] for each in done.of("warning"))


def test_a_whole_training_runs_all_epochs_and_the_rest_of_the_script(drive, arrays):
    text = PUBLISHED.replace("EPOCHS = 100", "EPOCHS = 3").replace("cifar100", "cifar10")
    text += "print('scored', round(model.evaluate(x_test, y_test, verbose=0)[1], 1) > 0.3)\n"
    data = {"cifar10": arrays((32, 32, 3), 10, 1000)}
    done = drive(text, variants=[BASELINE, MODEL_ONLY], full=True, window_s=0.2, data=data)
    assert done.metric(BASELINE, SAMPLES_TRAINED) == 3000
    assert done.metric(BASELINE, "training_s") > 0
    assert "scored True" in done.log
    assert len(done.of("window", variant=MODEL_ONLY)) == 2


def test_only_a_whole_training_tells_what_a_whole_one_reaches(drive):
    """The code as written is read again, briefly, beside a change."""
    text = f"{HEAD}m = made()\nm.fit(x, y, 8, 3)\nm.evaluate(x, y)\n"
    fixes = {name: asdict(fix) for name, fix in fixes_for(text, "cpu").items() if name == "fix:xla"}
    done = drive(text, variants=[BASELINE, FIXES], fixes=fixes, full=True)
    assert len(done.of("reading", variant=BASELINE)) > 1
    assert len(done.of("metric", variant=BASELINE, name=SAMPLES_TRAINED)) == 1
    assert len(done.of("metric", variant=BASELINE, name="accuracy")) <= 1


def test_the_example_runs_with_its_stages(drive, arrays):
    text = (ROOT / "examples/train.py").read_text().replace("SIDE = 64", "SIDE = 16")
    done = drive(
        text, variants=[BASELINE, INPUT_ONLY, STAGES], data={"cifar10": arrays((32, 32, 3), 10, 256)}
    )
    stages = [event["variant"] for event in done.of("variant") if event["variant"].startswith("stage:")]
    assert stages == ["stage:read", "stage:shuffle", "stage:resize, train.py:16", "stage:augment, train.py:22",
                      "stage:batch"]  # fmt: skip
    assert done.per_step()[BASELINE] == 64
    assert 0 <= done.metric(BASELINE, "accuracy") <= 1


def test_variants_of_the_step_time_breakdown(drive):
    variants = [
        BASELINE, INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, "batch:2", "batch:4", "calls:10", HOST_FED, WITHOUT_INPUT,
        "without:launch", "threads:1",
    ]  # fmt: skip
    done = drive(piped(), variants=variants)
    assert not done.of("warning")
    # No copies on a CPU.
    assert [event["variant"] for event in done.of("needless")] == [HOST_FED]
    fours = dict.fromkeys((variant for variant in variants if variant != HOST_FED), 4)
    assert done.per_step() == {**fours, "batch:2": 8, "batch:4": 16}
    for event in done.of("window", variant=CUSTOM_LOOP):
        assert 0 <= event["wait_ns"] < event["end_ns"] - event["start_ns"]
    assert done.metric(BASELINE, BATCH_BYTES) == 4 * (3 * 4 + 8)


def test_input_wait_of_a_slow_pipeline_with_and_without_prefetching(drive):
    """8 ms of input per batch and 12 ms per step."""
    waits = {}
    for name, more in (("slow", ""), ("ahead", ".prefetch(2)")):
        done = drive(SLOW.replace("# more", more), variants=[BASELINE, CUSTOM_LOOP], steps=20)
        windows = done.of("window", variant=CUSTOM_LOOP)
        waits[name] = sum(each["wait_ns"] for each in windows) / sum(each["steps"] for each in windows) / 1e6
    assert waits["slow"] > 7
    assert waits["ahead"] < 0.7 * waits["slow"]


SLOW = (
    HEAD
    + """
import time
class Waiting(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
    def call(self, x, training=False):
        return self.dense(x)
    def train_step(self, data):
        with tf.control_dependencies([tf.numpy_function(lambda: time.sleep(0.012) or 0.0, [], tf.double)]):
            return {"own name": super().train_step(data)["loss"]}
def slowly(i):
    time.sleep(0.002)
    return float(i % 2)
def prepare(i):
    x = tf.ensure_shape(tf.numpy_function(slowly, [i], tf.double), [])
    return tf.fill([3], tf.cast(x, tf.float32)), i % 2
options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False
data = tf.data.Dataset.range(4000).map(prepare).batch(4, drop_remainder=True).with_options(options)# more
model = Waiting()
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
model.fit(data)
"""
)


EQUAL = """
class Told(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        print("weights", float(np.sum(self.model.get_weights()[0])))
made().fit(x, y, 8, callbacks=[Told()])
"""


def test_every_variant_starts_from_the_same_weights(drive):
    changed = EQUAL.replace("made()", "made(loss='sparse_categorical_crossentropy', jit_compile=True)")
    variants = [BASELINE, WITHOUT_INPUT, TUNED]
    done = drive(HEAD + EQUAL, others={TUNED: HEAD + changed}, variants=variants, seed=3, evaluate=False)
    told = [line.split()[1] for line in done.log.splitlines() if line.startswith("weights")]
    assert len(told) == 3 and len(set(told)) == 1


FAILING = HEAD + "raise RuntimeError('not for this GPU')"


@pytest.mark.parametrize("failing", [TUNED, BASELINE])
def test_a_failed_variant_does_not_stop_the_others(drive, failing):
    texts = {BASELINE: FIT, TUNED: FIT} | {failing: FAILING}
    # The trial fails with its baseline.
    code = int(failing == BASELINE)
    done = drive(
        texts[BASELINE], others={TUNED: texts[TUNED]}, variants=[BASELINE, TUNED, INPUT_ONLY], code=code
    )
    left_out = {event["variant"]: event["reason"] for event in done.of("left-out")}
    assert "not for this GPU" in left_out[failing]
    # Without a baseline there is no call to break down.
    assert left_out.keys() == {failing} | ({INPUT_ONLY} if code else set())
    for variant in {BASELINE, TUNED, INPUT_ONLY} - left_out.keys():
        assert len(done.of("window", variant=variant)) == 2
    assert len(done.of("error")) == code


# A step that only measuring makes fails.
BEYOND = (
    "def given():\n    for each in range(6):\n        yield x[:8], y[:8]\n    raise RuntimeError\n"
    "made().fit(given(), steps_per_epoch=3, epochs=2)"
)


def test_a_non_finite_loss_is_an_error(drive):
    text = HEAD + (
        "model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])\n"
        "model.compile(keras.optimizers.SGD(1e38), 'mse')\nmodel.fit(x, y, 8)"
    )
    (error,) = drive(text, variants=[BASELINE], code=1).of("error")
    assert error["type"] == "LossError"
    assert "try a smaller learning rate, float32" in error["message"]


def test_so_it_is_if_a_callback_ends_each_epoch_for_it(drive):
    text = (
        HEAD
        + "made(loss=lambda y, z: z * float('nan')).fit(x, y, 8, callbacks=keras.callbacks.TerminateOnNaN())"
    )
    (error,) = drive(text, variants=[BASELINE], code=1).of("error")
    assert error["type"] == "LossError" and "choose that training with --call" in error["message"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; os.environ['MY_TOKEN']", "--env MY_TOKEN=VALUE"),
        ("import sys; sys.argv[1]", "--arg=VALUE"),
        ("import os, sys; os.getenv('WANDB_KEY') or sys.exit('no key')", "pass them: --env WANDB_KEY=VALUE."),
        ("import os; int(os.environ.get('N_EPOCHS'))", "pass them: --env N_EPOCHS=VALUE."),
        ("import os, sys; os.getenv('HOME', 1); os.getenv('NONE', 1); sys.exit(2)", "with --arg."),
        ("import json, sys; json.load(sys.stdin)", "which is empty here: let it read a file"),
        (
            "import sys; [int(line) for line in sys.stdin.buffer] or int('')",
            "which is empty here: let it read a file",
        ),
        (
            "import sys; made().fit(np.loadtxt(sys.stdin, ndmin=2))",
            "no samples. The script has read its standard",
        ),
        ("raise OSError(24, 'Too many open files', '/dev/null')", "files open here"),
        ("open('../data/none.txt')", "an absolute path, with --mount: a script runs in its own folder"),
        ("raise FileNotFoundError('../data/none.txt not found.')", "an absolute path, with --mount"),
        (
            "import os; open(os.path.join(os.path.dirname(__file__), '..', 'none.txt'))",
            "an absolute path, with --mount, or run the script as a module",
        ),
        (BEYOND, " steps, where the script trains 6: measuring takes longer"),
        (
            "class Ends(keras.callbacks.Callback):\n"
            "    def on_epoch_end(self, *of): raise StopIteration('pruned')\n"
            "try:\n    made().fit(x, y, epochs=9, callbacks=[Ends()])\nexcept StopIteration:\n    pass",
            "if this error is how the script ends it, leave that out",
        ),
        (
            "@tf.function\ndef steps():\n    for _ in tf.range(3):\n        pass\n"
            "        # tfbench: step 8\nsteps()",
            ": Steps are marked in a tf.function",
        ),
        ("import os\nos.setpgrp()\nmade().fit(x, y[:3])", "cardinality is ambiguous"),
        (
            "try:\n    made().fit(x, y[:3])\nexcept ValueError:\n    made().fit(x, y)",
            "--call 2 measures that.",
        ),
        (
            "def run():\n    made().fit(x, y[:3])\ntry:\n    run()\nexcept Exception:\n    pass",
            "--call 2 measures that.",
        ),
    ],
)
def test_what_to_try_after_an_error(drive, line, said):
    assert said in drive(f"{HEAD}{line}\n", code=1).message


def test_an_error_at_the_end_of_the_last_epoch_is_of_the_script(drive):
    text = (
        "def fails(epoch, logs): 1 // (1 - epoch)\n"
        "made().fit(x, y, epochs=2, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=fails)])\n"
    )
    assert drive(HEAD + text, code=1).message.endswith("modulo by zero.")


@pytest.mark.parametrize(
    ("kind", "named"),
    [("KeyboardInterrupt", False), ("(KeyError, tf.errors.OpError)", False), ("ValueError", True)],
)
def test_an_error_that_nobody_catches_names_no_other_call(drive, kind, named):
    text = f"{HEAD}try:\n    made().fit(x, y[:3])\nexcept {kind}:\n    pass\n"
    assert ("--call" in drive(text, code=1).message) is named


@pytest.mark.parametrize(("pause_s", "told"), [(0, True), (0.5, False)])
def test_a_thread_of_the_script_that_is_busy_beside_the_training_is_named(drive, pause_s, told):
    text = HEAD + (
        "import threading, time\ndef upload():\n    while True:\n"
        f"        sum(range(30000))\n        time.sleep({pause_s})\n"
        "threading.Thread(target=upload, daemon=True, name='agent').start()\nmade().fit(x, y, 8, epochs=9)\n"
    )
    warnings = [each["message"] for each in drive(text, steps=300).of("warning")]
    assert any("threads of train.py took CPU time (agent" in each for each in warnings) is told


def test_a_missing_gpu_is_an_error(drive):
    done = drive(FIT, device="gpu", gpus=1, code=NO_GPU_EXIT)
    (error,) = done.of("error")
    assert error["type"] == "NoGpuError"
    assert "registered 0 of 1 requested GPUs" in error["message"]
    assert not done.of("window") + done.of("end")


def test_a_script_cannot_hide_an_error_of_its_call(drive):
    hidden = HEAD + "try:\n    made().fit(x, y[:5])\nexcept Exception:\n    pass\n"
    assert len(drive(hidden, code=1).of("error")) == 1


def test_a_loss_that_is_no_number_after_the_scripts_last_step_is_told(drive):
    text = (
        f"{HEAD}class Falling(keras.optimizers.schedules.LearningRateSchedule):\n"
        "    def __call__(self, step): return tf.where(step < 39, 0.1, float('nan'))\n"
        "    def get_config(self): return {}\n"
        "model = made()\nmodel.compile(keras.optimizers.SGD(Falling()), 'sparse_categorical_crossentropy')\n"
        "model.fit(x, y, batch_size=8, epochs=3)\n"
    )
    done = drive(text, variants=[BASELINE], steps=30)
    assert any("longer here than in the script" in each["message"] for each in done.of("warning"))
    assert len(done.of("window", variant=BASELINE)) > 1


def test_ends_of_epochs_that_a_callback_skips_take_no_time(drive):
    text = (
        f"{HEAD}class Skips(keras.callbacks.Callback):\n"
        "    def on_train_begin(self, logs=None): self.model._initial_epoch = 2\n"
        "    def on_epoch_end(self, epoch, logs=None): pass\n"
        "made().fit(x.repeat(99, 0), y.repeat(99), batch_size=2, epochs=3, callbacks=[Skips()])\n"
    )
    times = [each["value"] for each in drive(text, steps=4).of("metric", name=BETWEEN_EPOCHS)]
    assert sum(times) < 0.1, "and not the time since the machine started"


def test_a_loss_that_is_no_number_after_the_script_would_have_stopped_is_told(drive):
    text = (
        f"{HEAD}class Finder(keras.callbacks.Callback):\n    done = 0\n"
        "    def on_train_batch_end(self, batch, logs=None):\n        self.done += 1\n"
        "        self.model.stop_training = self.done > 2\n"
        "        if self.done > 2: self.model.optimizer.learning_rate.assign(float('nan'))\n"
        "model = made()\nmodel.fit(x, y, batch_size=8, epochs=99, callbacks=[Finder()])\n"
    )
    done = drive(text, variants=[BASELINE], steps=10)
    assert any("longer here than in the script" in each["message"] for each in done.of("warning"))
    assert len(done.of("window", variant=BASELINE)) > 1
