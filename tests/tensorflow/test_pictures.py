"""Image workloads: Keras' Python loader and tf.data on JPEG files, augmentation, accuracy."""

import pytest

from harness.data.jpegs import JpegRecipe
from harness.data.procedural import PictureRecipe
from harness.progress import Silent
from harness.run.catalogue import built_in, select
from workloads.protocol import BASELINE, INPUT_ONLY, TUNED, VARIANTS, Data

pytestmark = pytest.mark.tensorflow

PETS = select(built_in(), ("cats-dogs",))[0].workload


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    data = Data(
        name="pets", shape=(90, 101, 3), classes=2, train=1200, test=200, kind="jpeg",
        class_names=PETS.data.class_names,
    )  # fmt: skip
    with Silent().task("", None) as bar:
        JpegRecipe(data, 1).write(folder, bar)
    return str(folder)


def test_all_variants_stages_and_loaders(drive, tree):
    optimizations = ["opt:workers-4", "opt:ram", "opt:tfdata", "opt:device-augment"]
    stages = [f"stage:{name}" for name in PETS.stages]
    done = drive(file="cats_dogs.py", workload="cats-dogs", variants=[*VARIANTS, *stages, *optimizations],
                 data_dir=tree, steps=2, windows=1)  # fmt: skip
    assert done.per_step() == dict.fromkeys((*VARIANTS, *stages, *optimizations), 32)
    (drained,) = done.of("window", variant=INPUT_ONLY)
    assert drained["wait_ns"] > 0.8 * (drained["end_ns"] - drained["start_ns"])
    (copied,) = done.of("phase", variant="opt:ram", name="data")
    assert copied["end_ns"] > copied["start_ns"]
    for variant in (BASELINE, TUNED):
        assert 0 <= done.metric(variant, "accuracy") <= 1
    what = {change["what"] for change in done.of("variant", variant=TUNED)[0]["changes"]}
    assert {"feed", "preprocess", "loader", "steps_per_execution"} <= what


def test_an_invalid_parameter_value_is_rejected(drive, tree):
    done = drive(file="cats_dogs.py", workload="cats-dogs", variants=[BASELINE], data_dir=tree,
                 params={"loader": "magic"}, code=1)  # fmt: skip
    assert "loader='magic' is not one of keras, tfdata" in done.log


PREDICT = """
import json
import numpy as np
import tensorflow as tf
from pathlib import Path
from workloads import cats_dogs
from workloads.driver import pipeline
from workloads.cats_dogs import PARAMS
tree = {tree!r}
tf.keras.utils.set_random_seed(1)
params = {{**PARAMS, "loader": "tfdata", "cache": True, "batch_size": 32}}
model = cats_dogs.small_model(params)
batches = pipeline.assemble(cats_dogs.dataset(params, tree))
model.fit(batches, steps_per_epoch=150, epochs=1, verbose=0)
pictures, labels = [], []
for label, name in enumerate(("cat", "dog")):
    for path in sorted(Path(tree, "test", name).glob("*.jpg")):
        picture = tf.keras.utils.load_img(path, target_size=(64, 64))
        pictures.append(tf.keras.utils.img_to_array(picture))
        labels.append(label)
pictures, labels = np.stack(pictures), np.array(labels)
def right(batch):
    return float(np.mean((model.predict(batch, verbose=0)[:, 0] > 0.5) == labels))
def loss(batch):
    return float(model.evaluate(batch, labels, verbose=0)[0])
device = {{**params, "preprocess": "device"}}
whole = cats_dogs.small_model(device)
whole.set_weights(model.get_weights())
print(json.dumps({{
    "scaled": right(pictures / 255),
    "loss": [loss(pictures / 255), loss(pictures)],
    "in_model": float(np.mean((whole.predict(pictures.astype(np.uint8), verbose=0)[:, 0] > 0.5) == labels)),
}}))
"""


def test_accuracy_on_held_out_images_with_and_without_the_articles_scaling_error(script, tree):
    """The article trains on values from 0 to 1 but predicts on values from 0 to 255."""
    result = script(PREDICT.format(tree=tree))
    assert result["scaled"] > 0.7, "0.5 is chance"
    assert result["loss"][1] > 5 * result["loss"][0], "confident errors raise the loss"
    # Scaling inside the model avoids the error.
    assert result["in_model"] == pytest.approx(result["scaled"], abs=0.02)


