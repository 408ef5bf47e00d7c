"""The classifier of published.py: many steps per call, on images in the device's memory; fp16 and XLA on a GPU."""

import keras
import tensorflow as tf
from calibration import calibrate, normalizations
from keras import layers
from many_steps import shuffled, train_many_steps

GPU = bool(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 32
STEPS = 52 if GPU else 5  # training steps per call; 6 or 62 calls are an epoch
EPOCHS = 10
SIDE = 96  # the smallest for which there are weights of ImageNet
FROZEN = True  # train only the head
WEIGHTS = ""  # file with the backbone's weights; "" for random ones
PRECISION = "mixed_float16" if GPU else "float32"

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
    jit_compile=GPU,
)
train_many_steps(model, x_train, y_train, BATCH_SIZE)
calls = max(1, len(x_train) // (STEPS * BATCH_SIZE))
model.fit(shuffled(len(x_train), STEPS * BATCH_SIZE), steps_per_epoch=calls, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
