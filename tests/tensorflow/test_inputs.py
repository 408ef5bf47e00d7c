"""What fit accepts is measured as it is: every kind of input, counted exactly."""

import re
from dataclasses import asdict

import pytest

from tests.tensorflow.texts import HEAD, piped
from workloads.protocol import BETWEEN_EPOCHS, SAMPLES_TRAINED, Aim, Edit, Fix
from workloads.variants import (
    BASELINE,
    CUSTOM_LOOP,
    FIXES,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGE,
    STAGES,
    WITHOUT_EPOCHS,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
)

pytestmark = pytest.mark.tensorflow

PARTS = [INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, "batch:4", "calls:10", WITHOUT_LAUNCH, WITHOUT_INPUT]
BREAKDOWN = [BASELINE, *PARTS]
TWO_INPUTS = """
a, b = (keras.layers.Input((4,), name=name) for name in "ab")
model = keras.Model({"a": a, "b": b}, keras.layers.Dense(2, activation="softmax")(keras.layers.Concatenate()([a, b])))
model.compile("sgd", "sparse_categorical_crossentropy")
"""
LOADER = """
class Loader(keras.utils.PyDataset):
    def __len__(self):
        return 13
    def __getitem__(self, index):
        rows = slice(8 * index, 8 * index + 8)
        return x[rows], y[rows]
"""
VAE = """
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.mean, self.spread, self.back = (keras.layers.Dense(n) for n in (2, 2, 4))
        self.total = keras.metrics.Mean(name="reconstruction")
    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, spread = self.mean(data), self.spread(data)
            code = mean + tf.exp(spread) * tf.random.normal(tf.shape(mean))
            loss = tf.reduce_mean(tf.square(self.back(code) - data)) - tf.reduce_mean(spread)
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.total.update_state(loss)
        return {"reconstruction": self.total.result()}
model = Own()
model.compile("adam")
"""
RAGGED = """
words = tf.data.Dataset.range(64).map(lambda i: (tf.range(tf.cast(i % 5, tf.int32) + 1), i % 2))
model = keras.Sequential([keras.layers.Embedding(9, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
"""
PAIRS = "tf.data.Dataset.from_tensor_slices((x, y))"
# Name -> (what stands after HEAD, samples per step of the baseline).
INPUTS = {
    "arrays": ("made().fit(x, y, batch_size=BATCH_SIZE)", None),
    "tensors, default batch": ("made().fit(tf.constant(x[:96]), tf.constant(y[:96]))", 32),
    "sample weights, several steps per call": (
        "made(steps_per_execution=4).fit(x[:96], y[:96], 8, sample_weight=x[:96, 0])", 8),
    "class weights, validation data": (
        "weights = {0: 1.0, 1: 2.0}\n"
        "made(metrics=['accuracy']).fit(x[:96], y[:96], 8, class_weight=weights, validation_data=(x, y))", 8),
    "xla, validation split": ("made(jit_compile=True).fit(x, y, 8, validation_split=0.2)", 8),  # 80 samples are left
    "dictionaries and weights in a pipeline": (
        TWO_INPUTS + "parts = ({'a': x[:96], 'b': x[:96]}, y[:96], x[:96, 0])\n"
        "model.fit(tf.data.Dataset.from_tensor_slices(parts).batch(8))", 8),
    "pipeline": (f"made().fit({PAIRS}.shuffle(10).batch(8, drop_remainder=True).prefetch(2))", 8),
    "a step of its own": (VAE + "model.fit(tf.data.Dataset.from_tensor_slices(x[:96]).batch(8))", 8),
    "mixed precision, a strategy of its own": (
        "keras.mixed_precision.set_global_policy('mixed_float16')\n"
        "with tf.distribute.MirroredStrategy(['CPU:0']).scope():\n    model = made()\nmodel.fit(x[:96], y[:96], 8)", 8),
}  # fmt: skip


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_of_fit_has_a_breakdown(drive, kind):
    text, samples = INPUTS[kind]
    # All variants of some; of the others those that read the input differently.
    whole = kind in ("arrays", "a step of its own", "dictionaries and weights in a pipeline")
    done = drive(
        HEAD + text, variants=BREAKDOWN if whole else [BASELINE, INPUT_ONLY, CUSTOM_LOOP, WITHOUT_INPUT]
    )
    assert done.of("left-out") == []
    assert done.of("warning") == []
    assert {each["variant"] for each in done.of("needless")} <= {WITHOUT_INPUT, WITHOUT_LAUNCH}
    per_step = done.per_step()
    if samples:
        assert per_step == {name: 4 * samples if name == "batch:4" else samples for name in per_step}
    params = {each["variant"]: each["params"] for each in done.of("variant")}
    assert params[BASELINE]["samples_per_epoch"] in (80, 96, 100)
    assert all(each == params[BASELINE] for each in params.values())


