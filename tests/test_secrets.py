"""What is not recorded: by the names and formats that secret scanners look for (gitleaks, detect-secrets)."""

import base64
import html
import json
import os
import quopri
import re
import shutil
import subprocess
import unicodedata
import urllib.parse
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from harness.engines.container_settings import shown
from harness.errors import UsageError
from harness.options import Options
from harness.run.resolve import private_values, recorded, resolve, revealed
from harness.secrets import recorded_arguments, recorded_command, searched, secrets_beside, secrets_in
from tests.commands import tfbench
from tests.folders import write_files
from workloads import protocol
from workloads.hiding import named_secrets, names_secret, without, without_secrets

# Not a secret of anybody.
BODY = "q7Zx2LmN8vBk4TpR6wYc1HsD3fGj5KaE9uXoQiWe"
# One of each way to name a secret.
NAMES = [
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "SECRET_KEY", "SSH_PRIVATE_KEY", "DB_PASS", "MYSQL_PWD", "PASSPHRASE",
    "CREDENTIALS", "GH_PAT", "COOKIE", "SESSION", "SAS", "CONNECTION_STRING", "APIKEY", "apiKey", "GITHUBTOKEN",
    "NPM_AUTH", "PGPASSWORD", "SLACK_WEBHOOK", "JWT", "BEARER", "DATABASE_DSN", "client_secret", "accessToken",
    "HTPASSWD", "KUBECONFIG", "TF_TOKEN_app", "KERAS_API_KEY", "CUDA_LICENSE_KEY",
]  # fmt: skip
FORMATS = {
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "GitHub": "ghp_" + BODY[:36],
    "GitHub, fine-grained": "github_pat_" + BODY,
    "GitLab": "glpat-" + BODY[:20],
    "Slack": "xoxb-" + "123456789012-" + BODY[:24],
    "Slack's webhook": "https://hooks.slack.com/services/T00000000/B00000000/" + BODY[:24],
    "Google": "AIza" + BODY[:35],
    "OpenAI": "sk-" + BODY,
    "Anthropic": "sk-ant-api03-" + BODY,
    "Stripe": "sk_live_" + BODY[:24],
    "Hugging Face": "hf_" + BODY[:34],
    "npm": "npm_" + BODY[:36],
    "PyPI": "pypi-" + BODY + BODY,
    "SendGrid": "SG." + BODY[:22] + "." + BODY,
    "Docker": "dckr_pat_" + BODY[:27],
    "DigitalOcean": "dop_v1_" + "0123456789abcdef" * 4,
    "Databricks": "dapi" + "0123456789abcdef" * 2,
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + BODY,
    "Telegram": "110201543:AA" + BODY[:33],
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIE" + BODY + "\n-----END RSA PRIVATE KEY-----",
    "header": "Authorization: Bearer " + BODY,
    "basic": "Authorization: Basic " + BODY,
    "address": "postgres://me:" + BODY + "@host/db",
    "SAS": "https://x.blob.core.windows.net/a?sv=2020&sig=" + BODY,
}


@pytest.mark.parametrize("name", NAMES)
def test_values_are_not_recorded_by_name(name: str) -> None:
    options = Options(
        environment={name: "plain"}, arguments=(f"--{name}=plain1234", f"--{name.lower()}", "plain5678")
    )
    assert "plain" not in str(recorded(options))
    assert "plain" not in " ".join(
        recorded_command(
            ["--env", f"{name}=plain", f"--env={name}=plain", "--arg", f"--{name}", "--arg=plain"]
        )
    )
    assert {"plain1234", "plain5678"} <= set(searched(options.environment, options.arguments))


@pytest.mark.parametrize("value", ["QWxhZGRpbjpvcGVuMw==", "https://me:Pa55w0rd-1@host/?x=1"])
def test_an_argument_with_an_equals_sign_is_one_value(value: str) -> None:
    options = Options(arguments=("--token", value))
    kept = recorded(options)
    assert value.partition("=")[0][-12:] not in str(kept)
    assert private_values(options) == {"TOKEN": value}
    assert revealed(kept, private_values(options)).arguments == options.arguments
    assert without(f"It is {value}.", searched({}, options.arguments)) == "It is ***."


