"""Where scripts call fit, predict or neither, and what they do around it."""

import re
from dataclasses import asdict

import pytest

from harness.fixes import fixes_for
from tests.folders import write_files
from tests.tensorflow.texts import HEAD
from workloads.protocol import BETWEEN_EPOCHS, EPOCH_CALLBACK_PREFIX, RARE_ENDS, Aim, Edit, Fix
from workloads.variants import (
    BASELINE,
    CUSTOM_LOOP,
    FIXES,
    INPUT_ONLY,
    MODEL_ONLY,
    TUNED,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
)

pytestmark = pytest.mark.tensorflow

SCORED = "model = made(metrics=['accuracy'])\nmodel.fit(x, y, batch_size=8)\n"
CHECKPOINT = "keras.callbacks.ModelCheckpoint('saved/best.keras', save_freq=2)"
# Name -> what stands after HEAD.
PLACES = {
    "a model frozen after it was compiled": "model = made()\nmodel.trainable = False\nmodel.fit(x, y, 8)\n",
    "main, with positional arguments and warnings as errors": (
        "import warnings\nwarnings.simplefilter('error')\ndef main():\n    try:\n        made().fit(x, y, 8, 1)\n"
        "    except Exception:\n        print('CAUGHT')\n    finally:\n        pass\n"
        "if __name__ == '__main__':\n    main()"),
    "thread, after an evaluation": (
        "import threading\nmodel = made()\nmodel.evaluate(x, y)\nmodel.predict(x)\n"
        "thread = threading.Thread(target=lambda: model.fit(x, y, batch_size=8))\nthread.start()\nthread.join()"),
    "strategy's scope, with a CallbackList": (
        "with tf.distribute.OneDeviceStrategy('CPU:0').scope():\n"
        "    made().fit(x, y, 8, callbacks=keras.callbacks.CallbackList([keras.callbacks.History()]))"),
    "subclass, and failed after": (
        "class Own(keras.Sequential):\n    def fit(self, *args, **named):\n"
        "        return super().fit(*args, **named)\n"
        "model = Own([keras.layers.Dense(2)])\n"
        "model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True))\nmodel.fit(x, y, 8)\n"
        "raise RuntimeError('no display')"),
    "EarlyStopping": "made().fit(x, y, 8, callbacks=[keras.callbacks.EarlyStopping('loss', patience=0)])",
    "callback that ends each epoch": (
        "class Budget(keras.callbacks.Callback):\n    def on_train_batch_end(self, batch, logs=None):\n"
        "        self.model.stop_training = batch > 1\nmade().fit(x, y, 8, callbacks=[Budget()])"),
    "ModelCheckpoint": f"import os\nos.makedirs('saved')\nmade().fit(x, y, 8, callbacks={CHECKPOINT})",
    "folder that is gone": (
        "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    os.chdir(folder)\n"
        "made().fit(x, y, 8)"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_fit_is_measured_wherever_it_is_called(drive, place):
    done = drive(HEAD + PLACES[place], variants=[BASELINE, MODEL_ONLY], steps=20)
    assert done.per_step()[MODEL_ONLY] == 8
    for window in done.of("window", variant=BASELINE):
        assert window["samples"] == pytest.approx(window["steps"] * 100 / 13, abs=8)
    assert done.of("warning") == []
    assert "CAUGHT" not in done.log


SEVERAL = HEAD + "model = made()\nmodel.fit(x[:96], y[:96], 8)\nmodel.fit(x[:96], y[:96], 16)\n"


def test_one_of_several_calls(drive):
    done = drive(SEVERAL, call=2, variants=[BASELINE, MODEL_ONLY])
    assert done.per_step() == dict.fromkeys((BASELINE, MODEL_ONLY), 16)
    assert "fewer than 3 times, as earlier" in drive(SEVERAL, call=3, code=1).message


def test_plots_are_left_out_and_told(drive):
    text = (
        "import matplotlib.pyplot as plt\nfrom plotly.subplots import make_subplots\n"
        "fig, (one, two) = plt.subplots(1, 2)\nfig, (_, (_, axis)) = plt.subplots(2, ncols=2)\n"
        "line, = one.plot(x)\ncounts, bins, _ = axis.hist(x)\nfig, axis = plt.subplots()\naxis.set_title('a')\n"
        "fig, ((axis,),) = plt.subplots(squeeze=False)\none, two = fig.subplots(nrows=2)\n"
        "make_subplots(rows=2).add_trace(1)\nfrom mpl_toolkits.mplot3d import Axes3D\nplt.__version__ > '1'\n"
        "from matplotlib.pyplot import *\nplot(x)\ntitle('a')\n"
        "made().fit(x, y, 8)"
    )
    warnings = drive(HEAD + text).of("warning")
    assert [each["message"].split()[0] for each in warnings] == ["matplotlib", "plotly", "mpl_toolkits"]


def test_an_error_around_the_measured_call_is_the_trial_s(drive):
    text = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
model, files = made(), []
try:
    while True: files.append(open('/dev/null'))
except OSError: pass
model.fit(x, y, 8)
"""
    assert "may have 200 files open here" in drive(HEAD + text, code=1).message


def test_a_training_in_a_thread_is_measured_though_the_script_waits_no_longer(drive):
    text = """
import sys, threading
begun = threading.Event()
class Begun(keras.callbacks.Callback):
    def on_train_begin(self, logs=None): begun.set()
thread = threading.Thread(target=lambda: made().fit(x, y, 8, callbacks=[Begun()]), daemon=True)
thread.start()
begun.wait()
thread.join(0.1)
if thread.is_alive(): sys.exit('training hung')
"""
    assert drive(HEAD + text).of("window")


def test_a_model_is_not_drawn_without_graphviz(drive):
    text = """
from tensorflow.keras.utils import model_to_dot, plot_model
model = made()
plot_model(model, to_file='m.png', show_shapes=True, expand_nested=True)
plot_model(model, to_file='m.pdf')
print(model_to_dot(model).create(prog='dot', format='svg'))
model.fit(x, y, 8)
"""
    done = drive(HEAD + text)
    assert done.of("window")
    assert "pydot with Graphviz is not in the image" in done.of("warning")[0]["message"]


def test_a_picture_is_not_read_by_what_stands_in_for_a_plotting_library(drive):
    text = "import matplotlib.pyplot as plt\nx = np.array([plt.imread('a.png')])\nmade().fit(x, y, 8)"
    assert "--with matplotlib" in drive(HEAD + text, code=1).message


@pytest.mark.parametrize("times", [1, 200])
def test_ends_of_epochs_are_left_out_of_windows_and_reported(drive, times):
    """Thirteen steps an epoch end inside the windows; 2,500 do not, and are timed in short epochs."""
    text = (
        HEAD
        + f"import time\nx, y = x.repeat({times}, 0), y.repeat({times}, 0)\n"
        + ("end = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: time.sleep(0.5))\n")
    )
    slow = drive(text + "made().fit(x, y, 8, callbacks=[end])", variants=[BASELINE], steps=20)
    (metric,) = slow.of("metric", name=BETWEEN_EPOCHS)
    assert 0.5 <= metric["value"] * -(-100 * times // 8) < 2
    for window in slow.of("window"):
        assert window["end_ns"] - window["start_ns"] < 0.5e9


def test_some_long_ends_of_epochs_count_with_their_length(drive):
    text = HEAD + (
        "import time\nend = lambda epoch, _: time.sleep(0.5 if epoch % 4 == 3 else 0)\n"
        "made().fit(x, y, 8, epochs=8, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=end)])"
    )
    (metric,) = drive(text, variants=[BASELINE], steps=60).of("metric", name=BETWEEN_EPOCHS)
    assert 0.07 <= metric["value"] * 13 < 0.4


def test_an_epoch_ends_with_its_data(drive):
    text = HEAD + (
        "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)\nmade().fit(data, steps_per_epoch=1000, epochs=2)"
    )
    (baseline,) = drive(text, variants=[BASELINE]).of("variant")
    assert baseline["params"]["samples_per_epoch"] == 100


@pytest.mark.parametrize(("begin_s", "batch_s", "batches"), [(0.3, 0.002, 400), (0.0, 0.3, 20)])
def test_the_start_of_a_validation_counts_once(drive, begin_s, batch_s, batches):
    text = HEAD + (
        "import time\nx, y = x.repeat(200, 0), y.repeat(200, 0)\nmodel = made()\n"
        "class Slow(keras.callbacks.Callback):\n"
        f"    def on_test_begin(self, logs=None):\n        time.sleep({begin_s})\n"
        f"    def on_test_batch_end(self, batch, logs=None):\n        time.sleep({batch_s})\n"
        f"held = 8 * {batches}\nmodel.fit(x, y, 8, validation_data=(x[:held], y[:held]), callbacks=[Slow()])"
    )
    done = drive(text, variants=[BASELINE], steps=5)
    (metric,) = done.of("metric", name=BETWEEN_EPOCHS)
    least_s = begin_s + batches * batch_s
    assert 0.95 * least_s <= metric["value"] * 2500 < 4 * least_s


@pytest.mark.parametrize(("batches", "epochs"), [(5000, 1), (20, 30)])
def test_a_loader_ends_its_epochs_also_if_they_are_too_long_to_see(drive, batches, epochs):
    text = HEAD + (
        "import time\n"
        "class Rows(keras.utils.PyDataset):\n"
        f"    def __len__(self):\n        return {batches}\n"
        "    def __getitem__(self, index):\n        return x[:8], y[:8]\n"
        "    def on_epoch_end(self):\n        time.sleep(0.5)\n"
        f"made().fit(Rows(), epochs={epochs})"
    )
    done = drive(text, variants=[BASELINE], steps=5)
    (metric,) = done.of("metric", name=BETWEEN_EPOCHS)
    assert 0.5 <= metric["value"] * batches < 2
    (own,) = done.of("metric", name=f"{EPOCH_CALLBACK_PREFIX}Rows.on_epoch_end")
    assert 0.45 <= own["value"] * batches < 1.5


UNKNOWN = """
import time
def slow(a, b):
    time.sleep(0.005)
    return a, b
def rows(times):
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat(times).batch(8).filter(lambda a, b: True)
held = rows(16).map(lambda a, b: tf.numpy_function(slow, [a, b], [a.dtype, b.dtype]))
held = held.map(lambda a, b: (tf.ensure_shape(a, (None, 4)), tf.ensure_shape(b, (None,))))
"""


def test_ends_of_long_epochs_of_unknown_length_count_with_a_validation_of_unknown_length(drive):
    """200 batches of at least 5 ms each in 2,500 steps; both are counted in the first reading only."""
    done = drive(HEAD + UNKNOWN + "made().fit(rows(200), validation_data=held)", variants=[BASELINE], steps=5)
    (metric,) = done.of("metric", name=BETWEEN_EPOCHS)
    assert 1.0 <= metric["value"] * 2500 < 4
    assert done.metric(BASELINE, "batches:training") == 2500
    assert done.metric(BASELINE, "batches:validation") == 200


def test_a_remedy_has_the_baselines_share_of_rare_ends(drive):
    """Of every nine epochs one ends late; a reading has none or several of these."""
    text = HEAD + (
        "import time\nclass Rarely(keras.callbacks.Callback):\n"
        "    def on_epoch_end(self, epoch, logs=None):\n        time.sleep(0.3 * (epoch % 9 == 8))\n"
        "made().fit(x, y, 8, epochs=99, verbose=1, callbacks=[Rarely()])"
    )
    start = text.index("verbose=1")
    quiet = Fix(edits=(Edit(start=start, end=start + 9, text="verbose=2"),), aim=Aim.INPUT)
    fixes = {"fix:no-progress-bar": asdict(quiet)}
    done = drive(text, variants=[BASELINE, FIXES], fixes=fixes, steps=90)
    rare = done.metric(BASELINE, RARE_ENDS)
    assert rare is not None and rare >= 0.3 / 15
    reported = done.of("metric", name=BETWEEN_EPOCHS)
    assert {each["variant"] for each in reported} == {BASELINE, "fix:no-progress-bar"}
    assert all(each["value"] * 13 >= 0.8 * rare for each in reported), reported


def test_a_validation_that_takes_too_long_to_count_is_told(drive):
    text = (
        HEAD
        + UNKNOWN
        + (
            "from workloads.driver import epoch_ends\nepoch_ends._LONGEST_COUNT_S = 0.5\n"
            "made().fit(x.repeat(99, 0), y.repeat(99, 0), 8, validation_data=held)"
        )
    )
    done = drive(text, variants=[BASELINE], steps=5)
    (told,) = (each["message"] for each in done.of("warning") if "does not know" in each["message"])
    assert "speeds are without validation. Say how many" in told
    assert not done.of("metric", name=BETWEEN_EPOCHS)


def test_training_that_was_stopped_does_not_validate_once_more(drive):
    text = HEAD + (
        "x, y = x.repeat(200, 0), y.repeat(200, 0)\nmodel = made()\n"
        "class Told(keras.callbacks.Callback):\n"
        "    def on_test_begin(self, logs=None):\n        print('VALIDATES', flush=True)\n"
        "model.fit(x, y, 8, validation_data=(x, y), callbacks=[Told()])"
    )
    done = drive(text, variants=[BASELINE, WITHOUT_INPUT], steps=5)
    assert done.log.count("VALIDATES") in (4, 6, 8), "only the short epochs that time it, two of each size"


# Of two classes the top two are always right, which is not the accuracy.
HELD_OUT = "model.evaluate(x, 1 - y)\nprint('NOT REACHED')\n"
NAMED = "keras.metrics.SparseTopKCategoricalAccuracy(k=2, name='{}')".format


@pytest.mark.parametrize(
    ("metrics", "known"),
    [
        (f"{NAMED('top_k_accuracy')}, 'accuracy'", True),
        ("keras.metrics.SparseCategoricalAccuracy('out_Acc')", True),
        (f"{NAMED('jaccard')}, {NAMED('acc_loss')}, {NAMED('vaccine')}", False),
    ],
)
def test_accuracy_is_that_of_the_scripts_own_evaluate(drive, metrics, known):
    done = drive(HEAD + SCORED.replace("'accuracy'", metrics) + HELD_OUT)
    assert [0 <= each["value"] < 1 for each in done.of("metric", name="accuracy")] == [True] * known
    assert "NOT REACHED" not in done.log


def test_without_an_evaluation_there_is_no_accuracy(drive):
    assert drive(HEAD + SCORED).of("metric", name="accuracy") == []
    assert drive(HEAD + SCORED + HELD_OUT, evaluate=False).of("metric", name="accuracy") == []


@pytest.mark.parametrize("call", ["predict(x, batch_size=20)", "evaluate(x, y, 20)"])
def test_a_script_that_does_not_train_is_measured_as_keras_runs_it(drive, call):
    variants = [BASELINE, CUSTOM_LOOP, MODEL_ONLY, INPUT_ONLY, WITHOUT_LAUNCH, WITHOUT_INPUT]
    done = drive(f"{HEAD}made().{call}", variants=variants, window_s=0.1)
    assert done.per_step() == dict.fromkeys(variants, 20), done.of("needless") + done.of("left-out")
    assert done.of("variant")[0]["params"]["trains"] is False
    assert done.of("requests") == []


def test_an_input_that_is_too_short_has_advice(drive):
    text = f"{HEAD}made().predict((x[:4],) for _ in range(3))"
    assert "--profile smoke" in drive(text, code=1, steps=0).message


@pytest.mark.parametrize("call", ["evaluate(data)", "predict(endless(), steps=10)"])
def test_the_input_of_inference_is_part_of_its_step(drive, call):
    slow = (
        "import time\n"
        "def made_slowly():\n    for _ in range(4):\n        time.sleep(0.03)\n        yield x[:8], y[:8]\n"
        "def endless():\n    while True:\n        yield from made_slowly()\n"
        "types = (tf.TensorSpec((8, 4)), tf.TensorSpec((8,), tf.int32))\n"
        "data = tf.data.Dataset.from_generator(made_slowly, output_signature=types)\n"
    )
    done = drive(f"{HEAD}{slow}made().{call}", variants=[BASELINE, MODEL_ONLY, INPUT_ONLY], window_s=0.2)
    seconds = {
        each["variant"]: (each["end_ns"] - each["start_ns"]) / 1e9 / each["steps"]
        for each in done.of("window", index=0)
    }
    assert seconds[BASELINE] > 0.01, "a batch may be made between two calls"
    assert seconds[INPUT_ONLY] >= 0.02
    assert seconds[MODEL_ONLY] < 0.01


def test_samples_are_sent_in_the_type_of_the_script_and_a_change_is_told(drive):
    text = HEAD + (
        "class Net(keras.Model):\n    def call(self, inputs):\n        print('sent', inputs.dtype.name)\n"
        "        return keras.ops.cast(inputs, 'float32')\n"
        "model = Net()\nmodel.compile()\nmodel.predict(x.astype(TYPE), batch_size=20)"
    )
    whole = {TUNED: text.replace("TYPE", "'uint8'")}
    done = drive(text.replace("TYPE", "'float32'"), others=whole, requests={"batch_sizes": [1]})
    assert "sent float32" in done.log
    assert "sent uint8" in done.log
    (variant,) = done.of("variant", variant=TUNED)
    assert variant["changes"] == [{"what": "input_type", "before": "float32", "after": "uint8"}]


LOOP = """
model = made()
optimizer = keras.optimizers.SGD()
for epoch in range(1000):
    for start in range(0, 96, BATCH_SIZE):
        model.train_on_batch(x[start : start + BATCH_SIZE], y[start : start + BATCH_SIZE])
        # tfbench: step BATCH_SIZE
print("NOT REACHED")
"""


@pytest.mark.parametrize("mark", ["#tfbench:step", "pass  # tfbench: step"])
def test_a_loop_of_its_own_has_marked_steps_and_no_breakdown(drive, mark):
    done = drive(HEAD + LOOP.replace("# tfbench: step", mark), variants=[BASELINE, MODEL_ONLY])
    assert done.per_step() == {BASELINE: 8}
    assert done.of("variant")[0]["params"] == {"batch_size": 8}
    assert "NOT REACHED" not in done.log
    assert [each["variant"] for each in done.of("left-out") + done.of("needless")] == [MODEL_ONLY]


TRACED = """
import time
@tf.function
def step(batch):
    time.sleep(0.5)  # while it is traced
    return tf.reduce_sum(batch)
for size in SIZES:
    step(tf.ones(size))
    time.sleep(0.01)
    # tfbench: step size
"""


@pytest.mark.parametrize(
    ("sizes", "least_s", "most_s"),
    [
        ("[8] * 30 + [3] + [8] * 20 + [4] + [8] * 100_000", 0.01, 0.05),
        ("[8] * 30 + list(range(9, 100_000))", 0.25, 0.7),
    ],
)
def test_the_first_two_steps_of_a_loop_that_trace_are_not_its_speed(drive, sizes, least_s, most_s):
    done = drive(HEAD + TRACED.replace("SIZES", sizes), window_s=0.6, steps=0)
    first, second = done.of("window")
    for window in (first, second) if most_s < 0.1 else (second,):
        assert least_s < (window["end_ns"] - window["start_ns"]) / 1e9 / window["steps"] < most_s


@pytest.mark.parametrize("call", ["made().fit(x, y, 8)", "pass\n    # tfbench: step 8"])
def test_a_script_cannot_hold_up_the_end_of_its_measurement(drive, call):
    text = HEAD + (
        "import time\nbegan, other = time.monotonic(), 0\nwhile time.monotonic() < began + 6:\n"
        f"  try:\n    time.sleep(0.01)\n    {call}\n  except BaseException:\n    other += 1\nprint('OTHER', other)\n"
    )
    done = drive(text)
    assert len(done.of("window")) == 2
    assert "OTHER" not in done.log


def test_a_script_that_goes_on_after_its_call_keeps_what_was_measured(drive):
    text = HEAD + "model = made()\nmodel.fit(x, y, 8)\nwhile True:\n    pass\n"
    done = drive(text, variants=[BASELINE, MODEL_ONLY], stall_s=4.0)
    # On a busy machine the baseline may be read again, in a process of its own.
    assert [each["variant"] for each in done.of("window")][:4] == [BASELINE, BASELINE, MODEL_ONLY, MODEL_ONLY]
    said = done.of("warning")[-1]["message"]
    assert "train.py:" in said and "after its measurement" in said and "--stall" not in said
    assert done.of("end")


@pytest.mark.parametrize(
    "starts",
    [
        "threading.Thread(target=train).start()",
        "threading.Timer(0.2, train).start()\nsys.exit()",
        "atexit.register(train)",
    ],
)
@pytest.mark.parametrize(
    "call", ["model.fit(x, y, 8)", "while True:\n        time.sleep(0.001)  # tfbench: step 8"]
)
def test_what_trains_when_the_main_module_has_ended_is_measured(drive, starts, call):
    text = f"{HEAD}import atexit, sys, threading, time\nmodel = made()\ndef train():\n    {call}\n{starts}\n"
    done = drive(text, variants=[BASELINE])
    assert len(done.of("window", variant=BASELINE)) == 2


def test_builtins_of_the_main_module_are_a_module(drive):
    text = f"{HEAD}shown = __builtins__.print\n__builtins__.print = shown\nmade().fit(x, y, 8)\n"
    assert len(drive(text).of("window")) == 2


def test_marks_in_a_module_are_told(drive):
    helper = "def train():\n    for _ in range(9):\n        pass  # tfbench: step 8\n"
    told = drive(f"{HEAD}import helper\nhelper.train()\n", files={"helper.py": helper}, code=1).message
    assert "helper.py marks the end of a step" in told and "move the loop to train.py" in told


def test_a_list_of_no_files_names_the_folder_that_is_not_there(drive):
    text = f"{HEAD}import glob\nfirst = sorted(glob.glob('/kaggle/input/*.csv'))[0]\nmade().fit(x, y, 8)\n"
    assert "--mount /kaggle/input" in drive(text, code=1).message


def test_a_thread_that_never_ends_holds_nothing_up(drive):
    text = f"{HEAD}import threading\nthreading.Thread(target=threading.Event().wait).start()\nmade().fit(x, y, 8)\n"
    done = drive(text, variants=[BASELINE])
    assert len(done.of("window")) == 2 and not done.of("warning")


def test_an_error_of_a_thread_that_would_train_is_told(drive):
    train = "def train():\n    made().fit(x, y[:3], 8)\n"
    told = drive(f"{HEAD}import threading\n{train}threading.Thread(target=train).start()\n", code=1).message
    assert "cardinality" in told


def test_another_backend_is_refused(drive):
    text = "import os\nos.environ['KERAS_BACKEND'] = 'jax'\n" + HEAD + "made().fit(x, y, 8)\n"
    assert "sets KERAS_BACKEND=jax" in drive(text, code=1).message


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("SystemExit(0)", "SystemExit(0)"),
        ("ModuleNotFoundError('No module named tb', name='tb')", "--with tb"),
        ("ModuleNotFoundError('No module named imp', name='imp')", "no longer has it"),
        ("ModuleNotFoundError('No module named tkinter', name='tkinter')", "Python does not have it"),
    ],
)
def test_a_callback_that_ends_the_call_is_told(drive, ends, told):
    text = (
        HEAD
        + f"def end(*_):\n    raise {ends}\nmade().fit(x, y, 8, callbacks=[keras.callbacks.LambdaCallback(end)])\n"
    )
    assert told in drive(text, code=1).message


SCHEDULES = {
    "a list and the number of epochs":
        "Told(), keras.callbacks.LearningRateScheduler(lambda epoch: [0.1, 0.01][epoch])",
    "a power and the end of the training":
        "Whole(), keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 * (1 - epoch / 2) ** 0.9)",
}  # fmt: skip
SEEN = """
class Told(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        assert epoch < self.params["epochs"] == 2
class Whole(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.steps = 0
    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
    def on_train_end(self, logs=None):
        assert self.steps == 2 * 13
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_callbacks_that_know_the_scripts_epochs_only(drive, schedule):
    text = f"{HEAD}{SEEN}done = made().fit(x, y, 8, epochs=2, callbacks=[{SCHEDULES[schedule]}])\n"
    text += "print('KEPT', len(done.history['loss']) > 1)"
    done = drive(text, variants=[BASELINE, WITHOUT_INPUT], steps=30, evaluate=True)
    assert {each["variant"] for each in done.of("window")} == {BASELINE, WITHOUT_INPUT}
    assert "KEPT True" in done.log


def test_what_lies_beside_the_script_is_read_in_all_variants_and_never_written(drive, tmp_path):
    names = (
        "best.keras",
        "best.weights.h5",
        "log.csv",
        "a.tfrecord",
        "a.log",
        "saved/a.index",
        "0.txt",
        "1.txt",
    )
    write_files(tmp_path, dict.fromkeys(names, "old"))
    text = HEAD + (
        "files = tf.data.Dataset.list_files('?.txt', shuffle=False).repeat(20).batch(4)\n"
        "def read(names):\n"
        "    sizes = tf.map_fn(lambda n: tf.strings.length(tf.io.read_file(n)), names, fn_output_signature='int32')\n"
        "    return tf.repeat(tf.cast(sizes, 'float32')[:, None], 4, 1), sizes % 2\n"
        "saving = [keras.callbacks.CSVLogger('log.csv'), keras.callbacks.ModelCheckpoint('best.keras'),\n"
        "          keras.callbacks.ModelCheckpoint('best.weights.h5', save_weights_only=True)]\n"
        "tf.io.TFRecordWriter('a.tfrecord').close()\n"
        "tf.io.write_file('a.log', 'new')\ntf.io.gfile.copy('a.log', 'saved/a.index', overwrite=True)\n"
        "made().fit(files.map(read), callbacks=saving)\n"
    )
    variants = [BASELINE, INPUT_ONLY, CUSTOM_LOOP, WITHOUT_LAUNCH]
    script = {"path": str(tmp_path / "train.py"), "text": text}
    done = drive(text, variants=variants, scripts={BASELINE: script}, steps=20)
    assert {each["variant"] for each in done.of("window")} == {*variants}
    assert {(tmp_path / name).read_text() for name in names} == {"old"}


def test_a_large_file_beside_the_script_becomes_a_copy_when_python_or_h5py_writes_to_it(drive, tmp_path):
    for name in ("a.bin", "b.h5"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(40 << 20)
    text = HEAD + (
        "import h5py\nopen('a.bin', 'r+b').write(b'new')\nh5py.File('b.h5', 'w').close()\nmade().fit(x, y, 8)\n"
    )
    drive(text, scripts={BASELINE: {"path": str(tmp_path / "train.py"), "text": text}})
    assert {(tmp_path / name).stat().st_size for name in ("a.bin", "b.h5")} == {40 << 20}
    assert (tmp_path / "a.bin").read_bytes()[:3] == bytes(3)


def test_fit_is_measured_in_a_module_and_under_another_name(drive):
    helper = "def train(m, x, y):\n    run = m.fit\n    run(x, y, 8)\n"
    text = f"{HEAD}import helper\nm = made()\nm.evaluate(x, y)\nhelper.train(m, x, y)"
    done = drive(text, files={"helper.py": helper}, variants=[BASELINE, FIXES])
    assert done.per_step() == {BASELINE: 8}
    (warning,) = done.of("warning")
    assert "made in helper.py:" in warning["message"] and "train.py only" in warning["message"]


def test_a_model_that_is_compiled_in_a_module_is_told(drive):
    helper = (
        "def prepare(model):\n    model.compile('sgd', 'sparse_categorical_crossentropy')\n    return model\n"
    )
    text = f"{HEAD}import helper\nm = helper.prepare(made())\nm.fit(x, y, 8)"
    (told,) = drive(text, files={"helper.py": helper}, variants=[BASELINE, FIXES]).of("warning")
    assert "train.py does not compile the measured model itself" in told["message"]
    assert drive(f"{HEAD}made().fit(x, y, 8)", variants=[BASELINE, FIXES]).of("warning") == []


def test_a_fit_in_a_loop_is_told(drive):
    (told,) = drive(HEAD + "for _ in range(2):\n    made().fit(x[:96], y[:96], 8)").of("warning")
    assert "without what comes between calls" in told["message"]


OTHERS = """
class Scaler:
    def fit(self, x): return self
try:
    from sklearn.preprocessing import StandardScaler
except ImportError:
    class StandardScaler(Scaler): pass
scaler = StandardScaler()
for _ in range(2):
    scaler.fit(x)
Scaler().fit(x)
"""


def test_only_models_are_counted_as_calling_fit(drive):
    text = HEAD + OTHERS + "m = made()\nm.fit(x[:96], y[:96], 8)\n"
    assert drive(text).of("warning") == []
    (told,) = drive(text + "m.fit(x[:96], y[:96], 8)").of("warning")
    assert "calls fit in 2 places" in told["message"]
    own = "class Own(keras.Model):\n    def fit(self, *args):\n        super().fit(*args)\n"
    assert drive(text + own).of("warning") == []
    (told,) = drive(text + own + "        super().fit(*args)\n").of("warning")
    assert "calls fit in 2 places" in told["message"]


def test_a_floatx_is_that_of_the_model(drive):
    done = drive(HEAD + "keras.config.set_floatx('float64')\nmade().fit(x[:96], y[:96], 8)")
    assert done.of("variant")[0]["params"]["precision"] == "float64"


def test_variables_set_after_the_start_of_tensorflow_are_told(drive):
    text = (
        "import os\nos.environ |= {'OMP_LATE': '1', 'TF_CPP_LATE': '1'}\n"
        + HEAD
        + "made().fit(x[:96], y[:96], 8)"
    )
    assert [each["message"].split("Use ")[1] for each in drive(text).of("warning")] == ["--env OMP_LATE=1."]


def test_a_callback_that_counts_its_batches_is_left_out_after_them(drive):
    finder = (
        "class Finder(keras.callbacks.Callback):\n    rates = [0.1] * 24\n"
        "    def on_train_batch_begin(self, batch, logs=None):\n        self.model.optimizer.learning_rate = {}\n"
        "made().fit(x[:96], y[:96], 8, epochs=2, callbacks=[Finder()])"
    )
    done = drive(HEAD + finder.format("self.rates.pop()"), steps=30)
    assert "Finder.on_train_batch_begin knows 24 batches" in done.of("warning")[0]["message"]
    assert "KeyError" in drive(HEAD + finder.format("{}['rate']"), code=1).message


def test_a_list_of_callbacks_of_a_class_of_the_scripts_own_is_called(drive):
    mine = (
        "class Mine(keras.callbacks.CallbackList):\n    def on_train_batch_end(self, batch, logs=None):\n"
        "        print('MINE', batch) if batch == 5 else None\n        super().on_train_batch_end(batch, logs)\n"
        "class Its(keras.callbacks.Callback):\n    def on_train_batch_end(self, batch, logs=None):\n"
        "        print('ITS', batch, self.model.count_params()) if batch == 5 else None\n"
    )
    text = (
        f"{mine}m = made()\nm.fit(x, y, 8, verbose=0, callbacks=Mine([Its()], model=m, epochs=1, steps=13))\n"
    )
    done = drive(HEAD + text)
    assert done.per_step() == {BASELINE: 8}
    assert done.log.count("MINE 5") == done.log.count("ITS 5") > 0


@pytest.mark.parametrize("kind", ["Exception", "BaseException"])
def test_a_training_that_its_callback_ends_by_an_error_that_the_script_catches_is_measured(drive, kind):
    stop = (
        f"class Stop({kind}):\n    pass\n"
        "class Enough(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, *of):\n"
        "        if epoch == 60:\n            raise Stop\n"
    )
    call = "try:\n    made().fit(x, y, 8, callbacks=[Enough()])\nexcept BaseException as error:\n    print(error)\n"
    assert drive(HEAD + stop + call, steps=4).per_step() == {BASELINE: 8}


def test_a_child_that_the_script_forks_ends_with_the_script(drive):
    text = HEAD + (
        "import atexit, os, sys\nwritten = open('written', 'w')\n"
        "def forked(does):\n"
        "    if not os.fork():\n        does()\n    print('CHILD', os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "atexit.register(lambda: written.write('at exit'))\n"
        "forked(lambda: sys.exit(3))\nforked(lambda: sys.exit('why'))\nforked(lambda: os._exit(5))\n"
        "forked(lambda: 1 / 0)\nprint('WRITTEN', open('written').read())\n"
        "made().fit(x[:96], y[:96], 8)\nos._exit(0)\n"
    )
    done = drive(text)
    assert done.per_step() == {BASELINE: 8}
    assert re.findall(r"CHILD (\d+)", done.log) == ["3", "1", "5", "1"]
    assert "why" in done.log
    assert "ZeroDivisionError" in done.log
    assert "WRITTEN at exitat exitat exit" in done.log


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("keras.utils.get_file('a.zip', 'http://127.0.0.1:9/a.zip')", "--mount PATH"),
        # Interrupts are ignored in what a shell starts in the background.
        (
            "import signal as s\ns.signal(s.SIGINT, s.default_int_handler)\ns.raise_signal(s.SIGINT)",
            "KeyboardInterrupt.",
        ),
        ("class Own(Exception):\n    __str__ = None\nraise Own", "train.py:18: Own."),
        ("print('nothing to measure')", "ended without a call of fit, evaluate or predict"),
        ("if len(x) == 1:\n    made().fit(x, y)", "train.py:17: train.py ended before this call of fit"),
        ("made().fit(x[:0], y[:0])", "no samples"),
        ("made().fit(x, y, workers=4)", "fit() got an unexpected keyword argument 'workers'"),
        ("made().fit(tf.data.Dataset.from_tensor_slices((x[:0], y[:0])).batch(8))", ""),
        ("for _ in range(3):\n    pass\n    # tfbench: step 8\n", "ended after 3 steps"),
        (LOOP.replace("step BATCH_SIZE", "step 0"), "step 0"),
        (LOOP.replace("step BATCH_SIZE", "step 10^23"), "powers"),
        (LOOP.replace("step BATCH_SIZE", "step 8 images"), "such as 32"),
        ("made().fit()", "x is None"),
        (LOOP.replace("# tfbench", "# other").replace("1000", "1"), "# tfbench: step BATCH_SIZE"),
        ("for _ in range(9):  # tfbench: step 8\n    pass", "a line of its own"),
        ("m = made()\nm.evaluate(x, y)\nm.train_on_batch(x, y)", "trains in a loop of its own. Mark"),
        (
            "s = tf.distribute.MirroredStrategy(['CPU:0'])\nwith s.scope():\n    m = made()\n"
            "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)\n"
            "m.fit(s.experimental_distribute_dataset(data), steps_per_epoch=4)",
            "Give fit the tf.data.Dataset itself",
        ),
    ],
)
def test_a_script_with_nothing_to_measure(drive, text, expected):
    done = drive(HEAD + text, code=1)
    assert expected in done.message
    assert done.of("window") == []


def test_downloads_are_found_among_mounts(drive, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.npy").write_bytes(b"")
    text = HEAD + (
        "path = keras.utils.get_file('a.npy', 'http://127.0.0.1:9/x/a.npy')\n"
        "print('bytes', len(open(path, 'rb').read()))\nmade().fit(x[:96], y[:96], 8)"
    )
    assert "bytes 0" in drive(text, mounts=[str(tmp_path)]).log


# Name -> how to load it, and its shapes.
DATASETS = {
    "cifar100": ("__import__('keras').datasets.cifar100", (32, 32, 3), "(40, 1)"),
    "mnist": ("__import__('tensorflow').keras.datasets.mnist", (28, 28), "(40,)"),
}


@pytest.mark.parametrize("name", DATASETS)
def test_keras_datasets_are_the_mounted_arrays(drive, arrays, name):
    load, shape, labels = DATASETS[name]
    text = HEAD + f"(x, y), _ = {load}.load_data()" + (
        "\nprint('labels', y.shape)\nmodel = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])\n"
        "model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True))\nmodel.fit(x / 255, y, 8)"
    )  # fmt: skip
    done = drive(text, data={name: arrays(shape, 10, 40, 8)})
    assert done.per_step() == {BASELINE: 8}
    assert f"labels {labels}" in done.log


def test_what_one_script_sets_does_not_reach_the_next(drive):
    first = HEAD + (
        "keras.mixed_precision.set_global_policy('mixed_float16')\nimport helper\nhelper.COUNT += 1\n"
        "keras.config.set_floatx('float16')\nmade().fit(x[:96], y[:96], 8)"
    )
    second = HEAD + (
        "import helper\nprint('count', helper.COUNT, keras.config.floatx())\nmodel = made()\n"
        "model.get_layer('dense')\nmodel.fit(x[:96], y[:96], 8)"
    )
    done = drive(first, others={TUNED: second}, files={"helper.py": "COUNT = 1\n"})
    assert "count 1 float32" in done.log
    precisions = {each["variant"]: each["params"]["precision"] for each in done.of("variant")}
    assert precisions == {BASELINE: "mixed_float16", TUNED: "float32"}


def test_what_a_changed_script_raises_has_no_advice_for_the_script_as_written(drive):
    text = HEAD + "made().fit(x, y, 8, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=OWN)])\n"
    raises = text.replace("OWN", "lambda *of, **named: open('absent')")
    done = drive(
        text.replace("OWN", "lambda *of, **named: None"), others={TUNED: raises}, variants=[BASELINE, TUNED]
    )
    (left_out,) = done.of("left-out", variant=TUNED)
    assert left_out["reason"].endswith("FileNotFoundError: [Errno 2] No such file or directory: 'absent'.")
    done = drive(raises, variants=[BASELINE], code=1)
    assert done.message.endswith("or an absolute one with --mount.")


OWN = """
class Scaler:
    def fit(self, x):
        return x
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2)
    def call(self, x):
        return self.inner(x)
    def compile(self, special):
        super().compile(special, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
other = made()
model = Own()
model.compile("sgd")
model.fit(Scaler().fit(x), y, 8,
          verbose=0)
other.fit(x, y)
"""


def test_what_keras_does_not_compile_has_no_speed_with_xla(drive):
    text = HEAD + (
        "words = keras.layers.TextVectorization(9, output_sequence_length=4)\nwords.adapt(['a b'])\n"
        "layers = [keras.Input((), dtype='string'), words, keras.layers.Embedding(9, 2), keras.layers.Flatten(),\n"
        "          keras.layers.Dense(1)]\n"
        "model = keras.Sequential(layers)\nmodel.compile('sgd', 'mse')\n"
        "model.fit(tf.constant(['a b'] * 64), np.zeros(64), 8)\n"
    )
    fixes = {name: asdict(fix) for name, fix in fixes_for(text, "cpu").items() if name == "fix:xla"}
    done = drive(text, variants=[BASELINE, FIXES], fixes=fixes)
    assert [each["variant"] for each in done.of("left-out")] == ["fix:xla"]
    assert "fix:xla" not in {each["variant"] for each in done.of("window")}


def test_what_fit_prints_stays_as_it_is_where_the_script_reads_it(drive):
    text = HEAD + (
        "import contextlib, io\nmodel = made()\n"
        "with contextlib.redirect_stdout(io.StringIO()) as said:\n    model.fit(x, y, 8)\nprint(said.tell())\n"
    )
    fixes = {
        name: asdict(fix) for name, fix in fixes_for(text, "cpu").items() if name == "fix:no-progress-bar"
    }
    (left_out,) = drive(text, variants=[BASELINE, FIXES], fixes=fixes).of("left-out")
    assert "StringIO of the script, which may read what fit prints" in left_out["reason"]


def test_what_a_check_cannot_call_is_no_error_of_the_script(drive):
    text = HEAD + (
        "import sys, tensorflow as tf\n"
        "def again(frame): return bool(frame) and (frame.f_code.co_name == 'alike' or again(frame.f_back))\n"
        "def once(a):\n"
        "    if any(map(again, sys._current_frames().values())): raise RuntimeError('not again')\n"
        "    return a\n"
        "rows = np.arange(4e3, dtype='float32').reshape(-1, 4)\n"
        "data = tf.data.Dataset.from_tensor_slices(rows).map(\n"
        "    lambda a: (tf.ensure_shape(tf.numpy_function(once, [a], tf.float32), (4,)), a[:1] * 0)\n).batch(8)\n"
        "made().fit(data, verbose=0)\n"
    )
    fixes = {name: asdict(fix) for name, fix in fixes_for(text, "cpu").items() if name == "fix:parallel-map"}
    (left_out,) = drive(text, variants=[BASELINE, FIXES], fixes=fixes).of("left-out")
    assert "Whether it changes training cannot be told" in left_out["reason"]
    assert "not again" in left_out["reason"]


def test_remedies_change_the_calls_that_the_script_made(drive):
    text = HEAD + OWN
    chosen = ("fix:xla", "fix:steps-per-execution")
    made = {name: fix for name, fix in fixes_for(text, "cpu").items() if name in chosen}
    spec = {"variants": [BASELINE, FIXES], "fixes": {name: asdict(fix) for name, fix in made.items()}}
    done = drive(text, **spec)
    diffs = {each["variant"]: each["diff"] for each in done.of("script")}
    assert diffs.keys() == set(chosen)
    for name, argument in (
        ("fix:xla", "jit_compile=True"),
        ("fix:steps-per-execution", "steps_per_execution=10"),
    ):
        (added,) = [line for line in diffs[name].splitlines() if line.startswith("+ ")]
        assert added.strip("+ ").startswith("super().compile(special, ") and argument in added


@pytest.mark.parametrize(
    "asks",
    [
        "try:\n    kind = get_ipython().__class__.__name__\nexcept NameError:\n    kind = 'plain'\n",
        "kind = 'shell' if 'get_ipython' in globals() else 'plain'\n",
    ],
)
def test_a_script_that_asks_whether_it_is_a_notebook_is_none(drive, asks):
    assert "KIND plain" in drive(f"{HEAD}{asks}print('KIND', kind)\nmade().fit(x, y, 8)\n").log
    cell = f"# %% cell 1\n{HEAD}{asks}print('KIND', kind)\nmade().fit(x, y, 8)\n"
    assert "KIND plain" not in drive(cell).log


def test_an_error_in_a_neighbour_is_told_with_both_lines(drive):
    text = f"{HEAD}import helper\nhelper.load()\n"
    told = drive(text, files={"helper.py": "def load():\n    assert False\n"}, code=1).message
    assert told.startswith(f"train.py:{text.count(chr(10))} (helper.py:2): AssertionError")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import subprocess\nsubprocess.run(['no-such-program'])", "train.py:{}: FileNotFoundError"),
        (
            "import os\nos.environ['SEED_X'] = '1'\nimport sys\nos.execv(sys.executable, ['x'])",
            "Use --env SEED_X=1",
        ),
        ("tf.config.list_physical_devices('GPU')[0]", "use --device gpu"),
        ("made().fit(zip([x], [y]), steps_per_epoch=1)", "train.py:{}: ValueError: Unrecognized data type"),
        (
            "import multiprocessing as m\n"
            "def work():\n    import time\n    while time.process_time() < 2:\n        pass\n"
            "p = m.get_context('fork').Process(target=work)\np.start()\np.join()",
            "trains in processes that it starts",
        ),
        (
            "import multiprocessing as m\n"
            "p = m.get_context('forkserver').Process(target=print)\np.start()\np.join()",
            "trains in processes that it starts",
        ),
        (
            "import multiprocessing as m\n"
            "p = m.get_context('fork').Process(target=lambda: made().predict(x[:0]))\np.start()\np.join(20)\np.kill()",
            "trains in processes that it starts",
        ),
        (
            "import os, sys, time\nif os.fork(): sys.exit(0)\nos.setsid()\ntime.sleep(5)\nmade().fit(x, y)",
            "trains in processes that it starts",
        ),
        ("n = []  # left out by tfbench: !nproc\nint(n[0])", "left out: n = !nproc is an empty list"),
        (
            "# !pip install a  # left out by tfbench\n# !unzip a  # left out by tfbench\n"
            "# %%bash  # left out by tfbench\n# wget https://b/c.csv  # left out by tfbench\nopen('c.csv')",
            "left out: if wget https://b/c.csv makes it, run that before",
        ),
        (
            "raise RuntimeError('Failed:\\nHloModule a {\\n}\\n')",
            "RuntimeError: Failed. XLA, with which Keras",
        ),
        (
            "import matplotlib.pyplot as plt\nn, bins, _ = plt.hist(x)\nfloat(bins[0])",
            "add --with matplotlib",
        ),
        (
            "import matplotlib.pyplot as plt\nkeras.utils.get_file('a.tgz', 'http://a.invalid/a.tgz')",
            "Containers have no network",
        ),
        ("from tensorflow.keras.wrappers.scikit_learn import KerasClassifier", "which has no such name"),
        ("from keras.utils import np_utils", ", which has no such name"),
        ("keras.optimizers.SGD(lr=0.1)", "which has no such name"),
        ("tf.compat.v1.estimator.Estimator", "The image has TensorFlow 2."),
        ("from matplotlib import ticker\nclass Short(ticker.Formatter):\n    pass", "add --with matplotlib"),
        ("import os\nraise KeyError(os.path.basename(os.getcwd()))", "run it as a module, -m FOLDER.NAME"),
        (
            "import os\nos.environ['HOME'] = '/tmp'\nopen('/tmp/data/x.npy')",
            "--mount ~/data/x.npy --env HOME=$HOME",
        ),
        ("open('/usr/share/nothing.csv')", "/usr/share is there, but not that file"),
        ("raise OSError(6, 'No such device or address', '/dev/tty')", "A script has no terminal here"),
        (
            "# !pip install a  # left out by tfbench\n# !unzip a  # left out by tfbench\nopen('b/c.csv')",
            "with --mount. Programs that a notebook starts are left out: if !unzip a makes it",
        ),
    ],
)
def test_advice_names_what_happened(drive, text, told):
    message = drive(HEAD + text, code=1).message
    assert told.format((HEAD + text).count("\n") + 1) in message


@pytest.mark.parametrize(
    ("given", "offered"), [("0, 0", True), ("0, 0, None, each", False), ("**each", False)]
)
def test_a_module_with_calls_that_have_callbacks_needs_its_steps_one_by_one(drive, given, offered):
    helper = "def go(m, x, y):\n    return m.fit(x, y, batch_size=8)\n"
    helper += f"def other(m, x, each):\n    m.predict(x, {given})\n"
    text = f"from helper import go\n{HEAD}m = made()\ngo(m, x, y)\n"
    name = "fix:steps-per-execution"
    fixes = {
        key: asdict(fix)
        for key, fix in fixes_for(text + "m.fit(x, y, batch_size=8)", "cpu").items()
        if key == name
    }
    done = drive(text, files={"helper.py": helper}, variants=[BASELINE, FIXES], fixes=fixes)
    refused = [each["reason"] for each in done.of("left-out", variant=name)]
    assert refused == [] if offered else "helper may train or predict too" in refused[0]
    assert bool(done.of("reading", variant=name)) and bool(done.of("window", variant=name)) == offered


def test_memory_that_a_script_asks_for_in_vain_names_its_line(drive):
    asks = "class Asks(keras.callbacks.Callback):\n    def on_epoch_end(self, *given): bytearray(1 << 62)\n"
    (error,) = drive(f"{HEAD}{asks}made().fit(x[:16], y[:16], 8, callbacks=[Asks()])", code=1).of("error")
    assert error["type"] == "MemoryError" and f"train.py:{HEAD.count(chr(10)) + 2}: " in error["message"]


def test_names_of_ipython_are_there(drive):
    text = "get_ipython().run_line_magic('matplotlib', 'inline')\nassert 'colab' not in str(get_ipython())\n"
    drive(HEAD + text + "display(made().fit(x, y, 8))\nget_ipython().getoutput('ls')[:1]\n")


def test_an_error_is_told_in_one_line_whatever_the_script_is_called(drive):
    assert (
        drive("raise ValueError('cause')", name="new\nline", code=1).message
        == "new line.py:1: ValueError: cause."
    )
