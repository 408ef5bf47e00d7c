# /// tfbench
# title = "HIGGS-shaped table, gradient-boosted trees"
# source = "Training article, 2020, citing cloud vendors; table after Baldi et al., 2014 (HIGGS)"
# accuracy = 0.6
# image = "trees"
# tuned = "tuned.py"
#
# [gpu]
# DEVICE = "cuda"
#
# [data]
# constant = "DATA"
# name = "higgs-shaped"
# kind = "table"
# shape = [28]
# dtype = "float32"
# classes = 2
# train = 500000
# test = 100000
#
# [[published]]
# source = "Training article, 2020, citing cloud vendors"
# system = "4 GPUs over CPUs, gradient-boosted trees"
# device = "gpu"
# value = 23.2
# unit = "ratio"
# note = "names neither library, data nor hardware; XGBoost in one process, as here, uses one GPU"
#
# [ladder]
# no-evaluation = { script = "tuned.py", QUANTILE = false, MAX_BIN = 256 }
# quantile = { script = "tuned.py", MAX_BIN = 256 }
# ///
"""Gradient-boosted trees on a table shaped like HIGGS: 28 features of a collision, two classes.

HIGGS has 11 million rows; these 500,000 train in minutes on two cores.
"""

import numpy as np
import xgboost

DATA = "data/higgs"  # has x_train.npy, y_train.npy, x_test.npy, y_test.npy
DEVICE = "cpu"  # or "cuda"
ROUNDS = 100
MAX_DEPTH = 6
LEARNING_RATE = 0.1
MAX_BIN = 256

x_train, y_train, x_test, y_test = (
    np.load(f"{DATA}/{name}.npy") for name in ("x_train", "y_train", "x_test", "y_test")
)
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
booster = xgboost.train(params, train, num_boost_round=ROUNDS, evals=[(test, "test")])
