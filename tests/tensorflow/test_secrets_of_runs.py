"""No file of a run, and nothing that it prints, has what was passed with --env, or as an option named like a secret."""

import base64
import hashlib
import lzma
import re
from pathlib import Path

import pytest

from tests.endtoend import TREES_SCRIPT, Tfbench, script

pytestmark = pytest.mark.tensorflow

VALUES = {
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz",
    "MYSQL_PWD": "hunter2!",
    "FLAVOUR": "strawberry-ice",
    "SSH_PRIVATE_KEY": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END KEY-----",
    "QUOTED": 'say "wild-card" & <more>',
}
ARGUMENT, POSITIONAL = "s3cr3t-of-an-option", "ghp_" + "q7Zx2LmN8vBk4TpR6wYc1HsD3fGj5KaE9uXo"
ARGUMENTS = [f"--api-key={ARGUMENT}", "--token", ARGUMENT, POSITIONAL]
DIGEST = hashlib.sha256(repr(ARGUMENTS).encode()).hexdigest()
TELLS = f"""
import hashlib, json, sys, warnings
names = "AWS_SECRET_ACCESS_KEY MYSQL_PWD FLAVOUR SSH_PRIVATE_KEY QUOTED".split()
values = [*(os.environ[name] for name in names), *sys.argv[1:]]
print(dict(os.environ), sys.argv, json.dumps(values), *values)
for value in values:
    warnings.warn(value)
    os.write(2, value.encode() + b"\\n")
assert hashlib.sha256(repr(sys.argv[1:]).encode()).hexdigest() == "{DIGEST}", sys.argv
"""
# Also where the reports quote what a script says.
FAILS = TELLS + "raise ValueError(' '.join(values))"


def texts(folder: Path) -> dict[str, str]:
    """Return the text of all files below a folder, and of the run that is embedded in a page."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found[str(path)] = content.decode("utf-8", "replace")
            for element in re.findall(rb'id="tfbench-run"[^<>]*>([A-Za-z0-9+/=\s]*)<', content):
                unpacked = lzma.decompress(base64.b64decode(element))
                found[f"{path}, embedded"] = unpacked.decode("utf-8", "replace")
    return found


# Names that a script gives what is measured and written.
NAMES = """
import os, keras, numpy as np
secret = os.environ["FLAVOUR"]
x, y = np.random.rand(512, 8).astype("float32"), np.arange(512) % 4
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, name=secret)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=[keras.metrics.SparseCategoricalAccuracy(name=secret)], run_eagerly=True)
model.fit(x, y, 16, epochs=9)
model.evaluate(x, y, return_dict=True)
open(secret + ".txt", "w").write(secret)
"""


def test_no_name_of_a_run_has_a_secret(tmp_path: Path, tf_python: Path) -> None:
    path = script(tmp_path / "files", "names", text=NAMES)
    secret = VALUES["FLAVOUR"]
    arguments = (path, "--variants", "baseline,fixes", "--trials", "1", "--env", f"FLAVOUR={secret}")
    with Tfbench(folder=tmp_path, engine="local", arguments=arguments) as bench:
        code, _, err = bench.finish()
    assert code == 0, err
    found = texts(tmp_path / "runs")
    assert any('"judged"' in text and '"files":{"***.txt"' in text for text in found.values())
    assert [name for name, text in found.items() if secret in text] == []


def test_no_file_of_a_run_has_a_secret(tmp_path: Path, tf_python: Path) -> None:
    arguments: list[str | Path] = ["--variants", "baseline", "--trials", "1"]
    for name, value in VALUES.items():
        arguments += ["--env", f"{name}={value}"]
    for word in ARGUMENTS:
        arguments += [f"--arg={word}"]
    arguments += ["--env-public", "MODE=plainly-seen", "--metrics-file", str(tmp_path / "runs.prom")]
    scripts = [
        script(tmp_path / "files", "good", TELLS),
        script(tmp_path / "files", "bad", FAILS, TREES_SCRIPT),
    ]
    with Tfbench(folder=tmp_path, engine="local", arguments=(*scripts, *arguments)) as bench:
        code, out, err = bench.finish()
    assert code == 5, err
    assert bench.statuses["good.cpu.0"].value == "ok", err
    assert "ValueError" in bench.read().trials[-1].message
    found = texts(tmp_path / "runs") | {
        "out": out,
        "err": err,
        "metrics": (tmp_path / "runs.prom").read_text(),
    }
    assert any("embedded" in name for name in found)
    assert "plainly-seen" in found[str(bench.run_path / "manifest.json")]
    parts = [*VALUES.values(), ARGUMENT, POSITIONAL, "b3BlbnNzaC1rZXktdjEAAAAA", "wild-card", "K7MDENG"]
    assert [(name, part) for name, text in found.items() for part in parts if part in text] == []