@pytest.mark.parametrize("secret", FORMATS.values(), ids=FORMATS)
def test_values_are_not_recorded_by_format(secret: str) -> None:
    body = max(secret.replace("\n", " ").split(), key=len)[-20:]
    for text in (secret, f"it said: {secret}", f"'{secret}'", f"x {secret}\ny"):
        assert body not in without_secrets(text)
        assert body not in str(recorded_arguments([text, f"--data={text}"]))
        assert body not in str(recorded(Options(environment={"TF_X": text})))
    assert body not in shown(f"line\n{secret}\nline".encode(), ())


def test_what_says_how_to_measure_is_recorded() -> None:
    environment = {
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2", "XLA_FLAGS": "--xla_dump_to=/tmp/x", "KERAS_HOME": "/x",
        "OMP_NUM_THREADS": "4", "KMP_AFFINITY": "compact", "NCCL_DEBUG": "INFO", "CUDA_LAUNCH_BLOCKING": "1",
        "PYTHONHASHSEED": "0", "LD_PRELOAD": "/x.so",
        "EMPTY": "",
    }  # fmt: skip
    assert recorded(Options(environment=environment)).environment == environment
    for name in ("FLAVOUR", "TFX", "MYTF_FLAG", "PYTHON3_SECRET", "OMP_TOKEN"):
        assert recorded(Options(environment={name: "x"})).environment == {name: "***"}
    public = Options(public_environment={"API_TOKEN": "x"})
    assert recorded(public) == public


@pytest.mark.parametrize(
    "argument",
    [
        *("--tokenizer=bert", "--path=/data", "--author=me", "--key-dim=64", "--auth=none", "x.csv"),
        *("--max-tokens=204800", "--key-column=customer_id2"),
    ],
)
def test_other_arguments_are_recorded(argument: str) -> None:
    assert recorded_arguments([argument]) == (argument,)
    option, sign, value = argument.partition("=")
    assert not sign or recorded_arguments([option, value]) == (option, value)


def test_a_name_of_a_number_may_be_a_secret_with_letters() -> None:
    assert recorded_arguments(["--max-token=a204800b"]) == ("--max-token=***",)


def test_names_of_parameters_are_no_secrets_with_numbers() -> None:
    assert not names_secret("KEY_DIM", "64") and names_secret("API_KEY", "x")
    for params in ({"API_KEY": "abc"}, {"X": f"ghp_{BODY}"}, {"X": "https://me:abcdef12@host/"}):
        options = Options(workloads=("cifar100-mlp",), device="cpu", params=params)
        with pytest.raises(UsageError, match="looks like a secret"):
            resolve(options)


@pytest.mark.parametrize("argument", ["a\x1b[31m", "\udcff", "\u202e"])
def test_an_argument_that_no_report_can_show_is_refused(argument: str) -> None:
    """A rerun would pass another."""
    with pytest.raises(UsageError, match="that a report cannot show"):
        resolve(Options(workloads=("cifar100-mlp",), device="cpu", arguments=(argument,)))
    assert resolve(Options(workloads=("cifar100-mlp",), device="cpu", arguments=("a\nb" * 9999,)))


def test_hidden_values_are_found_however_they_are_quoted() -> None:
    secret = "p\"a's<s&w\\o rd\u00e9\nsecond-line"
    for text in (
        secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret), urllib.parse.quote(secret),
        f"x={secret}y", secret.splitlines()[1],
    ):  # fmt: skip
        assert "second" not in without(text, [secret])
    assert without(f"{secret!a}", [secret]) == "'***'"
    assert without(f"{'Grüße2026'.encode()!r}", ["Grüße2026"]) == "b'***'"
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert without(unicodedata.normalize(form, "Grüße2026"), ["Grüße2026"]) == "***"
    assert without(urllib.parse.quote("Grüße2026", encoding="latin-1"), ["Grüße2026"]) == "***"
    for errors in ("xmlcharrefreplace", "namereplace"):
        encoded = "Grüße<an>alle2026".encode("ascii", errors)
        assert without(encoded.decode(), ["<an>alle2026", "Grüße<an>alle2026"]) == "***"
    cut = b"a" * 10 + secret.encode() + b"\n" + b"b" * (65_536 - 8)
    assert "line" not in shown(cut, [secret]), "also where the log begins within it"


