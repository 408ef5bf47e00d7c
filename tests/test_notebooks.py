import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.errors import UsageError
from harness.notebooks import notebook_of, plain_cell, plain_script, script_of
from harness.run.catalogue import select, sources
from harness.run.scripts import read_workloads, script_text
from tests.errors import user_error
from workloads.cells import as_cells, difference, left_out, place
from workloads.driver import shell

PATH = Path("train.ipynb")


def notebook(*cells: str | dict[str, Any], **fields: Any) -> bytes:
    made = [
        {"cell_type": "code", "outputs": [], "metadata": {}, "source": cell}
        if isinstance(cell, str)
        else cell
        for cell in cells
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made, **fields}).encode()


def printed(lines: Sequence[str], **names: Any) -> dict[str, Any]:
    """Run lines of a script; return the names that they define."""
    exec("\n".join(lines), names)
    return names


MARKDOWN = {
    "cell_type": "markdown",
    "metadata": {},
    "source": ["# Title\n", "text ![](data:image/png;base64,AAAA)"],
}
WHOLE = notebook(
    MARKDOWN,
    "%matplotlib inline\nimport keras\nBATCH = 32",
    "",
    {"cell_type": "raw", "source": "not code"},
    {"cell_type": "code", "source": ["%%timeit -n1 -r1\n", "model.fit(x,\n", "  batch_size=BATCH)"]},
)


def test_code_cells_in_order_are_the_script_and_lines_have_their_cells() -> None:
    text = script_of(WHOLE, PATH)
    assert [node.lineno for node in ast.parse(text).body] == [6, 7, 10]
    assert [place("train.ipynb", text, line) for line in (2, 6, 11)] == [
        "train.ipynb, a Markdown cell, line 1",
        "train.ipynb, cell 1, line 2",
        "train.ipynb, cell 2, line 3",
    ], "numbered as In [n] after Run All: empty cells do not count"
    assert "data:image" not in text
    assert left_out(text) == ["%matplotlib inline", "%%timeit -n1 -r1"]


def test_nan_is_read_as_jupyter_writes_it() -> None:
    assert script_of(WHOLE.replace(b"{", b'{"score": NaN, ', 1), PATH) == script_of(WHOLE, PATH)


def test_a_notebook_of_the_script_has_what_was_left_out_and_no_outputs() -> None:
    text = script_of(WHOLE, PATH)
    again = notebook_of(text.replace("BATCH)", "BATCH, verbose=2)"))
    document = json.loads(again)
    assert [cell["cell_type"] for cell in document["cells"]] == ["markdown", "code", "code"]
    assert document["cells"][0]["source"].startswith("# Title\ntext")
    assert document["cells"][2]["source"] == "%%timeit -n1 -r1\nmodel.fit(x,\n  batch_size=BATCH, verbose=2)"
    assert not any(cell.get("outputs") for cell in document["cells"])
    assert script_of(again.encode(), PATH).replace(", verbose=2", "") == text


def test_magics_that_run_as_python_are_magics_again_unless_they_were_changed() -> None:
    magics = ["%cd ../data", "!mkdir -p a", "%env A=1", "cd b", "c = %pwd", "d = %env A"]
    text = script_of(notebook("\n".join(["if x:", *(f"  {line.strip()}" for line in magics)])), PATH)

    def source(text: str) -> list[str]:
        (cell,) = json.loads(notebook_of(text))["cells"]
        return [line.strip() for line in cell["source"].split("\n")[1:]]

    assert source(text) == [line.strip() for line in magics]
    changed = source(text.replace("chdir('../data')", "chdir('..')"))
    assert "__import__('os').chdir('..')" in changed[0]
    assert changed[1:] == magics[1:]
    assert plain_cell("%time model.fit(x)") == ["model.fit(x)"]