@pytest.mark.parametrize(
    "after",
    [".flat_map(lambda a, b: tf.data.Dataset.from_tensor_slices((a, b)).batch(4))",
     ".map(lambda a, b: (tf.concat([a, a], 0)[:4], tf.concat([b, b], 0)[:4]))"],
)  # fmt: skip
def test_batches_that_are_cut_anew_have_their_own_size(drive, after):
    text = f"{HEAD}made().fit({PAIRS}.repeat(20).batch(16, drop_remainder=True){after})"
    assert drive(text).per_step() == {BASELINE: 4}


def test_a_pipeline_that_never_ends_needs_its_steps(drive):
    text = f"{HEAD}made().fit({PAIRS}.batch(8).repeat())"
    assert "steps_per_epoch" in drive(text, full=True, code=1).message


IN_PYTHON = {
    "loader with threads": LOADER + "made().fit(Loader(workers=2, max_queue_size=4))",
    "endless loader": LOADER.replace("def __len__(self):\n        return 13", "num_batches = None")
    + "made().fit(Loader(), steps_per_epoch=5)",
    "generator": "def endless():\n    while True:\n        yield x[:8], y[:8]\n"
    "made().fit(endless(), steps_per_epoch=7)",
}  # fmt: skip


@pytest.mark.parametrize("kind", IN_PYTHON)
def test_loaders_written_in_python(drive, kind):
    text = HEAD + IN_PYTHON[kind].replace("8 * index", "8 * (index % 12)")
    done = drive(text, variants=[BASELINE, INPUT_ONLY, CUSTOM_LOOP, WITHOUT_INPUT, STAGES])
    assert done.of("left-out") == []
    assert done.per_step()[BASELINE] == 8
    costs = {event["name"]: event["value"] for event in done.of("metric", variant=INPUT_ONLY)}
    assert costs and all(STAGE.has(name) and value > 0 for name, value in costs.items())


# Each line of a pipeline -> the stages from its source on.
STAGED = {
    PAIRS + ".map(half).map(lambda a, b: (a, b)).batch(8)":
        ["read", "half, train.py:17", "map, train.py:23", "batch"],
    PAIRS + ".shuffle(10).batch(8).map(half, tf.data.AUTOTUNE).prefetch(2)":
        ["read", "shuffle", "batch", "half, train.py:17"],
    PAIRS + ".map(half).cache().repeat(2).shuffle(9).batch(8)": ["cache", "shuffle", "batch"],
    "tf.data.Dataset.range(4).interleave(rows).filter(keep).batch(8)":
        ["read", "rows, train.py:19", "keep, train.py:21", "batch"],
    "tf.data.Dataset.from_generator(lambda: zip(x, y), output_signature=(tf.TensorSpec((4,)), "
    "tf.TensorSpec((), tf.int32))).batch(8)": ["read, train.py:23", "batch"],
    "tf.data.Dataset.zip(tf.data.Dataset.from_tensor_slices(x), tf.data.Dataset.from_tensor_slices(y)).batch(8)":
        ["read", "batch"],
    "tf.data.Dataset.zip((" + PAIRS + ".map(half), tf.data.Dataset.range(96)))"
    ".enumerate().map(lambda i, p: p[0]).batch(8)":
        ["read", "half, train.py:17", "map, train.py:23", "batch"],
    PAIRS + ".batch(16).unbatch().padded_batch(8)": ["read", "batch", "unbatch", "padded batch"],
    PAIRS + ".map(half).map(half).take(96).batch(50).rebatch(8)":
        ["read", "half, train.py:17", "half, train.py:17 (2)", "batch", "rebatch"],
}  # fmt: skip
FUNCTIONS = """
def half(a, b):
    return a / 2, b
def rows(n):
    return tf.data.Dataset.from_tensor_slices((x, y))
def keep(a, b):
    return a[0] > 0.0
"""


