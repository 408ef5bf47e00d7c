"""Each run of a script has a process of its own: what dies with it is a variant, and nothing that was measured."""

import os
import subprocess
from dataclasses import asdict

import pytest

from harness.fixes import fixes_for
from harness.run.events import EventLog
from tests.conftest import ROOT
from tests.tensorflow.conftest import driver, environment
from tests.tensorflow.texts import HEAD
from workloads.protocol import STALLED, TREES, Aim, Edit, Fix
from workloads.readings import overlaps
from workloads.variants import BASELINE, CUSTOM_LOOP, FIXES, INPUT_ONLY, MODEL_ONLY, TUNED

pytestmark = pytest.mark.tensorflow

CALL = "made().fit(x[:96], y[:96], 8, callbacks=[Dies()] if DIES else [])\n"
# The callback does what kills the process after some steps.
DIES = """
import ctypes, os, signal, sys, time
class Dies(keras.callbacks.Callback):
    seen = 0
    def on_train_batch_begin(self, batch, logs=None):
        self.seen += 1
        if self.seen == {after}:
            {death}
"""
DEATHS = {
    "os.abort()": "SIGABRT",
    "os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
    "ctypes.string_at(0)": "SIGSEGV",
    "os._exit(3)": "exited with code 3",
    "os._exit(0)": "exited with code 0",
    "ctypes.CDLL(None).execl(b'/bin/sleep', b'sleep', b'60', None)": "os.exec",
    "time.sleep(60)": "no event for",
    "os.kill(os.getpid(), signal.SIGSTOP)": "no event for",
}
FEW, MANY = 6, 10**6


def script(death: str, after: int) -> str:
    return HEAD + DIES.format(after=after, death=death) + CALL.replace("DIES", "True")


def test_a_death_costs_the_variant_that_ran(drive):
    fine = HEAD + DIES.format(after=MANY, death="pass") + CALL.replace("DIES", "False")
    dying = {f"opt:dies-{number}": death for number, death in enumerate(DEATHS)}
    done = drive(
        fine,
        others={**{variant: script(death, FEW) for variant, death in dying.items()}, TUNED: fine},
        variants=[BASELINE, MODEL_ONLY, *dying, TUNED],
        stall_s=3.0,
        steps=4,
        windows=2,
    )
    windows = [window["variant"] for window in done.of("window")]
    for variant in (BASELINE, MODEL_ONLY, TUNED):
        assert windows.count(variant) == 2
    for variant, death in dying.items():
        said = [warning["message"] for warning in done.of("warning") if variant in warning["message"]]
        (reason,) = said + [left_out["reason"] for left_out in done.of("left-out", variant=variant)]
        assert DEATHS[death].lower() in reason.lower(), death
        if not any(word in death for word in ("exec", "KILL", "STOP", "_exit")):
            assert "train.py:" in reason or "other.py:" in reason, "the script's line is named"


def test_variants_of_the_breakdown_that_die_leave_the_others(drive):
    """The input aborts when it is drained alone, as it is for input-only."""
    text = HEAD + (
        "import os\n"
        "def generate():\n"
        "    if os.path.exists('trained'):\n        os.abort()\n"
        "    for _ in range(10**6):\n        yield x[:8], y[:8]\n"
        "data = tf.data.Dataset.from_generator(generate, output_signature=(\n"
        "    tf.TensorSpec((8, 4), tf.float32), tf.TensorSpec((8,), tf.int32)))\n"
        "class Ends(keras.callbacks.Callback):\n"
        "    def on_train_begin(self, logs=None):\n"
        "        if os.path.exists('trained'):\n            os.remove('trained')\n"
        "    def on_train_end(self, logs=None):\n        open('trained', 'w').close()\n"
        "made().fit(data, steps_per_epoch=12, callbacks=[Ends()])\n"
    )
    done = drive(text, variants=[BASELINE, INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP])
    readings = len(done.of("reading", variant=BASELINE))  # once more if it was doubtful
    assert len(done.of("window", variant=BASELINE)) == 2 * readings
    (left_out,) = done.of("left-out")
    assert left_out["variant"] == INPUT_ONLY
    assert "SIGABRT" in left_out["reason"]
    assert len(done.of("window", variant=MODEL_ONLY)) == 2
    assert done.of("end")
    begun = len(done.of("process", script=BASELINE))
    assert begun == readings + 1, "each says that it has begun, however long the script takes"


