"""MobileNet from keras.applications, without weights; augmentation layers in the pipeline, weights per class."""

import keras
import numpy as np
import tensorflow as tf

SIDE = 64
BATCH_SIZE = 32
AUGMENT = True
ALPHA = 0.25

photos = np.random.randint(0, 256, (480, SIDE, SIDE, 3)).astype(np.uint8)
species = np.random.choice(5, 480, p=[0.4, 0.3, 0.15, 0.1, 0.05])
class_weight = {c: 480 / (5 * max(1, int((species == c).sum()))) for c in range(5)}

augmentation = keras.Sequential(
    [
        keras.layers.RandomFlip("horizontal"),
        keras.layers.RandomTranslation(0.1, 0.1),
        keras.layers.RandomRotation(0.15),
        keras.layers.RandomZoom(0.2),
        keras.layers.RandomContrast(0.2),
    ]
)


def augment(photo, label):
    photo = tf.cast(photo, tf.float32)
    return augmentation(photo, training=True) if AUGMENT else photo, label


ds_train = tf.data.Dataset.from_tensor_slices((photos, species)).shuffle(480).repeat()
ds_train = ds_train.map(augment).batch(BATCH_SIZE).prefetch(tf.data.AUTOTUNE)

backbone = keras.applications.MobileNet(
    input_shape=(SIDE, SIDE, 3), alpha=ALPHA, include_top=False, weights=None, pooling="avg"
)
inputs = keras.Input((SIDE, SIDE, 3))
x = backbone(keras.layers.Rescaling(1 / 127.5, offset=-1)(inputs))
outputs = keras.layers.Dense(5, activation="softmax")(keras.layers.Dropout(0.2)(x))
model = keras.Model(inputs, outputs)
model.compile(
    keras.optimizers.RMSprop(1e-3), keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"]
)
model.fit(ds_train, epochs=40, steps_per_epoch=400, class_weight=class_weight, verbose=2)
