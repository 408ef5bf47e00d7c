import ast
from typing import Any

import pytest

from harness.fixes import REMEDIES, fixes_for
from harness.fixes.rule import Safety
from tests.conftest import ROOT
from workloads.driver.edits import applied, at_sites
from workloads.variants import FIX

HEAD = "import keras\nimport numpy as np\nimport tensorflow as tf\n"
SOURCE = "tf.data.Dataset.from_tensor_slices((x, y))"


def changed(text: str, *names: str) -> str:
    """Return a script with some remedies; as it was if they do not fit."""
    fixes = fixes_for(text, "cpu")
    result = applied(text, [fix for name in names if (fix := fixes.get(FIX.of(name)))])
    ast.parse(result)
    return result


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("no-progress-bar", "model.fit(x, y, 64, 3, 1)", "model.fit(x, y, 64, 3, 2)"),
        ("no-progress-bar", "model.fit(x, y, 64, 3)", "model.fit(x, y, 64, 3, verbose=2)"),
        ("larger-batch", "model.fit(x, y, 64, 3)", "model.fit(x, y, 256, 3)"),
        (
            "cudnn-kernel",
            "LSTM(8, recurrent_dropout=0.2, unroll=False)",
            "LSTM(8, recurrent_dropout=0, unroll=False)",
        ),
        ("cudnn-kernel", "layers.GRU(8, activation='relu')", 'layers.GRU(8, activation="tanh")'),
        ("parallel-map", f"data = {SOURCE}.map(f, 4)", f"data = {SOURCE}.map(f, 4)"),
        ("parallel-map", f"data = {SOURCE}.map(f, n)", f"data = {SOURCE}.map(f, n)"),
        ("parallel-map", f"data = {SOURCE}.map(f, 1)", f"data = {SOURCE}.map(f, tf.data.AUTOTUNE)"),
        (
            "parallel-map",
            f"def scaled(tf): return {SOURCE}.map(f)",
            f"def scaled(tf): return {SOURCE}.map(f, num_parallel_calls=-1)",
        ),
    ],
)
def test_arguments_by_position_are_known(name: str, line: str, expected: str) -> None:
    assert changed(f"{HEAD}{line}\n", name) == f"{HEAD}{expected}\n"


def test_remedies_together_keep_lines_and_comments() -> None:
    lines = ("dataset", "    .map(lambda x, y: (x / 255, y))  # scale", "    .batch(32)  # all of ( them")
    both = changed("\n".join((HEAD, "model.fit(", *lines, ")\n")), "parallel-map", "prefetch")
    assert "(x / 255, y), num_parallel_calls=tf.data.AUTOTUNE)  # scale\n" in both
    assert "    .batch(32).prefetch(tf.data.AUTOTUNE)  # all of ( them\n)\n" in both


@pytest.mark.parametrize(
    ("defined", "mapped", "parallel"),
    [
        ("flip = keras.layers.RandomFlip()", "lambda x, y: (flip(x), y)", True),
        ("def prep(x, y):\n    parts = []\n    parts.append(x)\n    return parts[0], y", "prep", True),
        ("def prep(x, y):\n    x[0] += 1\n    return x, y", "prep", True),
        ("kept = {}\ndef prep(x, y):\n    kept[x] = y\n    return x, y", "prep", False),
        ("seen = tf.Variable(0)\ndef prep(x, y):\n    seen.assign_add(1)\n    return x, y", "prep", False),
        ("seen = [0]\ndef prep(x):\n    seen[0] += 1\n    return x", "lambda x, y: prep(x)", False),
        ("seen = 0\ndef prep(x, y):\n    global seen\n    seen += 1\n    return x, y", "prep", False),
        (
            "file = open('x', 'rb')\ndef prep(x, y):\n    file.seek(8)\n    return file.read(8), y",
            "prep",
            False,
        ),
        ("log = open('x', 'a')\ndef told(text): log.write(text)", "lambda x, y: (x, y)", True),
    ],
)
def test_what_counts_is_not_called_in_parallel(defined: str, mapped: str, parallel: bool) -> None:
    text = f"{HEAD}{defined}\ndata = {SOURCE}.map({mapped})\nmodel.fit(data)\n"
    assert ("num_parallel_calls" in changed(text, "parallel-map")) is parallel


@pytest.mark.parametrize(
    ("made", "known"),
    [
        ("tf.data.Dataset.zip((a, b))", True),
        ("tf.data.Dataset.sample_from_datasets([a, b])", True),
        ("Dataset.load('a')", True),
        ("np.load('a')", False),
    ],
)
def test_pipelines_of_other_pipelines_are_known(made: str, known: bool) -> None:
    text = f"{HEAD}data = {made}.map(lambda x, y: (x, y))\nmodel.fit(data)\n"
    assert ("num_parallel_calls" in changed(text, "parallel-map")) is known