def test_a_baseline_that_dies_fails_the_trial_and_keeps_its_windows(drive):
    done = drive(script("os.abort()", 300), variants=[BASELINE, MODEL_ONLY], code=1, steps=4, windows=200)
    assert done.of("window", variant=BASELINE)
    assert "SIGABRT" in done.of("error")[0]["message"]
    assert done.of("window", variant=MODEL_ONLY), "made of the call of a fresh run"
    done = drive(HEAD + "import os\nos.abort()\n", variants=[BASELINE, MODEL_ONLY], code=1)
    (error,) = done.of("error")
    assert error["type"] == "ProcessDied"
    assert "train.py:" in error["message"]
    done = drive(
        HEAD + "import os\nif os.fork():\n    os._exit(0)\nmade().fit(x, y)\n", variants=[BASELINE], code=1
    )
    assert "parent of os.fork, leave that out" in done.of("error")[0]["message"]


def test_what_was_measured_while_all_stood_still_does_not_count(drive, tmp_path):
    """The driver is stopped as by docker pause, in the first run only; the script is measured again."""
    pause = (
        f"if not os.path.exists('{tmp_path}/paused'):\n"
        f"                open('{tmp_path}/paused', 'w').close()\n"
        "                os.kill(os.getppid(), signal.SIGSTOP)\n                time.sleep(3)\n"
        "                os.kill(os.getppid(), signal.SIGCONT)"
    )
    done = drive(script(pause, 120), variants=[BASELINE], steps=100, stall_s=20.0)
    (stopped,) = done.of("stopped")
    assert 2e9 < stopped["end_ns"] - stopped["start_ns"] < 4e9
    assert len(done.of("process")) == len(done.of("reading")) == 2
    log = EventLog()
    for event in done.events:
        log.add(event)
    log.drop_stopped()
    read = [window.reading for window in log.windows]
    assert len(done.of("window")) == 4
    assert read.count(1) == 2 and read.count(0) < 2
    assert not any(overlaps(window.start_ns, window.end_ns, log.stops) for window in log.windows)
    assert len(log.steps) == len(log.windows)


def test_a_script_that_does_not_reach_its_call_runs_once(drive, tmp_path):
    text = f"{HEAD}import time\nopen('{tmp_path}/runs', 'a').write('.')\ntime.sleep(60)\nmade().fit(x, y)\n"
    fixes = {name: asdict(fix) for name, fix in fixes_for(text, "cpu").items()}
    assert any(not edit["site"] for fix in fixes.values() for edit in fix["edits"]), "some change no call"
    done = drive(text, variants=[BASELINE, INPUT_ONLY, FIXES, TUNED], fixes=fixes, code=1, stall_s=2.0)
    (error,) = done.of("error")
    assert error["type"] == STALLED and "train.py:" in error["message"]
    assert (tmp_path / "runs").read_text() == "."
    assert done.of("left-out", variant=INPUT_ONLY)
    assert {each["variant"] for each in done.of("needless")} == {FIXES, TUNED}


# A change that does not fade, where the script as written does.
FADING = """
FADES, FACTOR = True, 1.0
def fading(x):
    return x * FACTOR * (0.0 if FADES else 1.0)
model = keras.Sequential([keras.layers.Lambda(fading), keras.layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(x, y, batch_size=8, epochs=9)
"""


def unfaded(text: str) -> dict[str, object]:
    start = text.index("True,")
    change = Fix(edits=(Edit(start=start, end=start + 4, text="False"),), aim=Aim.LAUNCH)
    return {"fixes": {"fix:no-progress-bar": asdict(change)}, "tuned": ["fix:no-progress-bar"]}


@pytest.mark.parametrize(("fades", "is_same"), [("0.0 if FADES", False), ("1.0 if FADES", True)])
def test_a_remedy_with_other_losses_is_left_out_before_it_is_measured(drive, fades, is_same):
    text = HEAD + FADING.replace("0.0 if FADES", fades)
    done = drive(text, variants=[BASELINE, TUNED], **unfaded(text))
    assert bool(done.of("window", variant=TUNED)) is is_same
    reasons = [each["reason"] for each in done.of("left-out")]
    assert is_same or "It would train differently: epoch 1, step" in reasons[0]


