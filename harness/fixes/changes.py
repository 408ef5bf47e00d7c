"""What a script's own code changes while it trains: for remedies that would run that code less often."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from harness.fixes.source import Source, calls_in, name_of

_HOOK = re.compile(r"on_(epoch|train|test|predict|batch)_\w+")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.While)
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# What is in them runs any number of times.
_REPEATING = (
    *_LOOPS, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda,
    ast.AsyncFunctionDef,
)  # fmt: skip
# Their `run` calls a function once.
_APPS = {"absl", "tensorflow", "asyncio"}
_TRAINING = {"fit", "fit_generator", "train_on_batch"}
# Find functions by names in strings.
_BY_NAME = {"getattr", "globals", "locals", "vars", "eval", "exec", "fire", "attrgetter", "methodcaller"}
_READING = {
    "open", "GFile", "read_text", "read_bytes", "read_file", "load", "loadtxt", "genfromtxt", "fromfile", "memmap",
    "read_csv", "read_json", "read_parquet", "read_pickle", "imread", "load_img",
}  # fmt: skip
_FILES = _READING | {
    "list_files", "TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset", "CsvDataset", "make_csv_dataset",
    "image_dataset_from_directory", "text_dataset_from_directory", "audio_dataset_from_directory",
}  # fmt: skip
# A model that is saved is no input.
_WRITING = {
    "write_text", "write_bytes", "write_file", "savetxt", "savez", "tofile", "dump", "to_csv", "to_json", "to_parquet",
    "to_pickle", "imwrite", "save_img", "TFRecordWriter",
}  # fmt: skip
_RUNNING = {"system", "popen", "Popen", "check_call", "check_output"}
_CHANGING_PYTHON = {
    "append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove", "discard", "clear", "update",
    "add", "setdefault", "rotate", "sort", "reverse",
}  # fmt: skip
_ASSIGNING = {"assign", "assign_add", "assign_sub"}
_CHANGING = _CHANGING_PYTHON | _ASSIGNING
# Make an object that has a position, which calls move. Archives and h5py lock theirs.
_OPENING = {
    "open", "GFile", "VideoCapture", "VideoReader", "connect", "cursor", "socket", "Popen", "urlopen", "reader",
}  # fmt: skip
# Go on from a position.
_READING_ON = {
    "seek", "read", "readline", "readlines", "readinto", "recv", "recv_into", "grab", "retrieve", "execute", "fetchone",
    "fetchmany", "fetchall", "extractfile",
}  # fmt: skip
# Change what only the running script knows the name of.
_ANYTHING = {"setattr", "__setattr__", "delattr", "vars"}
# Change a model or its optimizer.
_STEERING = _ASSIGNING | {"set_weights", "load_weights", "set_value", "apply_gradients"}
# Methods that Keras compiles.
_STEP = {"train_step", "test_step", "predict_step", "call", "compute_loss", "compute_metrics"}
# Arguments of layers that may be functions.
_IN_LAYERS = re.compile("^(function|activation)$|_(initializer|regularizer|constraint)$")
# Kept by Keras itself, in variables or around the step.
_KEPT = {"learning_rate", "stop_training", "loss", "losses", "metrics", "optimizer"}
# What a step may look at that is not its script's.
_OUTSIDE = {"time", "datetime", "os", "pathlib", "queue"}
_FRAMEWORKS = {"tensorflow", "keras", "numpy", "math"}
# Libraries whose functions change nothing but their arguments.
_PURE = _FRAMEWORKS | {"scipy", "cv2", "skimage", "PIL", "pandas", "operator", "librosa"}
# Their functions run in each step, also of a compiled one.
_IN_EACH_STEP = {"numpy_function", "py_function"}


def keeps_state(source: Source) -> bool:
    """Return whether the step's Python may read what changes while the script trains, which compiling it would freeze.

    What it draws or counts itself is seen where it is traced twice (workloads/driver/fitting).
    """
    apart = {
        name
        for call in source.calls(*_IN_EACH_STEP)
        for name in _mentioned(call)
        if source.function(name) is not None
    }
    step = [each for each in source.used(*_in_steps(source)) if getattr(each, "name", "") not in apart]
    functions = [each for each in step if isinstance(each, _FUNCTIONS)]
    nodes = [node for each in functions for node in ast.walk(each)]
    read = set[str]().union(*map(_read_in, functions))
    between = _between(source)
    stored = {names[0] for names in _changes(source, [*step, *between], _CHANGING_PYTHON) if names}
    counted = {names[0] for names in _changes(source, step, _CHANGING_PYTHON) if names}
    return (
        bool((stored - _KEPT) & read)
        or bool((counted - _KEPT) & _read_in(source.tree))
        or any(source.calls("executing_eagerly"))
        or any(isinstance(node, ast.Attribute) and _stops(node) for node in nodes)
        or any(source.package(node.id) in _OUTSIDE for node in nodes if isinstance(node, ast.Name))
        or _changes_anything([*functions, *between])
        or (
            fits_again(source)
            and (bool(functions) or _sets_attributes(source) or not _packages(source, step) <= _FRAMEWORKS)
        )
    )


def _sets_attributes(source: Source) -> bool:
    """Return whether the script sets an attribute outside of its classes, such as a layer's trainable."""
    classes = [node for node in source.nodes if isinstance(node, ast.ClassDef)]
    outside = {*source.nodes} - {part for each in classes for part in ast.walk(each)}
    return any(isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) for node in outside)


