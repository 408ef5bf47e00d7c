import ast
from collections.abc import Callable
from dataclasses import replace
from importlib.util import decode_source
from pathlib import Path

import pytest

from harness.data.published_datasets import KERAS_DATASETS
from harness.errors import UsageError
from harness.model.workload import Data, Published, Rung, Workload
from harness.run.scripts import (
    RESERVED,
    check_params,
    constants,
    params_for,
    read_workloads,
    script_text,
    with_values,
)
from tests.builders import small_workload
from tests.conftest import ROOT
from workloads.protocol import Requests

Read = Callable[..., tuple[Workload, ...]]
CODE = "import keras\n\nBATCH_SIZE = 32\nEPOCHS = 3\nFOLDER = 'photos'\nSTEPS = 1\n"
WHOLE = """
title = "Mine"
source = "A blog, 2023"
suite = "default"
accuracy = 0.5
tuned = "fast.py"
image = "trees"
components = ["many_steps.py"]
data = {name = "mine", shape = [8, 8, 3], classes = 2, train = 9, test = 2, kind = "jpeg", constant = "FOLDER"}
requests = {batch_sizes = [1, 8], bounds_ms = [15.0]}
cpu = {BATCH_SIZE = 8}
gpu = {BATCH_SIZE = 64}
[[published]]
system = "a T4"
device = "gpu"
value = 343
unit = "s"
upto = 400.0
[[published]]
system = "a T4"
device = "gpu"
value = 3.1
unit = "ratio"
source = "Another blog"
variant = "opt:on-device"
[ladder.on-device]
script = "fast.py"
STEPS = 1
[ladder.larger]
BATCH_SIZE = 256
[also.wide]
title = "Wider"
params = {BATCH_SIZE = 1}
accuracy = 0.25
requests = {batch_sizes = [2]}
published = [{system = "a V100", device = "gpu", value = 7, unit = "samples/s"}]
[also.other]
title = "Other"
source = "A third blog"
suite = "default"
cpu = {STEPS = 4}
ladder = {}
"""

MANY_STEPS = (ROOT / "workloads/components/many_steps.py").read_text(encoding="utf-8")


def block(toml: str) -> str:
    lines = (f"# {line}" if line else "#" for line in toml.strip().splitlines())
    return "\n".join(("# /// tfbench", *lines, "# ///", ""))


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def script(toml: str = "", code: str = CODE, name: str = "mine") -> tuple[Workload, ...]:
        (tmp_path / "fast.py").write_text("STEPS = 10\n")
        path = tmp_path / "train.py"
        path.write_text((block(toml) if toml else "") + code, encoding="utf-8")
        return read_workloads(path, name)

    return script