@pytest.mark.parametrize("user", ["", "u", "us", "user:"])
@pytest.mark.parametrize("end", ["", "x", "xy", "?>"])
@pytest.mark.parametrize("encoding", [base64.b64encode, base64.urlsafe_b64encode])
def test_hidden_values_are_found_in_base64(user: str, end: str, encoding: Callable[[bytes], bytes]) -> None:
    header = encoding(f"{user}correct~?horse{end}".encode()).decode()
    before, hidden, after = without(header, ["correct~?horse"]).partition("***")
    assert hidden and header.startswith(before) and header.endswith(after)
    assert 6 * len(before) < 8 * len(user) + 6, "only what other bytes are in too"
    assert 6 * len(after.rstrip("=")) < 8 * len(end) + 12
    assert without("c2hvcnQ=", ["short"]) == "c2hvcnQ=", "which other texts may have"


@pytest.mark.parametrize(
    "encode",
    [bytes.hex, lambda each: each.hex(":").upper(), list, tuple, base64.b32encode, lambda each: each.decode().upper(),
     lambda each: "".join(f"%{byte:02X}" for byte in each), lambda each: list(each.decode()),
     lambda each: "".join(f"\\u{byte:04x}" for byte in each), lambda each: each.hex(" ", 2),
     lambda each: ",".join(map(hex, each)), lambda each: "{0X" + ", 0X".join(f"{byte:02X}" for byte in each) + "}",
     lambda each: np.frombuffer(each, np.uint8), lambda each: np.frombuffer(each, np.uint8)[:, None],
     lambda each: ".".join(f"{byte:03}" for byte in each), lambda each: json.dumps("\n".join(map(str, each))),
     lambda each: " ".join(f"{byte:x}h" for byte in each)],
)  # fmt: skip
def test_hidden_values_are_found_byte_by_byte_and_in_capitals(encode: Callable[[bytes], object]) -> None:
    assert without(f"{encode(b'correct~?horse')}", ["correct~?horse"]).count("***") == 1


@pytest.mark.parametrize("secret", ['pass"word\\1', 'it\'s "both"\\', "Grüße'2026"])
@pytest.mark.parametrize("inner", [json.dumps, repr, ascii, lambda text: repr(text.encode())])
@pytest.mark.parametrize("outer", [json.dumps, repr, lambda text: repr({"text": text, "other": "'\""})])
@pytest.mark.parametrize("last", [str, json.dumps, html.escape])
def test_hidden_values_are_found_in_what_is_quoted_again(
    secret: str, inner: Callable[[str], str], outer: Callable[[str], str], last: Callable[[str], str]
) -> None:
    text = last(outer(inner(f"key {secret} refused")))
    assert without(text, [secret]).count("***") == 1


def test_a_certificate_is_hidden_without_more_than_an_environment_holds() -> None:
    key = "\n".join("k" * 60 + str(line) for line in range(60))
    assert without(key.splitlines()[7], [key]) == without(repr(key), [key])[1:-1] == "***"


