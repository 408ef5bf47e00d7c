"""Remedies that fit a script's text, and not what it does when it runs."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow

TAKE = """
import json
import os
import sys
import tempfile
import threading
import keras
from contextlib import suppress
from workloads.driver import script
from workloads.driver.fitting import misfit, misfit_after
from workloads.driver.interception import Interception
from workloads.driver.losses import comparable
from workloads.driver.script import Script
def end():
    raise KeyboardInterrupt
output = os.dup(1)
def why(remedy, text):
    keras.backend.clear_session()
    took = Interception(
        number=1, predicts=False, first=False, replicas=1, take=id, evaluate=None, rest=None, end=end
    )  # fmt: skip
    with suppress(script.ScriptError), took.active():
        script.run(Script(path=tempfile.mkdtemp() + "/own.py", text=text), (), {})
    took.call.script = text
    try:
        return JUDGED
    finally:
        for each in threading.enumerate():
            if isinstance(each, threading.Timer):
                each.cancel()
                each.join()
        sys.stdout = sys.__stdout__  # which a script may have replaced
        os.dup2(output, 1)
found = [why(*each) for each in GIVEN]
print()
print(json.dumps(found))
"""
HEAD = """\
import collections, random, threading, time
import numpy as np, keras, tensorflow as tf
from numpy import random as drawn
dice = random.SystemRandom()
x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
x += np.arange(64, dtype="float32")[:, None]
"""
PLAIN = "model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
OWN = """
class Own(keras.callbacks.Callback):
    {}
own = Own()
"""
BATCHES = "one = keras.callbacks.LambdaCallback(on_train_batch_end=print)\n"
OVERRIDING = "class Base(keras.callbacks.Callback):\n    on_batch_end = print\n" + OWN.replace(
    "keras.callbacks.Callback", "Base"
).format("def on_batch_end(self, *given): pass")
FORWARDING = """
class Forwarding:
    def __getattr__(self, name):
        return lambda *given: None
own = Forwarding()
"""
FITS = "model.fit(x, y, callbacks=[{}], verbose=0)\n"


PRINTS = "callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=print)]"
COUNT = "count = tf.Variable(1.0)\n"
RESAMPLED = (
    ".rejection_resample(lambda a, b: tf.cast(a[0] % 2, tf.int32), [0.5, 0.5], [0.9, 0.1], 2)"
    ".map(lambda _, ab: ab)"
)


def callbacks(made: str, name: str) -> str:
    return f"{HEAD}{PLAIN}{made}{FITS.format(name)}"


def eager(line: str, before: str = "") -> str:
    step = (
        f"class Net(keras.Sequential):\n    count = 0\n    def train_step(self, data):\n        {line}\n"
        "        return super().train_step((data[0] * scale, data[1]))\n"
    )
    return f"{HEAD}{before}{step}{PLAIN}model.fit(x, y, verbose=0)\n".replace("keras.Sequential([", "Net([")


def fed(line: str) -> str:
    """Return a training whose eager step reads what a map may change."""
    before = f"counts, phase = dict(seen=1), 1\ndef note(a):\n    {line}\n    return a\n"
    steps = ".map(lambda a, b: (tf.ensure_shape(tf.numpy_function(note, [a], tf.float32), [4]), b))"
    made = f"data = tf.data.Dataset.from_tensor_slices((x, y)){steps}\n"
    text = eager("scale = float(counts['seen'] + phase)", before)
    return text.replace("model.fit(x, y, ", f"{made}model.fit(data.batch(8), ")


WARMING = "(counts.update(seen=each) or (x[:8], y[:8]) for each in range(9)), steps_per_epoch=2"


def pipeline(steps: str, before: str = "") -> str:
    made = f"data = tf.data.Dataset.from_tensor_slices((x, y)){steps}\n"
    return f"{HEAD}{before}{PLAIN}{made}model.fit(data.batch(8), epochs=2, verbose=0)\n"


def python(body: str) -> str:
    """Return a map of a function in Python with a buffer that all calls share."""
    return (
        f"buffer, lock = np.zeros(4, 'float32'), threading.Lock()\ndef changed(a):\n    {body}\n"
        "def step(a, b):\n    out = tf.numpy_function(changed, [a], tf.float32)\n    out.set_shape([4])\n"
        "    return out, b\n"
    )


LOADER = """
class Loader(keras.utils.PyDataset):
    buffer = np.zeros((8, 4), "float32")
    def __len__(self): return 8
    def __getitem__(self, index):
        {}
loader = Loader()
"""


def loader(body: str, before: str = "") -> str:
    return f"{HEAD}{PLAIN}{before}{LOADER.format(body)}model.fit(loader, verbose=0)\n"


WEAKLY = "import weakref\nopts = weakref.WeakValueDictionary(o=model.optimizer)\n"


def sized(end: str) -> str:
    """Return a training from a loader whose length is that of its rows."""
    text = loader(f"return x[:8] + index, y[:8]\n    def on_epoch_end(self): {end}")
    return (
        text.replace("return 8\n", "return len(self.rows) // 8\n")
        .replace("buffer =", "rows, buffer = x,")
        .replace("loader = ", "counts = []\nloader = ")
    )


PROGRAM = "import subprocess\nsubprocess.Popen(['sleep', '20'])\n"
TICKS = "import itertools\nticks = itertools.count()\n"
# Python that goes on after its call: one that counts, and one that only remembers what it has made.
COUNTING = """
def counter():
    count = 0
    def counted():
        nonlocal count
        count += 1
        return np.float32(2.0 if count > 9999 else 1.0)
    return counted
counted = counter()
"""
MEMO = """
memo = {}
def known(key):
    if key not in memo:
        memo[key] = np.float32(key + 1)
    return memo[key]
"""
ENDING = (
    "lambda: iter([(x[:8], y[:8])]), output_signature=(tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))"
)
# What one call writes another may read.
BUFFER = "buffer[:] = a; time.sleep(0.002); return +buffer"
OVERWRITE = "self.buffer[:] = a; time.sleep(0.002); return self.buffer.copy(), y[:8]"
INNER = (
    "def inner(a, b):\n"
    "    return tf.data.Dataset.from_tensor_slices((a, b)).map(step, num_parallel_calls=8)\n"
)
HELD_OUT = "fit(x, y, validation_data=data.batch(8)"
SCALED = "scaled = keras.layers.Normalization()\nscaled.adapt(x)\n"
HOOK = "def on_train_batch_begin(self, batch, logs=None): self.batch = batch"
ENDLESS = ".map(lambda a, b: (a * level, b)).repeat()"
WRITES = "def on_epoch_end(self, *of): open('/tmp/lines.csv', 'a')"
READS = "tf.where(tf.io.read_file(level) == '', a, a)"
LINES = (
    f"{HEAD}{PLAIN}{OWN.format(WRITES)}open('/tmp/lines.csv', 'w').write('1\\n' * 64)\n"
    "data = tf.data.TextLineDataset('/tmp/lines.csv').map(lambda a: (tf.ones(4), tf.ones(1))).cache().batch(8)\n"
    "model.fit(data, epochs=2, verbose=0, callbacks=[OWN])\n"
)
# A thread of the script beside the training.
BESIDE = LINES.replace("OWN", "").replace(
    "model.fit",
    "class Again(threading.Timer): pass\ndef late(): {}\n"
    "beside = threading.Timer(600, late)\nbeside.daemon = True\nbeside.start()\nmodel.fit",
)
GENERATED = """
def rows():
    hard = {}
    for number in range(64):
        yield x[number] + hard, y[number]
made = tf.data.Dataset.from_generator(rows, output_types=('float32', 'float32'), output_shapes=((4,), (1,)))
data = made.map(lambda a, b: (a, b)).cache().batch(8)
"""
READER = "data = data.batch(8)\nmodel.fit(data, epochs=2, verbose=0, steps_per_epoch=4, callbacks=[own])\n"


LATE = pipeline(".batch(4).concatenate(data.shuffle(400).batch(4)).cache().unbatch()").replace(
    "data = ", "data = tf.data.Dataset.from_tensor_slices((x, y))\ndata = "
)
SAVES = """
class Saves(keras.callbacks.ModelCheckpoint):
    {}
"""
COUNTS = pipeline(".map(step)", TICKS + python("return a + next(ticks) * 0"))
# Python in what an interleave reads at once.
SPREAD = (
    HEAD
    + "{}def read(k): {}\n"
    + """