@pytest.mark.parametrize(
    "made",
    ["tf.data.Dataset.from_generator(given, output_signature=(tf.TensorSpec((None, 4)), "
     "tf.TensorSpec((None,), tf.int32)))",
     "tf.data.Dataset.range(12).map(lambda n: (x[:8], y[:8]))"],
)  # fmt: skip
def test_batches_that_a_function_makes_are_counted_by_their_samples(drive, made):
    given = "def given():\n    for _ in range(12):\n        yield x[:8], y[:8]\n"
    done = drive(
        f"{HEAD}x, y = tf.constant(x), tf.constant(y)\n{given}made().fit({made})\n",
        variants=[BASELINE, STAGES],
    )
    assert list(done.per_step().values())[-1] == 8


@pytest.mark.parametrize("pipeline", STAGED)
def test_stages_are_named_by_function_and_line(drive, pipeline):
    done = drive(HEAD + FUNCTIONS + f"made().fit({pipeline})\n", variants=[BASELINE, STAGES])
    found = [event["variant"] for event in done.of("variant") if event["variant"] != BASELINE]
    assert found == [STAGE.of(name) for name in STAGED[pipeline]]
    assert {event["variant"] for event in done.of("window")} == {BASELINE, *found}
    per_step = done.per_step()
    assert {
        per_step[name] for name in found if "batch" not in name and name != "stage:half, train.py:17"
    } <= {16}


@pytest.mark.parametrize(
    ("pipeline", "names"),
    [
        (
            PAIRS + ".map(half).batch(8).enumerate().map(lambda i, p: p)",
            ["read", "half, train.py:17", "batch"],
        ),
        (
            f"tf.data.Dataset.sample_from_datasets([{PAIRS}.map(half), {PAIRS}]).batch(8).map(lambda a, b: (a, b))",
            ["read", "half, train.py:17", "directed interleave", "batch"],
        ),
        (
            "keras.utils.timeseries_dataset_from_array(x, y, 1, batch_size=8).map(lambda a, b: (a[:, 0], b))",
            ["read", "timeseries dataset", "batch"],
        ),
    ],
)
def test_stages_of_pipelines_that_are_put_together_of_several(drive, pipeline, names):
    done = drive(HEAD + FUNCTIONS + f"made().fit({pipeline})\n", variants=[BASELINE, STAGES])
    found = [STAGE.of(name) for name in (*names, "map, train.py:23")]
    assert [event["variant"] for event in done.of("variant") if event["variant"] != BASELINE] == found
    assert 7 < done.per_step()[found[-1]] <= 8, "samples, of which a batch has eight"


def test_stages_of_datasets_that_a_loop_has_joined(drive):
    loop = f"data = {PAIRS}\nfor _ in range(600):\n    data = data.concatenate({PAIRS}.take(1))\n"
    done = drive(HEAD + FUNCTIONS + loop + "made().fit(data.batch(8))\n", variants=[BASELINE, STAGES])
    assert done.of("left-out") == []
    found = [event["variant"] for event in done.of("variant") if event["variant"] != BASELINE]
    assert found == [STAGE.of("read"), STAGE.of("batch")]