def test_a_plain_script_is_a_workload_and_never_executed(read: Read, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    (workload,) = read(code=f"open({str(witness)!r}, 'w')\nSIZE = len(open({str(witness)!r}, 'w').name)\n")
    assert (workload.params, witness.exists()) == ({}, False)
    for name in ("../up", "größe", "", "-x", "a" * 61):  # unsafe as the name of a folder
        with pytest.raises(UsageError, match="name has up to 60 letters"):
            read(name=name)
    (plain,) = read()
    assert plain == Workload(
        name="mine", file="train.py", title="train.py", scripts={"train.py": CODE},
        params={"BATCH_SIZE": 32, "EPOCHS": 3, "FOLDER": "photos", "STEPS": 1},
        components={"many_steps.py": MANY_STEPS},
    )  # fmt: skip


def test_every_field_of_the_metadata(read: Read) -> None:
    main, wide, other = read(WHOLE)
    assert main == Workload(
        name="mine", file="train.py", title="Mine", source="A blog, 2023", suite="default", min_accuracy=0.5,
        image="trees", tuned="fast.py", components={"many_steps.py": MANY_STEPS},
        scripts={"train.py": block(WHOLE) + CODE, "fast.py": "STEPS = 10\n"},
        params={"BATCH_SIZE": 32, "EPOCHS": 3, "FOLDER": "photos", "STEPS": 1},
        device_params={"cpu": {"BATCH_SIZE": 8}, "gpu": {"BATCH_SIZE": 64}},
        datasets=(
            Data(name="mine", shape=(8, 8, 3), classes=2, train=9, test=2, kind="jpeg", constant="FOLDER"),
        ),
        requests=Requests(batch_sizes=(1, 8), bounds_ms=(15.0,)),
        ladder={
            "on-device": Rung(script="fast.py", params={"STEPS": 1}),
            "larger": Rung(script="train.py", params={"BATCH_SIZE": 256}),
        },
        published=(
            Published(source="A blog, 2023", system="a T4", device="gpu", value=343, unit="s", upto=400.0),
            Published(
                source="Another blog", system="a T4", device="gpu", value=3.1, unit="ratio", variant="opt:on-device"
            ),
        ),
    )  # fmt: skip
    assert (wide.name, wide.title, wide.file, wide.suite) == ("wide", "Wider", "train.py", "extra")
    assert (wide.params["BATCH_SIZE"], wide.params["EPOCHS"], wide.min_accuracy) == (1, 3, 0.25)
    assert (wide.requests, wide.ladder, wide.device_params) == (
        Requests(batch_sizes=(2,)), main.ladder, main.device_params,
    )  # fmt: skip
    (published,) = wide.published
    assert (published.source, published.value) == ("A blog, 2023", 7)
    assert (other.source, other.suite, other.min_accuracy, other.published) == (
        "A third blog", "default", 0.5, (),
    )  # fmt: skip
    assert (other.device_params, other.ladder, other.datasets) == ({"cpu": {"STEPS": 4}}, {}, main.datasets)


DATA = 'data = {{name = "x", shape = [4], classes = 2, train = 2, test = 2{}}}'


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("title = 'a'\ntitel = 'b'", "`titel`"),
        ("title = 'a'\naccuracy = 'high'", "accuracy"),
        ("title = 'a'\n= 3", "Invalid statement"),
        ("[[published]]\nsystem = 's'\ndevice = 'gpu'\nvalue = 'fast'\nunit = 's'", "value"),
        (DATA.format(", colour = 1"), "colour"),
        ("image = 'torch'", "tensorflow, trees"),
        ("accuracy = 1.5", "between 0 and 1"),
        ("cpu = {COLOUR = 1}", "COLOUR is not a constant of train.py"),
        ("[also.wide]\ntitle = 'x'\nparams = {COLOUR = 1}", "COLOUR is not a constant of train.py"),
        (DATA.format(", constant = 'NOWHERE'"), "NOWHERE is not a constant"),
        (DATA.format(", dtype = 'object'"), "numeric"),
        (DATA.format(", kind = 'jpeg'"), "height, width, 3"),
        (DATA.format(", kind = 'table'"), "float32"),
        (DATA.format(", class_names = ['b', 'a']"), "alphabetical"),
        (DATA.format("").replace("classes = 2", "classes = 0"), "above 0"),
        (DATA.format("").replace("train = 2", "train = 1000000000000"), "TiB"),
        ("requests = {batch_sizes = [8, 1]}", "ascending"),
        ("[also.'a b']\ntitle = 'x'", "'a b'"),
        ("requests = {batch_sizes = [1], bounds_ms = [-1.0]}", "above 0"),
        (f"requests = {{batch_sizes = [1{'0' * 30}]}}", "too large"),
        (DATA.format(", vocabulary = -5"), "vocabulary"),
        (DATA.format("").replace('"x"', '"../x"'), "name of data"),
        ("[[published]]\nsystem = 's'\ndevice = 'gpu'\nvalue = 1.0\nunit = 'sec'", "samples/s"),
        ("[[published]]\nsystem = 's'\ndevice = 'gpu'\nvalue = -1.0\nunit = 's'", "0 or above"),
        ("cpu = {STEPS = 2024-01-01}", "STEPS must be"),
        (f"title = 'x'\na{'.a' * 99_999} = 1", "dots"),
    ],
)
def test_invalid_metadata_are_told(read: Read, toml: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(toml)
    assert "train.py, line " in caught.value.message
    assert expected in caught.value.message
    assert "docs/workloads.md" in caught.value.hint


def test_metadata_begin_at_the_last_first_line(read: Read) -> None:
    code = "# /// tfbench\n# title = 'lost'\n" + block('title = "found"') + CODE
    assert [workload.title for workload in read(code=code)] == ["found"]


@pytest.mark.parametrize("file", ["/etc/hostname", "../secret.py", "deep/../../secret.py"])
@pytest.mark.parametrize("toml", ["tuned = '{}'", "[ladder.a]\nscript = '{}'", "components = ['{}']"])
def test_metadata_name_no_files_elsewhere(read: Read, tmp_path: Path, toml: str, file: str) -> None:
    """What they name is shown in reports, and scripts of others must not read this host's files."""
    (tmp_path.parent / "secret.py").touch()
    with pytest.raises(UsageError, match="beside") as caught:
        read(toml.format(file))
    assert file in caught.value.message
    if "components" not in toml:
        with pytest.raises(UsageError, match=r"none\.py: No such file"):
            read(toml.format("none.py"))


@pytest.mark.parametrize("name", RESERVED)
def test_names_with_a_meaning_are_refused(read: Read, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name"):
        read(name=name)


@pytest.mark.parametrize(
    "code",
    [
        "import keras\nkeras.datasets.cifar10.load_data()",
        "from tensorflow import keras as k\ndef load():\n    return k.datasets.cifar10.load_data()",
        "from keras.datasets import cifar10\ncifar10.load_data()",
        "from tensorflow.keras.datasets import mnist as _, cifar10 as c\nc.load_data()",
        "from keras.datasets.cifar10 import load_data\nload_data()",
    ],
)
def test_keras_datasets_are_found_in_every_style(read: Read, code: str) -> None:
    (workload,) = read(code=code)
    assert KERAS_DATASETS["cifar10"] in workload.datasets
    assert {data.name for data in workload.datasets} <= {"cifar10", "mnist"}
    assert read(code="import my.datasets\ncifar10 = my.cifar10()\n'keras.datasets.mnist'")[0].datasets == ()
    (workload,) = read(DATA.format(""), code="from keras.datasets import fashion_mnist")
    assert [data.name for data in workload.datasets] == ["x", "fashion-mnist"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file"),
        (b"x = (", r"is not Python 3\.\d+, "),  # the container's may be newer
        (b"x = '\x00'", "is not Python"),
        (b"\xff\xfe\x00", "cannot be read as text"),
        (b"# coding: klingon\nx = 1", "klingon"),
        (b"x = " + b"(" * 1000 + b")" * 1000, "is not Python"),
        (b"#" * ((1 << 20) + 1), "larger"),
    ],
)
def test_what_is_not_a_script(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "train.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=expected) as caught:
        read_workloads(path, "train")
    assert str(path) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf# /// tfbench\n# title = 'caf\xc3\xa9'\n# ///\nSTEPS = 1\n",
        b"# coding: latin-1\n# /// tfbench\n# title = 'caf\xe9'\n# ///\nSTEPS = 1\n",
        b"#!python\n# vim: fileencoding=latin-1-unix :\n# /// tfbench\n# title = 'caf\xe9'\n# ///\nSTEPS = 1\n",
        b"# -*- coding: utf-8-unix -*-\n# /// tfbench\n# title = 'caf\xc3\xa9'\n# ///\nSTEPS = 1\n",
        b"# /// tfbench\r\n# title = 'caf\xc3\xa9'\r\n# ///\r\nSTEPS = 1\r\n",
    ],
)
def test_scripts_are_read_as_python_reads_them(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(content)
    (workload,) = read_workloads(path, "train")
    assert (workload.title, workload.params) == ("café", {"STEPS": 1})
    saved = workload.scripts[workload.file].encode()
    assert "café" in decode_source(saved), "also where it is saved"
    path.write_text('#!/usr/bin/env python3\n"""Train."""\n' + block("title = 'a'\n= 1") + CODE)
    with pytest.raises(UsageError, match=r"train\.py, line 5: .*Invalid statement"):
        read_workloads(path, "mine")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = 1\nB = -1.5\nC = 'x'\nD = True\nE = None\nF = (1, 'a')\nG = [1, 2]\nH: int = 3",
         {"A": 1, "B": -1.5, "C": "x", "D": True, "E": None, "F": (1, "a"), "G": (1, 2), "H": 3}),
        ("A = 1\nA = 2", {"A": 2}),
        ("A = 1\nA = 2 * A", {}),
        ("_A = 1\nA = B = 1\nA += 1\nC: int\nD, E = 1, 2\n(F := 3)", {}),
        ("A = 8 * 4\nB = len('x')\nC = {1: 2}\nD = {1}\nE = b'x'\nF = 1j\nG = ...\nH = ((1,), 2)", {}),
        ("if True:\n    A = 1\ndef f():\n    B = 2\nclass C:\n    D = 3", {}),
        ("A = 1e400\nB = 10**400\nC = 9007199254740993\nD = 9007199254740992", {"D": 9007199254740992}),
        (f"A = 1\nB = {' + '.join('1' * 2000)}", {"A": 1}),
        ("A = 1\nif B:\n    A = 2\nC = 1\nfor C in B:\n    pass\nD = 1\nwhile B:\n    D -= 1", {"A": 1}),
        ("A = '\\ud800'\nB = ('\\udcff', 1)\nC = '\\u2028'", {"C": "\u2028"}),
        (f"A = '{'x' * 1000}'\nB = '{'x' * 1001}'", {"A": "x" * 1000}),
    ],
)  # fmt: skip
def test_names_at_the_top_that_hold_literals(text: str, expected: dict[str, object]) -> None:
    assert constants(ast.parse(text)) == expected


