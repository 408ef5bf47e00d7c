# /// tfbench
# title = "Cats and dogs, small CNN on JPEG files"
# suite = "default"
# source = "Hosting blog"
# accuracy = 0.7
# tuned = "tuned.py"
# components = ["many_steps.py", "random_warp.py"]
#
# [data]
# constant = "DATA"
# name = "cats-and-dogs"
# kind = "jpeg"
# shape = [360, 404, 3]
# classes = 2
# class_names = ["cat", "dog"]
# train = 8000
# test = 2000
#
# [[published]]
# system = "VirtualBox VM on 2x Xeon Silver 4110"
# device = "cpu"
# value = 47.0
# unit = "samples/s"
#
# [[published]]
# system = "VirtualBox VM on 2x Xeon Silver 4110"
# device = "cpu"
# value = 64.0
# unit = "samples/s"
# variant = "opt:workers-4-batch-64"
# note = "with 4 workers and batch 64"
#
# [[published]]
# system = "Tesla V100 over 2x Xeon Silver 4110"
# device = "gpu"
# value = 4.0
# unit = "ratio"
# note = "over bare metal; the blog gives one digit"
#
# [[published]]
# system = "Tesla V100"
# device = "gpu"
# value = 0.0
# upto = 0.1
# unit = "utilisation"
#
# [[published]]
# system = "Tesla V100"
# device = "gpu"
# value = 3.0
# unit = "gain"
# note = "about 3x, by workers, batch, queue size and RAM disk only"
#
# [ladder]
# workers-4-batch-64 = { WORKERS = 4, BATCH_SIZE = 64, STEPS_PER_EPOCH = 4000 }  # the article's own remedy
# no-augment = { AUGMENT = false }
# data-on-device = { script = "tuned.py", STEPS = 1 }
#
# [also.cats-dogs-3conv]
# title = "Cats and dogs, third convolution"
# params = { FILTERS = [32, 32, 64] }
#
# [[also.cats-dogs-3conv.published]]
# system = "Tesla V100"
# device = "gpu"
# value = 0.8
# unit = "accuracy"
# note = "the blog lists 80, 84 and 90 % for its three variants in this order"
#
# [also.cats-dogs-dropout]
# title = "Cats and dogs, third convolution and dropout"
# params = { FILTERS = [32, 32, 64], DROPOUT = 0.5 }
#
# [[also.cats-dogs-dropout.published]]
# system = "Tesla V100"
# device = "gpu"
# value = 425.0
# unit = "samples/s"
# note = "with shear, zoom and flip, after its tuning of the loader"
#
# [[also.cats-dogs-dropout.published]]
# system = "Tesla V100"
# device = "gpu"
# value = 533.0
# unit = "samples/s"
# variant = "opt:no-augment"
# note = "without shear, zoom and flip"
#
# [[also.cats-dogs-dropout.published]]
# system = "Tesla V100"
# device = "gpu"
# value = 0.84
# unit = "accuracy"
# note = "the blog lists 80, 84 and 90 % for its three variants in this order"
#
# [[also.cats-dogs-dropout.published]]
# system = "Tesla V100"
# device = "gpu"
# value = 0.9
# unit = "accuracy"
# variant = "opt:no-augment"
# note = "the blog lists 80, 84 and 90 % for its three variants in this order"
#
# [also.cats-dogs-128]
# title = "Cats and dogs at 128x128, 64 filters"
# params = { SIDE = 128, FILTERS = [64, 64, 64], DROPOUT = 0.5 }
# published = [
#   { system = "Tesla V100", device = "gpu", value = 333.0, unit = "samples/s" },
#   { system = "Tesla V100", device = "gpu", value = 0.94, unit = "accuracy" },
#   { system = "Tesla V100", device = "gpu", value = 0.5, unit = "utilisation", note = "about half" },
#   { system = "Tesla V100 over 2x Xeon Silver 4110", device = "gpu", value = 23.0, unit = "ratio" },
# ]
# ///
"""Small CNN that tells cats from dogs, on JPEG files, as published in a hosting company's blog.

As in the article: 4,000 images of each class for training, 1,000 for testing.
"""

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.preprocessing.image import DirectoryIterator, ImageDataGenerator

DATA = "data/cats-and-dogs"  # has folders train/cat, train/dog, test/cat, test/dog
BATCH_SIZE = 32
EPOCHS = 25
STEPS_PER_EPOCH = 8000
SIDE = 64  # pixels
FILTERS = (32, 32)
DROPOUT = 0.0
AUGMENT = True
WORKERS = 1
QUEUE_SIZE = 10


class Endless(keras.utils.PyDataset):
    """A loader's full batches again and again, reshuffled each time, as in Keras 2."""

    num_batches = None

    def __init__(self, loader: DirectoryIterator) -> None:
        super().__init__(workers=WORKERS, max_queue_size=QUEUE_SIZE)
        self.loader = loader

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return batch `index`, counted over all passes."""
        number = index % (self.loader.n // BATCH_SIZE)
        if number == 0:
            self.loader.on_epoch_end()  # shuffles
        return self.loader[number]


augmentation = {"shear_range": 0.2, "zoom_range": 0.2, "horizontal_flip": True} if AUGMENT else {}
train = ImageDataGenerator(rescale=1 / 255, **augmentation).flow_from_directory(
    f"{DATA}/train", target_size=(SIDE, SIDE), batch_size=BATCH_SIZE, class_mode="binary"
)
test = ImageDataGenerator(rescale=1 / 255).flow_from_directory(
    f"{DATA}/test", target_size=(SIDE, SIDE), batch_size=BATCH_SIZE, class_mode="binary"
)

model = keras.Sequential([layers.Input((SIDE, SIDE, 3))])
for filters in FILTERS:
    model.add(layers.Conv2D(filters, 3, activation="relu"))
    model.add(layers.MaxPooling2D())
model.add(layers.Flatten())
model.add(layers.Dense(128, activation="relu"))
model.add(layers.Dropout(DROPOUT))
model.add(layers.Dense(1, activation="sigmoid"))
model.compile(
    optimizer="adam",
    loss="binary_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # published with Keras 2, which uses XLA only on request
)
model.fit(Endless(train), steps_per_epoch=STEPS_PER_EPOCH, epochs=EPOCHS, verbose=2)
model.evaluate(test)