@pytest.mark.parametrize("batching", [".ragged_batch(8)", ".padded_batch(8)"])
def test_sequences_of_different_lengths(drive, batching):
    text = HEAD + RAGGED + f"model.fit(words{batching})\n"
    done = drive(text, variants=[BASELINE, INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, STAGES])
    assert [each for each in done.of("left-out") if each["variant"] != STAGES] == []
    assert {name: count for name, count in done.per_step().items() if not STAGE.has(name)} == {
        BASELINE: 8, INPUT_ONLY: 8, MODEL_ONLY: 8, CUSTOM_LOOP: 8,
    }  # fmt: skip


# 600 samples make one batch of 512 and one of 88.
ENDS = {
    "arrays": (HEAD + "made().fit(np.resize(x, (600, 4)), np.resize(y, 600), 512)", 300),
    "in calls": (piped("range(600)", ".batch(512)", calls=2), 300),
    "repeated": (piped("range(600)", ".batch(512).repeat()", steps=2), 300),
    "unknown": (piped("range(600)", ".filter(lambda x, y: True).batch(200)"), 200),
}


@pytest.mark.parametrize("end", ENDS)
def test_samples_include_short_batches(drive, end):
    text, samples_per_step = ENDS[end]
    done = drive(text, variants=[BASELINE, INPUT_ONLY], windows=1, steps=20)
    for window in done.of("window"):
        # A window may begin and end within an epoch.
        assert window["samples"] == pytest.approx(samples_per_step * window["steps"], abs=512)
    assert not done.of("warning")


UNEVEN = """
def batches():
    for size in (64, 8, 8, 8):
        yield np.zeros((size, 4), np.float32), np.zeros(size, np.int32)
class Loader(keras.utils.PyDataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return [*batches()][index % 4]
def endless():
    while True:
        yield from batches()
shapes = tf.TensorSpec((None, 4)), tf.TensorSpec((None,), tf.int32)
"""
MIXED = {
    "a pipeline": "tf.data.Dataset.from_generator(batches, output_signature=shapes)",
    "a loader": "Loader(), shuffle=False",
    "a loader with threads": "Loader(workers=2), shuffle=False",
    "a generator": "endless(), steps_per_epoch=12",
}


@pytest.mark.parametrize("kind", MIXED)
def test_batches_of_several_sizes_are_counted(drive, kind):
    """Four batches have 88 samples."""
    text = f"{HEAD}{UNEVEN}made().fit({MIXED[kind]}, epochs=9)\n"
    done = drive(text, windows=2, steps=12)
    for window in done.of("window"):
        assert window["samples"] / window["steps"] == pytest.approx(22, abs=6)
    (warning,) = done.of("warning")
    assert warning["message"].endswith(f"a batch of {64 if kind == 'a generator' else 8}.")


# Of 40 or 400 batches one is short, and a step takes long for a size that it has not had before.
ANY_ORDER = """
import time
SIZES = set()
class Own(keras.Sequential):
    def train_step(self, data):
        if NEW:
            SIZES.add(data[0].shape[0])
            time.sleep(1)
        return super().train_step(data)
class Loader(keras.utils.PyDataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return x[:5 if index == 39 else 8], y[:5 if index == 39 else 8]
pairs = tf.data.Dataset.from_tensor_slices((np.tile(x, (40, 1))[:3197], np.tile(y, 40)[:3197]))
model = Own([keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), MODE=True)
"""


@pytest.mark.parametrize(
    ("variant", "data", "mode", "new", "steps"),
    [
        (BASELINE, "Loader()", "run_eagerly", "len(data[0]) not in SIZES", 60),
        (
            BASELINE,
            "pairs.take(317).batch(8).shuffle(40, seed=2)",
            "run_eagerly",
            "len(data[0]) not in SIZES",
            60,
        ),
        # The loop traces the compiled step for each size.
        (CUSTOM_LOOP, "pairs.batch(8)", "jit_compile", "tf.is_symbolic_tensor(data[0])", 800),
    ],
)
def test_the_first_short_batch_is_compiled_for_once(drive, variant, data, mode, new, steps):
    text = f"{HEAD}{ANY_ORDER}model.fit({data}, epochs=9)\n".replace("MODE", mode).replace("NEW", new)
    done = drive(text, variants=list(dict.fromkeys([BASELINE, variant])), windows=1, steps=steps)
    (window,), (lengths,) = (done.of(kind, variant=variant) for kind in ("window", "steps"))
    assert window["samples"] < 8 * window["steps"], "it has a short batch"
    assert max(lengths["step_ns"]) < 5e8
    assert done.of("warning") == []