def test_a_difference_is_told_by_cell() -> None:
    text = script_of(WHOLE, PATH)
    changed = text.replace("BATCH)", "BATCH,\n  verbose=2)").replace("BATCH = 32", "BATCH = 64")
    diff = difference(text, changed, "a.ipynb", "a.ipynb").splitlines()
    assert [line for line in diff if line.startswith("@@")] == [
        "@@ -1,3 +1,3 @@ cell 1",
        "@@ -1,3 +1,4 @@ cell 2",
    ]
    assert difference("a\n", "b\n", "a.py", "b.py") == "--- a.py\n+++ b.py\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    "before", ["import a\nb = 1\nc = 2", "one = 1", "a = 1\n\x0cb = 2\nc = '\x1c'\nd = 4\n"]
)
def test_patch_takes_a_difference(tmp_path: Path, before: str) -> None:
    """Also of a script without an end of its last line, and with page breaks."""
    after = before.replace("= 1", "= 5")
    (tmp_path / "train.py").write_text(before)
    diff = difference(before, after, "train.py", "train.py")
    subprocess.run(
        ["patch", "train.py"], cwd=tmp_path, input=diff, text=True, check=True, stdout=subprocess.DEVNULL
    )
    assert (tmp_path / "train.py").read_text() == after


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"print(1)", "is not a notebook"),
        (b'{"nbformat": 4, "cells": [{"source": 3}]}', "is not a notebook"),
        (b"{}", "names no version"),
        (json.dumps({"nbformat": 3, "worksheets": []}).encode(), "it has version 3"),
        (json.dumps({"nbformat": 5, "cells": {"a": "x = 1"}}).encode(), "it has version 5"),
        (notebook("x", metadata={"kernelspec": {"language": "R"}}), "is r, not Python"),
        (notebook(MARKDOWN, ""), "has no code cells"),
        (b'{"cells": ' + b"[" * 5000, "is not a notebook"),
    ],
)
def test_what_is_no_notebook(content: bytes, expected: str) -> None:
    with user_error(UsageError, expected):
        script_of(content, PATH)


def test_outputs_are_not_read(tmp_path: Path) -> None:
    picture = [{"output_type": "display_data", "data": {"image/png": "A" * (20 << 20)}, "metadata": {}}]
    path = tmp_path / "large.ipynb"
    path.write_bytes(notebook({"cell_type": "code", "source": "x = 1", "outputs": picture}))
    (workload,) = read_workloads(path, "large")
    assert workload.params == {"x": 1}


def test_an_error_in_a_cell_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ipynb"
    path.write_bytes(notebook("x = 1", "y = 2\nif x\n    z = 3"))
    with pytest.raises(UsageError, match=r"wrong.ipynb, cell 2, line 2 is not Python"):
        read_workloads(path, "wrong")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x = 1\n!pip install -q x \\\n  y\ny = 2", {"x": 1, "y": 2}),
        ("if True:\n    %matplotlib inline\nx = 3", {"x": 3}),
        ("%timeit -n 1 -r 1 x = 5", {"x": 5}),
        ("x = %time 2 + 3", {"x": 5}),
        ("x = %timeit -n1 -r1 -o len('ab')", {"x": [2]}),
        ("files = !ls", {"files": []}),
        (
            "text = '''\n%matplotlib inline\n!ls\n'''\n%matplotlib inline",
            {"text": "\n%matplotlib inline\n!ls\n"},
        ),
        ("a, b = 7, 4\nx = (a\n  % b)\n!ls", {"x": 3}),
        ("x = '#('  # (\n%matplotlib inline", {"x": "#("}),
        ("int?\n?int\nnp.*load*?\nx = 1", {"x": 1}),
        ("y = 5; int?\nx = 1", {"x": 1}),
        ("%%timeit -n1 -r1 y = 2\nx = y + 1", {"x": 3, "y": 2}),
        ("%%capture --no-stderr\nx = 1\n%time y = 2", {"x": 1, "y": 2}),
        ("\n%%time\nx = 1", {"x": 1}),
        ("    x = 1\n    if x:\n      !ls\n    y = 2", {"x": 1, "y": 2}),
        ("%%bash\nx = 1", {}),
    ],
)
def test_lines_of_ipython(cell: str, expected: dict[str, object]) -> None:
    lines = plain_cell(cell)
    assert len(lines) == len(cell.split("\n")), "lines keep their numbers"
    names = printed(lines)
    assert {name: names[name] for name in names.keys() - {"__builtins__", "a", "b"}} == expected


