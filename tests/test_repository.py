import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from harness.errors import TfbenchError
from harness.run.catalogue import Entry, built_in
from tests.commands import output_of
from tests.conftest import ROOT
from workloads.protocol import BASELINE, OPTIMIZATION_PREFIX

DOCUMENTS = ("README.md", "DESIGN.md", "CONTRIBUTING.md")
TEXT = {
    ".py", ".md", ".sh", ".toml", ".yml", ".yaml", ".lock", ".in", ".json", ".html", ".css", ".js", ".txt", "",
}  # fmt: skip

# Written so that the pattern does not match itself.
HOSTS = re.compile(
    r"pypi[.]org|pythonhos[t]ed[.]|files[.]python|deb[.]debian|debian[.]org/debian|archive[.]ubuntu|npmjs[.]"
    r"|docker[.]io/|ghcr[.]io|quay[.]io|gcr[.]io|nvcr[.]io|anaconda[.]org|\bmirrors?[.]\w+[.]\w|artifac[t]ory|jf[r]og",
    re.IGNORECASE,
)


def git(*words: str) -> list[str]:
    return [line for line in output_of("git", *words).split("\0") if line]


@cache
def tracked() -> tuple[Path, ...]:
    return tuple(path for name in git("ls-files", "-z") if (path := ROOT / name).is_file())


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def documentation() -> str:
    guides = sorted((ROOT / "docs").glob("*.md"))
    return "\n".join(read(path) for path in (*(ROOT / name for name in DOCUMENTS), *guides))


def named(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def error_kinds() -> list[type[TfbenchError]]:
    return sorted({TfbenchError, *TfbenchError.__subclasses__()}, key=lambda kind: kind.exit_code)


@pytest.mark.parametrize("kind", error_kinds(), ids=lambda kind: kind.__name__)
def test_exit_codes_are_unique_and_documented(kind: type[TfbenchError]) -> None:
    assert kind.exit_code
    assert [each for each in error_kinds() if each.exit_code == kind.exit_code] == [kind]
    assert re.search(rf"^\| {kind.exit_code} \|", read(ROOT / "docs" / "report.md"), re.MULTILINE)


def entry_name(entry: Entry) -> str:
    return entry.workload.name


class TestCompleteness:
    @pytest.mark.parametrize("entry", built_in(), ids=entry_name)
    def test_workload_is_documented_and_has_a_source(self, entry: Entry) -> None:
        assert named(entry.workload.name, documentation())
        assert entry.workload.source, "where it was published"
        variants = {BASELINE, *(f"{OPTIMIZATION_PREFIX}{name}" for name in entry.workload.ladder)}
        assert {number.variant for number in entry.workload.published} <= variants

    def test_all_packages_are_listed_in_pyproject(self) -> None:
        listed = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["setuptools"]["packages"]
        there = [
            path.parent.relative_to(ROOT).as_posix().replace("/", ".")
            for top in ("harness", "workloads", "reports")
            for path in (ROOT / top).rglob("__init__.py")
        ]
        assert sorted(listed) == sorted(there)


def test_documents_only_reference_existing_files() -> None:
    paths = re.compile(r"`((?:harness|workloads|reports|images|tests|docs|examples)/[\w./-]+)`")
    named = {path for name in DOCUMENTS for path in paths.findall(read(ROOT / name))}
    assert [path for path in named if not (ROOT / path).exists() and "/NAME/" not in path] == []


def test_make_bench_passes_all_variables() -> None:
    variables = ["PROFILE=smoke", "ENGINE=docker", "DEVICE=gpu0", "WORKLOADS=a-mlp,b-mlp", "OUT=x"]
    text = output_of("make", "--dry-run", "--no-print-directory", "bench", *variables, "ARGS=--trials 2")
    words = text[text.rindex("tfbench bench") :].replace("\\\n", " ").split()
    assert " ".join(words) == (
        "tfbench bench --profile smoke --engine docker --device gpu0 --out x a-mlp b-mlp --trials 2"
    )


class TestTrackedFiles:
    def test_file_names_in_harness_are_unique(self) -> None:
        # A command may have the name of the module that implements it.
        paths = [path for path in tracked() if path.is_relative_to(ROOT / "harness") and path.suffix == ".py"]
        names = [path.name for path in paths if path.name != "__init__.py"]
        assert {name for name in names if names.count(name) > 1} <= {"compare.py", "scaling.py"}

    def test_no_ignored_file_is_tracked(self) -> None:
        assert git("ls-files", "-z", "--cached", "--ignored", "--exclude-standard") == []

    def test_no_file_names_a_package_registry_or_mirror(self) -> None:
        result = [
            f"{path.relative_to(ROOT)}:{number}: {match.group()}"
            for path in tracked()
            if path.suffix in TEXT
            for number, line in enumerate(read(path).splitlines(), 1)
            if (match := HOSTS.search(line))
        ]
        assert result == []

    def test_no_file_is_large(self) -> None:
        large = [path.relative_to(ROOT) for path in tracked() if path.stat().st_size > 3 << 20]
        assert large == []

    @pytest.mark.parametrize(
        "path", [one for one in tracked() if one.suffix == ".lock" and one.name != "base.lock"], ids=str
    )
    def test_lock_files_have_hashes_and_no_urls(self, path: Path) -> None:
        text = read(path)
        assert "://" not in text
        assert not re.search(r"^--", text, re.MULTILINE), "options such as an index"
        pins = [block for block in re.split(r"\n(?=\S)", text) if block and not block.startswith("#")]
        assert pins
        assert [pin.split()[0] for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []

    def test_scripts_are_executable(self) -> None:
        scripts = [path for path in tracked() if path.suffix == ".sh" or path == ROOT / ".ci/run"]
        assert scripts
        assert [path.name for path in scripts if not path.stat().st_mode & 0o111] == []
        assert [path.name for path in scripts if not read(path).startswith("#!")] == []


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def sources() -> list[Path]:
    return [path for package in ("harness", "reports") for path in sorted((ROOT / package).rglob("*.py"))]


def test_only_the_command_line_prints_and_exits() -> None:
    """harness/engines/container_init.py is exempt because it runs inside containers."""
    elsewhere = ("print", "sys.exit", "exit", "typer.echo", "sys.stdout.write", "sys.stderr.write")
    result = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in sources()
        if not path.is_relative_to(ROOT / "harness/cli")
        and path != ROOT / "harness/engines/container_init.py"
        for call in calls(path)
        if call in elsewhere
    ]
    assert result == []


def test_no_eval_and_no_patching_of_own_code() -> None:
    evaluated = [f"{path}: {call}" for path in sources() for call in calls(path) if call in ("eval", "exec")]
    assert evaluated == []
    mocking = re.compile(r"unittest[.]mock|mocker|monkeypatch[.]setattr\([\"'](harness|workloads|reports)")
    tests = (path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__))
    assert [path.name for path in tests if mocking.search(read(path))] == []