def test_some_sizes_of_a_batch_are_compiled_for_before_the_windows(drive):
    text = f"{HEAD}{ANY_ORDER}".replace("MODE", "run_eagerly").replace("NEW", "len(data[0]) not in SIZES")
    text += (
        "def batches():\n    for number in range(40):\n        rows = (3, 5, 8, 13)[number % 4]\n"
        "        yield x[:rows], y[:rows]\n"
        "data = tf.data.Dataset.from_generator(batches, output_signature=(\n"
        "    tf.TensorSpec((None, 4), x.dtype), tf.TensorSpec((None,), y.dtype)))\n"
        "model.fit(data, epochs=9)\n"
    )
    done = drive(text, variants=[BASELINE], warmup_s=0.01, window_s=0.05, steps=0)
    assert max(max(each["step_ns"]) for each in done.of("steps")) < 5e8


def test_the_rows_of_targets_are_the_samples(drive):
    """An input may have parts without a row for each sample."""
    text = HEAD + (
        "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)"
        ".map(lambda a, b: ({'all': tf.ones((1,)), 'each': a}, b))\n"
        "each, all = keras.Input((4,), name='each'), keras.Input((), name='all')\n"
        "model = keras.Model({'all': all, 'each': each}, keras.layers.Dense(2)(each))\n"
        "model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True))\n"
        "model.fit(data, epochs=9)\n"
    )
    for window in drive(text, windows=1, steps=10).of("window"):
        assert window["samples"] == 10 * window["steps"]


RARE = """
class Held(keras.utils.PyDataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        time.sleep(0.5)
        return x[:8], y[:8]
made().fit(x, y, batch_size=10, epochs=99, validation_data=Held(), validation_freq=4)
"""


def test_rare_validations_take_their_part_of_the_ends_of_epochs(drive):
    """Ten steps an epoch, and a second in every fourth: 25 ms a step, and what Keras takes itself."""
    done = drive(f"import time\n{HEAD}{RARE}", windows=2, steps=20)
    (between,) = done.of("metric", name=BETWEEN_EPOCHS)
    assert 0.02 < between["value"] < 0.08


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ("range(80)", None),
        ("range(80)", 14),
        ("range(80).repeat()", 10),
        ("range(80).filter(lambda i: True)", 14),
    ],
)
def test_steps_of_calls_of_several_are_those_that_keras_ran(drive, source, steps):
    """An input of 20 batches, and epochs of all of them, of one call or of one call and a half."""
    text = piped(source, steps=steps, calls=10).replace("model.fit(", "model.fit(callbacks=[Steps()], x=")
    counting = """
class Steps(keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        print("Keras ran steps:", int(self.model.optimizer.iterations))
"""
    done = drive(text.replace("\nBATCH_SIZE", counting + "\nBATCH_SIZE"), windows=1, steps=200)
    ran = int(done.log.partition("Keras ran steps: ")[2].split()[0])
    # The last two calls are not measured.
    assert ran - 20 <= done.metric(BASELINE, SAMPLES_TRAINED) / 4 <= ran