def test_parallel_maps_do_not_promise_the_same_random_numbers() -> None:
    assert REMEDIES["parallel-map"].safety is Safety.ORDER


def test_the_pipeline_that_is_trained_on_is_cached() -> None:
    stages = "tf.data.Dataset.list_files({folder}).map(read){more}"
    held_out = f"test = {stages.format(folder='TEST', more='.map(resize).batch(8)')}\n"
    train = f"files = {stages.format(folder='TRAIN', more='')}\ntrain = files.batch(8)\n"
    text = f"{HEAD}def read(path): return path\ndef resize(path): return path\n{held_out}{train}model.{{}}(train)\n"
    for method in ("fit", "predict"):
        script = text.format(method) + "model.evaluate(test)\n" * (method == "fit")
        assert f"{stages.format(folder='TRAIN', more='.cache()')}\n" in changed(script, "cache")
        assert held_out in changed(script, "cache")


@pytest.mark.parametrize(
    ("defined", "mapped", "cached"),
    [
        ("aug = keras.Sequential([keras.layers.RandomFlip()])", "lambda x: aug(x, training=True)", False),
        ("def move(x): return tf.image.random_crop(x, 8)\ndef prep(x):\n    return move(x)", "prep", False),
        (
            "class Shift:\n    def __call__(self, x): return x + tf.random.normal([])\nshift = Shift()",
            "shift",
            False,
        ),
        ("from helper import prep", "prep", False),
        ("def made(prep): return data.map(prep)", "lambda x: prep(x)", False),
        ("from PIL import Image\nimport numpy as np", "lambda x: np.asarray(Image.open(x))", True),
        ("def half(x): return x / 2\ndef prep(x): return half(x)", "functools.partial(prep)", True),
        ("level = tf.Variable(0.0)", "lambda x: x * level", False),
        ("", "lambda x: (x, model(x))", False),
        ("teacher = keras.models.load_model('a')", "lambda x: (x, teacher(x))", True),
        (
            "teacher = keras.models.load_model('a')\nteacher.train_on_batch(x, y)",
            "lambda x: (x, teacher(x))",
            False,
        ),
        (
            "teacher = keras.models.load_model('a')\nstep(teacher.trainable_variables)",
            "lambda x: (x, teacher(x))",
            False,
        ),
        (
            "class Own:\n    def train(self): self.model.fit(x)\n    def prep(self, x): return self.scale * x\n"
            "own = Own()",
            "own.prep",
            True,
        ),
    ],
)
def test_what_a_map_uses_decides_whether_it_is_cached(defined: str, mapped: str, cached: bool) -> None:
    text = (
        f"{HEAD}import functools\n{defined}\nfiles = tf.data.Dataset.list_files('*').map({mapped}).batch(8)\n"
    )
    assert (".cache()" in changed(f"{text}model.fit(files)\n", "cache")) is cached


@pytest.mark.parametrize(
    ("source", "cached"),
    [
        (f"{SOURCE}.filter(lambda x, y: tf.random.uniform([]) < 0.5)", False),
        (f"{SOURCE}.filter(lambda x, y: y > 0)", True),
        ("tf.data.Dataset.from_generator(samples, output_types=tf.int32)", False),
        (f"tf.data.Dataset.range(9).interleave(lambda i: {SOURCE}.shuffle(9))", False),
        ("shuffled()", False),
    ],
)
def test_what_a_map_gets_decides_whether_it_is_cached(source: str, cached: bool) -> None:
    made = (
        f"def samples():\n    yield np.random.rand(8)\ndef shuffled(): return {SOURCE}.shuffle(9)\n"
        f"def plain(): return {SOURCE}\n"
    )
    text = f"{HEAD}{made}data = {source}.map(lambda *x: x).batch(8)\nmodel.fit(data)\n"
    assert (".cache()" in changed(text, "cache")) is cached
    by_line = (
        f"{HEAD}{made}data = {source}\ndata = data.map(lambda *x: x)\ndata = data.batch(8)\nmodel.fit(data)\n"
    )
    assert ("map(lambda *x: x).cache()\n" in changed(by_line, "cache")) is cached


FILES = "tf.data.Dataset.list_files('*')"
CALLBACK = "class Own(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None): {}\n"
READ = "def read(path):\n    with open(path.numpy()) as file:\n        return len(file.read())\n"


