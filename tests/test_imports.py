"""Who may import whom: one rule a folder, held against the syntax trees of every module and DESIGN.md's table."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("harness", "reports", "workloads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the modules under one name may import; the most specific name that fits a module counts.

    Attributes:
        ours: modules of this project, each with all that is under it.
        not_ours: exceptions from `ours`.
        others: top-level names of other people's packages.
    """

    ours: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


CONTAINER = ("numpy", "tensorflow", "keras")
RULES: Mapping[str, Rule] = {
    "workloads.protocol": Rule(),
    # Runs where there is no TensorFlow: nothing of ours that needs it may come along.
    "workloads.boosting": Rule(
        ours=(
            "workloads.author",
            "workloads.protocol",
            "workloads.sequence",
            "workloads.timing",
            "workloads.tuning",
        ),
        others=("numpy", "xgboost"),
    ),
    "workloads.trees": Rule(ours=("workloads.protocol",)),
    "workloads": Rule(ours=("workloads",), others=CONTAINER),
    "harness": Rule(ours=("harness.cli", "harness.errors", "harness.model"), others=("platformdirs",)),
    "harness.model": Rule(
        ours=("harness.defaults", "harness.model", "workloads.protocol"), others=("numpy",)
    ),
    "harness.analysis": Rule(
        ours=(
            "harness.analysis",
            "harness.cpuset",
            "harness.model",
            "harness.rounding",
            "harness.telemetry.metrics",
            "workloads.protocol",
        ),
        others=("msgspec", "numpy", "scipy"),
    ),
    "harness.telemetry": Rule(
        ours=("harness.errors", "harness.untrusted", "harness.model", "harness.telemetry"),
        others=("numpy", "psutil", "pynvml"),
    ),
    "harness.engines": Rule(
        ours=(
            "harness.cpuset",
            "harness.engines",
            "harness.errors",
            "harness.model",
            "harness.progress",
            "workloads.protocol",
        ),
        others=("docker", "platformdirs", "psutil", "requests", "urllib3", "yaml"),
    ),
    "harness.data": Rule(
        ours=(
            "harness.data",
            "harness.errors",
            "harness.model",
            "harness.progress",
            "harness.rounding",
            "harness.system",
            "workloads.protocol",
        ),
        others=("PIL", "numpy", "pooch", "requests"),
    ),
    "harness.images": Rule(
        ours=(
            "harness.engines",
            "harness.errors",
            "harness.images",
            "harness.model",
            "harness.progress",
            "harness.system",
            "workloads.protocol",
        ),
        others=("docker", "packaging", "psutil", "requests", "yaml"),
    ),
    "harness.system": Rule(
        ours=(
            "harness.engines",
            "harness.errors",
            "harness.images",
            "harness.model",
            "harness.paths",
            "harness.progress",
            "harness.system",
            "harness.telemetry",
            "workloads.protocol",
        ),
        others=("filelock", "psutil", "pynvml", "requests"),
    ),
    "harness.run": Rule(
        ours=("harness", "workloads.protocol"),
        not_ours=("harness.cli", "harness.fleet"),
        others=("cattrs", "msgspec", "numpy", "psutil"),
    ),
    "harness.fleet": Rule(
        ours=("harness", "workloads.protocol"), not_ours=("harness.cli",), others=("cattrs", "psutil", "ray")
    ),
    "harness.cli": Rule(ours=("harness", "reports", "workloads.protocol"), others=("rich", "typer")),
    "reports": Rule(
        ours=(
            "reports",
            "harness.analysis.compare",
            "harness.analysis.facts",
            "harness.analysis.findings",
            "harness.analysis.limits",
            "harness.analysis.measures",
            "harness.analysis.results",
            "harness.model",
            "harness.rounding",
            "harness.telemetry.metrics",
            "harness.run.thinning",
            "workloads.protocol",
        ),
        others=("altair", "jinja2", "markupsafe", "numpy", "rich", "vl_convert"),
    ),
}
# These need the folder that the workloads lie in, to mount it: the package itself, which imports nothing.
FOLDER_OF_WORKLOADS = ("harness.run.catalogue", "harness.system.gpu_proof", "harness.run.prepare")


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


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
    parts = module.split(".")
    return next(
        rule for count in range(len(parts), 0, -1) if (rule := RULES.get(".".join(parts[:count]))) is not None
    )


def under(name: str, prefixes: tuple[str, ...]) -> bool:
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


@pytest.mark.parametrize("module", MODULES)
def test_imports_keep_to_the_table(module: str) -> None:
    wrong = sorted(name for name in imports(MODULES[module]) if not allowed(module, name))
    assert wrong == [], f"{module} may not import these; see the table in {Path(__file__).name}"


def test_every_line_of_the_table_is_of_use() -> None:
    assert [name for name in RULES if not any(under(module, (name,)) for module in MODULES)] == []


def test_the_design_shows_the_same_table() -> None:
    rows = re.findall(
        r"^\| `([\w/]+)/` \|.*\| (.+) \|$", (ROOT / "DESIGN.md").read_text("utf-8"), re.MULTILINE
    )
    shown = {folder.replace("/", "."): set(re.findall(r"`([\w.]+)`", cell)) for folder, cell in rows}
    folders = {name: rule for name, rule in RULES.items() if (ROOT / name.replace(".", "/")).is_dir()}
    assert {name: shown.get(name) for name in folders} == {
        name: {one.removeprefix("harness.") for one in rule.ours if one != name}
        for name, rule in folders.items()
    }


def test_the_table_would_notice() -> None:
    assert not allowed("harness.analysis.stats", "harness.run.store")
    assert not allowed("harness.run.runner", "tensorflow")
    assert not allowed("harness.run.runner", "workloads.driver")
    assert not allowed("workloads.driver", "harness.model")
    assert not allowed("reports.render", "harness.analysis")
    assert not allowed("harness.analysis.findings", "reports.messages")
    assert not allowed("harness.run.store", "harness.cli")
    assert not allowed("harness.run.prepare", "reports.render")


@pytest.mark.parametrize("package", ["harness", "reports"])
def test_what_is_imported_is_declared(package: str) -> None:
    """Whatever comes along with another package today may be gone tomorrow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = project["dependencies"] + [
        one for extra in project["optional-dependencies"].values() for one in extra
    ]
    declared = {_canonical(re.split(r"[ <>=~!;\[]", name)[0]) for name in names}
    providers = importlib.metadata.packages_distributions()
    tops = {
        name.partition(".")[0]
        for module, path in MODULES.items()
        if under(module, (package,))
        for name in imports(path)
    }
    missing = {
        top
        for top in tops - set(PACKAGES) - set(sys.stdlib_module_names)
        if not declared & {_canonical(provider) for provider in providers.get(top, ())}
    }
    assert missing == set(), "declare these in pyproject.toml"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_command_line_starts_without_what_only_a_report_needs() -> None:
    """Every one of these costs a noticeable part of a second."""
    code = "import importlib; from harness import cli; [importlib.import_module('harness.cli.' + name) "
    code += "for name in cli.COMMANDS]"
    heavy = {"tensorflow", "keras", "vl_convert", "altair", "scipy", "jinja2", "pandas", "ray"}
    assert loaded_by(code) & heavy == set()


def test_the_protocol_loads_with_the_standard_library_alone() -> None:
    assert loaded_by("import workloads.protocol") <= set(sys.stdlib_module_names) | {
        "workloads",
        "__main__",
    } | loaded_by("pass")


def test_workloads_are_read_without_tensorflow() -> None:
    assert "tensorflow" not in loaded_by("from harness.run.catalogue import built_in; built_in()")
