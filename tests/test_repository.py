import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from harness.errors import TfbenchError
from harness.run.catalogue import built_in
from tests.commands import output_of
from tests.conftest import ROOT
from workloads.variants import BASELINE, OPTIMIZATION, TUNED

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


def test_exit_codes_are_unique_and_documented() -> None:
    kinds = {TfbenchError, *TfbenchError.__subclasses__()}
    codes = {kind.exit_code for kind in kinds}
    assert len(codes) == len(kinds) and 0 not in codes
    assert codes <= set(map(int, re.findall(r"^\| (\d+) \|", read(ROOT / "docs/report.md"), re.MULTILINE)))


def test_workloads_are_documented_and_have_a_source() -> None:
    guides = (*(ROOT / name for name in DOCUMENTS), *(ROOT / "docs").glob("*.md"))
    documentation = "\n".join(map(read, guides))
    for workload in (entry.workload for entry in built_in()):
        assert re.search(rf"(?<![\w-]){workload.name}(?![\w-])", documentation), workload.name
        assert workload.title != workload.file and workload.source, "where it was published"
        for rung in workload.ladder.values():
            assert all(f"\n{name} = " in workload.scripts[rung.script] for name in rung.params)
        variants = {BASELINE, TUNED, *(OPTIMIZATION.of(name) for name in workload.ladder)}
        assert {number.variant for number in workload.published} <= variants


def test_make_bench_passes_all_variables() -> None:
    variables = ["PROFILE=smoke", "ENGINE=docker", "DEVICE=gpu0", "WORKLOADS=a-mlp,b-mlp", "OUT=x"]
    text = output_of("make", "--dry-run", "--no-print-directory", "bench", *variables, "ARGS=--trials 2")
    words = text[text.rindex("tfbench bench") :].replace("\\\n", " ").split()
    assert " ".join(words) == (
        "tfbench bench --profile 'smoke' --engine 'docker' --device 'gpu0' --out 'x' a-mlp b-mlp --trials 2"
    )


class TestTrackedFiles:
    def test_packages_are_listed_scripts_executable_and_what_documents_name_is_there(self) -> None:
        listed = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["setuptools"]["packages"]
        found = (
            path.parent
            for top in ("harness", "workloads", "reports")
            for path in (ROOT / top).rglob("__init__.py")
        )
        assert sorted(listed) == sorted(path.relative_to(ROOT).as_posix().replace("/", ".") for path in found)
        scripts = [path for path in tracked() if path.suffix == ".sh" or path == ROOT / ".ci/run"]
        assert scripts
        assert [
            path.name for path in scripts if not path.stat().st_mode & 0o111 or read(path)[:2] != "#!"
        ] == []
        paths = re.compile(r"`((?:harness|workloads|reports|images|tests|docs|examples)/[\w./-]+)`")
        named = {path for name in DOCUMENTS for path in paths.findall(read(ROOT / name))}
        assert [path for path in named if not (ROOT / path).exists() and "/NAME/" not in path] == []

    def test_file_names_in_harness_are_unique(self) -> None:
        # A command may have the name of the module that implements it.
        paths = [path for path in tracked() if path.is_relative_to(ROOT / "harness") and path.suffix == ".py"]
        names = [path.name for path in paths if path.name != "__init__.py"]
        assert {name for name in names if names.count(name) > 1} <= {"compare.py", "scaling.py"}

    def test_no_file_is_large_ignored_or_names_a_package_registry_or_mirror(self) -> None:
        assert git("ls-files", "-z", "--cached", "--ignored", "--exclude-standard") == []
        assert [path.name for path in tracked() if path.stat().st_size > 3 << 20] == []
        result = [
            f"{path.relative_to(ROOT)}: {match.group()}"
            for path in tracked()
            if path.suffix in TEXT
            for match in HOSTS.finditer(read(path))
        ]
        assert result == []

    def test_lock_files_have_hashes_and_no_urls(self) -> None:
        for path in (one for one in tracked() if one.suffix == ".lock" and one.name != "base.lock"):
            text = read(path)
            assert "://" not in text
            assert not re.search(r"^--", text, re.MULTILINE), "options such as an index"
            pins = [block for block in re.split(r"\n(?=\S)", text) if block and not block.startswith("#")]
            assert pins, path
            assert [pin.split()[0] for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


def test_only_the_command_line_prints_and_exits() -> None:
    """Programs of trials are exempt. Ruff finds `print`."""
    programs = {ROOT / f"harness/engines/{name}.py" for name in ("container_init", "read_only")}
    exempt = {*(ROOT / "harness/cli").rglob("*.py"), *programs}
    sources = {path for package in ("harness", "reports") for path in (ROOT / package).rglob("*.py")}
    exiting = re.compile(r"(?<![\w.])(?:(?:sys[.])?exit|typer[.]echo|sys[.]std(?:out|err)[.]write)\(")
    assert [path.name for path in sources - exempt if exiting.search(read(path))] == []


def test_no_patching_of_own_code() -> None:
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


def test_installing_says_one_line_unless_pip_fails_and_keeps_what_it_said(clone: Path) -> None:
    done = make(clone, "install", PIP_FAILS="yes")
    assert done.returncode == 2
    for text in ("Location '/nowhere' is ignored", "ERROR: hashes differ", ".venv/pip.log"):
        assert text in done.stderr
    assert len((clone / ".venv/asked").read_text().splitlines()) == 1, "nothing goes on after it"
    (clone / ".venv/asked").unlink()
    done = make(clone, "install")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Installing the harness into .venv\n"
    assert "Location '/nowhere' is ignored" in (clone / ".venv/pip.log").read_text()
    asked = (clone / ".venv/asked").read_text().splitlines()
    assert [line.split()[:2] for line in asked] == [["install", "--require-hashes"], ["install", "--no-deps"]]
    assert make(clone, "install").stdout.startswith("make: Nothing to be done"), "once is enough"