def _packages(source: Source, nodes: Iterable[ast.AST]) -> set[str]:
    """Return the packages, and modules next to the script, whose names code uses."""
    names = (each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))
    return {source.package(name) for name in names} - {""}


def callbacks_are_of_keras(source: Source, call: ast.Call) -> bool:
    """Return whether a call is given no callbacks, or a list of some that are made of Keras' classes.

    Not where `*` or `**` give it what only the running script knows.
    """
    settings = [_unchanged(source, each.value) for each in call.keywords if each.arg is None]
    if any(isinstance(each, ast.Starred) for each in call.args) or not all(map(_shows_all, settings)):
        return False
    given = _unchanged(source, source.given(call, "callbacks"))
    made = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]
    return given is None or all(
        isinstance(each, ast.Call)
        and source.package_of(each.func) in ("keras", "tensorflow")
        and name_of(each) != "LambdaCallback"
        for each in made
    )


def _unchanged(source: Source, node: ast.expr | None) -> ast.expr | None:
    """Return the only value of a variable that nothing changes; any other expression as it is."""
    if not isinstance(node, ast.Name):
        return node
    changed = any(
        isinstance(each, (ast.Attribute, ast.Subscript, ast.AugAssign))
        and source.words(each.target if isinstance(each, ast.AugAssign) else each.value) == node.id
        for each in source.nodes
    )
    value = source.only(node.id)
    return value if isinstance(value, ast.expr) and not changed else node


def _shows_all(settings: ast.expr | None) -> bool:
    """Return whether a dict is written with all its names."""
    if isinstance(settings, ast.Dict):
        return all(isinstance(each, ast.Constant) for each in settings.keys)
    if isinstance(settings, ast.Call) and name_of(settings) == "dict" and not settings.args:
        return all(each.arg for each in settings.keywords)
    return False


def calls_python(source: Source) -> bool:
    """Return whether a step calls functions in Python each time that it runs."""
    return _calls(source.used(*_in_steps(source)), _IN_EACH_STEP)


def _read_in(node: ast.AST) -> set[str]:
    """Return the names of variables and attributes that code reads."""
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Load)
    }


def _stops(node: ast.Attribute) -> bool:
    return node.attr == "stop_training" and isinstance(node.ctx, ast.Store)