def opened(k):
    a = tf.ensure_shape(tf.numpy_function(read, [k], tf.float32), (4,))
    return tf.data.Dataset.from_tensors((a, a[:1])).repeat(4)
"""
    + PLAIN
    + "data = tf.data.Dataset.range(64).interleave(opened, num_parallel_calls=4).batch(8)\n"
    "model.fit(data, epochs=2, verbose=0)\n"
)
# Both pipelines call a function whose own call of NumPy is named like a method that changes.
SORTED = f"""{HEAD}
def slow(a):
    np.sort(np.tile(a, 2))
    return a
def step(a, b): return tf.ensure_shape(tf.numpy_function(slow, [a], tf.float32), (4,)), b
{PLAIN}
base = tf.data.Dataset.from_tensor_slices((x, y))
data, other = base.take(32).map(step).cache().batch(8), base.skip(32).map(step).batch(8)
model.fit(data, epochs=2, validation_data=other, verbose=0)
"""
# A map of Python over elements that are ragged.
RAGGED = f"""{HEAD}
seen = []
def one(a):
    return np.float32(a[:1].repeat(4))
def map_(a, b):
    return tf.ensure_shape(tf.numpy_function(one, [a.flat_values], tf.float32), (4,)), b
{PLAIN}
rows = tf.ragged.constant([[[1.0] * (1 + i % 3), [2.0]] for i in range(64)])
data = tf.data.Dataset.from_tensor_slices((rows, y)).map(map_, 4).batch(8)
model.fit(data, epochs=2, verbose=0)
"""
# A generator that draws, and an order of which each pass has the next.
DRAWN_BATCHES = f"""{HEAD}
drawing = np.random.default_rng(0)
def batches():
    for _ in range(8):
        a = drawing.normal(size=(8, 4)).astype('float32')
        yield a, a[:, :1]
{PLAIN}
made = tf.data.Dataset.from_generator(batches, output_types=('float32', 'float32'), output_shapes=((8, 4), (8, 1)))
model.fit(made.shuffle(8, seed=1).prefetch(2), epochs=2, verbose=0)
"""
# TensorFlow takes pages of memory, as a reader fills them again and again, without a copy.
REUSED = f"""{HEAD}
import mmap
page = np.frombuffer(mmap.mmap(-1, 16), 'float32')
def rows():
    for number in range(64):
        page[:] = x[number]
        yield page, y[number]
{PLAIN}
made = tf.data.Dataset.from_generator(rows, output_types=('float32', 'float32'), output_shapes=((4,), (1,)))
data = made.map(lambda a, b: (a + b, b), 4).batch(8)
model.fit(data, epochs=2, verbose=0)
"""
IN_PLACE = (
    f"{HEAD}{python('a[0] = 1; return a')}{PLAIN}"
    "rows = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a * 2, b))\n"
    f"data = rows.cache().map(step).batch(8)\n"
    "model.fit(data, epochs=2, verbose=0)\n"
)
STEERED = (
    f"{HEAD}{python('return a + level[0]')}{PLAIN}{OWN.format('def on_epoch_end(self, *of): level[0] = 2.0')}"
    + (
        "level = [1.0]\ndata = tf.data.Dataset.from_tensor_slices((x, y)).repeat().map(step, num_parallel_calls=2)\n"
        f"{READER}"
    )
)


IN_OBJECT = f"""{HEAD}{PLAIN}
class Trainer:
    def __init__(self): self.model = model
    def rows(self):
        for number in range(64):
            yield {{}}, y[number]
    def data(self):
        return tf.data.Dataset.from_generator(
            self.rows, output_types=('float32', 'float32'), output_shapes=((4,), (1,)))
data = Trainer().data().map(lambda a, b: (a, b)).cache().batch(8)
model.history = keras.callbacks.History()
model.history.epoch = []
model.fit(data, epochs=2, verbose=0)
"""


def between(made: str, changes: str, reads: str) -> str:
    """Return a training from a cache whose Python reads what a callback may change."""
    step = python(f"return a * np.float32({reads})")
    own = OWN.format(f"def on_epoch_end(self, *of): {changes}")
    data = "data = tf.data.Dataset.from_tensor_slices((x, y)).map(step).cache().batch(8)\n"
    return f"{HEAD}{made}\n{step}{PLAIN}{own}{data}model.fit(data, epochs=2, verbose=0, callbacks=[own])\n"


COUNTED = """
def count(a): kept['n'] += 1; return a
def counted(a, b): return tf.ensure_shape(tf.numpy_function(count, [a], tf.float32), [4]), b
"""


def stepping(line: str) -> str:
    return (
        f"class Net(keras.Sequential):\n    def train_step(self, data):\n        {line}\n"
        "        return super().train_step(data)\n"
    )


def beside(before: str, *, network: str = "keras.Sequential", layer: str = "keras.layers.Dense(1)",
           loss: str = "'mse'", after: str = "", given: str = "verbose=0") -> str:  # fmt: skip
    """Return a training from a cache whose Python reads what other parts of it may change."""
    reads = python("return a * np.float32(kept['n'] > 0)")
    return (
        f"{HEAD}kept = dict(n=1)\n{reads}{before}"
        f"model = {network}([keras.Input((4,)), {layer}])\nmodel.compile('sgd', {loss}, run_eagerly=True)\n"
        f"rows = tf.data.Dataset.from_tensor_slices((x, y))\ndata = rows.map(step).cache(){after}.batch(8)\n"
        f"model.fit(data, epochs=2, {given})\n"
    )


MAPPED = "import numpy as np\nmany = np.memmap('/tmp/mapped', 'float32', 'w+', shape=(4,))\n"
OPERATED = "class Of:\n    one = 1.0\n    def {}(self, by): self.one = by\nkept = Of()"
KNOWN = "def known(of):\n    try: return float(of[0, 0])\n    {}: return 1.0\n"
COMPILED = PLAIN.replace("'mse')", "'mse', jit_compile=True)")


def looked_up(then: str, line: str) -> str:
    """Return a training from a pipeline that reads a table, whose step does something."""
    table = "table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)\n"
    found = "def found(a, b): return a + table.lookup([1]), b\n"
    text = pipeline(f".map(found){then}", f"{table}{found}{stepping(line)}").replace("np.int64", "int")
    return text.replace("keras.Sequential([", "Net([")


LOOP = (
    "import asyncio\nasync def late(): {}\nloop = asyncio.new_event_loop()\n"
    "threading.Thread(target=loop.run_forever, daemon=True).start()\n"
)
STEPPED = (
    HEAD
    + """
seen = [1]
class Net(keras.Sequential):
    def train_step(self, data):
        seen[0] += 1
        return super().train_step(data)
"""
)


def stepped_loader(body: str) -> str:
    return loader(body).replace(HEAD, STEPPED).replace("keras.Sequential([", "Net([")


def in_test(line: str) -> str:
    return stepping(line).replace("train_step", "test_step")


def eager_parts(before: str, model: str, then: str) -> str:
    """Return a training whose eager model has parts of the script, and what it does then."""
    act = "act" if "act" in before else "None"
    made = f"model = {model}([keras.Input((4,)), keras.layers.Dense(1, activation={act})])\n"
    fitted = then if "fit" in then else f"model.fit(x, y, verbose=0)\n{then}"
    return f"{HEAD}seen = []\n{before}{made}model.compile('sgd', 'mse', run_eagerly=True)\n{fitted}\n"


def generated(hard: str) -> str:
    return f"{HEAD}{PLAIN}{GENERATED.format(hard)}model.fit(data, epochs=2, verbose=0)\n"


def reading(variable: str, does: str = "level.assign(2.0)") -> str:
    own = OWN.format(f"def on_epoch_end(self, *of): {does}")
    made = f"data = tf.data.Dataset.from_tensor_slices((x, y)){ENDLESS}\n"
    return f"{HEAD}{PLAIN}{own}level = {variable}\n{made}{READER}"


# A draw for each place that has the same seed, as an expression.
DRAW = "(lambda of: of + tf.random.uniform([], seed={}))"
WRAPPED = f"{HEAD}{PLAIN}" + (
    "inner = model.make_train_function()\ndef traced(batches): return inner(batches)\n"
    "def made(force=False): return traced\nmodel.{}\nmodel.fit(x, y, verbose=0)\n"
)
REPLACES = "setattr(net, 'train_function', print)"
MADE_ANEW = "net.train_function = net.make_train_function(force=True)"
TEE = """
import sys
class Tee:
    def __getattr__(self, name): return getattr(sys.__stdout__, name)