def test_pylab_gives_the_names_of_numpy() -> None:
    assert any("from numpy import *" in line for line in plain_cell("%pylab inline"))


def test_files_variables_and_folders_of_magics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFBENCH_TEST", "0")
    monkeypatch.chdir(tmp_path)
    printed(plain_cell("%%writefile helper.py\nsize = '''8'''\n\n"))
    printed(plain_cell("%%writefile -a helper.py\nmore = 1"))
    printed(plain_cell("%%file 'of {number} words.txt'\ntext"), number=3)
    assert Path("of 3 words.txt").read_text() == "text\n"
    assert Path("helper.py").read_text() == "size = '''8'''\n\n\nmore = 1\n"
    names = printed(
        plain_cell("%env TFBENCH_TEST=a b\n%run helper.py\nimport os\nfound = os.environ['TFBENCH_TEST']")
    )
    assert (names["found"], names["size"], names["more"]) == ("a b", "8", 1)


def test_what_runs_has_its_arguments_and_is_the_main_program(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("helper.py").write_text("import sys\nif __name__ == '__main__':\n    got = sys.argv[1:]\n")
    for line, got in {
        "%run helper.py 3 --flag 'a b'": ["3", "--flag", "a b"],
        "%run -i helper {n}": ["4"],
        "%run ./helper.py $n $gone": ["4", "$gone"],
        "%run -m helper x": ["x"],
    }.items():
        monkeypatch.syspath_prepend(str(tmp_path))
        names = printed(plain_cell(f"n = 4\n{line}"))
        assert names["got"] == got and "__file__" not in names
    assert "got" not in printed(plain_cell("%run -n helper.py"))
    Path("uses.py").write_text("twice = 2 * n\n")
    assert printed(plain_cell("n = 4\n%run -i uses.py"))["twice"] == 8


def test_a_cell_that_captures_and_takes_time_is_saved_as_it_was() -> None:
    source = "%%capture shown\n%%time\nm = 1"
    made = json.loads(notebook_of("\n".join(["# %% cell 1", *plain_cell(source), ""])))
    assert made["cells"][0]["source"] == source


@pytest.mark.parametrize("prompts", [(">>> ", "... "), ("In [7]: ", "   ...: ")])
def test_prompts_of_a_console_are_no_part_of_a_cell(prompts: tuple[str, str]) -> None:
    first, more = prompts
    assert plain_cell(f"{first}for n in range(2):\n{more}    x = n\n{more.rstrip()}\n{first}y = x") == [
        "for n in range(2):", "    x = n", "", "y = x",
    ]  # fmt: skip
    assert plain_cell("x = [\n...,\n]") == ["x = [", "...,", "]"]


def test_a_mark_of_the_encoding_is_no_part_of_a_notebook() -> None:
    assert script_of(b"\xef\xbb\xbf" + WHOLE, PATH) == script_of(WHOLE, PATH)


def test_what_is_captured_is_empty() -> None:
    assert printed([*plain_cell("%%capture cap\nx = 1"), "found = cap.stdout"])["found"] == ""


def test_what_ipython_replaces_in_a_magic(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFBENCH_TEST", "0")
    cell = "d, n = 'a b', 2\n!mkdir {d}_$n $TFBENCH_TEST\n%cd {d}_{n}\n%env TFBENCH_TEST=$n-{n + 1}"
    printed(plain_cell(cell.replace("'a b'", "'a'")))
    assert Path.cwd() == tmp_path / "a_2" and (tmp_path / "0").is_dir()
    assert os.environ["TFBENCH_TEST"] == "2-3"
    names = printed(plain_cell("here = %pwd\nset_ = %env TFBENCH_TEST"))
    assert (names["here"], names["set_"]) == (str(Path.cwd()), "2-3")


def test_folders_are_made_and_entered_as_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OLDPWD", "nowhere")
    printed(
        plain_cell(
            "%cd -\n!mkdir -p models/best logs\n%cd -q models\n%cd left_out_by_git_clone\nopen('here', 'w')"
        )
    )
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")) == [
        "logs", "models", "models/best", "models/here",
    ]  # fmt: skip
    printed(plain_cell("%cd -\n%cd logs\n%cd gone\n%cd -\nopen('back', 'w')\n%cd -\nopen('again', 'w')"))
    assert (tmp_path / "back").exists() and (tmp_path / "logs/again").exists()
    for kept in ("!mkdir a && cd a", "%cd -2", "%cd --models"):
        assert left_out("\n".join(plain_cell(kept))) == [kept]


def test_what_a_program_would_have_printed_is_left_out():
    cell = "files = !ls\nif files:\n    n = !nproc"
    text = script_of(notebook(cell), Path("own.ipynb"))
    assert left_out(text) == ["files = !ls", "n = !nproc"]
    assert json.loads(notebook_of(text))["cells"][0]["source"] == cell


def test_lines_of_another_language_may_be_indented():
    cell = "%%bash\nif true; then\n  echo hi\n\nfi"
    text = script_of(notebook(cell, "x = 1"), Path("own.ipynb"))
    assert printed(text.split("\n"))["x"] == 1
    assert json.loads(notebook_of(text))["cells"][0]["source"] == cell


@pytest.mark.parametrize("line", ["cd ..", "pip install pandas", "ls -la", "ls", "    rm *.csv"])
def test_magics_work_without_their_sign(line: str) -> None:
    source = f"if True:\n{line}\nx = 1" if line.startswith(" ") else f"{line}\nx = 1"
    text = "\n".join(plain_cell(source))
    assert ast.parse(text) and line.strip() not in [each.strip() for each in text.split("\n")]
    assert "os').chdir('..')" in text or line.strip() in text


@pytest.mark.parametrize("line", ["ls = 3", "cat, dog = 1, 2", "cp(1)", "pip.main()", "rm[0]", "cdf"])
def test_names_like_magics_are_names(line: str) -> None:
    assert plain_cell(f"{line}\nx = 1") == [line, "x = 1"]


def test_a_cell_that_may_raise_and_is_no_python_is_left_out() -> None:
    broken = {"cell_type": "code", "metadata": {"tags": ["raises-exception"]}, "source": "def broken(:"}
    made = script_of(notebook(broken, "x = 1"), Path("a.ipynb"))
    assert "# def broken(:  # left out by tfbench" in made and "\nx = 1" in made and ast.parse(made)


def test_a_cell_that_is_to_be_skipped_is_left_out():
    skipped = {"cell_type": "code", "metadata": {"tags": ["skip-execution"]}, "source": "if x:\n    1 / 0"}
    text = script_of(notebook("x = 1", skipped), Path("own.ipynb"))
    assert printed(text.split("\n"))["x"] == 1
    assert left_out(text) == ["if x:", "    1 / 0"]
    saved = json.loads(notebook_of(text))["cells"][1]
    assert saved["metadata"]["tags"] == ["skip-execution"] and saved["source"] == "if x:\n    1 / 0"


def test_a_notebook_goes_on_after_a_cell_that_may_raise(capsys: pytest.CaptureFixture[str]) -> None:
    raising = {
        "cell_type": "code",
        "metadata": {"tags": ["raises-exception"]},
        "source": "y = 1\n1 / 0\ny = 2",
    }
    text = script_of(notebook("x = 1", raising, "z = 3"), Path("own.ipynb"))
    names: dict[str, Any] = {}
    exec(compile(as_cells(ast.parse(text), text), "own.ipynb", "exec"), names)
    assert [names[each] for each in "xyz"] == [1, 1, 3]
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert json.loads(notebook_of(text))["cells"][1]["metadata"] == raising["metadata"]
    other = text.replace(" raises-exception", "")
    with pytest.raises(ZeroDivisionError):
        exec(compile(as_cells(ast.parse(other), other), "own.ipynb", "exec"), {})


@pytest.mark.parametrize("shows", [True, False])
def test_what_cells_have_shown_has_names_where_a_notebook_reads_them(
    monkeypatch: pytest.MonkeyPatch, shows: bool
) -> None:
    after = ("x = [_, _1, __, Out[3], In[1]]",) if shows else ("for _ in range(2):\n    y = 1", "5", "x = 3")
    text = script_of(notebook("1 + 1", "2 + 2;", "None\n3 + 3", "print()", *after), Path("own.ipynb"))
    main = ModuleType("__main__")
    main.__dict__.update(shell.names_for(text))
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(as_cells(ast.parse(text), text), "own.ipynb", "exec"), main.__dict__)
    assert main.x == ([6, 2, 2, 6, "1 + 1"] if shows else 3)
    assert shows or main._ == 1, "a name of its own"