def test_a_chain_of_elif_is_no_deeper_than_it_is_long():
    text = "A = 1\nif A == 0: B = 1\n" + "".join(f"elif A == {n}: B = {n}\n" for n in range(1, 1400))
    assert constants(ast.parse(text)) == {"A": 1}


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("A = 32  # samples\n", {"A": 64}, "A = 64  # samples\n"),
        ("A: float = 1e-3\n", {"A": 0.1}, "A: float = 0.1\n"),
        (
            "A = [\n    1,\n    2,  # two\n]  # end\nB = 1\n",
            {"A": (3, 4)},
            "A = [3, 4]  # end\n\n\n\nB = 1\n",
        ),
        ('A = """a\nb"""\nB = 1\n', {"A": "x"}, "A = 'x'\n\nB = 1\n"),
        ("größe = 'ä'; B = 1 # ö\n", {"größe": "ü", "B": 2}, "größe = 'ü'; B = 2 # ö\n"),
        ("A = 1\r\nB = 2\r\n", {"B": 3}, "A = 1\r\nB = 3\r\n"),
        ("A = 1\nA = 2\n", {"A": 3}, "A = 1\nA = 3\n"),
        ("A = 'x\\\ny'\nB = 1\n", {"A": "z"}, "A = 'z'\n\nB = 1\n"),
        ("A = 1\n", {"B": 2}, "A = 1\n"),
        (
            "A = 1\nif B:\n    A = C = 2\n    with D: A = f(2)\ndef f(A=5):\n    A = 6\n",
            {"A": 3},
            "A = 3\nif B:\n    A = C = 2\n    with D: A = 3\ndef f(A=5):\n    A = 6\n",
        ),
        ("A = [1]\nB = (1,)\n", {"A": (2, 3), "B": [4]}, "A = [2, 3]\nB = (4,)\n"),
        ("A = '\u2028'\nB = 1\n", {"B": 2}, "A = '\u2028'\nB = 2\n"),
    ],
)
def test_only_the_literal_is_replaced(before: str, values: dict[str, object], after: str) -> None:
    assert with_values(before, values) == after


