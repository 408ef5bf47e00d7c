"""The remedy `precision`.

The tensor cores of GPUs are several times faster in mixed_float16, with half the memory traffic.

Most CPUs emulate half precision: there it is float32.

Safety: changes numerics; Keras scales the loss. Compare the accuracy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, calls_in, name_of
from workloads.protocol import Aim, Edit

# Have a type, but compute nothing.
_NO_LAYER = re.compile(r"Spec$|Variable$|Feature$|Array$")
# Of the optimizer that scales the loss of half precision: a script that names it needs it, or has another one.
_SCALING = re.compile(r"inner_optimizer|LossScale|dynamic_scale|dynamic_growth|initial_scale")
_SLOW_ON_CPUS = ("float16", "mixed_float16", "bfloat16", "mixed_bfloat16", "float64")


def edits(source: Source) -> Sequence[Edit]:
    """Return the edits that set the policy and the types of layers; on a CPU only where the script chose others.

    What a script reads from its command line or a file may be any type; such an argument is replaced too.
    """
    if _SCALING.search(source.text):
        return []
    setters = [
        (call, call.args[0])
        for call in source.calls("set_global_policy", "set_dtype_policy", "set_floatx")
        if call.args
    ]
    layers = [
        keyword.value
        for call in calls_in(source.tree) if _may_be_layer(source, call)
        for keyword in call.keywords if keyword.arg == "dtype"
    ]  # fmt: skip
    if source.device == "cpu":
        slow = [given for _, given in setters if _chosen(source, given) != "float32"]
        slow += [given for given in layers if _chosen(source, given) in _SLOW_ON_CPUS]
        return [source.replace(given, '"float32"') for given in slow]
    # Nothing scales the loss of a step of the script's own.
    unscaled = "GradientTape" in source.text and "scale_loss" not in source.text
    double = [source.replace(given, '"float32"') for given in layers if _chosen(source, given) == "float64"]
    if setters:
        return double + [
            source.replace(given, '"mixed_float16"' if "policy" in source.words(call.func) else '"float32"')
            for call, given in setters
            if _chosen(source, given) in ("float32", "float64", "")
            and not (unscaled and "policy" in source.words(call.func))
        ]
    if unscaled:
        return []
    keras = f"{source.tf}.keras" if source.tf else "keras" if "import keras" in source.text else ""
    policy = f'{keras}.mixed_precision.set_global_policy("mixed_float16")'
    return double + ([source.after_imports(policy)] if keras else [])


def _may_be_layer(source: Source, call: ast.Call) -> bool:
    """Return whether a call makes an object of a class of Keras, or of one that the script derives."""
    name = name_of(call)
    own = [each for each in source.meanings(name) if isinstance(each, ast.ClassDef)]
    if own:
        return all(each.bases for each in own)
    known = source.package_of(call.func).startswith(("keras", "tensorflow"))
    return known and name[:1].isupper() and not _NO_LAYER.search(name)


def _chosen(source: Source, given: ast.expr, *, follow: bool = True) -> str:
    """Return the type or policy that an expression chooses; "" if only the running script knows.

    Args:
        follow: whether the value of a name counts.
    """
    match given:
        case ast.Constant(value=str(name)):
            return name
        case ast.Attribute(attr=name):  # tf.float16
            return name if "float" in name else ""
        case ast.Call(args=[first, *_]):  # Policy("mixed_float16")
            return _chosen(source, first, follow=follow)
        case ast.Name(id=name) if follow:
            value = source.only(name)
            return _chosen(source, value, follow=False) if isinstance(value, ast.expr) else ""
    return ""


RULE = Rule(
    name="precision",
    summary="Compute in the precision in which the device is fast",
    aim=Aim.DEVICE,
    safety=Safety.NUMERICS,
    edits=edits,
)