@pytest.mark.parametrize(
    ("defined", "source", "mapped", "cached"),
    [
        ("", FILES, "lambda path: tf.io.read_file(path)", True),
        ("", FILES, "lambda path: tf.io.read_file('mask.png')", False),
        (READ, FILES, "lambda path: tf.py_function(read, [path], tf.int32)", True),
        (
            READ.replace("path.numpy()", "'level'"),
            SOURCE,
            "lambda x, y: tf.numpy_function(read, [x], 'f4')",
            False,
        ),
        ("table = np.load('table.npy')\n", SOURCE, "lambda x, y: x * table", True),
        (CALLBACK.format("np.save('next.npy', epoch)"), FILES, "lambda path: tf.io.read_file(path)", False),
        (
            CALLBACK.format("print(epoch, file=open('log', 'a'))"),
            FILES,
            "lambda path: tf.io.read_file(path)",
            False,
        ),
        (CALLBACK.format("self.model.save('m.keras')"), FILES, "lambda path: tf.io.read_file(path)", True),
        (CALLBACK.format("np.save('next.npy', epoch)"), SOURCE, "lambda x, y: (x / 2, y)", True),
        (
            "def write(epoch, logs): open('data.txt', 'w').write('1')\n"
            "own = keras.callbacks.LambdaCallback(on_epoch_end=write)\n",
            "tf.data.TextLineDataset('data.txt')",
            "lambda line: tf.strings.length(line)",
            False,
        ),
        (f"level = [1.0]\n{CALLBACK.format('level[0] = epoch')}", SOURCE, "lambda x, y: x * level[0]", False),
        (
            f"level = [1.0]\n{CALLBACK.format('self.level.append(2)')}",
            SOURCE,
            "lambda x, y: x * level[0]",
            False,
        ),
        (
            f"level = [1.0]\n{CALLBACK.format('self.other.append(2)')}",
            SOURCE,
            "lambda x, y: x * level[0]",
            True,
        ),
        (f"{CALLBACK.format('self.now = epoch')}own = Own()\n", SOURCE, "lambda x, y: x * own.now", False),
    ],
)
def test_what_may_change_between_epochs_is_not_cached(
    defined: str, source: str, mapped: str, cached: bool
) -> None:
    text = f"{HEAD}{defined}data = {source}.map({mapped}).batch(8)\nmodel.fit(data, epochs=2)\n"
    assert (".cache()" in changed(text, "cache")) is cached


@pytest.mark.parametrize(
    ("between", "cached"),
    [("print(1)", True), ("open('a', 'w').write('1')", False), ("subprocess.run(['mine'])", False)],
)
def test_files_that_are_written_between_trainings_are_not_cached(between: str, cached: bool) -> None:
    text = f"{HEAD}import subprocess\ndata = {FILES}.map(tf.io.read_file).batch(8)\n"
    text += f"model.fit(data)\n{between}\nmodel.fit(data)\nopen('history', 'w').write('1')\n"
    assert (".cache()" in changed(text, "cache")) is cached


@pytest.mark.parametrize(
    ("text", "remedy", "expected"),
    [
        # Another training has callbacks that nobody has seen.
        ("own = []\nmodel.fit(x, y, callbacks=own)\nown.append(Other())\nmodel.fit(x, y, callbacks=own)\n",
         "steps-per-execution", False),
        ("own = [keras.callbacks.EarlyStopping()]\nmodel.fit(x, y, callbacks=own)\nmodel.fit(x, y)\n",
         "steps-per-execution", True),
        ("model.fit(x, y)\nmodel.predict(x, callbacks=[Writer()])\n", "steps-per-execution", False),
        ("given = {'verbose': 0}\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution", True),
        ("given = dict(verbose=0)\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution", True),
        ("given = {'callbacks': [Writer()]}\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution",
         False),
        ("given = dict(callbacks=[Writer()])\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution",
         False),
        ("given = {}\ngiven['callbacks'] = []\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution",
         False),
        ("given = {**others}\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution", False),
        ("given = dict(others)\nfor _ in range(3): model.fit(x, y, **given)\n", "steps-per-execution", False),
        ("model.fit(x, y)\nmodel.predict(x, 16, 0, None, [Writer()])\n", "steps-per-execution", False),
        ("model.fit(x, y)\nmodel.predict(x, 16, 0, None)\n", "steps-per-execution", True),
        ("model.fit(x, y)\nmodel.evaluate(x, y, 16, 0, None, None, [Writer()])\n", "steps-per-execution", False),
        ("model.fit(x, y)\nmodel.predict(x)\n", "steps-per-execution", True),
        ("def train(**more):\n    model.fit(x, y, **more)\ntrain()\ntrain(callbacks=[Writer()])\n",
         "steps-per-execution", False),
        ("given = {}\nmodel.fit(x, y, **given)\n", "steps-per-execution", True),
        ("print(vars(model.fit(x, y))['params']['steps'])\n", "many-steps", False),
        # A function that somebody else runs.
        ("def train():\n    model.fit(x, y)\nimport ray\nray.run(train)\n", "many-steps", False),
        ("def train():\n    model.fit(x, y)\nfrom absl import app\napp.run(train)\n", "many-steps", True),
    ],
)  # fmt: skip
def test_other_trainings_and_predictions_count(text: str, remedy: str, expected: bool) -> None:
    plain_text = plain()
    text = plain_text[: plain_text.index("model.fit")] + text
    assert (changed(text, remedy) != text) is expected


