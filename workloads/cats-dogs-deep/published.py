# /// tfbench
# title = "Cats and dogs, 32 convolutions"
# source = "Hosting blog"
# accuracy = 0.7
# tuned = "tuned.py"
# components = ["many_steps.py", "random_warp.py"]
#
# [cpu]  # a step of 32 takes many seconds on a CPU; as many samples per epoch
# BATCH_SIZE = 8
# STEPS_PER_EPOCH = 32000
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
# system = "2x Xeon Silver 4110"
# device = "cpu"
# value = 3.0
# unit = "samples/s"
# note = "one digit; the blog says 30 and more convolutions, not which"
#
# [[published]]
# system = "Tesla V100 over 2x Xeon Silver 4110"
# device = "gpu"
# value = 100.0
# unit = "ratio"
# note = "about 100"
#
# [[published]]
# system = "Tesla V100"
# device = "gpu"
# value = 1.0
# unit = "utilisation"
#
# [ladder]
# data-on-device = { script = "tuned.py", STEPS = 1 }
# ///
"""Deep CNN that tells cats from dogs, on JPEG files, after a hosting company's blog.

The blog does not list the layers. Batch normalisation after each convolution is an addition, without which so
deep a network learns nothing.
"""

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.preprocessing.image import DirectoryIterator, ImageDataGenerator

DATA = "data/cats-and-dogs"  # has folders train/cat, train/dog, test/cat, test/dog
BATCH_SIZE = 32
EPOCHS = 25
STEPS_PER_EPOCH = 8000
SIDE = 128  # pixels
GROUPS = ((6, 32), (6, 64), (7, 128), (7, 256), (6, 256))  # convolutions and their filters, then pooling
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
for convolutions, filters in GROUPS:
    for _ in range(convolutions):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization(momentum=0.9))  # converges within a short run
        model.add(layers.ReLU())
    model.add(layers.MaxPooling2D())
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(1, activation="sigmoid"))
model.compile(
    optimizer="adam",
    loss="binary_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # published with Keras 2, which uses XLA only on request
)
model.fit(Endless(train), steps_per_epoch=STEPS_PER_EPOCH, epochs=EPOCHS, verbose=2)
model.evaluate(test)