ONE = small_workload(
    params={"BATCH_SIZE": 32, "rate": 0.1, "AUGMENT": True, "MODE": "fast", "SIZES": (1, 2), "NOTHING": None}
)


def test_params_are_converted_to_the_type_of_the_constant() -> None:
    texts = {
        "batch_size": "64, 128,64", "RATE": "1e-3,2", "augment": "false", "Mode": "slow,mode", "sizes": "[3, 4]",
        "nothing": "7",
    }  # fmt: skip
    assert check_params(texts, [ONE]) == {
        "BATCH_SIZE": (64, 128), "rate": (1e-3, 2.0), "AUGMENT": (False,), "MODE": ("slow", "mode"),
        "SIZES": ((3, 4),), "NOTHING": (7,),
    }  # fmt: skip
    quoted = {
        '"a,b", c': ("a,b", "c"),
        '"a" b, "c': ('"a" b', '"c'),
        'a"b,c': ('a"b', "c"),
        '"a,b"': ("a,b",),
    }
    assert {text: check_params({"mode": text}, [ONE])["MODE"] for text in quoted} == quoted
    other = small_workload("other", params={"BATCH_SIZE": 8})
    found = check_params({"rate": "2", "batch_size": "4"}, [ONE, other])
    values = {name: each[0] for name, each in found.items()}
    assert params_for(ONE, values) == {"rate": 2.0, "BATCH_SIZE": 4}
    assert params_for(other, values) == {"BATCH_SIZE": 4}
    with pytest.raises(UsageError, match="'depth'") as caught:
        check_params({"depth": "1"}, [other])
    assert caught.value.hint == "Choose from: BATCH_SIZE."


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("BATCH_SIZE", "many", "a whole number up to 9,007,199,254,740,992; the script has BATCH_SIZE = 32"),
        ("BATCH_SIZE", str(2**53 + 2), "a whole number"),
        *(("BATCH_SIZE", text, "between two values") for text in (",", "32,,64", "32, ")),
        ("AUGMENT", "yes", "true or false"),
        ("rate", "nan", "a finite number"),
        ("SIZES", "3", "(32, 64)"),
        ("MODE", "ab\udcff", "text in UTF-8"),
        ("NOTHING", "open('x')", "a Python literal"),
    ],
)
def test_invalid_values(name: str, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match="is not valid") as caught:
        check_params({name.lower(): text}, [ONE])
    assert caught.value.message.startswith(f"{name}={text[:1]}")
    assert hint in caught.value.hint