def test_types_of_what_is_no_layer_stay() -> None:
    text = 'from tables import Frame\nFrame(rows, dtype="float64")\n'
    assert FIX.of("precision") not in fixes_for(HEAD + text, "cpu")


def test_what_a_loop_of_fits_changes_is_not_cached() -> None:
    text = f"{HEAD}level = [1.0]\ndata = {SOURCE}.map(lambda x, y: x * level[0]).batch(8)\n"
    assert ".cache()" in changed(f"{text}for epoch in range(3): model.fit(data)\n", "cache")
    loop = "for epoch in range(3):\n    level[0] = epoch\n    model.fit(data)\n"
    assert ".cache()" not in changed(f"{text}{loop}", "cache")


STEP = (
    "import random\nimport numpy as np\nimport tensorflow as tf\nclass Net(keras.Model):\n    count = 0\n"
    "    def train_step(self, data):\n        {body}\n        return super().train_step(data)\n{after}"
    "model = Net()\nmodel.compile('sgd', run_eagerly=True)\nmodel.fit(x)\n"
)


@pytest.mark.parametrize(
    ("body", "after", "offered"),
    [
        ("Net.count += 1; data = data * Net.count", "", False),
        ("data = data * self.alpha", CALLBACK.format("self.model.alpha = epoch"), False),
        ("data = data * self.alpha", CALLBACK.format("setattr(self.model, 'alpha', epoch)"), False),
        ("data = data * self.alpha", CALLBACK.format("self.model.__dict__['alpha'] = epoch"), False),
        ("data = data * level[0]", f"level = [1.0]\n{CALLBACK.format('level[0] = epoch')}", False),
        ("data = data * np.sqrt(2.0) * math.pi; parts = [data]; parts.append(data)", "import math\n", True),
        ("data = tf.numpy_function(late, [data], tf.float32)", "def late(x): return x * time.time()\n", True),
        ("for layer in self.blocks: data = layer(data)", "", True),
        ("self.count += 1; print('step')", "", True),
        ("self.stop_training = True", "", False),
        ("if time.time() > 9: data = data * 2", "import time\n", False),
        ("data = data * self.alpha", CALLBACK.format("self.model.alpha.assign(epoch)"), True),
        ("data = data + sum(self.losses)", CALLBACK.format("self.losses.append(epoch)"), True),
        ("logs = {}; logs.update(a=1); self.tracker.update_state(logs)", "", True),
    ],
)
def test_a_step_whose_python_has_a_state_stays_eager(body, after, offered) -> None:
    assert ("run_eagerly=False" in changed(STEP.format(body=body, after=after), "compiled")) is offered


def test_a_list_that_a_loop_of_a_step_fills_is_its_own() -> None:
    loop = "found = [x]\n        for each in self.parts:\n            found.append(each(x))"
    text = STEP.format(body=loop, after="")
    assert "run_eagerly=False" in changed(text, "compiled")
    assert "run_eagerly=False" not in changed(text.replace("found", "self.found"), "compiled")


@pytest.mark.parametrize(
    "given", ["'sgd', run_eagerly=True", "'sgd', **settings", "'sgd', **{'run_eagerly': True}"]
)
def test_eager_steps_are_compiled_wherever_they_are_asked_for(given: str) -> None:
    settings = "settings = dict(loss='mse', run_eagerly=True)\n"
    text = STEP.format(body="pass", after=settings).replace("'sgd', run_eagerly=True", given)
    found = changed(text, "compiled")
    assert "run_eagerly=False" in found or '| {"run_eagerly": False}' in found
    assert changed(text.replace("True", "False"), "compiled").count("False") == text.count("True")


def test_a_loss_that_a_callback_changes_and_layers_frozen_between_fits_stay_eager() -> None:
    changing = f"level = [1.0]\ndef own(y, p): return p * level[0]\n{CALLBACK.format('level[0] = epoch')}"
    with_loss = STEP.format(body="pass", after=changing).replace("'sgd'", "'sgd', loss=own")
    freezing = STEP.format(body="pass", after="") + "model.layers[0].trainable = False\nmodel.fit(x)\n"
    looped = STEP.format(body="data = data * alpha", after="").replace(
        "model.fit(x)", "for alpha in (1, 2): model.fit(x)"
    )
    for text in (with_loss, freezing, looped):
        assert "run_eagerly=False" not in changed(text, "compiled")


@pytest.mark.parametrize(
    ("given", "steps"),
    [("steps_per_epoch=5", 5), ("steps_per_epoch=7", 7), ("steps_per_epoch=13", 0), ("steps_per_epoch=1000", 10),
     ("steps_per_epoch=STEPS", 4), ("steps_per_epoch=len(x) // 32", 0), ("steps_per_epoch=20, validation_steps=5", 5),
     ("steps_per_epoch=None", 10)],
)  # fmt: skip
def test_steps_per_call_divide_the_steps_of_an_epoch(given: str, steps: int) -> None:
    text = changed(
        plain(f"x, y, {given}").replace("model = ", "STEPS = 4\nmodel = ", 1), "steps-per-execution"
    )
    assert (f"steps_per_execution={steps})" in text) if steps else ("steps_per_execution" not in text)