@pytest.mark.parametrize(
    ("text", "steps", "samples"),
    [
        (HEAD + "made().fit(x, y, 8, epochs=4, initial_epoch=1)", 3 * 13, 300),
        (HEAD + "made(steps_per_execution=5).fit(x, y, 8, epochs=3)", 3 * 13, 300),
        (HEAD + LOADER + "made().fit(Loader(), epochs=3)", 3 * 13, 300),
        (HEAD + "made().fit(x, y, 8, epochs=3, validation_split=0.2)", 3 * 10, 240),
        (piped("range(600).filter(lambda i: True)", ".batch(200)", epochs=3), 9, 1800),
        (piped("range(400).repeat()", epochs=3, steps=7), 21, 84),
        (piped("range(401)", ".batch(4)", epochs=2), 202, 802),
    ],
)
def test_a_whole_training_is_counted_exactly(drive, text, steps, samples):
    done = drive(text, full=True)
    assert done.metric(BASELINE, SAMPLES_TRAINED) == samples
    # Keras also counts the calls that find an input of unknown length at its end.
    if "Keras ran steps" in text and "filter" not in text:
        assert f"Keras ran steps: {steps}\n" in done.log


@pytest.mark.parametrize(
    ("end", "prefetches"),
    [
        (".prefetch(2)", True),
        (".prefetch(2).with_options(tf.data.Options())", True),
        (".prefetch(2).map(lambda a, b: (a, b))", False),
        ("", False),
    ],
)
def test_whether_a_pipeline_ends_with_a_prefetch_is_told(drive, end, prefetches):
    done = drive(f"{HEAD}made().fit({PAIRS}.batch(8){end})\n", steps=4)
    (event,) = done.of("variant", variant=BASELINE)
    assert event["params"].get("prefetches", False) is prefetches


def test_every_step_of_an_endless_generator_counts(drive):
    """Its seven steps an epoch are fewer than those that make one call without launches."""
    text = HEAD + (
        "def endless():\n    while True:\n        yield x[:8], y[:8]\n"
        "model = made()\ntold = lambda *_: print('DONE', int(model.optimizer.iterations))\n"
        "model.fit(endless(), steps_per_epoch=7, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=told)])\n"
    )
    done = drive(text, steps=40)
    (trained,) = done.of("metric", name=SAMPLES_TRAINED)
    # The last step may not be finished.
    assert trained["value"] / 8 == pytest.approx(int(re.findall(r"DONE (\d+)", done.log)[-1]), abs=1)
    assert drive(text, variants=[BASELINE, WITHOUT_LAUNCH], steps=40).per_step()[WITHOUT_LAUNCH] == 8


def test_a_generator_that_ends_leaves_out_its_stages(drive):
    text = HEAD + (
        "ended = []\ndef batches():\n    while not ended:\n        yield x[:8], y[:8]\n"
        "end = keras.callbacks.LambdaCallback(on_train_end=ended.append)\n"
        "made().fit(batches(), steps_per_epoch=7, callbacks=[end])\n"
    )
    done = drive(text, variants=[BASELINE, STAGES])
    assert len(done.of("window", variant=BASELINE)) == 2
    assert [each["variant"] for each in done.of("left-out")] == [STAGES]


ROWS = """
import time
STATE = {}
def rows():
    for start in range(0, 64, 8):
        yield x[start : start + 8] * STATE.get("scale", SCALE), y[start : start + 8]
class Slow(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        STATE["scale"] = np.float32(2.0)
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(0.04)
given = (tf.TensorSpec((None, 4)), tf.TensorSpec((None,), tf.int32))
made().fit(tf.data.Dataset.from_generator(rows, output_signature=given), epochs=9, callbacks=[Slow()])
"""


def test_the_ends_of_epochs_of_unknown_length_count(drive):
    done = drive(HEAD + ROWS.replace("SCALE", "1"), steps=30, variants=[BASELINE])
    assert 0.04 / 8 < done.metric(BASELINE, BETWEEN_EPOCHS) < 0.4 / 8


def test_prefetch_may_read_what_callbacks_change_between_epochs_that_begin_anew(drive):
    text = (
        "strength = tf.Variable(1.0)\n"
        "class Stronger(keras.callbacks.Callback):\n"
        "    def on_epoch_begin(self, epoch, logs=None): strength.assign(2.0)\n"
        "data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a * strength, b)).batch(8)\n"
        "made().fit(data{}, callbacks=[Stronger()], epochs=9{})\n"
    )
    for more, refused in ((("", ""), False), ((".repeat()", ", steps_per_epoch=9"), True)):
        fixes = {"fix:prefetch": asdict(Fix(edits=(Edit(start=0, end=0, text=""),), aim=Aim.INPUT))}
        done = drive(HEAD + text.format(*more), variants=[BASELINE, FIXES], fixes=fixes)
        reasons = [each["reason"] for each in done.of("left-out", variant="fix:prefetch")]
        assert ["may change between epochs" in each for each in reasons] == [True] * refused


