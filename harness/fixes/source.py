"""A parsed script, and where its calls of TensorFlow are. Used by all remedies."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from workloads.fits import PARAMETERS, calls_of_fit
from workloads.protocol import Edit

# Expressions with variables of their own.
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
# Statements without a body.
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return)
# Methods that only a tf.data.Dataset has, or that make one.
_MAKES_DATASET = {
    "from_tensor_slices", "from_tensors", "from_generator", "list_files", "TFRecordDataset", "TextLineDataset",
    "image_dataset_from_directory", "text_dataset_from_directory", "timeseries_dataset_from_array",
    "audio_dataset_from_directory", "batch", "padded_batch", "prefetch", "interleave", "unbatch", "shuffle", "cache",
    "make_csv_dataset", "ragged_batch", "rebatch", "bucket_by_sequence_length", "sample_from_datasets",
    "choose_from_datasets", "FixedLengthRecordDataset",
}  # fmt: skip
# Those of tf.data.Dataset that others have too.
_OF_DATASET = {"range", "zip", "load", "random", "counter"}
# Methods that return a dataset if called on one.
_KEEPS_DATASET = {
    "map", "filter", "take", "skip", "repeat", "apply", "with_options", "shard", "enumerate", "concatenate",
}  # fmt: skip
# Method -> its parameters, up to the last that remedies change or read.
_PARAMETERS = {
    **PARAMETERS,
    "compile": "optimizer loss loss_weights metrics weighted_metrics run_eagerly steps_per_execution jit_compile",
    "map": "map_func num_parallel_calls",
    "interleave": "map_func cycle_length block_length num_parallel_calls",
}


class Source:
    """A script for a kind of device.

    Attributes:
        nodes: those of its tree, breadth first.
        tf: the name under which it imports TensorFlow for all of it; "" if it does not.
    """

    def __init__(self, text: str, device: str) -> None:
        self.text = text
        self.device = device
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self._starts = [0]
        for line in text.split("\n"):  # as Python counts lines
            self._starts.append(self._starts[-1] + len(line.encode()) + 1)
        self._bytes = text.encode()
        self.tf = next((
            alias.asname or alias.name
            for node in self.tree.body if isinstance(node, ast.Import)
            for alias in node.names if alias.name == "tensorflow"
        ), "")  # fmt: skip
        self._find_names()
        # Also names by which functions take them, unless the script gives them to something else.
        self._datasets = {
            name
            for name in ("ds", "dataset", "train_ds", "train_dataset")
            if not any(map(self._is_other, self._values[name]))
        }
        self._find_datasets()

    @property
    def autotune(self) -> str:
        """The value of tf.data.AUTOTUNE as the script would write it."""
        return f"{self.tf}.data.AUTOTUNE" if self.tf and self.tf not in self.bound(self.tree) else "-1"

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of functions or methods with one of these names."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and name_of(node) in names:
                yield node

    def functions(self) -> list[ast.FunctionDef]:
        """Return the functions and methods that are defined with def."""
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef)]

    def compiles(self) -> list[ast.Call]:
        """Return the calls of what may be a model's compile."""
        return [call for call in self.calls("compile") if isinstance(call.func, ast.Attribute)]

    def fits(self) -> list[ast.Call]:
        """Return the calls of a model's fit that have an input."""
        return [call for call in calls_of_fit(self.tree) if call.args or argument(call, "x")]

    def measured(self) -> list[ast.Call]:
        """Return the calls that may be the one that is measured."""
        return [*self.fits(), *self._inferring()]

    def _inferring(self) -> list[ast.Call]:
        return [call for call in self.calls("predict", "evaluate") if input_of(call) is not None]

    def feeding(self) -> list[ast.Call]:
        """Return the calls in what gives the measured calls their input, through variables and functions."""
        found: dict[int, ast.AST] = {}
        calls = self.fits() or self._inferring()
        waiting: list[ast.AST] = [given for call in calls if (given := input_of(call)) is not None]
        while waiting:
            for node in ast.walk(waiting.pop()):
                if id(node) in found:
                    continue
                found[id(node)] = node
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    waiting += [*self._values[node.id], *filter(None, [self.function(node.id)])]
        return [node for node in found.values() if isinstance(node, ast.Call)]

    def feeding_steps(self, *names: str) -> list[ast.Call]:
        """Return the steps with these names of the pipeline that feeds a training; of all if none of that is seen."""
        steps = [
            call
            for call in self.calls(*names)
            if isinstance(call.func, ast.Attribute) and self.is_dataset(call.func.value)
        ]
        feeding = self.feeding()
        return [each for each in steps if each in feeding] or steps

    def is_dataset(self, node: ast.expr) -> bool:
        """Return whether an expression reads as a tf.data.Dataset."""
        if isinstance(node, ast.Name):
            return node.id in self._datasets
        if isinstance(node, ast.Call):
            name = name_of(node)
            if name in _MAKES_DATASET or name in self._datasets:
                return True
            if name in _OF_DATASET and isinstance(node.func, ast.Attribute):
                return self.words(node.func.value).endswith("Dataset")
            return (
                name in _KEEPS_DATASET
                and isinstance(node.func, ast.Attribute)
                and self.is_dataset(node.func.value)
            )
        return False

    def value_of(self, name: str) -> ast.expr | None:
        """Return the last value that is assigned to a name."""
        return max(self._values[name], key=lambda value: value.lineno, default=None)

    def value_at(self, node: ast.Name) -> ast.expr | None:
        """Return the value that is assigned to a name last before it is used; without one, the last of all."""
        place = node.lineno, node.col_offset
        before = [
            value
            for value in self._values[node.id]
            if (value.end_lineno or 0, value.end_col_offset or 0) <= place
        ]
        return max(before, key=lambda value: value.lineno, default=self.value_of(node.id))

    def meanings(self, name: str) -> list[ast.AST]:
        """Return the values, functions and classes of a name."""
        return [*self._values[name], *self._made[name]]

    @staticmethod
    def bound(node: ast.AST) -> set[str]:
        """Return the names that a node binds: arguments and variables."""
        parts = list(ast.walk(node))
        stored = {each.id for each in parts if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        return stored | {each.arg for each in parts if isinstance(each, ast.arg)}

    def free(self, node: ast.AST) -> set[str]:
        """Return the names that a node uses and does not bind."""
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - self.bound(node)

    def used(self, *nodes: ast.AST) -> list[ast.AST]:
        """Return nodes and what they use of the script, through functions and variables."""
        found: dict[int, ast.AST] = {}
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if id(node) not in found:
                found[id(node)] = node
                waiting += [meaning for name in self.free(node) for meaning in self.meanings(name)]
        return list(found.values())

    def imported(self) -> Iterator[str]:
        """Yield the names, as their modules have them, of what the script imports from modules."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom):
                yield from (alias.name for alias in node.names)

    def package(self, name: str) -> str:
        """Return the package that the script imports as a name, or from which; "" if it is none."""
        return self.module(name).partition(".")[0]

    def module(self, name: str) -> str:
        """Return the module that the script imports as a name, or from which; "" if it is none."""
        return self._modules.get(name, "")

    def package_of(self, node: ast.AST) -> str:
        """Return the package of a dotted name, through variables; "" if it is of none."""
        name, seen = self.words(node).partition(".")[0], set[str]()
        while name not in seen and isinstance(value := self.only(name), (ast.Attribute, ast.Name)):
            seen.add(name)
            name = self.words(value).partition(".")[0]
        return self.package(name)

    def function(self, name: str) -> ast.FunctionDef | None:
        """Return the function of this name."""
        return next((each for each in self._made[name] if isinstance(each, ast.FunctionDef)), None)

    @staticmethod
    def returned(function: ast.FunctionDef) -> list[ast.expr]:
        """Return what a function returns."""
        values = (each.value for each in ast.walk(function) if isinstance(each, ast.Return))
        return [value for value in values if value is not None]

    def only(self, name: str) -> ast.FunctionDef | ast.expr | None:
        """Return the function or value of a name; None if the script binds the name elsewhere too."""
        if self._bindings[name] != 1:
            return None
        for node in self.nodes:
            match node:
                case ast.FunctionDef(name=found) if found == name:
                    return node
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    return value
        return None

    @cached_property
    def _bindings(self) -> Counter[str]:
        """How many nodes bind each name."""
        bound = Counter[str]()
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] += 1
            elif not isinstance(node, (ast.Name, ast.keyword)):
                bound.update({getattr(node, field, None) or "" for field in ("name", "arg", "asname")} - {""})
        return bound

    def binds(self, *names: str) -> bool:
        """Return whether the script gives one of these names to anything."""
        return any(
            getattr(node, field, None) in names
            for node in self.nodes
            for field in (("id",) if isinstance(node, ast.Name) else ("name", "arg", "asname"))
            if not isinstance(node, ast.keyword)
        )

    def words(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self._span(node)
        return self._bytes[start:end].decode()

    def insert_after(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts text directly behind a node."""
        _, end = self._span(node)
        return Edit(start=end, end=end, text=text)

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that replaces a node."""
        start, end = self._span(node)
        return Edit(start=start, end=end, text=text)

    def with_keyword(self, call: ast.Call, name: str, value: str) -> list[Edit]:
        """Return the edit that gives a call a keyword argument; [] if it has this value."""
        given = argument(call, name)
        if given is not None:
            return [] if self.words(given) == value else [self.replace(given, value)]
        settings = [each.value for each in call.keywords if each.arg is None]
        if settings:  # they may have it
            known = self.setting(settings[0], name)
            handed_on = {each.args.kwarg.arg for each in self.functions() if each.args.kwarg}
            starred = any(isinstance(each, ast.Starred) for each in call.args)  # they may have it too
            if (
                len(settings) > 1
                or not isinstance(settings[0], (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Dict))
                or (starred and self.words(settings[0]) in handed_on)
                or (known and self.words(known) == value)
            ):
                return []
            _, end = self._span(settings[0])
            return [Edit(start=end, end=end, text=f' | {{"{name}": {value}}}')]
        arguments = [*call.args, *(each.value for each in call.keywords)]
        _, end = self._span(call)
        if not arguments:
            return [Edit(start=end - 1, end=end - 1, text=f"{name}={value}")]
        last = max(arguments, key=self._span)
        if isinstance(last, ast.GeneratorExp) and len(arguments) == 1:
            return []  # it may have no parentheses of its own
        _, start = self._span(last)
        # Its own parentheses, if it has any, close before those of the call.
        behind = re.finditer(rb"#[^\n]*|(\))", self._bytes[start : end - 1])
        start += max((each.end() for each in behind if each.group(1)), default=0)
        return [Edit(start=start, end=start, text=f", {name}={value}")]

    def given(self, call: ast.Call, name: str) -> ast.expr | None:
        """Return the value of an argument, also of one that is given by a dict, as far as its display tells."""
        settings = (self.setting(each.value, name) for each in call.keywords if each.arg is None)
        return argument(call, name) or next(filter(None, settings), None)

    def setting(self, settings: ast.expr, name: str) -> ast.expr | None:
        """Return the value under a name in a dict that is given as `**settings`, as far as its display tells."""
        shown = self.value_of(settings.id) if isinstance(settings, ast.Name) else settings
        if isinstance(shown, ast.Call) and name_of(shown) == "dict":
            return argument(shown, name)
        if not isinstance(shown, ast.Dict):
            return None
        named = zip(shown.keys, shown.values, strict=True)
        return next((value for key, value in named if getattr(key, "value", None) == name), None)

    def keyword_at(self, calls: Iterable[ast.Call], name: str, value: str) -> list[Edit]:
        """Return the edits that give calls a keyword argument, which apply as those of `at`."""
        return [edit for call in calls for edit in self.at(call, self.with_keyword(call, name, value))]

    @staticmethod
    def at(call: ast.Call, edits: Iterable[Edit]) -> list[Edit]:
        """Return edits that apply only if the call is the one that is measured, or compiled its model."""
        return [replace(edit, site=(call.end_lineno or 0, call.end_col_offset or 0)) for edit in edits]

    def statements_before(self, node: ast.AST, statements: Sequence[str]) -> Edit | None:
        """Return the edit that puts simple statements before that of a node.

        They get lines of their own, unless something else begins the node's line. None if the node has variables of
        its own there, as in a comprehension.
        """
        start, end = self._span(node)
        inner = (each for each in self.nodes if isinstance(each, _SCOPES))
        if any(self._span(each)[0] <= start and end <= self._span(each)[1] for each in inner):
            return None
        owner = next(
            (
                each
                for each in self.nodes
                if isinstance(each, _SIMPLE) and self._span(each)[0] <= start and end <= self._span(each)[1]
            ),
            None,
        )
        if owner is None:
            return None
        start = self._starts[owner.lineno - 1]
        before = self._bytes[start : start + owner.col_offset].decode()
        if before.strip():  # behind a colon or a semicolon
            start += owner.col_offset
            plain = (each.partition("  #")[0] for each in statements)
            return Edit(start=start, end=start, text="".join(f"{each}; " for each in plain))
        return Edit(start=start, end=start, text="".join(f"{before}{each}\n" for each in statements))

    def after_imports(self, text: str) -> Edit:
        """Return the edit that puts a statement behind the imports at the top, before the first training."""
        top = [n for n in self.tree.body if not isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        calls = [*self.compiles(), *self.fits()]
        used = min((n.lineno for n in top if any(each in calls for each in ast.walk(n))), default=math.inf)
        last = max(
            (
                n.end_lineno or 0
                for n in top
                if isinstance(n, (ast.Import, ast.ImportFrom)) and n.lineno < used
            ),
            default=0,
        )
        # Behind what else begins in that line.
        while (further := max((n.end_lineno or 0 for n in top if n.lineno <= last), default=0)) > last:
            last = further
        start = self._starts[last]
        return Edit(start=start, end=start, text=f"{text}\n")

    def _span(self, node: ast.AST) -> tuple[int, int]:
        first, last = self._starts[node.lineno - 1], self._starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        return first + node.col_offset, last + node.end_col_offset  # type: ignore[attr-defined]

    def _find_names(self) -> None:
        """Note what each name is assigned, which functions and classes have it, and from where it is imported."""
        self._values: dict[str, list[ast.expr]] = defaultdict(list)
        self._made: dict[str, list[ast.AST]] = defaultdict(list)
        self._modules: dict[str, str] = {}
        for node in self.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    for name in {each.id for each in targets if isinstance(each, ast.Name)}:
                        self._values[name].append(value)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self._made[node.name].append(node)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    for alias in names:
                        module = getattr(node, "module", None) or alias.name
                        self._modules.setdefault(alias.asname or alias.name.partition(".")[0], module)

    def _is_other(self, value: ast.expr) -> bool:
        """Return whether a value is an object of a class of the script, or a collection."""
        if isinstance(value, ast.Call):
            return any(isinstance(each, ast.ClassDef) for each in self._made[name_of(value)])
        return isinstance(value, (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp))

    def _find_datasets(self) -> None:
        """Add the names of variables and functions that hold or return datasets."""
        before = -1
        while len(self._datasets) > before:
            before = len(self._datasets)
            for node in self.nodes:
                if isinstance(node, ast.Assign) and self.is_dataset(node.value):
                    self._datasets |= {each.id for each in node.targets if isinstance(each, ast.Name)}
                if isinstance(node, ast.FunctionDef) and any(map(self.is_dataset, self.returned(node))):
                    self._datasets.add(node.name)


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Return the calls in a node."""
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))


def name_of(call: ast.Call) -> str:
    """Return the name of a called function or method."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def argument(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of an argument, given by name or, of the methods that remedies change, by position."""
    before_star = itertools.takewhile(lambda each: not isinstance(each, ast.Starred), call.args)
    given = dict(zip(_PARAMETERS.get(name_of(call), "").split(), before_star, strict=False))
    return next((each.value for each in call.keywords if each.arg == name), given.get(name))


def input_of(call: ast.Call) -> ast.expr | None:
    """Return the input of a call of fit, evaluate or predict."""
    return call.args[0] if call.args else argument(call, "x")
