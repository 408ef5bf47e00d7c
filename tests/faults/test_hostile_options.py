"""Invalid and malicious options: a user error with exit code 2 or 6, before an engine is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands import tfbench
from tests.conftest import ROOT
from tests.faults.injecting import LIMIT_S, faults, time_limit

# With options that are accepted, a command ends with code 3: this engine does not answer.
NO_ENGINE = ("--engine", "docker", "--no-cloud-metadata")
NUMBERS = st.one_of(
    st.sampled_from(
        ("inf", "-inf", "nan", "1e308", "-1", "0", "9" * 400, "9" * 5_000, "1e-300", "٣", "0x10")
    ),
    st.integers().map(str),
    st.floats().map(str),
)
# Command lines cannot contain null bytes. These lone surrogates represent bytes that are not UTF-8.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0") | st.characters(
    min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=["Cs"]
)
WORDS = st.one_of(
    st.text(CHARACTERS, max_size=40),
    st.sampled_from(("", "x" * 300, "x" * 5_000, "a\udcffb", "\x1b[31m", "../" * 100, "-", ",", "=", "a=b")),
)
PARAMETERS = st.sampled_from(("batch_size", "EPOCHS", "no_such", "é"))
OPTIONS = st.one_of(
    st.tuples(st.sampled_from(("--seed", "--trials")), NUMBERS),
    st.tuples(st.sampled_from(("--memory", "--cpu-quota", "--rate", "--stall")), NUMBERS),
    st.tuples(st.just("--cpus"), st.one_of(WORDS, st.builds("{}-{}".format, NUMBERS, NUMBERS))),
    st.tuples(st.just("--param"), st.builds("{}={}".format, PARAMETERS, st.one_of(NUMBERS, WORDS))),
    st.tuples(st.just("--param"), st.just("batch_size=" + ",".join(map(str, range(1, 600))))),
    st.tuples(
        st.sampled_from((
            "--profile", "--variants", "--data", "--device", "--gpus", "--image", "--price", "--out", "--param",
            "--resume", "--arg", "--env", "--mount", "--call",
        )),
        WORDS,
    ),
)  # fmt: skip
PATHS = st.one_of(WORDS, st.sampled_from(("/dev/zero", "/dev/full", "/proc/self/mem", "/", "/dev/stdin")))


def assert_user_error(*arguments: str, codes: tuple[int, ...] = (2, 6)) -> None:
    with time_limit():
        printed = tfbench(*arguments)
    assert (printed.code in codes, printed.out) == (True, ""), printed.err
    assert "Traceback" not in printed.err
    assert "Unexpected" not in printed.err
    assert printed.err.encode("utf-8", "surrogateescape")


@pytest.fixture(autouse=True, scope="module")
def temporary_working_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands may write files to the working folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("working"))
        patch.setenv("COLUMNS", "200")
        patch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        yield


@faults(share=0.15, default=40)
@given(options=st.lists(OPTIONS, min_size=1, max_size=3), names=st.lists(WORDS, max_size=2))
def test_options_of_bench(options: list[tuple[str, str]], names: list[str]) -> None:
    words = [f"{name}={word}" for name, word in options]
    assert_user_error("bench", "--device=cpu", *words, *NO_ENGINE, "--", *names, codes=(2, 3, 6))


@faults(share=0.05, default=25)
@given(command=st.sampled_from(("report", "compare", "rerun")), path=PATHS, other=PATHS)
def test_paths(command: str, path: str, other: str) -> None:
    more = (other,) if command == "compare" else ()
    assert_user_error(command, "--", path, *more)


@pytest.mark.parametrize(
    ("environment", "redirection", "words"),
    [
        ({}, ">/dev/full", "list"),
        ({}, "2>&1 | head -c 1", "list"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "", "compare 'Größe=none' none"),
        ({"PYTHONIOENCODING": "ascii"}, "", "compare 'Größe=none' $'a\\xff'"),
    ],
)
def test_streams_and_locales(tmp_path: Path, environment: dict, redirection: str, words: str) -> None:
    command = ["bash", "-c", f"set -o pipefail; {sys.executable} -m harness {words} {redirection}"]
    variables = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert b"Traceback" not in result.stderr
    assert b"Exception ignored" not in result.stderr
    # `head` may end before or after all output was written.
    assert result.returncode in ((0, 141) if "head" in redirection else (6,))