def test_what_remedies_add_stands_where_the_script_can_use_it() -> None:
    text = changed(f"{plain()}import matplotlib\n", "many-steps")
    assert text.index("import shuffled") < text.index("\ntrain_many_steps(") < text.index("import matplotlib")
    loader = HEAD + LOADER.format(body="pass").replace("model.fit", "if x: model.fit")
    assert "if x: loader = Own(); loader.workers, loader.max_queue_size = 4, 20; model.fit(loader" in changed(
        loader, "loader-threads"
    )
    more = changed(loader.replace("Own()", "Own(workers=4)"), "loader-threads")
    assert "= max(4, 2 * loader.workers), max(20, loader.max_queue_size); model.fit(loader" in more
    one_line = changed(plain().replace(")\nmodel.fit", "); model.fit"), "many-steps")
    assert "y, 32); per_call = " in one_line and ast.parse(one_line)


@pytest.mark.parametrize(
    "head",
    [
        "import os; SETTINGS = dict(\n    a=1,\n)\n",
        "try:\n    import tensorflow as tf\nexcept ImportError:\n    raise\n",
    ],
)
def test_what_is_added_behind_imports_breaks_no_statement(head: str) -> None:
    text = head + plain()
    for remedy, device in (("many-steps", "cpu"), ("precision", "gpu")):
        after = changed(text, remedy, device)
        names = [node.lineno for node in ast.walk(ast.parse(after)) if isinstance(node, ast.Attribute)]
        assert names and "tf.keras" not in after


def test_a_model_class_of_the_script_is_not_plain() -> None:
    own = "class Model(keras.Model):\n    def train_step(self, data): return {}\nmodel = Model()"
    assert "many_steps" not in changed(plain(made=own), "many-steps")
    for reads, is_offered in (
        ("model.optimizer.iterations", False), ("model.optimizer.variables[0]", False), ("model.variables[0]", True),
    ):  # fmt: skip
        assert ("many_steps" in changed(f"{plain()}\nprint({reads})\n", "many-steps")) is is_offered


def test_a_module_of_the_script_is_not_hidden() -> None:
    text = f"import many_steps\n{plain()}"
    assert changed(text, "many-steps") == text


@pytest.mark.parametrize(
    ("samples", "most", "chosen"),
    [(19 * 32, 10, 1), (93 * 32, 10, 4), (1562 * 32 + 9, 10, 10), (1562 * 32, 50, 50), (4, 10, 0), (40, 50, 0),
     (5 * 32, 50, 5), (32, 10, 1), (64 * 32, 10, 8), (65 * 32, 10, 8), (19 * 30 * 32, 50, 38)],
)  # fmt: skip
def test_few_samples_of_an_epoch_are_left_out(samples: int, most: int, chosen: int) -> None:
    source = (ROOT / "workloads/components/many_steps.py").read_text(encoding="utf-8")
    (function,) = (each for each in ast.parse(source).body if getattr(each, "name", "") == "steps_per_call")
    names: dict[str, Any] = {}
    exec(ast.unparse(function), names)
    if chosen:
        assert names["steps_per_call"](samples, 32, most) == chosen
    else:
        with pytest.raises(ValueError, match=f"of {samples} samples"):
            names["steps_per_call"](samples, 32, most)


LOADER = (
    "class Own(keras.utils.PyDataset):\n    def __init__(self):\n        self.kept = []\n"
    "    def __getitem__(self, index):\n        {body}\n        return x, y\n"
    "model.fit(Own())\n"
)


