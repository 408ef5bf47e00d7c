from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.run.catalogue import Entry, built_in, external, select, sources
from tests.builders import small_workload
from workloads.protocol import Data, Published, Workload

WHOLE = """
import tensorflow as tf
from workloads import protocol
from workloads.protocol import Data, Published

workload = protocol.Workload(
    name="my-mlp", title="Mine", batch_size=32, epochs=3,
    data=Data(name="mine", shape=(8, 8, 3), classes=10, train=100, test=20),
    model="Flatten, "
          "Dense 10",
    tuned={"batch_size": 64, "gpu:jit_compile": True},
    params={"rate": 1e-3, "cpu:workers": 4, "offset": -1},
    stages=["read", "batch"],
    optimizations={"fp16": {"precision": "fp16"}},
    published=(Published(source="s", system="t", device="cpu", value=1.5, unit="s"),),
)
"""


def declared(tmp_path: Path, text: str) -> Entry:
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    (entry,) = external(path)
    return entry


def with_arguments(**changes: str) -> str:
    arguments = {
        "name": "'mine'", "title": "''", "batch_size": "1", "epochs": "1",
        "data": "Data(name='x', shape=(4,), classes=2, train=2, test=2)",
    } | changes  # fmt: skip
    return f"workload = Workload({', '.join(f'{name}={value}' for name, value in arguments.items())})\n"


def test_complete_declaration(tmp_path: Path) -> None:
    entry = declared(tmp_path, WHOLE)
    assert entry.external
    assert entry.workload == Workload(
        name="my-mlp", title="Mine", batch_size=32, epochs=3,
        data=Data(name="mine", shape=(8, 8, 3), classes=10, train=100, test=20),
        model="Flatten, Dense 10",
        tuned={"batch_size": 64, "gpu:jit_compile": True},
        params={"rate": 1e-3, "cpu:workers": 4, "offset": -1},
        stages=("read", "batch"),
        optimizations={"fp16": {"precision": "fp16"}},
        published=(Published(source="s", system="t", device="cpu", value=1.5, unit="s"),),
    )  # fmt: skip


def test_files_are_never_executed(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    text = f"open({str(witness)!r}, 'w')\n{with_arguments()}"
    assert declared(tmp_path, text).workload.name == "mine"
    with pytest.raises(UsageError):
        declared(tmp_path, with_arguments(title=f"open({str(witness)!r}, 'w').name"))
    assert not witness.exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workload = Workload(", "is not Python"),
        ("x = 1\n", "declares no workload"),
        ("workload = Workload()\n", "missing"),
        ("workload = Data(name='x', shape=(4,), classes=2, train=2, test=2)\n", "not a Workload"),
        ("workload = dict(name='x')\n", "dict(...) is not one of"),
        (with_arguments(colour="'red'"), "colour"),
        (with_arguments(batch_size="8 * 4"), "is not a literal"),
        (with_arguments(batch_size="SIZE"), "is not a literal"),
        (with_arguments(batch_size="0"), "batch_size"),
        (with_arguments(batch_size="'32'"), "batch_size"),
        (with_arguments(name="'../up'"), "name must be"),
        (with_arguments(name="'größe'"), "name must be"),
        (with_arguments(task="'dream'"), "task"),
        (with_arguments(data="'cifar10'"), "data"),
        (with_arguments(data="Data(name='x', shape=4, classes=2, train=2, test=2)"), "data.shape"),
        (with_arguments(data="Data(name='x', shape=(4, 0), classes=2, train=2, test=2)"), "data.shape"),
        (with_arguments(data="Data(name='x', shape=(4,), classes=0, train=2, test=2)"), "data.classes"),
        (with_arguments(data="Data(name='x', shape=(4,), classes=2, train=2, test=0)"), "data.train"),
        (with_arguments(published="('5 s',)"), "published"),
        (with_arguments(tuned="('batch_size', 64)"), "tuned"),
        (with_arguments(stages="('read', 'read')"), "stages"),
        (with_arguments(samples_per_epoch="8"), "samples_per_epoch"),
        (with_arguments(**{"**{'a'": "1}"}), "is not Python"),
        (f"from os import sep\n{with_arguments(title='sep')}", "`sep` is not a literal"),
        (f"import os\n{with_arguments(title='os.sep')}", "is not a literal"),
        (with_arguments(stages="[str(n) for n in (1, 2)]"), "is not a literal"),
        (f"A = B\nB = A\n{with_arguments(title='A')}", "refers to itself"),
    ],
)
def test_invalid_declarations(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        declared(tmp_path, text)
    assert expected in caught.value.message
    assert str(tmp_path / "mine.py") in caught.value.message
    assert caught.value.hint


def test_several_workloads_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "family.py"
    first = with_arguments().removeprefix("workload = ")
    path.write_text(f"first = {first}\nworkloads = (first, {first.replace('mine', 'other')})\n")
    assert names(external(path)) == ["mine", "other"]


def test_names_of_literals_of_the_file(tmp_path: Path) -> None:
    shared = "WIDE: dict = {'rate': 1, 'width': 2}\nSIDE = 64\nSHARED = {'epochs': 3}\n"
    text = with_arguments(params="{**WIDE, 'width': SIDE}").replace("epochs=1", "**SHARED")
    workload = declared(tmp_path, shared + text).workload
    assert (workload.params, workload.epochs) == ({"rate": 1, "width": 64}, 3)


def test_missing_or_binary_file(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00workload")
    for name, text in (("none.py", "No such file"), ("", "Is a directory"), ("binary.py", "is not Python")):
        with pytest.raises(UsageError, match=text):
            external(tmp_path / name)


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [item.workload.name for item in entries]


def test_select() -> None:
    a, b, c = (
        Entry(workload=small_workload(name, suite=suite), path=Path(f"{name}.py"))
        for name, suite in (("a", "default"), ("b", "extra"), ("c", "default"))
    )
    assert select((a, b, c), ()) == (a, c)
    assert select((a, b, c), ("c", "b", "c")) == (c, b)
    assert select((a, b, c), ("all",)) == (a, b, c)
    with pytest.raises(UsageError, match="'d'") as caught:
        select((a, b, c), ("a", "d"))
    assert "a, b, c, all" in caught.value.hint


def test_source_hashes_distinguish_workload_and_shared_code(tmp_path: Path) -> None:
    before = sources((declared(tmp_path, WHOLE), *built_in()))
    assert set(before) == {"workloads", "my-mlp", *(item.workload.name for item in built_in())}
    after = sources((declared(tmp_path, WHOLE + "# changed\n"), *built_in()))
    assert {name for name in before if before[name] != after[name]} == {"my-mlp"}
