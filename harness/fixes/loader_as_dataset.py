"""The remedy `loader-as-dataset`.

Keras calls the loader from Python once per batch, and copies what it returns into a tensor.

Safety: the same batches, in another random order. tf.data copies the arrays, so it is tried only if they fit into half
of the free memory.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument, input_of, name_of
from workloads.protocol import Aim, Edit

_LOADER = re.compile("(PyDataset|Sequence)$")
_METHODS = {"__init__", "__len__", "__getitem__"}
# Batch I of an array, as Python writes it: self.x[I * size:(I + 1) * size], with or without np.array and min.
_SLICE = re.compile(
    r"(?:np\.array\(|np\.asarray\()?(?P<array>[\w.]+)\[(?P<low>I \* (?P<size>[\w.]+)):"
    r"(?:min\()?(?:\(I \+ 1\) \* (?P=size)|(?P=low) \+ (?P=size))(?:, len\([\w.]+\)\))?\]\)?"
)


def edits(source: Source) -> Sequence[Edit]:
    """Return the edits for each fit on such a loader: a dataset of its arrays is made just before."""
    result: list[Edit] = []
    tf = source.tf or "tf"
    for call in source.fits():
        given, shuffle = input_of(call), argument(call, "shuffle")
        made = source.only(given.id) if isinstance(given, ast.Name) else given
        if given is None or not isinstance(made, ast.Call) or argument(call, "steps_per_epoch"):
            continue
        loader = given.id if isinstance(given, ast.Name) else "loader"
        slices, count = _slices(source, name_of(made), loader), f"len({loader})"
        order = "" if shuffle and source.words(shuffle) == "False" else f".shuffle({count})"
        lines = [
            *([] if isinstance(given, ast.Name) else [f"loader = {source.words(given)}"]),
            f"batches = {tf}.data.Dataset.from_tensor_slices({slices}",
            f"batches = batches.take({count}).cache(){order}.prefetch({tf}.data.AUTOTUNE)",
        ]
        taken = re.search(
            r"\bbatches\b" if isinstance(given, ast.Name) else r"\b(batches|loader)\b", source.text
        )
        edit = source.statements_before(call, lines) if slices and not taken else None
        if edit is not None:
            imported = [] if source.tf else [source.after_imports("import tensorflow as tf")]
            result += source.at(call, [*imported, edit, source.replace(given, "batches")])
    return result


def _slices(source: Source, name: str, loader: str) -> str:
    """Return the arrays that a class of loaders slices, with the batch: "(loader.x, loader.y)).batch(32)"; else ""."""
    owner = next(
        (each for each in source.tree.body if isinstance(each, ast.ClassDef) and each.name == name), None
    )
    methods = [each for each in owner.body if isinstance(each, ast.FunctionDef)] if owner else []
    bases = [source.words(each) for each in owner.bases] if owner else []
    if {each.name for each in methods} != _METHODS or not any(map(_LOADER.search, bases)):
        return ""
    method = next(each for each in methods if each.name == "__getitem__")
    texts = dict(zip((each.arg for each in method.args.args), (loader, "I"), strict=False))
    for statement in method.body:
        match statement:
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=local)], value=value):
                texts[local] = f"({_inlined(value, texts)})"
            case ast.Return(value=ast.Tuple(elts=parts)):
                return _batched([_inlined(each, texts) for each in parts])
            case _:
                break
    return ""


def _inlined(node: ast.expr, texts: Mapping[str, str]) -> str:
    """Return an expression with the values of local names in their place."""
    text = re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda found: texts.get(found[0], found[0]), ast.unparse(node))
    return ast.unparse(ast.parse(text, mode="eval"))


def _batched(parts: Sequence[str]) -> str:
    """Return the arrays and the batch of slices; "" if it is something else."""
    found = [each for part in parts if (each := _SLICE.fullmatch(part))]
    if len(found) < max(len(parts), 1) or len({each["size"] for each in found}) > 1:
        return ""
    return f"({', '.join(each['array'] for each in found)})).batch({found[0]['size']})"


RULE = Rule(
    name="loader-as-dataset",
    summary="Cut batches in tf.data instead of Python, where a loader only slices arrays",
    aim=Aim.CACHEABLE_INPUT,
    safety=Safety.ALIKE,
    edits=edits,
)