@pytest.mark.parametrize(
    ("body", "offered"),
    [("self.kept.append(index)", False), ("self.at = index", False), ("z = next(self.stream)", False),
     ("z = x.copy(); z[0] = 1", True), ("for row in x.copy(): row[:] = 0", True),
     ("self.file.seek(index); z = self.file.read(9)", False), ("file = self.file; file.seek(index)", False),
     ("z = np.fromfile(STREAM, count=9)", False), ("self.db.execute('select'); z = self.db.fetchone()", False),
     ("z = open(names[index], 'rb').read()", True), ("with open(names[index]) as file: z = file.read()", True),
     ("z = self.archive[str(index)]", True), ("z = self.names[index]", True)],
)  # fmt: skip
def test_a_loader_with_a_state_keeps_its_thread(body: str, offered: bool) -> None:
    text = f"{HEAD}STREAM = open('all', 'rb')\n{LOADER.format(body=body)}"
    assert ("workers" in changed(text, "loader-threads")) is offered


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (f"from random import gauss\ndata = {SOURCE}.map(lambda x, y: x + gauss(0, 1)).batch(8)\n", "cache"),
        (f"data = {SOURCE}.map(lambda x, y: x + next(stream)).batch(8)\n", "cache"),
        (f"data = {SOURCE}.interleave(read)\n", "parallel-map"),
        (f"options.deterministic = False\ndata = {SOURCE}.map(prep)\n", "parallel-map"),
        (
            f"count = {{}}\ndef prep(x, y):\n    count['n'] = count['n'] + 1\ndata = {SOURCE}.map(prep)\n",
            "parallel-map",
        ),
        ("tf.debugging.check_numerics(x, 'x')\nmodel.compile('sgd')\n", "xla"),
        (
            "from tensorflow.debugging import assert_less as below\nbelow(x, 9.0)\nmodel.compile('sgd')\n",
            "xla",
        ),
        (
            f"def gen():\n    yield level\ndata = {SOURCE}.map(lambda x, y: x)\n"
            "for level in (1, 2):\n    model.fit(data)\ntf.data.Dataset.from_generator(gen)\n",
            "cache",
        ),
        (
            f"count = {{}}\ndef prep(x, y):\n    count['n'] += 1\ndata = {SOURCE}.map(map_func=prep)\n",
            "parallel-map",
        ),
        ("def call(x):\n    tf.debugging.assert_less(x, 9.0)\nmodel.compile('sgd')\n", "xla"),
        (
            "class TensorBoard:\n    def __init__(self, update_freq): pass\nboard = TensorBoard(update_freq=5)\n",
            "callbacks-per-epoch",
        ),
    ],
)
def test_what_depends_on_a_state_or_an_order_is_left_alone(text: str, remedy: str) -> None:
    text = f"{HEAD}{text}model.fit(data)\n"
    assert changed(text, remedy) == text


PLAIN = """\
import keras
import numpy as np
(x, y), held_out = load()
{made}
model.compile("sgd", "mse")
model.fit({arguments})
"""
SEQUENTIAL = "model = keras.Sequential([keras.layers.Dense(1)])"
IN_FUNCTION = "def build():\n    made = keras.Model(a, b)\n    return made\nmodel = build()"


def plain(arguments: str = "x, y, epochs=2", made: str = SEQUENTIAL) -> str:
    return PLAIN.format(arguments=arguments, made=made)


@pytest.mark.parametrize("made", [SEQUENTIAL, IN_FUNCTION])
@pytest.mark.parametrize(
    ("arguments", "batch", "fit"),
    [
        ("x, y, epochs=2", "32", "BATCHES, None, epochs=2, "),
        ("x=x, y=y, batch_size=64, verbose=0", "64", "x=BATCHES, y=None, batch_size=None, verbose=0, "),
        ("x, y, SIZE, validation_data=held_out", "SIZE",
         "BATCHES, None, None, validation_data=held_out, validation_batch_size=SIZE, "),
    ],
)  # fmt: skip
def test_a_plain_model_trains_many_steps_per_call(arguments: str, batch: str, fit: str, made: str) -> None:
    text = changed(plain(arguments, made), "many-steps")
    steps = f"{batch} * steps_per_call(len(x), {batch}, 10)  # samples of many steps"
    assert f"\ntrain_many_steps(model, x, y, {batch})\nper_call = {steps}\nmodel.fit(" in text
    fit = fit.replace("BATCHES", "shuffled(len(x), per_call)")
    assert text.endswith(f"model.fit({fit}shuffle=False, steps_per_epoch=len(x) // per_call)\n")


@pytest.mark.parametrize(
    ("given", "changes"), [("2", True), ("16", False), ("'auto'", False), ("chosen", False), ("FEW", True)]
)
def test_steps_per_execution_are_never_lowered(given: str, changes: bool) -> None:
    text = f"FEW = 4\n{plain()}".replace('"mse")', f'"mse", steps_per_execution={given})')
    assert (changed(text, "steps-per-execution") != text) == changes


@pytest.mark.parametrize(
    "text",
    [
        plain("x, y, class_weight=weights"),
        plain("x, y, **settings"),
        plain("x, y, batch_size=32 + 32"),
        plain() + "model.fit(x, y)\n",
        "import keras\ndef run(x, y):\n    model = keras.Sequential()\n    model.fit(x, y)\nrun(a, b)\nrun(c, d)\n",
        plain().replace("model.fit", "done = model.fit") + "print(done.params['steps'])\n",
        plain().replace("model.fit", "for n in (500, 320):\n    model.fit"),
        plain("x, y, batch_size=sizes.pop()"),
        plain("x, y, batch_size=None"),
        "shuffled = 1\n" + plain(),
        "from models import Model\n" + plain(made="model = Model()"),
        plain().replace("model.fit(x, y, epochs=2)", "[model.fit(x, y) for x, y in folds]"),
        plain("x"),
        plain(made="class Mine(keras.Model):\n    pass\nmodel = Mine()"),
        plain(made=f"{SEQUENTIAL}\nx = [x, x]"),
        plain(made=f"{SEQUENTIAL}\ny = {{'a': y}}"),
    ],
)
def test_other_trainings_keep_their_steps(text: str) -> None:
    assert changed(text, "many-steps") == text


