"""The trees of published.py with 64 bins, on a quantised table, without an evaluation after each round."""

import numpy as np
import xgboost

DATA = "data/higgs"  # has x_train.npy, y_train.npy, x_test.npy, y_test.npy
DEVICE = "cpu"  # or "cuda"
ROUNDS = 100
MAX_DEPTH = 6
LEARNING_RATE = 0.1
MAX_BIN = 64
QUANTILE = True  # quantise the table once, before training

x_train, y_train, x_test, y_test = (
    np.load(f"{DATA}/{name}.npy") for name in ("x_train", "y_train", "x_test", "y_test")
)
if QUANTILE:
    train = xgboost.QuantileDMatrix(x_train, label=y_train, max_bin=MAX_BIN)
else:
    train = xgboost.DMatrix(x_train, label=y_train)
test = xgboost.DMatrix(x_test, label=y_test)
params = {
    "objective": "binary:logistic",
    "eval_metric": "logloss",
    "tree_method": "hist",
    "max_depth": MAX_DEPTH,
    "learning_rate": LEARNING_RATE,
    "max_bin": MAX_BIN,
    "device": DEVICE,
}
booster = xgboost.train(params, train, num_boost_round=ROUNDS)
booster.eval(test, "test")