def test_what_a_metric_may_change_between_epochs_is_not_cached(drive):
    text = (
        "class Epochs(keras.metrics.Mean):\n"
        "    passed = 0\n"
        "    def update_state(self, y, p, sample_weight=None): return super().update_state(p)\n"
        "    def reset_state(self):\n"
        "        super().reset_state(); Epochs.passed += 1\n"
        "def scaled(a): return a * np.float32(Epochs.passed > 6)\n"
        "def read(a, b): return tf.ensure_shape(tf.numpy_function(scaled, [a], tf.float32), (4,)), b\n"
        "data = tf.data.Dataset.from_tensor_slices((x, y)).map(read).batch(8)\n"
        "model = made(); model.compile('sgd', 'sparse_categorical_crossentropy', metrics=[Epochs()])\n"
        "model.fit(data, epochs=9)\n"
    )
    start = len(HEAD) + text.index(".batch")
    fix = Fix(edits=(Edit(start=start, end=start, text=".cache()"),), aim=Aim.INPUT)
    done = drive(HEAD + text, variants=[BASELINE, FIXES], fixes={"fix:cache": asdict(fix)})
    assert "The metric Epochs may change" in str(done.of("left-out", variant="fix:cache"))


@pytest.mark.parametrize(("more", "cached"), [(".cache()", ".batch(8)"), ("", ".cache().batch(8)")])
def test_what_fills_a_cache_counts_where_the_baseline_has_none(drive, more, cached):
    text = (
        f"{HEAD}\nimport time\nslow = lambda i: time.sleep(0.005) or i\n"
        "read = lambda i: (tf.ensure_shape(tf.numpy_function(slow, [x], x.dtype), (4,)) for x in (i,))\n"
        "def both(a, b): return tuple(read(a))[0], b\n"
        f"data = tf.data.Dataset.from_tensor_slices((x[:80], y[:80])).map(both){more}.batch(8)\n"
        "made().fit(data, epochs=2)\n"
    )
    start = text.index(".batch(8)")
    change = Fix(edits=(Edit(start=start, end=start + 9, text=cached),), aim=Aim.INPUT)
    done = drive(text, variants=[BASELINE, FIXES], fixes={"fix:cache": asdict(change)}, steps=0, window_s=0.1)
    per_step = [each["value"] for each in done.of("metric", variant="fix:cache", name=BETWEEN_EPOCHS)]
    # 0.4 s in two epochs of ten steps.
    assert per_step and all((each > 0.018) == (not more) for each in per_step)


KEEPING = {
    "a loader's dict": (
        "class Rows(keras.utils.PyDataset):\n"
        "    kept = {}\n    def __len__(self): return 12\n"
        "    def __getitem__(self, index):\n        if index not in self.kept:\n            time.sleep(0.1)\n"
        "            self.kept[index] = x[:8], y[:8]\n        return self.kept[index]\n"
        "data = Rows()\n"
    ),
    "a cached function": (
        "@functools.cache\ndef slow(number): time.sleep(0.0125); return x[number]\n"
        "def read(number, label): return tf.ensure_shape(tf.numpy_function(slow, [number], x.dtype), (4,)), label\n"
        "data = tf.data.Dataset.from_tensor_slices((np.arange(96), y[:96])).map(read).batch(8)\n"
    ),
}


@pytest.mark.parametrize("kind", KEEPING)
def test_later_epochs_are_measured_of_an_input_that_keeps_what_it_has_read(drive, kind):
    text = f"{HEAD}import functools, time\n{KEEPING[kind]}made().fit(data, epochs=9)\n"
    done = drive(text, variants=[BASELINE], steps=6)
    assert all((each["end_ns"] - each["start_ns"]) / 1e9 / each["steps"] < 0.05 for each in done.of("window"))