def test_what_settings_beside_a_script_name_like_secrets_is_hidden(tmp_path: Path) -> None:
    files = {
        ".env": "export DB_PASSWORD=correct-horse\nAPI_TOKEN='a1b2c3d4e5'\nSTAGE=production7\nPASSWORD=\n",
        "config.json": '{"smtp": {"password": "tr0ubadour", "user": "bob"}, "pad_token": "<|endoftext|>"}',
        "login.yaml": "secret_key: wxyz-1234\nmax_tokens: 12345678\nmodel:\n  max_tokens: 12345678\n",
        "notes.txt": "password = not-a-setting-1",
    }
    write_files(tmp_path, files)
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    assert set(secrets_beside(tmp_path)) == {"correct-horse", "a1b2c3d4e5", "tr0ubadour", "wxyz-1234"}
    assert secrets_beside(tmp_path / "none") == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "db:\n  password: words with 1 blank\n"),
        ("a.yaml", "token: |\n  block-1234\n---\nsecret: >-\n  folded-1234\n"),
        ("a.yml", "api_token: 'it''s-1234'\n"),
        ("a.json", '{"tokens": ["listed-1234"], "api_keys": {"prod": "nested-1234"}}'),
        ("a.toml", 'db.api_key = "\\u0041bcd-1234"'),
        ("a.ini", "[x]\npassword = percent%%1234\n"),
        ("a.cfg", "password = no-section-1234\n"),
        (".env", "export API_TOKEN='two words 1234' # comment\nDB_PASSWORD=half\"quoted\"1234\n"),
        (
            ".env",
            'TLS_KEY="-----BEGIN PRIVATE KEY-----\nMIIEvQ1BADAN99\nB0x9\n-----END PRIVATE KEY-----"\nA=1\n',
        ),
        (".env", """AZURE_SECRET='{"client": {"client_secret": "inner-1234"}}'\n"""),
        ("a.yaml", "env:\n- name: DB_PASSWORD\n  value: of-container-1234\n"),
        (".netrc", "machine host login me password netrc-1234\n"),
        (
            ".env",
            "DATABASE_URL=postgres://app:of-address-1234@host:5432/n\nOTHER=postgres://app:${PASS}@host\n",
        ),
        ("a.json", '{"mongo_uri": "mongodb+srv://app:of%2Daddress-1234@host/n"}'),
    ],
)
def test_secrets_in_settings_are_what_the_format_makes_of_them(tmp_path: Path, name: str, text: str) -> None:
    write_files(tmp_path, {name: text})
    values = {
        "words with 1 blank", "block-1234", "folded-1234", "it's-1234", "listed-1234", "nested-1234", "Abcd-1234",
        "percent%1234", "no-section-1234", "two words 1234", "halfquoted1234", "netrc-1234", "inner-1234",
        "of-container-1234", "MIIEvQ1BADAN99", "of-address-1234",
    }  # fmt: skip
    found = values.intersection(secrets_beside(tmp_path))
    assert len(found) == (2 if "listed" in text or "API_TOKEN" in text or "---\nsecret" in text else 1)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"wandb: Paste API key {'a0b1' * 10}", True),
        (f"API key: {'a0b1' * 10}", True),
        ("the password is Hunter2Secret", True),
        ("with password 'Hunter5Secret99'", True),
        ("token Hunter9SecretTok99", True),
        ("curl -u bob:pass1 https://x", True),
        ("unexpected token abc12345 in JSON", False),
        ("the token 12345678 is odd", False),
        ("password is wrong", False),
        ("docker run -u 1000:1000 x", False),
    ],
)
def test_secrets_are_hidden_as_prompts_messages_and_commands_show_them(text: str, hidden: bool) -> None:
    assert (without_secrets(text) != text) is hidden


def test_secrets_in_a_script_are_found_with_their_lines() -> None:
    found = (
        f"API_KEY = '{BODY}'\nself.token = '{BODY}'\nos.environ['WANDB_API_KEY'] = '{BODY}'\n"
        f"login(key='{BODY}')\nsettings = {{'password': 'hunter22'}}\nname: str = '{FORMATS['GitHub']}'\n"
        "'https://a:hunter22@host/'\n"
    )
    assert sorted(line for line, _ in secrets_in(found)) == [1, 2, 3, 4, 5, 6, 7]
    harmless = (
        "token = '[START]'\nkey = 'image/encoded'\npad_token = '<pad>'\nsession = 'first run of 2026'\nKEYS = 7\n"
        "sort(key='accuracy')\npassword = os.environ['PASSWORD1']\nname = 'resnet50v2'\n"
        "'https://a:%s@host/' % b\n'https://a:{b}@host/'.format(b=c)\n'https://<user>:<password>@host/'\n"
    )
    assert list(secrets_in(harmless)) == []


