import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.run import catalogue
from harness.run.catalogue import Entry, built_in, folder_sha256, select, sources
from tests.conftest import ROOT
from tests.folders import write_files


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.workload.name for entry in entries]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with scripts of the user."""
    monkeypatch.chdir(tmp_path)
    two = "# /// tfbench\n# title = 'A'\n# [also.wide]\n# title = 'B'\n# ///\n"
    return write_files(
        tmp_path, {"train.py": "A = 1\n", "two.py": two, "other/train.py": "", "cifar10-mlp": ""}
    )


def test_default_is_the_default_suite_and_all_is_everything() -> None:
    assert built_in() == tuple(sorted(built_in(), key=lambda entry: entry.workload.name))
    assert select(["all"]) == built_in()
    assert names(select([])) == [e.workload.name for e in built_in() if e.workload.suite == "default"]
    assert names(select([]))


def test_names_and_paths_in_the_given_order_without_duplicates(folder: Path) -> None:
    chosen = select(["two.py", "cifar10-mlp", "./train.py", "cifar10-mlp", str(folder / "train.py")])
    assert names(chosen) == ["two", "wide", "cifar10-mlp", "train"]
    assert [entry.external for entry in chosen] == [True, True, False, True]
    assert chosen[3].path == folder / "train.py"
    assert names(select(["all", "train.py"])) == [*names(built_in()), "train"]


def test_a_name_is_made_of_any_path(tmp_path: Path) -> None:
    path = tmp_path / "my script (2).py"
    path.write_text("import keras\n")
    (entry,) = select([str(path)])
    assert (entry.workload.name, entry.path) == ("my-script-2", path)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["cifar10-mlb"], "Unknown workload 'cifar10-mlb'", "cifar10-mlp"),
        (["train"], "Unknown workload 'train'", "the path of a script"),
        (["none.py"], "none.py: No such file", "path"),
        (["other"], "Unknown workload 'other'", "all"),
        (["train.py", "other/train.py"], "both named train", "Rename"),
    ],
)  # fmt: skip
def test_what_cannot_be_selected(folder: Path, words: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        select(words)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_sources_tell_what_changed(folder: Path) -> None:
    mount = folder / "data"
    write_files(mount, {"a.csv": "1", "deep/b.csv": "2"})

    def hashes() -> Mapping[str, str]:
        return sources(select(["other/train.py", "cifar10-mlp"]), [mount])

    before = hashes()
    assert set(before) == {"workloads", "train", "cifar10-mlp", str(mount)}
    for path, changed in (("other/helper.py", "train"), ("data/deep/b.csv", str(mount)), ("two.py", None)):
        (folder / path).write_text("changed")
        after = hashes()
        assert {name for name in before if before[name] != after[name]} == ({changed} if changed else set())
        before = after


def test_large_folders_are_hashed_by_their_scripts_or_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"train.py": "1", "a/b.txt": "1", "__pycache__/x.pyc": "1", ".git/HEAD": "1"})
    (tmp_path / "a/link").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "a/pipe")
    first = folder_sha256(tmp_path)
    write_files(tmp_path, {"__pycache__/x.pyc": "2", ".git/HEAD": "2"})
    assert folder_sha256(tmp_path) == first
    monkeypatch.setattr(catalogue, "MAX_BYTES", 1)
    write_files(tmp_path, {"a/b.txt": "22"})
    by_size = folder_sha256(tmp_path)
    assert by_size != first
    monkeypatch.setattr(catalogue, "MAX_FILES", 1)
    only_scripts = folder_sha256(tmp_path)
    write_files(tmp_path, {"a/b.txt": "333"})
    assert folder_sha256(tmp_path) == only_scripts
    write_files(tmp_path, {"train.py": "2"})
    assert folder_sha256(tmp_path) != only_scripts
    (tmp_path / "train.py").chmod(0)
    assert folder_sha256(tmp_path)


def test_the_example_is_a_short_script() -> None:
    path = ROOT / "examples" / "train.py"
    (entry,) = select([str(path)])
    assert len(path.read_text().splitlines()) <= 40
    assert entry.workload.params.keys() >= {"BATCH_SIZE", "EPOCHS"}
    assert [data.name for data in entry.workload.datasets] == ["cifar10"]
    assert replace(entry.workload, title="") != entry.workload, "it has metadata"