@pytest.mark.parametrize(
    "use",
    [
        "list(map(train, sizes))", "Thread(target=train).start()", "run = train\nrun()\nrun()",
        "[*(train() for _ in sizes)]",
        "{n: train() for n in sizes}", "for n in sizes:\n    train()", "runs = {'a': train}", "partial(train, 3)()",
        "def twice():\n    train()\ntwice()\ntwice()", "def a():\n    b()\ndef b():\n    a()\n    train()",
        "getattr(here, 'train')()\ntrain()", "train()\ntrain()", "",
    ],
)  # fmt: skip
def test_what_may_train_again_keeps_its_steps(use: str) -> None:
    text = plain().replace("model.fit(", "def train():\n    return model.fit(")
    once = f"{text}if __name__ == '__main__':\n    print(train())\n"
    assert changed(once, "many-steps") != once
    assert changed(text + use, "many-steps") == text + use


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ("scaler = Scaler()\nscaler.fit(x)", True),
        ("model.evaluate(x, y)", True),
        ("model.fit(x, y, callbacks=[OneCycle()])", False),
        ("model.fit(x, y, **fine)", False),
        ("model.evaluate(x, y, **how)", False),
        ("step = model.train_function", False),
        ("model.predict(x, 32, 0, 1)", False),
    ],
)
def test_steps_per_execution_are_those_of_all_that_the_script_runs(more: str, changes: bool) -> None:
    text = f"class Scaler:\n    def fit(self, x):\n        return self\n{plain()}{more}\n"
    assert (changed(text, "steps-per-execution") != text) is changes


@pytest.mark.parametrize(
    "text",
    [
        plain().replace("model.fit", "x[x < 0] = 0\nnp.random.shuffle(y)\nmodel.summary()\nmodel.fit"),
        plain() + "model.save('a.keras')\nprint(model.get_layer(index=0), model(x))\ndraw(model)\n",
        "def train():\n" + "".join(f"\t{line}\n" for line in plain().splitlines()) + "train()\n",
    ],
)
def test_a_model_of_many_steps_is_the_same_object_in_any_place(text: str) -> None:
    after = changed(text, "many-steps")
    assert "train_many_steps(model, x, y, 32)" in after
    ast.parse(after)


@pytest.mark.parametrize(
    "arguments",
    [
        "(x), (y)",
        "x, y, epochs=(5)",
        "x, y, epochs=((5)),",
        "x, y,  # all (of them)\n",
        "x, y, epochs=(5  # few )\n)",
    ],
)
@pytest.mark.parametrize("remedy", ["no-progress-bar", "many-steps"])
def test_arguments_are_added_behind_parentheses_commas_and_comments(arguments: str, remedy: str) -> None:
    after = changed(plain(arguments), remedy)
    added = {"no-progress-bar": "verbose", "many-steps": "steps_per_epoch"}[remedy]
    fits = [
        node
        for node in ast.walk(ast.parse(after))
        if isinstance(node, ast.Call) and "fit" in ast.unparse(node.func)
    ]
    assert added in {keyword.arg for keyword in fits[-1].keywords}


OWN_COMPILE = """\
import keras
class Scaler:
    def fit(self, x): return self
class Own(keras.Model):
    def compile(self, special):
        super().compile()
        self.special = special
scaler.fit(x)
trainer.compile()
model = Own()
model.compile(1)
model.fit(scaler.fit(x).transform(x), y)
"""


def end_of(text: str, call: str) -> tuple[int, int]:
    line = next(number for number, line in enumerate(text.split("\n"), 1) if call in line)
    return line, text.split("\n")[line - 1].index(call) + len(call)


def test_only_the_calls_that_were_made_are_changed() -> None:
    fit = end_of(OWN_COMPILE, "model.fit(scaler.fit(x).transform(x), y)")
    inner, outer = end_of(OWN_COMPILE, "super().compile()"), end_of(OWN_COMPILE, "model.compile(1)")
    names = [FIX.of(name) for name in ("no-progress-bar", "steps-per-execution", "xla")]
    fixes = {name: fix for name, fix in fixes_for(OWN_COMPILE, "cpu").items() if name in names}
    there = at_sites(fixes, [[fit], [inner, outer]])
    assert applied(OWN_COMPILE, there.values()) == OWN_COMPILE.replace(
        "super().compile()", "super().compile(steps_per_execution=10, jit_compile=True)"
    ).replace("x), y)", "x), y, verbose=2)")
    assert list(at_sites(fixes, [[fit], []])) == names[:1], "a model that the script does not compile"
    assert at_sites(fixes, []) == {}