def test_scripts_of_editors_and_exported_notebooks() -> None:
    cells = "# %%\n%matplotlib inline\nx = 1\n\n# %%\n%%time\ny = 2\n"
    assert printed(plain_script(cells).split("\n"))["y"] == 2
    assert plain_script(cells).count("\n") == cells.count("\n")
    exported = (
        "get_ipython().run_line_magic('matplotlib', 'inline')\n"
        "get_ipython().run_cell_magic('time', '', 'x = 1\\ny = 2\\n')\n"
        "z = 3\n"
        "get_ipython().run_line_magic('time', 'w = 4')\n"
    )
    text = plain_script(exported)
    names = printed(text.split("\n"))
    assert [names[name] for name in "xyzw"] == [1, 2, 3, 4]
    line = text.split("\n").index("z = 3") + 1
    assert place("exported.py", text, line) == "exported.py:3"
    assert plain_script("x = 1\n") == "x = 1\n"


def test_calls_of_programs_in_exported_notebooks_are_lines_of_ipython() -> None:
    exported = (
        "get_ipython().system('pip install a')\n"
        "files = get_ipython().getoutput('ls *.csv')\n"
        "if not files:\n"
        "    get_ipython().system('wget b')\n"
        "    x = get_ipython().run_line_magic('time', '1 + 1')\n"
        "get_ipython().magic('matplotlib inline')\n"
        "y = [get_ipython().getoutput('ls')]; get_ipython().system('c')\n"
    )
    text = plain_script(exported)
    assert left_out(text) == ["!pip install a", "files = !ls *.csv", "!wget b", "%matplotlib inline"]
    names = printed(text.split("\n")[:6])
    assert (names["files"], names["x"]) == ([], 2)
    assert text.split("\n")[6] == exported.split("\n")[6], "a line with other code stays"