def _in_steps(source: Source) -> Iterator[ast.AST]:
    """Yield what Keras or TensorFlow compiles: methods of models and layers, losses and metrics, tf.functions."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            if any(each.name in _STEP for each in methods):
                yield from (
                    each for each in methods if each.name != "__init__" and not _HOOK.fullmatch(each.name)
                )
        elif isinstance(node, ast.FunctionDef) and any(
            source.words(each).endswith("function") or "function(" in source.words(each)
            for each in node.decorator_list
        ):
            yield node
    for call in source.compiles():
        yield from call.args
        yield from (each.value for each in call.keywords)
    for call in calls_in(source.tree):
        yield from call.args if name_of(call) == "Lambda" else ()
        yield from (each.value for each in call.keywords if _IN_LAYERS.search(each.arg or ""))


def fits_again(source: Source) -> bool:
    """Return whether the script may train more than once.

    It trains once if it has one call of fit, with no loop around it, in functions that are called in one place.
    """
    mentions = [node for node in source.nodes if _is_named(node, _TRAINING)]
    return len(mentions) != 1 or not runs_once(source, mentions[0])


def runs_once(source: Source, node: ast.AST) -> bool:
    """Return whether a node runs at most once, as far as the script tells."""
    parents = {child: each for each in source.nodes for child in ast.iter_child_nodes(each)}
    return _runs_once(source, node, parents)


def _is_named(node: ast.AST, names: Collection[str]) -> bool:
    """Return whether a node is one of these names, of a variable or an attribute."""
    return (isinstance(node, ast.Attribute) and node.attr in names) or (
        isinstance(node, ast.Name) and node.id in names
    )


def _runs_once(
    source: Source, node: ast.AST, parents: Mapping[ast.AST, ast.AST], seen: frozenset[ast.AST] = frozenset()
) -> bool:
    """Return whether a node runs at most once, as far as the script tells; `seen` are the functions that lead to it."""
    within: ast.AST | None = node
    while within is not None:
        if isinstance(within, _REPEATING):
            return False
        if isinstance(within, ast.FunctionDef):
            if within.decorator_list or within.name.startswith("__") or within in seen:
                return False
            owner = parents[within]
            made = [owner.name] if isinstance(owner, ast.ClassDef) else []
            leading = seen | {within}
            return all(_is_called_once(source, name, parents, leading) for name in (within.name, *made))
        within = parents.get(within)
    return True


def _is_called_once(
    source: Source, name: str, parents: Mapping[ast.AST, ast.AST], seen: frozenset[ast.AST]
) -> bool:
    """Return whether a function or class is only mentioned where it is called, once, or given to an app's run."""
    mentions = [node for node in source.nodes if _is_named(node, {name})]
    hidden = any(_is_named(node, _BY_NAME) for node in source.nodes) or any(map(source.module, _BY_NAME))
    if hidden and any(isinstance(node, ast.Constant) and node.value == name for node in source.nodes):
        return False
    if len(mentions) != 1:
        return False
    call = parents[mentions[0]]
    if not isinstance(call, ast.Call):
        return False
    if call.func is not mentions[0] and not (
        name_of(call) == "run" and source.package_of(call.func) in _APPS
    ):
        return False
    return _runs_once(source, call, parents, seen)


def _trains(source: Source, node: ast.AST) -> bool:
    """Return whether code calls fit, also in a function that it calls."""
    called = (each for each in source.used(node) if isinstance(each, _FUNCTIONS))
    return _calls([node, *called], _TRAINING)


