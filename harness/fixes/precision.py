"""Compute in the precision in which the device is fast.

Why: mixed_float16 on GPUs, whose tensor cores are several times faster in it, with half the memory traffic; float32 on
CPUs, which emulate half precision.
Safety: changes numerics; Keras scales the loss. Compare the accuracy.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.source import NUMERICS, Source
from workloads.protocol import Edit

NAME = "precision"
ANSWERS = "device"
SAFETY = NUMERICS


def edits(source: Source) -> Sequence[Edit]:
    """Return the edit that sets the policy; on a CPU only if the script chose another."""
    setters = [
        (call, call.args[0])
        for call in source.calls("set_global_policy", "set_dtype_policy", "set_floatx")
        if call.args
    ]
    chosen = [(call, given) for call, given in setters if isinstance(given, ast.Constant)]
    if source.device == "cpu":
        return [source.replace(given, '"float32"') for _, given in chosen if given.value != "float32"]
    if setters:
        return [
            source.replace(given, '"mixed_float16"' if "policy" in source.words(call.func) else '"float32"')
            for call, given in chosen
            if given.value in ("float32", "float64")
        ]
    keras = f"{source.tf}.keras" if source.tf else "keras" if "import keras" in source.text else ""
    return (
        [source.after_imports(f'{keras}.mixed_precision.set_global_policy("mixed_float16")')] if keras else []
    )