def test_an_input_may_read_what_a_callback_sets_up(drive):
    done = drive(HEAD + ROWS.replace('STATE.get("scale", SCALE)', 'STATE["scale"]'), variants=[BASELINE])
    assert len(done.of("window", variant=BASELINE)) == 2


def test_an_input_that_is_read_once_only_is_said_to_be(drive):
    once = (
        ROWS.replace("SCALE", "1")
        .replace("range(0, 64, 8)", "STARTS")
        .replace("STATE = {}", "STATE, STARTS = {}, iter(range(0, 64, 8))")
    )
    assert "The input has ended" in drive(HEAD + once, variants=[BASELINE], code=1).message


ENDING = """
def ending(batches, *, size=8):
    for _ in batches: yield x[:size], y[:size]
def again():
    yield from ending(range(5), size=size)
size = 4
"""


@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("ending(range(24)), steps_per_epoch=10, epochs=2", 8),
        ("ending(range(24), size=4)", 4),
        ("again(), steps_per_epoch=5", 4),
    ],
)
def test_a_generator_of_a_function_begins_anew(drive, call, size):
    variants = [BASELINE, MODEL_ONLY, CUSTOM_LOOP]
    done = drive(f"{HEAD}{ENDING}made().fit({call})", variants=variants, steps=30)
    assert done.per_step() == dict.fromkeys(variants, size)


def test_so_does_a_pipeline_of_more_than_an_epoch(drive):
    data = "tf.data.Dataset.from_tensor_slices((x, y)).batch(8)"
    done = drive(f"{HEAD}made().fit({data}, steps_per_epoch=9, epochs=2)", steps=40)
    assert len(done.of("window")) == 2


def test_so_does_that_of_a_validation(drive):
    held = "def held(): print('held out'); yield from ending(range(4))\n"
    given = "again(), steps_per_epoch=5, validation_data=held(), validation_steps=2"
    done = drive(f"{HEAD}{ENDING}{held}made().fit({given})", steps=30)
    assert done.log.count("held out") > 2


@pytest.mark.parametrize(
    "given",
    [
        "((x[:8], y[:8]) for _ in range(24))",
        "ending(iter(range(24)))",
        "tf.data.Dataset.from_generator(lambda: once, output_signature=(tf.TensorSpec((8, 4)), tf.TensorSpec((8,))))",
    ],
)
def test_an_input_that_runs_out_in_an_epoch_is_said_to(drive, given):
    text = f"{HEAD}{ENDING}once = ending(range(24))\nmade().fit({given}, steps_per_epoch=10, epochs=50)"
    done = drive(text, steps=6, windows=20, variants=[BASELINE], code=1)
    assert "The input has ended" in done.message
    assert sum(each["steps"] for each in done.of("window")) < 36


def test_steps_without_a_batch_are_none(drive):
    """Keras goes on with steps where the input of an endless epoch is empty."""
    taking = (
        "import queue\nwaiting = queue.Queue()\nfor each in range(320): waiting.put(each)\ndef take():\n"
        "    while not waiting.empty(): yield x[waiting.get() % 8], y[0]\n"
        "data = tf.data.Dataset.from_generator(take, output_signature=(tf.TensorSpec((4,)), tf.TensorSpec(())))\n"
    )
    text = f"{HEAD}{taking}made().fit(data.batch(8), steps_per_epoch=25, epochs=2)"
    done = drive(text, variants=[BASELINE, WITHOUT_EPOCHS], steps=10, warmup_s=0.0)
    assert all(each["samples"] for each in done.of("window"))
    assert "The input has ended" in str(done.of("left-out"))


def test_a_batch_has_no_more_samples_than_there_are(drive):
    done = drive(f"{HEAD}made().fit(x[:5], y[:5], epochs=9)")
    assert done.of("variant")[0]["params"]["batch_size"] == 5
    assert done.per_step() == {BASELINE: 5}