sys.stdout = Tee()
"""
ANOTHER = "import os\nos.dup2(os.open('printed', os.O_WRONLY | os.O_CREAT), 1)\n"
FORWARDED = "(self, name): return object.__getattribute__(self, name)"
PRINTED = f"{PRINTS}, verbose"
PATCHED = "def told(self, *given, **named): pass\nkeras.callbacks.CallbackList.on_train_batch_end = told\n"


def scheduled(does: str) -> str:
    """Return a training of an eager model with attributes, whose callback does something at the end of an epoch."""
    own = (
        "class Own(keras.callbacks.Callback):\n    seen = []\n"
        f"    def on_epoch_end(self, epoch, logs=None):\n        {does}\nown = Own()\nhalf = 1.0\n"
    )
    step = (
        "class Net(keras.Sequential):\n    part = 1.0\n    def halve(self): self.part = self.part / 2\n"
        "    def train_step(self, data): return super().train_step((data[0] * self.part * half, data[1]))\n"
    )
    fitted = PLAIN.replace("keras.Sequential([", "Net([")
    return f"{HEAD}{own}{step}{fitted}model.fit(x, y, callbacks=[own], verbose=0)\n"


CASES = [
    ("many-steps", callbacks("model.steps_per_execution = 4\n", ""), False),
    ("prefetch", reading("tf.Variable(1.0)"), False),
    ("prefetch", reading("tf.constant(1.0)"), True),
    ("prefetch", reading("tf.Variable(1.0)", "print(int(level))"), True),
    ("prefetch", reading("tf.Variable(1.0)", "self.model.optimizer.learning_rate.assign(0.1)"), True),
    ("cache", LINES.replace("OWN", "own").replace(WRITES, "def on_epoch_end(self, *of): self.seen = [of]"), True),
    ("cache", LINES.replace("OWN", "own").replace(WRITES, "def on_epoch_end(self, *of): self.model.save('a')"), True),
    ("cache", LINES.replace("OWN", "keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)"), True),
    ("prefetch", reading("'/tmp/lines.csv'", WRITES.partition(": ")[2]).replace("a * level", READS), False),
    ("prefetch", reading("'/tmp/lines.csv'", "print(of)").replace("a * level", READS), True),
    ("parallel-map", STEERED.replace("level[0] = 2.0", "print(level[0])"), True),
    ("parallel-map", pipeline(".map(step, 8)", python("np.random.seed(7); return a + np.random.rand()")), False),
    ("parallel-map", pipeline(".map(step, 8)", python("return a + np.random.default_rng(7).random()")), True),
    ("parallel-map", pipeline(f".map(lambda a, b: ({DRAW.format(5)}(a), {DRAW.format(5)}(b)), 8)"), False),
    ("parallel-map", pipeline(f".map(lambda a, b: ({DRAW.format(5)}(a), {DRAW.format(6)}(b)), 8)"), True),
    ("loader-threads", loader("np.random.seed(index); return x[:8] + np.random.rand(), y[:8]"), False),
    ("loader-threads", loader("random.setstate(random.getstate()); return x[:8], y[:8]"), False),
    ("many-steps", WRAPPED.format("train_function = traced"), False),
    ("steps-per-execution", WRAPPED.format("make_train_function = made"), False),
    ("steps-per-execution", WRAPPED.format("other = made"), True),
    ("steps-per-execution", f"{HEAD}{PLAIN}{TEE}model.fit(x, y, verbose=2)\n", False),
    ("steps-per-execution", f"{HEAD}{PLAIN}{TEE}model.fit(x, y, verbose=0)\n", True),
    ("steps-per-execution", f"{HEAD}{PLAIN}{ANOTHER}model.fit(x, y, verbose=2)\n", False),
    ("no-progress-bar", f"{HEAD}{PLAIN}model.fit(x, y, verbose=2)\n", True),  # the call as it is changed
    ("no-progress-bar", callbacks(OWN.format("def on_train_batch_end(self, *of): pass"), "own"), True),
    ("many-steps", callbacks(OWN.format("def on_epoch_end(self, *of): net.train_function = print"), "own"), False),
    ("many-steps", callbacks(OWN.format(f"def on_epoch_end(self, *of): {MADE_ANEW}"), "own"), True),
    ("many-steps", callbacks(OWN.format("def on_epoch_end(self, *of): self.model.train_function = None"), "own"), True),
    ("many-steps", callbacks(OWN.format(f"def on_epoch_end(self, *of): {REPLACES}"), "own"), False),
    ("many-steps", callbacks(OWN.format(f"def __getattribute__{FORWARDED}"), "own"), False),
    ("compiled", eager("scale = self.half").replace("count = 0", "half = 0.5").replace("verbose", PRINTED), True),
    ("compiled", scheduled("self.seen.append(float(self.model.predict(x, verbose=0)[0, 0]))"), True),
    ("compiled", scheduled("self.model.layers[0].rate = 0.5"), False),
    ("compiled", scheduled("self.model.halve()"), False),
    ("compiled", scheduled("tf.summary.experimental.set_step(2)"), False),
    ("compiled", scheduled("tf.summary.create_noop_writer().set_as_default()"), False),
    ("compiled", scheduled("for each in self.model.layers: each.rates.append(1)"), False),
    ("compiled", scheduled("global half; half = 2.0"), False),
    ("cache", LATE.replace("400)", "400, reshuffle_each_iteration=False)"), True),
    ("cache", LATE, False),
    ("prefetch", COUNTS.replace("next(ticks)", "1"), True),
    ("prefetch", COUNTS, False),
    ("parallel-map", STEERED.replace("own = Own()", "own = keras.callbacks.History()"), True),
    ("parallel-map", STEERED, False),
    ("cache", BESIDE.format("open('/tmp/lines.csv', 'a')"), False),
    ("cache", BESIDE.format("print('alive')"), True),
    ("cache", BESIDE.format("open('/tmp/lines.csv', 'a')").replace("threading.Timer(600", "Again(600"), False),
    ("many-steps", callbacks(OWN.format("def on_predict_batch_end(self, *of): pass"), "own"), True),
    ("cache", LINES.replace("OWN", "own"), False),
    ("cache", LINES.replace("OWN", ""), True),
    ("cache", generated("1.0"), True),
    ("cache", generated("int(model.optimizer.iterations) // 1000"), False),
    ("cache", generated("len(model.history.epoch) if getattr(model, 'history', 0) else 0"), False),
    ("cache", IN_OBJECT.format("x[number]"), True),
    ("cache", IN_OBJECT.format("x[number] + len(self.model.history.epoch)"), False),
    ("cache", generated("time.time() > 9e9"), False),
    ("cache", pipeline(".map(lambda a, b: (tf.print(a, output_stream='file:///tmp/p'), (a, b))[1]).cache()"), False),
    ("loader-threads", loader("return x[:8] + index, y[:8]").replace("verbose=0", "steps_per_epoch=4"), False),
    ("loader-threads", loader("return x[:8] + int(model.optimizer.iterations), y[:8]"), False),
    ("loader-threads", loader("return x[:8] + tf.random.normal([]).numpy(), y[:8]"), False),
    ("steps-per-execution", callbacks("", "") + "model.predict(x)\n", True),
    ("steps-per-execution", callbacks(OWN.format(HOOK), "own"), False),
    ("many-steps", callbacks(OWN.format(HOOK), "own"), False),
    ("many-steps", callbacks(OWN.format("def on_batch_end(self, batch, logs=None): self.batch = batch"), "own"), False),
    ("many-steps", callbacks(OWN.format("def on_batch_end(self, batch, logs=None): 'Nothing.'"), "own"), True),
    ("many-steps", callbacks(OVERRIDING, "own"), True),
    ("many-steps", callbacks(OWN.format("def on_batch_end(self, *given): super().on_batch_end(*given)"), "own"), True),
    ("many-steps", callbacks(OWN.format("def on_batch_end(self, batch, logs=None): logs['a'] = 1"), "own"), False),
    ("many-steps", callbacks(OWN.format("def on_epoch_end(self, epoch, logs=None): pass"), "own"), True),
    ("steps-per-execution", callbacks(OWN.format("def on_test_batch_end(self, batch, logs=None): pass"), "own"), True),
    ("steps-per-execution", callbacks(BATCHES, "one"), False),
    ("steps-per-execution", callbacks("one = keras.callbacks.LambdaCallback(on_epoch_end=print)\n", "one"), True),
    ("steps-per-execution", callbacks("", "keras.callbacks.ModelCheckpoint('/tmp/a.keras', save_freq=9)"), False),
    ("steps-per-execution", callbacks("", "keras.callbacks.ModelCheckpoint('/tmp/a.keras')"), True),
    *(
        ("steps-per-execution", callbacks(SAVES.format(f"def {does}"), f"Saves({given})"), fits)
        for given, does, fits in (
            ("'/tmp/a.keras'", "on_epoch_begin(self, epoch, logs=None): pass", True),
            ("'/tmp/a.keras', save_freq=9", "on_epoch_begin(self, epoch, logs=None): pass", False),
            ("'/tmp/a.keras'", "on_train_batch_end(self, batch, logs=None): print(batch)", False),
            ("'/tmp/a.keras'", "_should_save_on_batch(self, batch): return batch == 3", False),
        )
    ),
    ("steps-per-execution", callbacks("", "keras.callbacks.EarlyStopping()"), True),
    ("steps-per-execution", callbacks("", "keras.callbacks.CSVLogger('/tmp/a')"), True),
    (
        "steps-per-execution",
        f"{HEAD}{PLAIN}model.steps_per_execution = 10\nsettings = {{'steps_per_epoch': 4}}\n"
        "model.fit(x, y, batch_size=16, verbose=0, **settings)\n",
        False,
    ),
    ("callbacks-per-epoch", callbacks("", "keras.callbacks.ModelCheckpoint('/tmp/{batch}.keras')"), False),
    ("callbacks-per-epoch", callbacks("", "keras.callbacks.ModelCheckpoint('/tmp/{batch}.keras', save_freq=9)"), True),
    ("compiled", eager("scale = drawn.normal()"), False),
    ("compiled", eager("scale = random.random()"), False),
    ("compiled", eager("scale = time.monotonic()"), False),
    ("compiled", eager("self.draw = getattr(np.random, 'normal'); scale = self.draw()"), False),
    ("compiled", eager("scale = 1.0 if random.random() < 0.99 else 2.0"), False),
    ("compiled", fed("counts['seen'] += 1"), False),
    ("compiled", fed("len(counts)"), True),
    ("compiled", fed("global phase; phase = 2"), False),
    ("compiled", fed("model.layers[0].rate = 0.9"), False),
    ("compiled", fed("net.last = 0.9").replace("model.fit", "net = model.layers[0]\nmodel.fit"), False),
    ("many-steps", callbacks(FORWARDING, "own"), False),
    ("steps-per-execution", callbacks(FORWARDING, "own"), False),
    ("compiled", fed("len(counts)").replace("data.batch(8)", f"{WARMING}"), False),
    ("compiled", eager("scale = noise()", "@tf.function\ndef noise(): return np.random.normal()\n"), False),
    ("compiled", callbacks(OWN.format("def on_epoch_end(self, epoch, logs=None): print(logs)"), "own"), True),
    ("compiled", callbacks(OWN.format("def on_epoch_end(self, *of): self.model.trainable = False"), "own"), False),
    *(
        ("compiled", callbacks(OWN.format(f"def on_epoch_end(self, *of): {does}; self.model.summary"), "own"), fits)
        for does, fits in (
            ("m = np.ones(2); m[0] += 1; m[0:1] += 1; m[:] = 1", True),
            ("self.n = 1; self.n += 1; self.m = {}; self.m[1] = 2; self.m[1] += 1", True),
            ("m = self.model.layers[0]; m.rate = 1", False),
            ("m = self.model.layers[0]; m.rate += 1", False),
            ("self.model.rates[0] = 1", False),
            ("self.model.rates[0] += 1", False),
            ("m = self.model.rates; m[:] = 1", False),
        )
    ),
    ("compiled", callbacks(OWN.format("def on_epoch_end(self, *of): net.pop()") + "net = model\n", "own"), False),
    ("compiled", eager("scale = Net.count").replace("verbose", f"{PRINTS}, verbose"), True),
    ("compiled", eager("scale = waiting.popleft()", "waiting = collections.deque(range(99))\n"), False),
    ("compiled", eager("Net.count += 1; scale = Net.count"), False),
    ("compiled", eager("self.r = getattr(self, 'r', drawn.default_rng(0)); scale = self.r.random() < 2.0"), False),
    ("compiled", eager("self.seen = [*getattr(self, 'seen', ()), 1]; scale = 1.0"), False),
    ("compiled", eager("scale = tf.random.normal([])"), True),
    ("compiled", eager("Net.count += 1; scale = np.sqrt(2.0)"), False),
    ("cache", pipeline(".map(lambda a, b: (a * 2, b)).cache()"), True),
    ("cache", pipeline(".filter(lambda a, b: a[0] < 2).cache()"), True),
    ("parallel-map", REUSED, False),
    ("parallel-map", REUSED.replace("yield page", "yield +page"), True),
    ("parallel-map", REUSED.replace("b), 4).batch(8)", "b)).batch(8).map(lambda a, b: (a * 2, b), 4)"), True),
    ("prefetch", REUSED.replace("(a + b, b), 4).batch(8)", "(a, b)).prefetch(2).batch(8)"), False),
    ("prefetch", REUSED.replace("b), 4).batch(8)", "b)).batch(8).prefetch(2)"), True),
    ("cache", REUSED.replace("(a + b, b), 4).batch(8)", "(a, b)).cache().map(lambda *of: of).batch(8)"), False),
    ("cache", IN_PLACE, False),
    ("cache", IN_PLACE.replace("(changed, [a]", "(lambda a: changed(+a), [a]"), True),
    ("cache", IN_PLACE.replace(".map(step).batch(8)", ".batch(8).map(step)").replace("[4]", "[None, 4]"), True),
    ("cache", IN_PLACE.replace(".cache().map(step)", ".map(step).cache()"), True),
    ("cache", pipeline(".map(lambda a, b: (tf.ones([2**28]), a[:1])).cache()"), False),
    ("cache", pipeline("", "other = tf.data.Dataset.range(2).cache()\n"), False),
    ("parallel-map", pipeline("", "other = tf.data.Dataset.range(2).map(lambda a: a, 8)\n"), False),
    ("cache", pipeline(".map(map_func=lambda a, b: (a * tf.random.uniform([]), b)).cache()"), False),
    ("cache", pipeline(".shuffle(64).map(lambda a, b: (a * 2, b)).cache()"), False),
    ("cache", pipeline(".map(step).cache()", python("return a * np.float32(drawn.normal())")), False),
    ("parallel-map", pipeline(".map(step, 8)", python("return a * 2")), True),
    ("parallel-map", pipeline(".map(step, 8)", python("buffer[:] = a; time.sleep(0.002); return +buffer")), False),
    (
        "parallel-map",
        pipeline(".map(lambda a, b: (a + count.assign_add(1.0), b), 8)", "count = tf.Variable(0.0)\n"),
        False,
    ),
    ("loader-threads", loader("return x[:8] + index, y[:8]"), True),
    ("loader-threads", loader("return x[:8] + np.random.normal(), y[:8]"), True),
    ("loader-threads", loader("last, self.last = getattr(self, 'last', 0), index; return x[:8] + last, y[:8]"), False),
    ("parallel-map", pipeline(".map(step, 8)", python("return a + np.float32(np.random.normal())")), True),
    ("parallel-map", pipeline(".map(step, 8)", python("last = +buffer; buffer[:] = a; return a + last")), False),
    ("loader-threads", loader("self.buffer[:] = drawn.normal(); return self.buffer, y[:8]"), False),
    ("parallel-map", pipeline(".map(step, 8)", python(f"a = a + drawn.normal(); {BUFFER}")), False),
    ("parallel-map", pipeline(".batch(1).flat_map(inner)", python(BUFFER) + INNER), False),
    ("parallel-map", pipeline(".map(step, 8)", python(BUFFER)).replace("fit(data.batch(8)", HELD_OUT), False),
    ("parallel-map", pipeline(".map(lambda a, b: (a + model.layers[0].bias, b), 8)"), False),
    ("prefetch", pipeline(".map(lambda a, b: (a + model.optimizer.learning_rate, b))"), False),
    ("prefetch", pipeline(".map(lambda a, b: (scaled(a), b))", SCALED), True),
    ("cache", pipeline(".map(lambda a, b: (scaled(a), b)).cache()", SCALED), True),
    ("cache", pipeline(".map(lambda a, b: (a * 2, b)).cache().take(9)"), False),
    ("cache", pipeline(".map(lambda a, b: (a * 2, b)).cache().shuffle(63).take(9)"), False),
    ("cache", pipeline(".map(lambda a, b: (a * 2, b)).cache().shuffle(64, 1, False).prefetch(1).take(9)"), True),
    ("cache", pipeline(".take(60).map(lambda a, b: (a * 2, b)).cache()"), True),
    ("parallel-map", pipeline(f".map(lambda a, b: (a + 2, b), 8){RESAMPLED}"), True),
    ("parallel-map", pipeline(f".map(lambda a, b: (a * count, b), 8){RESAMPLED}", COUNT), False),
    *(
        (
            "cache",
            pipeline(f"{steps}.map(lambda a, b: (a * 2, b)).cache().repeat()").replace("epochs=2", "steps_per_epoch=4"),
            is_finite,
        )
        for steps, is_finite in (
            (".filter(lambda a, b: a[0] > 1)", True),
            (".interleave(lambda a, b: tf.data.Dataset.from_tensors((a, b)))", True),
            (".repeat().filter(lambda a, b: a[0] > 1)", False),
            (".flat_map(lambda a, b: tf.data.Dataset.from_tensors((a, b)).repeat())", False),
        )
    ),
    ("cache", pipeline(".map(lambda a, b: (a * 2, b)).cache()").replace("epochs=2", "epochs=1"), False),
    ("cache", pipeline(".map(lambda a, b: (a * 2, b)).cache().repeat(2)").replace("epochs=2", "epochs=1"), True),
    (
        "xla",
        eager("tf.debugging.assert_all_finite(data[0], ''); scale = 1.0").replace("'mse'", "'mse', jit_compile=True"),
        False,
    ),
    ("xla", eager("scale = 1.0").replace("'mse'", "'mse', jit_compile=True"), True),
    *(
        (remedy, callbacks(OWN.format(f"def on_epoch_end(self, *of): {reads}"), "own"), remedy == offered)
        for remedy in ("no-progress-bar", "many-steps")
        for reads, offered in (
            ("self.params['verbose']", "many-steps"),
            ("self.params['steps']", "no-progress-bar"),
            ("print(self.params)", ""),
        )
    ),
    ("compiled", callbacks("own = keras.callbacks.Callback()\nown.on_epoch_end = print\n", "own"), True),
    ("loader-threads", loader("return x[:8] + model(x[:8]).numpy(), y[:8]"), False),
    ("loader-threads", loader(f"a = np.full((8, 4), index) + drawn.normal(); {OVERWRITE}"), False),
    ("loader-threads", loader("self.buffer[:] = index; time.sleep(0.002); return self.buffer.copy(), y[:8]"), False),
    ("loader-threads", loader("return x[:8], y[:8]\n    def on_epoch_begin(self): self.order = 8"), False),
    ("loader-threads", loader("return x[:8], y[:8]\n    def on_epoch_end(self): self.last = 9"), True),
    ("loader-threads", sized("self.rows = self.rows[np.random.permutation(len(self.rows))]"), True),
    ("loader-threads", sized("self.rows = self.rows[1:]"), False),
    ("loader-threads", sized("self.rows = self.rows[::-1]; counts.append(1)"), False),
    ("loader-threads", sized("self.rows = self.rows[::-1]").replace("return x[", "self.rows = x; return x["), False),
    ("loader-threads", loader("return x[:8], y[:8] + (dice.random() if index > 999 else 0)"), True),
    ("loader-threads", loader("return x[:8] + 0 * dice.random(), y[:8]"), True),
    ("compiled", eager("scale = dice.random() < 2.0"), False),
    ("cache", pipeline(".map(step).cache()", python("return a * np.float32(dice.random() < 2)")), False),
    ("cache", pipeline(".map(step).cache()", python("return a * np.float32(drawn.rand() < 2)")), False),
    ("cache", pipeline(".map(step).cache()", python("drawn.seed(1); return a * np.float32(drawn.rand())")), True),
    ("cache", pipeline(".map(lambda a, b: (a * tf.cast(tf.random.uniform([]) < 2, 'float32'), b)).cache()"), False),
    ("compiled", eager("self._seen = 1 + getattr(self, '_seen', 0); scale = 1.0"), False),
    ("compiled", eager("self.layers[0].seen = 1 + getattr(self.layers[0], 'seen', 0); scale = 1.0"), False),
    ("compiled", eager("scale = 1.0 if kept.date.today().year > 1 else 2.0", "import datetime as kept\n"), False),
    ("compiled", eager("scale = 1.0 if os.path.exists('/tmp') else 2.0", "import os\n"), False),
    ("compiled", eager("scale = secrets.randbelow(2) < 2", "import secrets\n"), False),
    ("compiled", eager("scale = drawn.default_rng().random() < 2.0"), False),
    ("compiled", eager("scale = drawn.default_rng(7).random() < 2.0"), True),
    ("compiled", eager("scale = random.Random().random() < 2.0"), False),
    ("compiled", eager("scale = random.Random(7).random() < 2.0"), True),
    ("compiled", eager("scale = uuid.uuid4().int > 2", "import uuid\n"), False),
    ("compiled", eager("scale = 2.0 if time.time() > 9e9 else 1.0"), False),
    ("loader-threads", loader("self.seen = getattr(self, 'seen', 0) + 1; return x[:8], y[:8]"), False),
    ("cache", pipeline(".map(step).cache()", COUNTING + python("return a * counted()")), False),
    ("cache", pipeline(".map(step).cache()", "seen = 0\n" + python("exec('seen += 1', globals()); return a")), False),
    ("cache", pipeline(".map(step).cache()", "seen = 0\n" + python("exec('global seen; seen += 1'); return a")), False),
    ("cache", pipeline(".map(step).cache()", python("open('/tmp/lines', 'a').write('1'); return a * 2")), False),
    ("cache", pipeline(".map(step).cache()", python("print('a sample'); return a * 2")), False),
    *(
        ("cache", pipeline(".map(step).cache()", f"{made}\n" + python(f"{changes}; return a")), False)
        for made, changes in (
            ("import struct\nkept = bytearray(8)", "struct.pack_into('q', kept, 0, 1 + kept[0])"),
            ("kept = bytearray(8)", "np.frombuffer(kept, 'int64')[0] += 1"),
            ("import array\nkept = array.array('q', [0])", "memoryview(kept)[0] += 1"),
            ("import multiprocessing\nkept = multiprocessing.Value('q')", "kept.value += 1"),
            (
                "from multiprocessing.shared_memory import SharedMemory\nkept = SharedMemory(create=True, size=8)\n"
                "kept.unlink()",
                "kept.buf[0] = (kept.buf[0] + 1) % 251",
            ),
            (
                "import sqlite3\nkept = sqlite3.connect(':memory:', check_same_thread=False)\n"
                "kept.execute('create table t (x)')",
                "kept.execute('insert into t values (1)')",
            ),
            ("kept = np.zeros(1_000_003)", "np.add.at(kept, 777, 1)"),
            ("import queue\nkept = queue.Queue()", "kept.put(1)"),
            ("import decimal\nkept = decimal.Decimal(0)", "globals().update(kept=kept + 1)"),
            ("kept = {1, 2}", "kept.add(max(kept) + 1); kept.remove(min(kept))"),
            ("kept = {1: 0}", "kept[max(kept) + 1] = 0; del kept[min(kept)]"),
            ("kept = {1: {2: {3: {4: {5: 0}}}}}", "kept[1][2][3][4][5] += 1"),
            ("import argparse\nkept = argparse.Namespace(n=0)", "kept.n += 1"),
            ("kept = collections.UserDict(n=0)", "kept['n'] += 1"),
            ("class Own:\n    __slots__ = ('n',)\nkept = Own()\nkept.n = 0", "kept.n += 1"),
            ("class Own:\n    n = [0]\n    def add(self): self.n[0] += 1\nkept = Own()", "kept.add()"),
            ("import ctypes\nclass Own(ctypes.Union): _fields_ = [('n', ctypes.c_int)]\nkept = Own()", "kept.n += 1"),
            ("def kept(): pass\nkept.n = 0", "kept.n += 1"),
            ("np.counted = 0", "np.counted += 1"),
            ("import os\nos.environ['N'] = '0'", "os.environ['N'] = str(1 + int(os.environ['N']))"),
            ("import functools\nkept = functools.partial(print, n=0)", "kept.keywords['n'] += 1"),
            ("kept = np.random.default_rng(1).random", "kept()"),
            ("kept = [].append", "kept(1)"),
            ("kept = zip(range(9999), range(9999))", "next(kept)"),
            ("kept = map(str, range(9999))", "next(kept)"),
            ("kept = iter(tf.data.Dataset.range(9999))", "next(kept)"),
            ("kept = tf.random.Generator.from_seed(1)", "kept.uniform([])"),
            ("kept = tf.queue.FIFOQueue(9999, 'float32')", "kept.enqueue(1.0)"),
            ("tf.random.set_seed(1)", "a = a + 0 * tf.random.uniform([]).numpy()"),
            ("pass", "a = a + 0 * tf.random.uniform([]).numpy()"),
            ("import contextvars\nkept = contextvars.ContextVar('n', default=0)", "kept.set(1 + kept.get())"),
            ("kept = threading.local()", "kept.n = 1 + getattr(kept, 'n', 0)"),
            ("import hashlib\nkept = hashlib.sha256()", "kept.update(a.tobytes())"),
            ("import csv\nkept = csv.reader(['1'] * 9999)", "next(kept)"),
            ("import logging", "logging.warning('a sample')"),
            ("import sys", "print('a sample', file=sys.stderr)"),
            ("import datetime", "datetime.datetime.now()"),
        )
    ),
    *(
        ("cache", pipeline(".map(step).cache()", f"{made}\n" + python(f"{uses}; return a * 2")), True)
        for made, uses in (
            ("import functools\nkept = functools.lru_cache(lambda n: n + 1)", "kept(int(a[0]))"),
            ("import io\nkept = io.BytesIO()\nnp.savez(kept, n=x)\nkept.seek(0)\nkept = np.load(kept)", "kept['n']"),
            ("import re, struct\nkept = re.compile('a'), struct.Struct('q'), threading.Lock()", "kept[0].match('b')"),
            ("import dataclasses\n@dataclasses.dataclass\nclass Row:\n    n: int = 1\nkept = Row()", "kept.n"),
            ("class Row(dict): __getattr__ = dict.__getitem__\nkept = Row(n=1)", "kept.n"),
            ("import multiprocessing, json\nkept = multiprocessing.Lock(), json.JSONDecoder()", "kept[1].decode('1')"),
            ("from PIL import Image\nkept = Image.new('RGB', (8, 8))", "kept.resize((4, 4))"),
        )
    ),
    *(
        ("compiled", eager("scale = known(data[0])", KNOWN.replace("float(of[0, 0])", "1").format(error)), fits)
        for error, fits in (
            ("except ValueError", True),
            ("except tf.errors.InvalidArgumentError", False),
            ("except (KeyError, tf.errors.OpError)", False),
        )
    ),
    *(
        ("cache", between(made, changes, reads), fits)
        for made, changes, reads, fits in (
            ("many = [1.0]", "many[:] = [2.0]", "many[0]", False),
            ("many = np.ones(4)", "np.multiply(many, 2, out=many)", "many[0]", False),
            ("many = np.ones(4)\nhalf = many[:2]", "half[:] = 2", "many[0]", False),
            ("many = np.ones(4)\nhalf = memoryview(many)", "half[0] = 2.0", "many[0]", False),
            ("class Of: one = 1", "del Of.one", "hasattr(Of, 'one')", False),
            ("", "keras.config.set_epsilon(1.0)", "keras.config.epsilon()", False),
            ("", "keras.config.set_epsilon(1.0)", "2.0", True),
            ("many = np.ones(4)", "many.flat = 2.0", "many[0]", False),
            ("import io\nmany = np.ones(4)", "io.BytesIO(bytes(32)).readinto(many)", "many[0]", False),
            ("def one(by=1.0): return by", "one.__defaults__ = (2.0,)", "one()", False),
            ("import sys\none = 1.0", "import __main__; __main__.one = 2.0", "one", False),
            ("import sys\none = 1.0", "import __main__; __main__.other = 2.0", "one", True),
            ("def late():\n    while True: kept['n'] = yield\nkept = dict(n=1.0)\nlater = late()", "next(later)",
             "kept['n']", False),
            (OPERATED.format("__add__"), "kept + 2.0", "kept.one", False),
            (OPERATED.format("__eq__"), "kept == 2.0", "kept.one", False),
            (OPERATED.format("added"), "kept == 2.0", "kept.one", True),
            ("", "keras.backend.clear_session()", "keras.config.epsilon()", True),
            ("class Level: n = 1.0", "Level.n = 2.0", "Level.n", False),
            ("class Level: n = 1.0\nkept = {'k': Level}", "getattr(kept, 'get')('k').n = 2.0", "Level.n", False),
            ("import argparse\nkept = argparse.Namespace(n=1.0, m=1)", "kept.n = 2.0", "kept.n", False),
            ("import argparse\nkept = argparse.Namespace(n=1.0, m=1)", "self.n = kept.m", "kept.n", True),
            ("import os\nos.environ['N'] = '1'", "os.environ['N'] = '2'", "float(os.environ['N'])", False),
            ("import os\nos.environ['N'] = '1'", "self.n = os.environ['N']", "float(os.environ['N'])", True),
            ("kept = collections.UserDict(n=1.0)", "kept['n'] = 2.0", "kept['n']", False),
            ("kept = bytearray(1)", "kept[0] = 2", "kept[0]", False),
            ("kept = threading.Event()", "kept.set()", "float(kept.is_set())", False),
            ("", "self.mean = 2.0", "np.mean(a)", True),
            ("kept = {'n': 1.0}", "self.n = kept['n']; self.m = self.n; self.m += 1", "kept['n']", True),
            ("kept = np.ones(1)", "self.n = kept; self.n *= 0.5", "kept[0]", False),
        )
    ),
    ("compiled", eager("scale = 1.0 + len(self.history.epoch) // 99 if hasattr(self, 'history') else 1.0"), False),
    ("compiled", eager("scale = 1.0 + kept.wait", "kept = keras.callbacks.EarlyStopping()\n"), False),
    ("steps-per-execution", loader("return x[:8] * (opts['o'].iterations > -1), y[:8]", WEAKLY), False),
    ("steps-per-execution", loader("return x[:8] * (globals()['model'].optimizer.iterations > -1), y[:8]"), False),
    ("steps-per-execution", loader("return x[:8] * (time.time() > 0), y[:8]"), True),
    ("prefetch", beside(stepping("kept['n'] += 1"), network="Net", after=".prefetch(2)"), False),
    ("prefetch", beside(stepping("self.n = 1"), network="Net", after=".prefetch(2)"), True),
    ("parallel-map", beside(stepping("kept['n'] += 1"), network="Net").replace("map(step)", "map(step, 8)"), False),
    ("loader-threads", stepped_loader("return x[:8] * seen[0], y[:8]"), False),
    ("loader-threads", stepped_loader("return x[:8], y[:8]"), True),
    *(
        ("compiled", eager_parts(before, model, then), fits)
        for before, model, then, fits in (
            (in_test("self.n = 1 + getattr(self, 'n', 0)"), "Net", "", True),
            (in_test("self.n = 1 + getattr(self, 'n', 0)"), "Net", "model.evaluate(x, y)", False),
            (in_test("print(data)"), "Net", "model.fit(x, y, validation_data=(x, y))", False),
            (in_test("data = (data[0] * np.random.rand(), data[1])"), "Net", "model.evaluate(x, y)", False),
            (in_test("data = (data[0] * 2, data[1])"), "Net", "model.evaluate(x, y)", True),
            ("def act(a): seen.append(1); return a\n", "keras.Sequential", "", False),
            ("def act(a): return a * 2\n", "keras.Sequential", "", True),
        )
    ),
    *(
        ("cache", beside(before, **parts), fits)
        for before, parts, fits in (
            (stepping("kept['n'] += 1"), {"network": "Net"}, False),
            (stepping("self.n = 1"), {"network": "Net"}, True),
            (stepping("tf.py_function(lambda: kept.update(n=2), [], [])"), {"network": "Net"}, False),
            ("def loss(a, b): kept['n'] += 1; return keras.ops.mean(a - b)\n", {"loss": "loss"}, False),
            ("def loss(a, b): return keras.ops.mean(a - b) * kept['n']\n", {"loss": "loss"}, True),
            ("def act(a): kept['n'] += 1; return a\n", {"layer": "keras.layers.Dense(1, activation=act)"}, False),
            (COUNTED, {"after": ".map(counted)"}, False),
            (COUNTED, {"given": "validation_data=rows.map(counted).batch(8)"}, False),
            ("import signal\nsignal.signal(10, lambda *of: kept.update(n=2))\n", {}, False),
            (
                "from concurrent.futures import ThreadPoolExecutor\ndef late(): time.sleep(3); kept['n'] = 2\n"
                "pool = ThreadPoolExecutor(1)\npool.submit(late)\n",
                {},
                False,
            ),
            (LOOP.format("await asyncio.sleep(60); kept['n'] = 2") + "asyncio.run_coroutine_threadsafe(late(), loop)\n",
             {}, False),
            (LOOP.format("pass") + "loop.call_soon_threadsafe(loop.call_later, 60, kept.clear)\n", {}, False),
            (LOOP.format("await asyncio.sleep(60)") + "asyncio.run_coroutine_threadsafe(late(), loop)\n", {}, True),
        )
    ),
    ("cache", pipeline(".cache().repeat().batch(4).take(16)").replace("epochs=2", "epochs=1"), True),
    ("cache", pipeline(".cache().repeat().batch(4).take(15)").replace("epochs=2", "epochs=1"), False),
    ("cache", pipeline(".cache().repeat(4).map(lambda a, b: (a, b)).take(128)"), True),
    ("cache", pipeline(".map(step).cache()", MEMO + python("return known(int(a[0])) * a")), True),
    ("parallel-map", pipeline(".map(step, 8)", MEMO + python("return known(int(a[0])) * a")), True),
    ("parallel-map", pipeline(".map(step, 8)", COUNTING + python("return a * counted()")), False),
    ("parallel-map", pipeline(".map(step, 8)", python("open('/tmp/lines', 'a').write('1'); return a * 2")), False),
    ("compiled", eager("scale = counted()", COUNTING), False),
    ("compiled", eager("scale = warm()", "def warm(state=[0]): state[0] += 1; return 1.0\n"), False),
    ("compiled", eager("scale = 2.0 if next(ticks) > 99 else 1.0", TICKS), False),
    ("compiled", eager("scale = 2.0 if hasattr(data[0], 'numpy') else 1.0"), False),
    ("compiled", eager("scale = self.half", "").replace("count = 0", "half = 0.5"), True),
    ("steps-per-execution", f"{HEAD}{PLAIN}model.fit(tf.data.Dataset.from_generator({ENDING}), verbose=0)\n", False),
    *(
        ("cache", before + LINES.replace("OWN", "own").replace(WRITES, f"def on_epoch_end(self, *of): {does}"), fits)
        for does, before, fits in (
            ("new.replace(old)", "import pathlib\nnew, old = map(pathlib.Path, 'ab')\n", False),
            ("pathlib.Path('a').replace('b')", "import pathlib\n", False),
            ("self.text = 'a-b'.replace('-', '_')", "", True),
            ("many[:] = 2.0", MAPPED, False),
            ("many[:2].base[0] = 2.0", MAPPED, False),
            ("half[:] = 2.0", f"{MAPPED}half = many[:2]\n", False),
            ("self.many = many; self.many += 1", MAPPED, False),
            ("self.seen = dict(); self.seen[1] = 2", "", True),
            ("print(1, file=lines)", "lines = open('/tmp/printed', 'w')\n", False),
            ("os.chdir('/tmp')", "import os\n", False),
            ("methodcaller('replace', 'b')('a')", "from operator import methodcaller\n", False),
        )
    ),
    ("cache", pipeline(".map(lambda a, b: (a * tf.cast(tf.timestamp() / 1e9, tf.float32), b)).cache()"), False),
    *(
        (remedy, looked_up(then, line), fits)
        for remedy, then in (("cache", ".cache()"), ("prefetch", ".prefetch(2)"), ("parallel-map", ".map(found, 8)"))
        for line, fits in (("table.insert([1], tf.reduce_sum(data[0], 1)[:1])", False), ("table.lookup([1])", True))
    ),
    *(
        (remedy, beside(line, network="Net", after=then).replace("HARD", "np.save('/tmp/hard', x)"), fits)
        for remedy, then in (("cache", ""), ("prefetch", ".prefetch(2)"), ("parallel-map", ".map(step, 8)"))
        for line, fits in ((stepping("HARD"), False), (stepping("tf.py_function(lambda: HARD, [], [])"), False),
                           (stepping("self.built"), True))
    ),
    *(
        ("compiled", eager(line, before), fits)
        for line, before, fits in (
            ("scale = float('nan' in str(data[0]))", "", False),
            ("scale = float('nan' in f'{data[0]}')", "", False),
            ("scale = float('nan' in '%s' % [data[0]])", "", False),
            ("scale = float('nan' in repr(self.weights[0]))", "", False),
            ("scale = float('nan' in f'{data[0].shape} {data[0].dtype} {self.name}')", "", True),
            ("scale = known(data[0])", KNOWN.format("except TypeError"), False),
            ("scale = known(data[0])", KNOWN.format("except"), False),
            ("scale = 1.0 if tf.get_static_value(data[0]) is None else 2.0", "", False),
            ("scale = float(subprocess.check_output(['echo', '1']))", "import subprocess\n", False),
            ("scale = 1.0 + 0 * os.getloadavg()[0]", "import os\n", False),
        )
    ),
    ("xla", f"{HEAD}{COMPILED}model.fit(x, y, verbose=0)\n", True),
    *(
        (remedy, f"{HEAD}class Mine(keras.callbacks.CallbackList):\n    {hook}\n{PLAIN}"
         "mine = Mine([], add_history=True, model=model)\nmodel.fit(x, y, verbose=0, callbacks=mine)\n", fits)
        for remedy in ("steps-per-execution", "many-steps")
        for hook, fits in (("def on_train_batch_end(self, *of): print(of)", False), )
    ),
    ("parallel-map", RAGGED.replace("def one(a):", "def one(a):\n    time.sleep(0)"), True),
    ("parallel-map", RAGGED.replace("def one(a):", "def one(a):\n    a = a + drawn.normal()"), True),
    ("parallel-map", RAGGED.replace("def one(a):", "def one(a):\n    a = a + len(seen); seen.append(1)"), False),
    ("parallel-map", SPREAD.format("", "return np.full(4, k, 'float32')"), True),
    ("parallel-map", SPREAD.format("seen = []\n", "seen.append(k); return np.full(4, len(seen), 'float32')"), False),
    ("cache", SORTED, True),
    ("cache", f"{HEAD}data = tf.data.Dataset.from_tensor_slices((x, y)).cache().batch(8)\n{PLAIN}"
     "model.fit(x, y, epochs=2, validation_data=data, verbose=0)\n", False),
    # The last of all, as they stay for what follows.
    ("cache", pipeline(".map(step).cache()", PROGRAM + python("return a * 2")), False),
    ("xla", f"{HEAD}tf.debugging.enable_check_numerics()\n{COMPILED}model.fit(x, y, verbose=0)\n", False),
    ("steps-per-execution", callbacks(PATCHED, ""), False),
    *(
        (remedy, f"{HEAD}from keras.src.callbacks import progbar_logger\n"
         "class Bar(keras.utils.Progbar):\n    def update(self, *of, **named): print(of)\n"
         f"progbar_logger.Progbar = Bar\n{PLAIN}model.fit(x, y)\n", False)
        for remedy in ("steps-per-execution", "many-steps", "no-progress-bar")
    ),
    *(
        (remedy, f"{HEAD}from keras.src.callbacks import progbar_logger\n"
         "progbar_logger.Progbar = keras.utils.Progbar\nupdate = keras.utils.Progbar.update\n"
         f"keras.utils.Progbar.update = lambda *of, **named: update(*of, **named)\n{PLAIN}model.fit(x, y)\n", False)
        for remedy in ("steps-per-execution", "many-steps", "no-progress-bar")
    ),
    *(
        (remedy, f"{HEAD}def look():\n    time.sleep(9); print({looks_at})\n{PLAIN}"
         "threading.Thread(target=look, daemon=True).start()\nmodel.fit(x, y, verbose=0)\n", fits)
        for looks_at, fits in (("x.shape", True), ("model.optimizer.iterations", False))
        for remedy in ("steps-per-execution", "many-steps")
    ),
]  # fmt: skip


@pytest.mark.parametrize("part", range(3))
def test_a_remedy_that_would_change_training_is_refused_at_the_call(execute, part):
    cases = CASES[part::3]
    given = [(remedy, text) for remedy, text, _ in cases]
    judged = "misfit(remedy, took.call) or misfit_after(remedy, took.call)"
    found = execute(TAKE.replace("GIVEN", repr(given)).replace("JUDGED", judged))
    wrong = [(each, why) for each, why in zip(cases, found, strict=True) if (why == "") is not each[2]]
    assert wrong == [], "\n".join(f"{case[0]} {case[2]} {why!r}: {case[1][-700:]}" for case, why in wrong)


SETTINGS = (
    "import configparser, zipfile\nbegun = time.time()\n"
    "kept = configparser.ConfigParser()\nkept.read_string('[a]\\nn=1')\n"
    "with zipfile.ZipFile('/tmp/later.zip', 'w') as later: later.writestr('hard.txt', '2')\n"
    "open('/tmp/hard.txt', 'w').write('1')\n"
)
AS_SET, FROM_FILE = "kept.getfloat('a', 'n')", "open('/tmp/hard.txt').read()"
LATER = "'[a]\\nn=2' if {} else ''"
FORESEEN = [
    *((remedy, f"kept.read_string({LATER.format(when)})", AS_SET, True) for remedy in ("cache", "compiled")
      for when in ("of[0] == 6", "of[1]['loss'] < 0.01", "of[1].get('loss', 0) > 50")),
    ("cache", "of[0] == 6 and zipfile.ZipFile('/tmp/later.zip').extract('hard.txt', '/tmp')", FROM_FILE, True),
    ("compiled", f"kept.read_string({LATER.format('time.time() > begun + 999')})", AS_SET, True),
    ("cache", "open('/tmp/other.txt', 'a').write('1'), of[1]['none']", FROM_FILE, False),
    ("compiled", "print(of), self.model.predict(x, verbose=0), of[1]['none']", AS_SET, False),
]  # fmt: skip


def test_what_callbacks_do_in_later_epochs_is_foreseen(execute):
    texts = [
        between(SETTINGS, does, reads).replace("epochs=2", "epochs=9")
        if remedy == "cache"
        else eager(f"scale = {reads}", SETTINGS + OWN.format(f"def on_epoch_end(self, *of): {does}")).replace(
            "model.fit(x, y, ", "model.fit(x, y, epochs=9, callbacks=[own], "
        )
        for remedy, does, reads, _ in FORESEEN
    ]
    given = [(case[0], text) for case, text in zip(FORESEEN, texts, strict=True)]
    begun = "[each.set_model(took.call.model) for each in took.call.callbacks]"
    judged = f"({begun}, foreseen(remedy, took.call))[1]"
    imported = TAKE.replace(
        "from workloads.driver.losses",
        "from workloads.driver.foresight import foreseen\nfrom workloads.driver.losses",
    )
    found = execute(imported.replace("GIVEN", repr(given)).replace("JUDGED", judged))
    wrong = [(case, why) for case, why in zip(FORESEEN, found, strict=True) if ("Own" in why) is not case[3]]
    assert wrong == []


def test_a_check_before_training_leaves_the_input_where_it_was(execute):
    given = [("", DRAWN_BATCHES), ("prefetch", DRAWN_BATCHES)]
    judged = (
        "took.call.read_batch() or misfit(remedy, took.call) or [digest(a) for a in took.call.arguments['x']]"
    )
    imported = TAKE.replace(
        "from workloads.driver.losses",
        "from workloads.driver.first_epoch import digest\nfrom workloads.driver.losses",
    )
    one, other = execute(
        imported.replace("GIVEN", repr(given)).replace("JUDGED", f"[each.hex() for each in {judged}]")
    )
    assert one == other


def test_what_the_script_as_written_does_already_is_said(execute):
    model = PLAIN.replace("'mse'", "'mse', steps_per_execution=4")
    given = [
        (remedy, f"{HEAD}{model}model.fit(x, y, verbose={verbose})\n")
        for remedy, verbose in (
            ("no-progress-bar", "0"),
            ("no-progress-bar", "'auto'"),
            ("steps-per-execution", "1"),
        )
    ]
    judged = "(setattr(took.call, 'as_written', took.call.params()), misfit(remedy, took.call))[1]"
    quiet, shown, several = execute(TAKE.replace("GIVEN", repr(given)).replace("JUDGED", judged))
    assert "no progress bar" in quiet and shown == "" and "as many steps" in several


@pytest.mark.parametrize(
    ("remedy", "text", "said"),
    [
        (
            "parallel-map",
            pipeline(".map(lambda a, b: (a, b), 8).cache()", "tf.data.experimental.enable_debug_mode()\n"),
            "enable_debug_mode",
        ),
        ("cache", pipeline(".repeat().cache()").replace("epochs=2", "steps_per_epoch=4"), "may never end"),
        ("cache", pipeline(""), "is not the input"),
    ],
)
def test_reasons_say_what_is_so(execute, remedy, text, said):
    given = [(remedy, text)]
    (reason,) = execute(TAKE.replace("GIVEN", repr(given)).replace("JUDGED", "misfit(remedy, took.call)"))
    assert said in reason


AUGMENT = "draw = tf.random.Generator.from_seed(1)\nflip = keras.layers.RandomFlip(seed=1)\n"
LEVEL = "level = tf.Variable(1.0, trainable=False)\n"
LOSSES = [
    (pipeline(".map(lambda a, b: (a + draw.normal([4]), b), 8)", AUGMENT), "epochs"),
    (pipeline(".map(lambda a, b: (a + draw.normal([4]), b))", AUGMENT), "steps"),
    (pipeline(".map(lambda a, b: (a + tf.random.normal([4]), b), 8)"), "epochs"),
    (pipeline(".map(lambda a, b: (flip(tf.reshape(a, (1, 2, 2)))[0, 0, 0] + a, b), 8)", AUGMENT), "epochs"),
    (pipeline(".map(lambda a, b: (a * 2, b), 8)"), "steps"),
    (pipeline(".map(lambda a, b: (a * level, b))", LEVEL), "steps"),
    (pipeline(".map(lambda a, b: (a * level, b)).repeat()", LEVEL).replace("epochs=2", "steps_per_epoch=4"), "epochs"),
]  # fmt: skip


CHILDREN = """
import json, multiprocessing, subprocess, time
from workloads.driver.own_code import children
children.remember()
def waits(): time.sleep(60)
def writes(): open("/tmp/tiles", "a").close(); time.sleep(60)
found = []
for target in (waits, writes):
    child = multiprocessing.get_context("fork").Process(target=target)
    child.start()
    found.append(children.changing_files())
    child.kill()
    child.join()
program = subprocess.Popen(["sleep", "60"])
found.append(children.changing_files())
program.kill()
program.wait()
found.append(children.changing_files())
print(json.dumps(found))
"""


def test_processes_that_may_change_files_are_found(execute):
    assert execute(CHILDREN) == ["", "process ForkProcess-2, by open", "program sleep", ""]


def test_losses_with_xla_are_compared_as_it_draws(execute):
    texts = [f"{HEAD}{COMPILED}model.fit(x, y, verbose=0)\n"]
    texts.append(texts[0].replace("keras.layers.Dense(", "keras.layers.Dropout(0.5), keras.layers.Dense(", 1))
    given = [("xla", text) for text in texts]
    judged = "comparable({'fix:' + remedy}, took.call)"
    assert execute(TAKE.replace("GIVEN", repr(given)).replace("JUDGED", judged)) == ["rounded", "epochs"]


def test_losses_of_each_step_are_compared_where_the_input_is_always_the_same(execute):
    given = [("no-progress-bar", text) for text, _ in LOSSES]
    judged = "comparable({'fix:' + remedy}, took.call)"
    found = execute(TAKE.replace("GIVEN", repr(given)).replace("JUDGED", judged))
    assert found == [expected for _, expected in LOSSES]
