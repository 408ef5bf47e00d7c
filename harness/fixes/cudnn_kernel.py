"""The remedy `cudnn-kernel`.

With cuDNN all time steps of LSTM and GRU are one kernel; without it, each is a loop of small kernels.

The kernel has tanh and sigmoid, biases, the reset gate after the product, and no recurrent dropout.

Safety: changes training: another activation, or no recurrent dropout. Compare the accuracy.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source
from workloads.protocol import Aim, Edit

# Argument of LSTM and GRU -> the value with which cuDNN's kernel is used, which is the default of all.
_NEEDED = {
    "activation": '"tanh"', "recurrent_activation": '"sigmoid"', "recurrent_dropout": "0", "unroll": "False",
    "use_bias": "True", "reset_after": "True", "use_cudnn": '"auto"',
}  # fmt: skip


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each argument that keeps a layer from the kernel."""
    return [
        source.replace(keyword.value, _NEEDED[keyword.arg])
        for call in source.calls("LSTM", "GRU")
        for keyword in call.keywords
        if keyword.arg in _NEEDED
        and ast.unparse(keyword.value) != ast.unparse(ast.parse(_NEEDED[keyword.arg]))
    ]


RULE = Rule(
    name="cudnn-kernel",
    summary="Let a recurrent layer use cuDNN's kernel: without the arguments that it does not have",
    aim=Aim.RECURRENT,
    safety=Safety.TRAINING,
    edits=edits,
)