def test_an_argument_goes_to_the_innermost_call_that_takes_it() -> None:
    text = "def made(*given, **settings):\n    super().compile(*given, **settings)\nmodel.compile('adam')\n"
    chain = [end_of(text, "super().compile(*given, **settings)"), end_of(text, "model.compile('adam')")]
    changed = applied(text, at_sites(fixes_for(text, "cpu"), [chain]).values())
    assert "    super().compile(*given, **settings)\nmodel.compile('adam', " in changed
    text = text.replace("*given, ", "")
    chain = [end_of(text, "super().compile(**settings)"), end_of(text, "model.compile('adam')")]
    changed = applied(text, at_sites(fixes_for(text, "cpu"), [chain]).values())
    assert '    super().compile(**settings | {"' in changed and "model.compile('adam')\n" in changed


@pytest.mark.parametrize(
    ("settings", "called", "made"),
    [
        ("cfg = {'loss': 'mse'}", "**cfg", '**cfg | {"jit_compile": True}'),
        ("cfg = dict(loss='mse')", "optimizer, **cfg", 'optimizer, **cfg | {"jit_compile": True}'),
        ("import conf", "**conf.COMPILE", '**conf.COMPILE | {"jit_compile": True}'),
        ("cfg = {'jit_compile': True}", "**cfg", "**cfg"),
        ("one, two = {}, {}", "**one, **two", "**one, **two"),
        ("cfg = {}", "**(cfg or {})", "**(cfg or {})"),
    ],
)
def test_settings_in_a_dict_get_an_argument_more(settings: str, called: str, made: str) -> None:
    text = f"{HEAD}{settings}\nmodel.compile({called})\nmodel.fit(x, y)\n"
    assert f"model.compile({made})" in changed(text, "xla")


@pytest.mark.parametrize("given", ["**quiet", "**{'verbose': 0}", "**dict(verbose=0)", "epochs=2, **quiet"])
def test_what_a_dict_says_already_is_not_changed(given: str) -> None:
    settings = "quiet = {'verbose': 0}\nmany = {'steps_per_execution': 64}\nmodel.compile(**many)\n"
    text = f"{HEAD}{settings}model.fit(x, y, {given})\n"
    assert not {FIX.of("no-progress-bar"), FIX.of("steps-per-execution")} & fixes_for(text, "cpu").keys()


def test_remedies_of_no_call_apply_wherever_training_is() -> None:
    text = f"{HEAD}data = {SOURCE}.map(f).batch(2)\nfor batch in data:\n    step(batch)\n"
    assert [*at_sites(fixes_for(text, "cpu"), [])] == [FIX.of("parallel-map")]


@pytest.mark.parametrize(
    ("device", "text", "expected"),
    [
        ("cpu", 'POLICY = "mixed_float16"\nset_global_policy(POLICY)', 'set_global_policy("float32")'),
        ("cpu", 'set_global_policy(Policy("mixed_bfloat16"))', 'set_global_policy("float32")'),
        (
            "cpu",
            'import keras\nkeras.layers.Dense(2, dtype="float16")',
            'keras.layers.Dense(2, dtype="float32")',
        ),
        ("gpu", 'set_floatx("float64")', 'set_floatx("float32")'),
        ("gpu", "set_global_policy(args.policy)", 'set_global_policy("mixed_float16")'),
    ],
)
def test_precision_is_changed_where_it_is_chosen(device: str, text: str, expected: str) -> None:
    fix = fixes_for(text, device)[FIX.of("precision")]
    assert expected in applied(text, [fix])


@pytest.mark.parametrize(
    ("device", "text"),
    [
        ("cpu", 'POLICY = "float32"\nset_global_policy(POLICY)'),
        ("cpu", 'np.zeros(3, dtype="float16")\nDense(2, dtype="int32")'),
        ("cpu", 'keras.layers.Dense(2, activation="softmax", dtype="float32")'),
        ("gpu", 'POLICY = "mixed_bfloat16"\nset_global_policy(POLICY)'),
        ("gpu", 'set_global_policy("float32")\nwith tf.GradientTape() as tape: pass'),
        ("cpu", 'set_global_policy("mixed_float16")\nprint(model.optimizer.inner_optimizer)'),
        ("cpu", 'tf.TensorSpec((2,), dtype="float64")\ntf.Variable(0.0, dtype="float64")'),
    ],
)
def test_a_precision_that_is_fast_stays(device: str, text: str) -> None:
    assert FIX.of("precision") not in fixes_for(text, device)


def test_a_policy_that_names_itself_is_left_to_the_script() -> None:
    assert FIX.of("precision") in fixes_for("p = Policy(p)\nset_global_policy(p)", "cpu")
