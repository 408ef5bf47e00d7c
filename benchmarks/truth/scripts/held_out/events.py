"""JSON lines parsed by a Python generator."""

import json
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

FIELDS = 1200

path = pathlib.Path(tempfile.mkdtemp()) / "events.jsonl"
with path.open("w") as file:
    for _ in range(500):
        values = [
            {"name": f"f{i}", "value": round(float(v), 4)} for i, v in enumerate(np.random.rand(FIELDS))
        ]
        file.write(json.dumps({"values": values, "label": int(np.random.randint(2))}) + "\n")


def events():
    while True:
        with path.open() as lines:
            for line in lines:
                event = json.loads(line)
                x = np.array([value["value"] for value in event["values"][:100]], "float32")
                yield x.reshape(50, 2), event["label"]


signature = (tf.TensorSpec((50, 2), tf.float32), tf.TensorSpec((), tf.int32))
train = tf.data.Dataset.from_generator(events, output_signature=signature).batch(16).prefetch(4)

model = tf.keras.Sequential(
    [
        tf.keras.Input(shape=(50, 2)),
        tf.keras.layers.Conv1D(32, 3, activation="relu"),
        tf.keras.layers.Conv1D(32, 3, activation="relu"),
        tf.keras.layers.GlobalMaxPooling1D(),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy")
model.fit(train, steps_per_epoch=2000, epochs=20, verbose=2)