def test_a_secret_in_a_line_that_is_left_out_is_told_once() -> None:
    lines = (
        f"os.environ['HF_TOKEN'] = '{TOKEN}'  # %env HF_TOKEN={TOKEN}",
        f"# !pip a {TOKEN}  # left out by tfbench",
    )
    assert list(secrets_in("\n".join(lines))) == [(1, "HF_TOKEN"), (2, "a line that is left out")]


def test_what_is_not_recorded_comes_from_the_shell() -> None:
    options = Options(
        environment={"A": "first", "TF_X": "1"},
        arguments=("--token", "second", "--db-pass=third", "ghp_" + "a" * 36, "4"),
    )
    values = {"A": "first", "TOKEN": "second", "DB_PASS": "third", "ARG_4": "ghp_" + "a" * 36}
    assert revealed(recorded(options), values) == options
    for name in values:
        with pytest.raises(UsageError, match=name):
            revealed(recorded(options), {key: value for key, value in values.items() if key != name})


def test_no_value_is_printed_by_an_error() -> None:
    for words in (
        ("--env", "A=hunter22", "--env", "A=hunter22"),
        ("--env", "0=hunter22"),
        ("--env", "B=hunter22", "--env-public", "B=1"),
        ("--env", "C=hunter22-of-latin-1-\udcfc"),
    ):
        printed = tfbench("bench", "cifar100-mlp", "-d", "cpu", *words)
        assert printed.code == 2
        assert "hunter22" not in printed.err


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('{"db": {"user": "app", "password": "hunter2"}}', "hunter2"),
        ('[{"token": "first-1"}, {"token": "second-2"}]', "second-2"),
        ('{"key": "-----BEGIN PRIVATE KEY-----\\nMIIE9x8y7z\\n-----END PRIVATE KEY-----"}', "MIIE9x8y7z"),
        ("postgres://app:p%40ssw0rd@host/db", "p@ssw0rd"),
        ("host=db user=app password=hunter2", "hunter2"),
        ("Server=db;User=app;Password=hunter2", "hunter2"),
        ("https://host/path?api_key=abc123&page=2", "abc123"),
        ("first-tok3n,second-tok3n", "second-tok3n"),
        (" padded-tok3n ", "padded-tok3n"),
    ],
)
def test_parts_of_a_value_that_a_program_takes_it_apart_into_are_hidden(value, part):
    hidden = searched({"CONFIG": value}, ())
    assert part not in without(f"It failed with {part}!", hidden)


def test_words_of_a_value_are_not_hidden():
    hidden = searched({"MODE": "training, validation", "PLACE": '{"zone": "frankfurt"}'}, ())
    text = "training and validation in frankfurt"
    assert without(text, hidden) == text


@pytest.mark.parametrize(
    "argument",
    [
        '{"api_key": "abcd-1", "n": 1}',
        "X-Api-Key: abcd-1",
        "{api_key:abcd-1}",
        '--config={"password":"abcd-1"}',
    ],
)
def test_arguments_that_name_a_secret_inside_are_not_recorded(argument):
    assert "abcd" not in recorded_arguments([argument])[0]
    assert "abcd" not in without("It is abcd-1.", searched({}, [argument]))


def test_settings_are_recorded():
    words = ["--lr=0.1", "model.key=4", "trainer.max_epochs=3", "name:resnet", "--opt=adam,lr:0.1"]
    assert list(recorded_arguments(words)) == words


def test_a_long_text_is_cut_after_secrets_are_replaced(monkeypatch):
    monkeypatch.setattr(protocol, "private", lambda: {"hidden": ["s3cr3t-t3xt"]})
    assert "s3c" not in protocol.shortened("s3cr3t-t3xt" * 50, 200)
    assert protocol.text_of(ValueError("of s3cr3t-t3xt")) == "of ***"


TOKEN = "hf_abcdefghij0123456789ABCDEFGHIJ1234"


