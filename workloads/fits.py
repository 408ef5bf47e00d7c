"""Which calls of a method `fit` in a script may be those of a model of Keras."""

from __future__ import annotations

import ast

# Packages whose objects have a fit of their own.
_FITS_OTHERS = {"sklearn", "imblearn", "xgboost", "lightgbm", "catboost", "statsmodels"}
# Calls of Keras with their arguments in order, as far as somebody asks for them.
PARAMETERS = {
    "fit": "x y batch_size epochs verbose callbacks validation_split validation_data shuffle class_weight "
    "sample_weight initial_epoch steps_per_epoch validation_steps",
    "evaluate": "x y batch_size verbose sample_weight steps callbacks",
    "predict": "x batch_size verbose steps callbacks",
}


def may_have_callbacks(call: ast.Call) -> bool:
    """Return whether a call is one of a method of these names that is given callbacks, or may be."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name not in PARAMETERS:
        return False
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    by_place = len(call.args) > PARAMETERS[name].split().index("callbacks")
    return starred or by_place or not {"callbacks", None}.isdisjoint(each.arg for each in call.keywords)


def calls_of_fit(tree: ast.AST) -> list[ast.Call]:
    """Return the calls of a method fit that may be that of a model of Keras, with those of `super()`."""
    # Names of what makes objects that have another fit, and of these objects.
    own, others = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                own |= {
                    (each.asname or each.name).partition(".")[0] for each in names if _fits_others(each.name)
                }
            case ast.ImportFrom(module=str(module), names=names):
                own |= {
                    each.asname or each.name
                    for each in names
                    if _fits_others(module) or each.name == "ImageDataGenerator"
                }
            case ast.ClassDef(name=name, bases=[]):
                own.add(name)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=ast.Call() as made) if first_name(made) in own:
                others |= {target.id for target in targets if isinstance(target, ast.Name)}
    # `self.fit` may be of one of these classes.
    defined = any(
        isinstance(node, ast.ClassDef) and any(getattr(each, "name", "") == "fit" for each in node.body)
        for node in ast.walk(tree)
    )
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "fit"
        and first_name(node.func.value) not in own | others
        and not (defined and getattr(node.func.value, "id", "") == "self")
    ]


def _fits_others(module: str) -> bool:
    return module.partition(".")[0] in _FITS_OTHERS


def first_name(node: ast.expr) -> str:
    """Return the name that an expression of attributes and calls begins with; "" for others."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
