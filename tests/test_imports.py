"""Who may import whom: DESIGN.md's table, held against the syntax trees of every module."""

import ast
import importlib.metadata
import itertools
import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.commands import loaded_by
from tests.conftest import ROOT

PACKAGES = ("harness", "reports", "workloads")


class Rule(NamedTuple):
    """What the modules under a name may import: ours except `not_ours`, and top-level names of others."""

    ours: Collection[str] = ()
    not_ours: Collection[str] = ()
    others: Collection[str] = ()


# DESIGN.md's table has what each folder may import of ours; here is what of other people's.
OTHERS: Mapping[str, str] = {
    "workloads.components": "keras numpy tensorflow",
    "workloads.driver": "keras numpy tensorflow",
    "harness": "msgspec platformdirs yaml",
    "harness.intervals": "numpy scipy",
    "harness.model": "msgspec numpy",
    "harness.analysis": "msgspec numpy scipy",
    "harness.telemetry": "numpy psutil pynvml",
    "harness.engines": "docker msgspec platformdirs psutil requests urllib3 yaml",
    "harness.data": "PIL numpy pooch requests",
    "harness.images": "docker packaging requests",
    "harness.system": "filelock msgspec packaging psutil pynvml requests",
    "harness.run": "msgspec numpy psutil",
    "harness.fleet": "psutil ray",
    "harness.cli": "rich typer",
    "reports": "altair jinja2 markupsafe msgspec numpy rich vl_convert",
}
# XGBoost's image has no TensorFlow.
WITHOUT_TENSORFLOW = (
    "workloads.protocol",
    "workloads.cells",
    "workloads.fits",
    "workloads.hiding",
    "workloads.readings",
    "workloads.variants",
    *(
        f"workloads.driver.{name}"
        for name in (
            "advice",
            "edits",
            "endings",
            "forks",
            "measuring",
            "preparation",
            "processes",
            "remedies",
            "results",
            "script",
            "shell",
            "sites",
            "standard_input",
        )
    ),
    "workloads.driver.timing",
    "workloads.driver.trial",
)
# The built-in scripts, and the files that they import by their own names, run anywhere without tfbench.
SCRIPTS = "workloads.scripts"
COMPONENTS = [path.stem for path in (ROOT / "workloads/components").glob("[!_]*.py")]
OWN_RULES: Mapping[str, Rule] = {
    **{name: Rule(WITHOUT_TENSORFLOW, others=["numpy"]) for name in WITHOUT_TENSORFLOW},
    "workloads.protocol": Rule(["workloads.hiding", "workloads.variants"]),
    "workloads.hiding": Rule(),
    "workloads.variants": Rule(),
    "workloads.driver.xgboost_task": Rule(WITHOUT_TENSORFLOW, others=["numpy", "xgboost"]),
    "workloads.cells": Rule(),
    SCRIPTS: Rule(others=["keras", "numpy", "tensorflow", "xgboost", *COMPONENTS]),
}


def table() -> dict[str, Rule]:
    """Read the rules of DESIGN.md: a row is a folder, what it holds, what it may import."""
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    rules = {}
    for folder, cells in re.findall(r"^\| `([\w/]+)(?:/|\.py)` \|.*\| (.+) \|$", text, re.MULTILINE):
        name = folder.replace("/", ".")
        cell, _, but = cells.partition("(not ")
        rules[name] = Rule(
            ours={name} - {"harness", "workloads"}
            | {_whole(each) for each in re.findall(r"`([\w.]+)`", cell)},
            not_ours=[f"harness.{each}" for each in re.findall(r"\w+", but)],
            others=OTHERS.get(name, "").split(),
        )
    return rules


def _whole(name: str) -> str:
    return name if name.partition(".")[0] in PACKAGES else f"harness.{name}"


RULES = {**table(), **OWN_RULES}
# These need the folder that the workloads lie in, to mount it: the package itself, which imports nothing.
FOLDER_OF_WORKLOADS = (
    "harness.run.catalogue", "harness.run.scripts", "harness.run.trial_container", "harness.system.doctor_checks",
)  # fmt: skip


def modules() -> dict[str, Path]:
    result = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


MODULES = modules()


def imports(path: Path) -> set[str]:
    """Return all that a file imports, wherever in it; `from a import b` is a.b where that is a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=aliases):
                names |= {alias.name for alias in aliases}
            case ast.ImportFrom(level=0, module=str(module), names=aliases):
                inner = {f"{module}.{alias.name}" for alias in aliases}
                names |= {name if name in MODULES else module for name in inner}
            case ast.ImportFrom():
                raise AssertionError(f"{path}: a relative import")
    return names


def rule_of(module: str) -> Rule:
    if re.fullmatch(r"workloads[.](?!driver|components)[^.]+[.].+", module):
        return RULES[SCRIPTS]
    while module not in RULES:
        module = module.rpartition(".")[0]
    return RULES[module]


def under(name: str, prefixes: Collection[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def allowed(module: str, name: str) -> bool:
    rule = rule_of(module)
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    if top in PACKAGES:
        if name == "workloads":
            return module.startswith("workloads") or module in FOLDER_OF_WORKLOADS
        # A package's own __init__ is no way round: `harness` alone gives the version only.
        return name == "harness" or (under(name, rule.ours) and not under(name, rule.not_ours))
    return top in rule.others


def test_imports_keep_to_the_table() -> None:
    pairs = ((module, name) for module, path in MODULES.items() for name in imports(path))
    assert [f"{module} imports {name}" for module, name in pairs if not allowed(module, name)] == []


def test_every_line_of_the_table_is_of_use() -> None:
    unused = [name for name in RULES if not any(under(module, (name,)) for module in MODULES)]
    assert unused == ["images", SCRIPTS], "which are no modules of this name"
    assert OTHERS.keys() <= RULES.keys()


def test_what_the_host_imports_is_declared() -> None:
    """Whatever comes along with another package today may be gone tomorrow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = (*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values()))
    declared = {_canonical(re.split(r"[ <>=~!;\[]", name)[0]) for name in names}
    providers = importlib.metadata.packages_distributions()
    imported = {
        top for name, tops in OTHERS.items() if not name.startswith("workloads") for top in tops.split()
    }
    assert [top for top in imported if declared.isdisjoint(map(_canonical, providers.get(top, ())))] == []


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_command_line_starts_without_what_only_a_report_needs() -> None:
    """Every one of these costs a noticeable part of a second."""
    code = "from harness.cli.app import COMMANDS, build_app; [build_app(name) for name in COMMANDS]"
    heavy = {"tensorflow", "keras", "vl_convert", "altair", "scipy", "jinja2", "pandas", "ray"}
    assert loaded_by(code) & heavy == set()