# Stands for Python: makes an "environment" whose pip warns as a real one does, and fails where it is told to.
PYTHON = """#!/bin/sh
[ "$1" = -m ] || exit 0
mkdir -p "$3/bin"
cat >"$3/bin/pip" <<'END'
#!/bin/sh
echo "$@" >>"$(dirname "$0")/../asked"
echo "WARNING: Location '/nowhere' is ignored" >&2
case "$*" in *--requirement*) [ -z "$PIP_FAILS" ] || { echo "ERROR: hashes differ"; exit 3; };; esac
END
chmod +x "$3/bin/pip"
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "requirements.lock", "dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def make(clone: Path, target: str, **surroundings: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "-C", clone, target, f"PYTHON={clone / 'python'}"]
    environment = {"PATH": "/usr/bin:/bin", **surroundings}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_installing_says_one_line_and_keeps_what_pip_said(clone: Path) -> None:
    done = make(clone, "install")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Installing the harness into .venv\n"
    assert "Location '/nowhere' is ignored" in (clone / ".venv/pip.log").read_text()
    asked = (clone / ".venv/asked").read_text().splitlines()
    assert [line.split()[:2] for line in asked] == [["install", "--require-hashes"], ["install", "--no-deps"]]
    assert make(clone, "install").stdout.startswith("make: Nothing to be done"), "once is enough"


def test_where_pip_fails_all_that_it_said_is_shown_and_nothing_counts_as_installed(clone: Path) -> None:
    done = make(clone, "install", PIP_FAILS="yes")
    assert done.returncode == 2
    assert "Location '/nowhere' is ignored" in done.stderr
    assert "ERROR: hashes differ" in done.stderr
    assert ".venv/pip.log" in done.stderr
    assert len((clone / ".venv/asked").read_text().splitlines()) == 1, "nothing goes on after it"
    assert make(clone, "install").returncode == 0, "and the next time starts again"