@pytest.mark.parametrize("line", [
    f"login('{TOKEN}')", f"os.environ.setdefault('HF_TOKEN', '{TOKEN}')", f"A, B = '{TOKEN}', 1",
    f"def f(token='{TOKEN}'): pass", f"T = b'{TOKEN}'", f"T = f'{TOKEN}{{a}}'", f"[1, '{TOKEN}']", f"# {TOKEN}",
    "DB = 'postgres://admin:hunter2pass@db/x'", "get_file('a', 'https://u:p4ssw0rd99@h/x.npz')",
    "password, other = 'abcdef123456', 1", "def f(a, *, api_key='abcdef123456'): pass",
    "os.environ.get('API_KEY', 'abcdef123456')", "API_KEY = 'abcdef123456' if a else ''",
    "API_KEY = 'abcdef123456'.strip()", f"# git clone https://bob:{TOKEN}@host/a  # left out by tfbench",
    "{'Authorization': 'Bearer abcDefGhiJklmno'}", "# curl -H 'Authorization: Basic QWxhZGRpbjpvcGVuc2VzYW'",
    "connect('host=db user=me password=Zed-Quartz-7719 dbname=x')",
    "# !wget 'https://host/data.zip?token=Zk39vnQpW81hh'  # left out by tfbench", "a = 1  # --password=Tr0ub4dor3xKq9",
])  # fmt: skip
def test_a_secret_in_a_script_is_found_however_it_is_bound(line: str) -> None:
    assert [number for number, _ in secrets_in(f"a = 1\n{line}\n")] == [2]


@pytest.mark.parametrize("line", [
    "get_file('cats', 'https://host/cats-2024.zip')", "token, n = 'pad', 1", "# see https://a@b",
    "# token=<pad>, key=lambda x: x, n_tokens=32000", "# A basic implementation of bearer authentication.",
    "# the basic GradientDescentOptimizer",
])  # fmt: skip
def test_what_is_no_secret_in_a_script_is_none(line: str) -> None:
    assert list(secrets_in(f"{line}\n")) == []


@pytest.mark.parametrize("start", ["", "a", "some bytes"])
@pytest.mark.parametrize(
    "command",
    [
        "od -Ax -tx1z",
        "od -td1",
        "od -tu1",
        "od -b",
        "od -c",
        "base64 -w 10",
        "base64 -w 12",
        "base32 -w 8",
        "xxd",
        "hexdump -C",
    ],
)
def test_hidden_values_are_found_in_dumps_of_several_rows(command: str, start: str) -> None:
    if not shutil.which(command.partition(" ")[0]):
        pytest.skip("it is not installed")
    value = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
    dump = subprocess.run(command.split(), input=f"{start}{value}".encode(), capture_output=True, check=True)
    for text in (dump.stdout.decode(), repr(dump.stdout.decode()), dump.stdout.decode().lower()):
        left = without(f"first\n{text}\nlast", [value])
        assert "***" in left and len(left) < 120, left
        assert left.startswith("first") and left.endswith("last")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-32-be"])
@pytest.mark.parametrize(
    "value", ["value-1a2b3c4d", "Größe-1a2b3c4d", "\N{LATIN CAPITAL LETTER C WITH DOT ABOVE}1a2b3c4d"]
)
def test_hidden_values_are_found_in_wide_characters(encoding: str, value: str) -> None:
    content = value.encode(encoding)
    shown = "".join(f"\\{byte:o}" for byte in content)
    texts = (
        content.decode("latin-1"),
        content.decode("utf-8", "replace"),
        list(content),
        content.hex(" "),
        shown,
    )
    for text in (content, repr(str(content)), content.hex(), *texts):
        left = without(str(text), [value])
        assert "***" in left and len(left) < 60, left


def test_hidden_values_are_found_with_doubled_quotes() -> None:
    value = """pass"word'1234"""
    for text in (value.replace('"', '""'), value.replace("'", "''"), json.dumps(value.replace("'", "''"))):
        assert "word" not in without(f"of {text} end", [value])