def test_a_cache_before_a_shuffle_has_the_losses_where_python_maps(drive):
    text = (
        f"{HEAD}def slow(a):\n    return a * 2\n"
        "def step(a, b):\n    return tf.ensure_shape(tf.numpy_function(slow, [a], a.dtype), a.shape), b\n"
        "data = tf.data.Dataset.from_tensor_slices((x, y)).map(step).shuffle(64).batch(8)\n"
        "made().fit(data, epochs=9, verbose=0)\n"
    )
    fixes = {name: asdict(fix) for name, fix in fixes_for(text, "cpu").items() if name == "fix:cache"}
    done = drive(text, variants=[BASELINE, TUNED], fixes=fixes, tuned=["fix:cache"])
    assert done.of("window", variant=TUNED), done.of("left-out")


def test_what_xla_computes_otherwise_is_left_out(drive):
    """Of what has as many rows as values say, XLA reads the last one of those that it fills up."""
    loss = (
        "def last(y, p):\n    kept = tf.boolean_mask(tf.square(p[:, 0] - 1.0), y[:, 0] > 0)\n"
        "    return tf.reduce_mean(kept) + kept[-1]\n"
    )
    text = (
        f"{HEAD}{loss}y = (np.arange(len(x)) % 3 == 0).astype('float32')[:, None]\n"
        "model = keras.Sequential([keras.layers.Dense(1)])\n"
        "model.compile('sgd', last)\nmodel.fit(x, y, 8, 9, verbose=0)\n"
    )
    fixes = {name: asdict(fix) for name, fix in fixes_for(text, "cpu").items() if name == "fix:xla"}
    done = drive(text, variants=[BASELINE, TUNED], fixes=fixes, tuned=["fix:xla"])
    (told,) = (each["reason"] for each in done.of("left-out", variant=TUNED))
    assert "It would train differently: epoch 1, step" in told


@pytest.mark.parametrize(("other", "is_alike"), [("(x[::-1], y[::-1])", True), ("(x, y + 9)", False)])
def test_epochs_in_another_order_have_about_the_same_losses(drive, other, is_alike):
    text = f"{HEAD}model = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
    text += "model.fit(*(x, y), batch_size=8, epochs=9, shuffle=False, verbose=0)\n"
    start = text.index("(x, y)")
    reordered = Fix(edits=(Edit(start=start, end=start + 6, text=other),), aim=Aim.LAUNCH)
    name = "fix:many-steps"
    done = drive(text, variants=[BASELINE, TUNED], fixes={name: asdict(reordered)}, tuned=[name])
    assert bool(done.of("window", variant=TUNED)) is is_alike
    assert is_alike or "It would train differently: epoch 1: loss" in done.of("left-out")[0]["reason"]


def test_losses_that_differ_from_reading_to_reading_are_no_reason(drive, tmp_path):
    drawn = (
        f"import os\nos.mkdir('{tmp_path}/' + str(os.getpid()))\n"
        f"drawn = 1 + len(os.listdir('{tmp_path}')) % 3 / 50\n"
    )
    text = (
        HEAD
        + drawn
        + FADING.replace("FACTOR = True, 1.0", "FACTOR = True, drawn").replace("0.0 if", "1.0 if")
    )
    done = drive(text, variants=[BASELINE, TUNED], **unfaded(text))
    assert done.of("window", variant=TUNED)
    assert len(done.of("unlike")) == 1 and not done.of("left-out")
    assert [each["variant"] for each in done.of("script")] == [TUNED]


OWN_METRICS = """
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer, self.mean = keras.layers.Dense(1), keras.metrics.Mean()
    @property
    def metrics(self): return [self.mean]
    def call(self, x): return self.layer(x)
    def train_step(self, data):
        self.mean.update_state(factor)
        return {"g": self.mean.result()}
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): time.sleep(0.004)
model = Own()
model.compile("sgd")
model.fit(x, y, batch_size=8, epochs=9, verbose=1, callbacks=[Slow()])
"""