LADDER = replace(
    small_workload("train", "SIZE = 1\nSTEPS = 1\nMODE = 'a'\n"),
    scripts={"train.py": "SIZE = 1\nSTEPS = 1\nMODE = 'a'\n", "tuned.py": "SIZE = 9\nMODE = 'b'\n"},
    params={"SIZE": 2, "STEPS": 1, "MODE": "a"},  # a further workload of the script: SIZE = 2
    device_params={"gpu": {"STEPS": 3}},
    ladder={
        "fused": Rung(script="tuned.py", params={"MODE": "c"}),
        "long": Rung(script="train.py", params={"STEPS": 5}),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "device", "file", "text"),
    [
        ("baseline", "cpu", "train.py", "SIZE = 2\nSTEPS = 1\nMODE = 'a'\n"),
        ("baseline", "gpu", "train.py", "SIZE = 2\nSTEPS = 3\nMODE = 'a'\n"),
        ("tuned", "gpu", "tuned.py", "SIZE = 2\nMODE = 'b'\n"),
        ("opt:fused", "cpu", "tuned.py", "SIZE = 2\nMODE = 'c'\n"),
        ("opt:long", "gpu", "train.py", "SIZE = 2\nSTEPS = 5\nMODE = 'a'\n"),
    ],
)
def test_the_script_of_a_variant(variant: str, device: str, file: str, text: str) -> None:
    assert script_text(LADDER, variant, device, {}) == (file, text)
    chosen = {"SIZE": 7, "STEPS": 8, "NOT_THERE": 1}
    expected = with_values(text, {"SIZE": 7, "STEPS": 8})
    assert script_text(LADDER, variant, device, chosen) == (file, expected), "the user's values win"