def _is_rebound(source: Source, name: str) -> bool:
    """Return whether a variable is bound more than once, or by a loop."""
    stores = [
        node
        for node in source.nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    loops = (each for node in source.nodes if isinstance(node, _LOOPS) for each in ast.walk(node))
    return len(stores) > 1 or any(each in stores for each in loops)


def keeps_own_state(source: Source, functions: Sequence[ast.AST]) -> bool:
    """Return whether functions change or draw from what outlives their call, so that their order counts."""
    return (
        _calls(functions, {"next"})
        or _changes_anything(functions)
        or any(
            names and names[0] not in Source.bound(each)
            for each in functions
            for names in _changes(source, [each], _CHANGING)
        )
    )


def shares_position(source: Source) -> bool:
    """Return whether a function of the script reads where a file, cursor or stream stands that outlives its call.

    Two calls at once would move it under each other.
    """
    opened = {
        target.attr if isinstance(target, ast.Attribute) else target.id
        for node in source.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _opens(node.value)
        for target in node.targets
        if isinstance(target, (ast.Attribute, ast.Name))
    }
    functions = [each for each in source.nodes if isinstance(each, _FUNCTIONS)]
    return any(_moves(each, opened) for each in functions if getattr(each, "name", "") != "__init__")


def _opens(call: ast.Call) -> bool:
    """Return whether a call makes an object that has a position; not a file that is only written."""
    texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
    written = any(isinstance(text, str) and re.fullmatch(r"[wxa][bt]*", text) for text in texts)
    return name_of(call) in _OPENING and not written


def _moves(function: ast.AST, opened: set[str]) -> bool:
    """Return whether a function uses what was opened outside of it, or reads on from an object that it did not make."""
    own, aliases = Source.bound(function), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name()):
                aliases.add(name)
    fresh = (own - aliases) - {"self", "cls"}
    for node in ast.walk(function):
        match node:
            case ast.Attribute(attr=name, value=ast.Name(id="self" | "cls")) if name in opened:
                return True
            case ast.Name(id=name, ctx=ast.Load()) if name in opened - own:
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _READING_ON:
                while isinstance(owner, (ast.Attribute, ast.Subscript)):
                    owner = owner.value
                if isinstance(owner, ast.Name) and owner.id not in fresh:
                    return True
    return False


def may_change(source: Source, functions: Sequence[ast.AST], steps: Iterable[ast.Call]) -> bool:
    """Return whether what a pipeline gives may differ from epoch to epoch because the script changes what it uses.

    Args:
        functions: of the pipeline, with what they use.
        steps: the calls that make the pipeline.
    """
    if any(_reads_same(each) for each in functions):
        return True
    between = _between(source)
    if any(isinstance(each, ast.ClassDef) and any(_hooks(each)) for each in functions):
        return True
    if _changes_anything([*between, *functions]):
        return True
    names = {name for each in functions for name in source.free(each)}
    if fits_again(source) and any(_is_rebound(source, name) for name in names):
        return True
    names |= {node.attr for each in functions for node in ast.walk(each) if isinstance(node, ast.Attribute)}
    if any(names & set(each) for each in _changes(source, [*between, *functions], _CHANGING | _STEERING)):
        return True
    if _calls(functions, {"next"}):
        return True
    files = _calls((*functions, *steps), _FILES)
    return files and any(_writes(source, call) for each in between for call in calls_in(each))


def _changes(source: Source, code: Iterable[ast.AST], methods: Collection[str]) -> Iterator[list[str]]:
    """Yield the names of each object or global variable that functions and loops change, its own name first.

    Functions of libraries that have the name of a method (`np.append`, `ndimage.rotate`) change nothing.
    """
    for part in (each for node in code for each in _functions_and_loops(node)):
        if getattr(part, "name", "") in ("__init__", "build"):
            continue
        own = Source.bound(part) if isinstance(part, _FUNCTIONS) else set()
        for node in ast.walk(part):
            match node:
                case ast.Global(names=names):
                    yield from ([name] for name in names)
                case (
                    ast.Subscript(value=owner, ctx=ast.Store()) | ast.Attribute(value=owner, ctx=ast.Store())
                ):
                    yield list(_names(node, own))
                case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in methods:
                    if source.package(source.words(owner).partition(".")[0]) not in _PURE:
                        yield list(_names(owner, own))