WARP = """
import json
import numpy as np
import tensorflow as tf
from workloads.components import augment
from keras.src.legacy.preprocessing.image import apply_affine_transform
tf.keras.utils.set_random_seed(3)
# Square, because Keras swaps height and width when it computes the centre.
images = np.random.default_rng(0).random((5, 16, 16, 3), dtype=np.float32)
maps = augment.random_maps(5, 16, 16)
single = np.stack([augment.warp_one(tf.constant(image), row).numpy() for image, row in zip(images, maps)])
batch = augment.warp_batch(tf.constant(images), maps).numpy()
xla = tf.function(augment.warp_batch, jit_compile=True)(tf.constant(images), maps).numpy()
a, b, _, _, e, _ = (column.numpy() for column in tf.unstack(maps, axis=1))
keras = []
for image, zx, zy_sin, zy_cos in zip(images, a, b, e):
    zy = float(np.hypot(zy_sin, zy_cos))
    angle = float(np.rad2deg(np.arctan2(-zy_sin, zy_cos)))
    moved = apply_affine_transform(
        image, shear=angle, zx=abs(float(zx)), zy=zy, row_axis=0, col_axis=1, channel_axis=2,
        fill_mode="nearest", order=1)
    keras.append(moved[:, ::-1] if zx < 0 else moved)
print(json.dumps({"flips": int((a < 0).sum()), "single": float(np.abs(single - batch).max()),
    "xla": float(np.abs(xla - batch).max()), "keras": float(np.abs(np.stack(keras) - batch).max())}))
"""


def test_augmentation_on_host_and_device_equals_keras(script):
    result = script(WARP)
    assert 0 < result["flips"] < 5
    assert max(result["single"], result["xla"]) < 1e-4
    assert result["keras"] < 1e-4


def test_the_cifar_network_learns_with_host_and_device_preprocessing(drive, tmp_path):
    optimizations = ["opt:batch-128", "opt:no-augment", "opt:device-augment", "opt:resident"]
    folder = str(tmp_path)
    data = Data(name="x", shape=(32, 32, 3), classes=10, train=4000, test=300)
    with Silent().task("", None) as bar:  # smooth images, because crops of white noise share nothing
        PictureRecipe(data, 1).write(tmp_path, bar)
    done = drive(file="cifar10_cnn.py", workload="cifar10-cnn", variants=[*VARIANTS, *optimizations],
                 data_dir=folder, steps=2, windows=1,
                 params={"threads": 2, "batch_size": 16})  # fmt: skip
    assert done.per_step() == {**dict.fromkeys((*VARIANTS, *optimizations), 16), "opt:batch-128": 128}
    done = drive(file="cifar10_cnn.py", workload="cifar10-cnn", variants=[BASELINE, TUNED],
                 data_dir=folder, steps=60, windows=1,
                 params={"threads": 2, "batch_size": 64, "steps_per_execution": 1})  # fmt: skip
    # Chance is 0.1; with so few steps the random augmentation changes accuracy by several hundredths.
    assert done.metric(BASELINE, "accuracy") > 0.2
    assert done.metric(TUNED, "accuracy") > 0.2


AUGMENT = """
import json
import numpy as np, tensorflow as tf
from workloads import cifar10_cnn as c
tf.keras.utils.set_random_seed(1)
images = np.random.default_rng(0).integers(0, 256, (64, 32, 32, 3)).astype(np.uint8)
layer = c.OnDevice(c.preprocessed, random=True)
plain = layer(images).numpy()
expected = tf.image.per_image_standardization(tf.cast(images[:, 4:28, 4:28], tf.float32)).numpy()
augmented = layer(images, training=True).numpy()
compiled = tf.function(lambda x: layer(x, training=True), jit_compile=True)(images).numpy()
print(json.dumps({"plain": float(np.abs(plain - expected).max()), "shape": list(augmented.shape),
    "mean": float(np.abs(augmented.mean(axis=(1, 2, 3))).max()), "spread": float(augmented.std(axis=(1, 2, 3)).mean()),
    "differs": float(np.abs(augmented - plain).max()), "xla": list(compiled.shape)}))
"""


def test_augmented_images_are_standardised_and_evaluation_is_not_augmented(script):
    result = script(AUGMENT)
    assert result["plain"] < 1e-3
    assert result["shape"] == result["xla"] == [64, 24, 24, 3]
    assert result["mean"] < 1e-3
    assert result["spread"] == pytest.approx(1, abs=1e-3)
    assert result["differs"] > 0.5
