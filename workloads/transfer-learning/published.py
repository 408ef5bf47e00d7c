# /// tfbench
# title = "Image classifier, transfer learning"
# source = "RTX 3070 and Ryzen 5900X article; Keras' guide to transfer learning"
# accuracy = 0.0  # a head learns little on a frozen random backbone, and a weights file may hold anything
# tuned = "tuned.py"
# components = ["calibration.py", "many_steps.py"]
#
# [ladder]
# data-on-device = { script = "tuned.py", STEPS = 1 }
# xla = { device = "gpu", JIT_COMPILE = true }
# fp16 = { device = "gpu", PRECISION = "mixed_float16" }
#
# [also.from-scratch]
# title = "Image classifier, from scratch"
# accuracy = 0.7
# params = { FROZEN = false }
# ///
"""Image classifier on MobileNetV2, frozen (transfer learning, as in Keras' guide) or trained from scratch."""

import keras
from calibration import calibrate, normalizations
from keras import layers

BATCH_SIZE = 32
EPOCHS = 10
SIDE = 96  # the smallest for which there are weights of ImageNet
FROZEN = True  # train only the head
WEIGHTS = ""  # file with the backbone's weights; "" for random ones
PRECISION = "float32"
JIT_COMPILE = False

keras.mixed_precision.set_global_policy(PRECISION)

# A subset that trains in minutes on two cores.
(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
x_train, y_train = x_train[:10000].astype("float32") / 255, y_train[:10000]
x_test, y_test = x_test[:1000].astype("float32") / 255, y_test[:1000]

backbone = keras.applications.MobileNetV2(
    input_shape=(SIDE, SIDE, 3), include_top=False, weights=WEIGHTS or None, pooling="avg"
)
if FROZEN and not WEIGHTS:
    calibrate(backbone)
if not FROZEN:
    # The averages must adapt within tens of steps: with the published momentum (0.999, for ImageNet), accuracy
    # is 94 % on training images and 10 % on others.
    for layer in normalizations(backbone):
        layer.momentum = 0.9
backbone.trainable = not FROZEN

inputs = layers.Input((32, 32, 3))
x = layers.Rescaling(2.0, offset=-1.0)(inputs)
x = layers.Resizing(SIDE, SIDE)(x)
x = backbone(x, training=False) if FROZEN else backbone(x)
x = layers.Dropout(0.2)(x)
x = layers.Dense(10)(x)
outputs = layers.Activation("softmax", dtype="float32")(x)

model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    jit_compile=JIT_COMPILE,
)
model.fit(x_train, y_train, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