def test_the_bytes_of_a_part_do_not_hide_only_a_part_of_the_whole() -> None:
    part, whole = "Tr0ub4dor", "Tr0ub4dor&3Zebra!"
    for hidden in ((part, whole), (whole, part)):
        shown = f"{list(whole.encode())} {whole.encode().hex()} {whole.encode().hex(' ')}"
        assert without(shown, hidden) == "[***] *** ***"


def test_what_looks_like_a_secret_is_in_no_event_but_in_the_change_of_a_script() -> None:
    file = StringIO()
    events = protocol.EventWriter(file)
    events.warning("no answer with token=abcdefgh12 from https://me:abcdefgh12@host")
    events.write("script", variant="fix:a", diff="+token=abcdefgh12", text="", fixes=[])
    warned, changed = file.getvalue().splitlines()
    assert "abcdefgh12" not in warned and "token=***" in warned
    assert "token=abcdefgh12" in changed


@pytest.mark.parametrize(
    "text",
    [
        "Credentials(user='me', password='{}')", "{{'api_key': '{}', 'x': 1}}", '{{"password": "{}"}}', "password: {}.",
        "X-Api-Key: {}", "X-Api-Key: ab:{}", "Token = {}", "Credentials(password=b'{}')",
        "['curl', '--token', '{}', 'x']", "curl --token {} x",
        '{{\\"secret\\": \\"{}\\"}}', "{{'token':\n    '{}'}}", "password='it\\'s {}'",
    ],
)  # fmt: skip
def test_values_are_hidden_as_dicts_dataclasses_headers_and_commands_show_them(text: str) -> None:
    shown = without_secrets(text.format("hunter2-q7Zx2"))
    assert "***" in shown and "q7Zx2" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'image_1024'", "Missing key: 'image_1024'", "tokens = tokenizer(text, max_length=128)",
        "tokens: 204800", "pass: 12",
        "token = tokens[i:i+128]",
        "first t2_secret.cpu.0: t2_secret.py:7: The call",
        "Wrong password: please try", "--token is required", "key: dense_1/kernel:0",
        "{'key_dim': 64}", "KeyError: 'token_embedding_1'", "tokenizer: bert-base-uncased-v2",
        "keys=['image_1', 'label_2']", "Basic classification: Classify images of clothing",
    ],
)  # fmt: skip
def test_other_words_are_shown(text: str) -> None:
    assert without_secrets(text) == text


MIXED = "P@ss <w&\"o'r/d> 1é😀z"


@pytest.mark.parametrize(
    "form",
    [
        re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quote(MIXED, safe="/:&")),
        quote(quote(MIXED)),
        json.dumps(MIXED).replace("<", "\\u003c").replace("&", "\\u0026").replace("/", "\\/"),
        html.escape(html.escape(MIXED)),
        MIXED.replace("&", "&amp;").replace("<", "&#60;").replace(">", "&#x3E;"),
        str(MIXED.encode("unicode_escape")),
        re.escape(MIXED),
        MIXED.replace("'", "''"),
        "".join(f"\\{each:03o}" for each in MIXED.encode()),
        quopri.encodestring(MIXED.encode()).decode(),
    ],
)
def test_a_secret_of_which_some_characters_are_escaped_is_hidden(form: str) -> None:
    found = without(f"It is {form}.", [MIXED])
    assert "***" in found
    assert not any(part in found for part in ("P@ss", "r/d", "163", "1é"))


def test_settings_named_as_passwords_are_hidden_also_if_they_are_words():
    passwords = {
        "SMTP_PASS": "qzwx ervt ybun imop", "MAIL_PASS": "troubador and three horses", "DB_PWD": "correcthorse",
        "dbpass": "battery staple",
    }  # fmt: skip
    others = {
        "high_pass": "butterworth",
        "bypass": "something",
        "forward_pass": "standard",
        "compass": "northwest",
    }
    text = "\n".join(f'{name}="{value}"' for name, value in (passwords | others).items())
    assert {*named_secrets(text)} == {*passwords.values()}
