"""`make install` as a fresh clone meets it: quiet when all goes well, whole when it does not."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

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