def _functions_and_loops(node: ast.AST) -> list[ast.AST]:
    """Return the functions in code, and the loops in none of them."""
    functions = [each for each in ast.walk(node) if isinstance(each, _FUNCTIONS)]
    within = {id(each) for function in functions for each in ast.walk(function)}
    return [
        *functions,
        *(each for each in ast.walk(node) if isinstance(each, _LOOPS) and id(each) not in within),
    ]


def _names(owner: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield the names by which a changed object may be known elsewhere: of `self.level[0]`, level."""
    while isinstance(owner, (ast.Subscript, ast.Attribute)):
        if isinstance(owner, ast.Attribute):
            yield owner.attr
        owner = owner.value
    if isinstance(owner, ast.Name) and owner.id not in own:
        yield owner.id


def _between(source: Source) -> list[ast.AST]:
    """Return what runs between epochs and between trainings, with what it uses.

    These are methods and arguments of callbacks, loops around fit, and statements from one training to the next.
    """
    found: list[ast.AST] = []
    for node in source.nodes:
        if isinstance(node, (ast.Module, ast.FunctionDef)):
            found += _from_first_to_last(source, node.body)
        if isinstance(node, ast.ClassDef) and any(_hooks(node)):
            found.append(node)
        elif isinstance(node, ast.keyword) and node.arg and _HOOK.fullmatch(node.arg):
            found.append(node.value)
        elif isinstance(node, _LOOPS) and _trains(source, node):
            found.append(node)
    return source.used(*found)


def _from_first_to_last(source: Source, statements: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements from one that trains to the last other one that does; [] if there is only one."""
    running = [each for each in statements if not isinstance(each, _DEFINING) and _trains(source, each)]
    if len(running) < 2:
        return []
    return statements[statements.index(running[0]) : statements.index(running[-1]) + 1]


def _hooks(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (each for each in node.body if isinstance(each, ast.FunctionDef) and _HOOK.fullmatch(each.name))


def _calls(nodes: Iterable[ast.AST], names: Collection[str]) -> bool:
    """Return whether any of the nodes calls a function or method of one of these names."""
    return any(name_of(call) in names for each in nodes for call in calls_in(each))


def _changes_anything(nodes: Iterable[ast.AST]) -> bool:
    """Return whether code may change any attribute of any object, by setattr or __dict__."""
    return any(
        name_of(each) in _ANYTHING if isinstance(each, ast.Call) else getattr(each, "attr", "") == "__dict__"
        for node in nodes
        for each in ast.walk(node)
    )


def _reads_same(node: ast.AST) -> bool:
    """Return whether a function reads a file whose name is not made from its arguments."""
    if not any(isinstance(each, _FUNCTIONS) for each in ast.walk(node)):
        return False  # a value, which is read once
    given = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)} - {"self", "cls"}
    before = -1
    while len(given) > before:
        before = len(given)
        for each in ast.walk(node):
            match each:
                case ast.Assign(targets=[*targets], value=value) if _mentions(value, given):
                    given |= {name for target in targets for name in _mentioned(target)}
                case (
                    ast.For(target=target, iter=value)
                    | ast.comprehension(target=target, iter=value)
                    | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
                ) if _mentions(value, given):
                    given |= _mentioned(target)
    return any(name_of(call) in _READING and not _mentions(call, given) for call in calls_in(node))


def _mentioned(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return bool(_mentioned(node) & names)


def _writes(source: Source, call: ast.Call) -> bool:
    """Return whether a call writes a file, or runs a program, which may."""
    name = name_of(call)
    owner = source.words(call.func).partition(".")[0]
    if source.package(owner) == "subprocess" or name in _RUNNING:
        return True
    if name in ("open", "GFile"):
        texts = (each.value for each in ast.walk(call) if isinstance(each, ast.Constant))
        return any(
            isinstance(text, str) and re.fullmatch(r"[wxa][bt+]*|r[bt]*\+[bt]*", text) for text in texts
        )
    if name == "save":
        return source.package(owner) in ("numpy", "PIL")
    return name in _WRITING or (name in ("replace", "rename", "copy", "move") and owner in ("os", "shutil"))