def test_so_are_those_that_only_ends_of_epochs_tell(drive, tmp_path):
    drawn = (
        f"import os, time\nos.mkdir('{tmp_path}/' + str(os.getpid()))\n"
        f"factor = (1.0, 1.4, 1.8, 1.6)[(len(os.listdir('{tmp_path}')) - 1) % 4]\n"
    )
    text = HEAD + drawn + OWN_METRICS
    start = text.index("verbose=1")
    quiet = Fix(edits=(Edit(start=start, end=start + 9, text="verbose=0"),), aim=Aim.FRAMEWORK)
    name = "fix:no-progress-bar"
    done = drive(text, variants=[BASELINE, TUNED], fixes={name: asdict(quiet)}, tuned=[name])
    assert done.of("window", variant=TUNED)
    assert len(done.of("unlike")) == 1 and not done.of("left-out")


def test_a_script_that_closes_all_files_is_measured(drive):
    text = f"{HEAD}import os\nos.closerange(3, 4096)\nmade().fit(x[:96], y[:96], 8)\n"
    done = drive(text, variants=[BASELINE, MODEL_ONLY])
    for variant in (BASELINE, MODEL_ONLY):
        assert len(done.of("window", variant=variant)) == 2
    assert "os.closerange" in done.of("warning")[0]["message"]
    assert done.of("end")


SETTINGS = """
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
"""


ONCE = """
import multiprocessing, os
import tensorflow as tf
from absl import flags
flags.DEFINE_integer("batch", 8, "size")
flags.FLAGS(["train.py"])
tf.RegisterGradient("Once")(lambda op, gradient: gradient)
multiprocessing.set_start_method("forkserver")
os.mkdir("new")
keras.utils.register_keras_serializable(package="own")(type("Own", (keras.layers.Layer,), {}))
"""


def test_what_can_be_done_once_in_a_process_is_done_in_each_run(drive):
    text = f"import tensorflow as tf\n{SETTINGS}{HEAD}{ONCE}made().fit(x[:96], y[:96], flags.FLAGS.batch)\n"
    done = drive(text, others={TUNED: text + "\n"}, variants=[BASELINE, MODEL_ONLY, TUNED])
    assert done.of("left-out") == []


def test_a_script_may_change_the_title_of_its_process(drive):
    """As setproctitle does, which writes over the command line."""
    titled = (
        "import ctypes\nstart = int(open('/proc/self/stat').read().rpartition(')')[2].split()[45])\n"
        "ctypes.memset(start, ord('x'), 6)\n"
    )
    done = drive(HEAD + titled + "made().fit(x[:96], y[:96], 8)\n")
    assert done.of("left-out") == done.of("error") == []
    assert len(done.of("window")) == 2


def test_processes_that_a_script_leaves_are_killed(drive, tmp_path):
    pid = tmp_path / "pid"
    leaves = (
        "import os, time\nif not os.fork():\n    os.setsid()\n    if os.fork():\n        os._exit(0)\n"
        f"    open({str(pid)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
        f"while not os.path.exists({str(pid)!r}):\n    time.sleep(0.01)\n"
    )
    drive(HEAD + leaves + "made().fit(x[:96], y[:96], 8)\n", mounts=[str(tmp_path)])
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


BOOSTED = """
import numpy as np
import xgboost
x = np.random.default_rng(0).random((64, 4), np.float32)
xgboost.train({}, xgboost.DMatrix(x, label=x[:, 0]))
"""


@pytest.fixture(scope="module")
def unforkable(trees_python, tmp_path_factory):
    """Run the driver where each fork of Python aborts, as one beside threads of another TensorFlow may.

    With XGBoost, whose import takes a second.
    """
    folder = tmp_path_factory.mktemp("unforkable")
    (folder / "sitecustomize.py").write_text("import os\nos.register_at_fork(after_in_child=os.abort)\n")

    def start(kind, what):
        assert kind == "driver"
        done = subprocess.run(
            [trees_python, "-m", "workloads.driver", *what], cwd=ROOT, env=environment(PYTHONPATH=str(folder)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    return driver(start, tmp_path_factory)


def test_where_processes_cannot_fork_each_run_has_a_fresh_interpreter(unforkable):
    variants = [BASELINE, INPUT_ONLY, TUNED]
    done = unforkable(BOOSTED, others={TUNED: BOOSTED + "\n"}, variants=variants, image=TREES)
    windows = [each["variant"] for each in done.of("window")]
    assert windows == [each for each in variants for _ in range(2)]
    assert done.of("left-out") == done.of("warning") == []