def test_parameters_are_those_of_the_tagged_cell(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    tagged = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": "BATCH = 32\nRATE = 0.1"}
    path.write_bytes(notebook("SEED = 1", tagged, "OTHER = 2\nRATE = 1 / 10"))
    (workload,) = read_workloads(path, "train")
    assert workload.params == {"BATCH": 32, "RATE": 0.1}
    file, text = script_text(workload, "baseline", "cpu", {"RATE": 0.5})
    assert (file, "RATE = 0.5" in text, "RATE = 1 / 10" in text) == ("train.ipynb", True, True)


def test_parameters_that_papermill_has_given_are_those_of_the_notebook(tmp_path: Path) -> None:
    path = tmp_path / "done.ipynb"
    cells = (
        {"cell_type": "code", "metadata": {"tags": [tag]}, "source": source}
        for tag, source in (("parameters", "BATCH = 32\nRATE = 0.1"), ("injected-parameters", "BATCH = 64"))
    )
    path.write_bytes(notebook("OTHER = 2", *cells, "print(BATCH)"))
    (workload,) = read_workloads(path, "done")
    assert workload.params == {"BATCH": 64, "RATE": 0.1}
    _, text = script_text(workload, "baseline", "cpu", {"BATCH": 8})
    assert printed(text.split("\n"))["BATCH"] == 8


def test_other_outputs_are_the_same_source(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"

    def hashes(cell: str, output: str) -> dict[str, str]:
        path.write_bytes(notebook({"cell_type": "code", "source": cell, "outputs": [output]}))
        return dict(sources(select([str(path)])))

    assert hashes("x = 1", "") == hashes("x = 1", "shown")
    assert hashes("x = 1", "") != hashes("x = 2", "")
