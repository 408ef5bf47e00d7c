"""Texts that must not be recorded or shown are replaced, however a program prints them. Standard library only."""

from __future__ import annotations

import base64
import functools
import html
import json
import math
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from html.entities import codepoint2name

# Stands for a secret.
HIDDEN = "***"
# Values that are shorter also stand for other things in a text.
SHORTEST, SHORTEST_OTHER = 4, 8
# Behind a word that a sentence may have.
_SHORTEST_TOLD = 16
# Of values in settings, which may be defaults and words.
_SHORTEST_NAMED = 6
# Longer ones are certificates and the like.
_LONGEST_ENCODED = 256
# As JSON within JSON within a representation.
_QUOTED_TIMES = 3
# From one row of a dump to the next: the rest of the row, which shows the same as letters, and a place before the next.
_ROW = r"[^\n]{0,80}?(?:\n|\\n)\W{0,8}(?:(?:0x)?[0-9a-f]{1,16}\W{1,8})?"
# The letters at the end of the last row.
_END = r"(?:[ \t]{2,}(?:(?!\\n)[^\n]){0,80})?"
# What is between bytes and letters that are written one by one: signs, or an end of a line that is quoted; and what
# a number begins with.
_BETWEEN_HEX, _BETWEEN_OTHERS = (rf"(?:(?:\\[nt]|[^0-9a-z]){{{least},8}}|{_ROW})" for least in (0, 1))
_BEFORE_HEX = "(?:0?x|u)?0{0,2}"
# Between characters of a text that is broken into lines.
_BROKEN = r"(?:\\[rn]|[\s\"'+])*"
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
# Of a text with both kinds of quotes, repr puts a backslash before "'", which of a part alone it may not.
_BOTH = "\"'"
_QUOTES: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: ascii(text)[1:-1],
    lambda text: repr(text + _BOTH)[1:-4],
    lambda text: ascii(text + _BOTH)[1:-4],
    lambda text: repr(text.encode(errors="replace"))[2:-1],
)
_FINAL_QUOTES: tuple[Callable[[str], str], ...] = (
    html.escape,
    functools.partial(html.escape, quote=False),
    functools.partial(urllib.parse.quote, errors="replace"),
    functools.partial(urllib.parse.quote, safe="", errors="replace"),
    functools.partial(urllib.parse.quote_plus, errors="replace"),
    lambda text: text.replace("'", "'\"'\"'"),  # of a shell
    lambda text: text.replace('"', '""'),  # of CSV
    lambda text: text.replace("'", "''"),  # of SQL and YAML
)

# Parts of names; the weak ones name other things too, whose values are short numbers.
_STRONG = re.compile(
    "passw|passphrase|passwd|secret|credential|apikey|accesskey|privatekey|secretkey|signingkey|authkey|authtoken|"
    "accesstoken|refreshtoken|connectionstring|webhook|bearer|jwt|htpasswd|netrc|dockerconfig|kubeconfig|encryptionkey|"
    "masterkey|storagekey|accountkey|sharedkey|deploykey|servicekey|sshkey|licensekey|clientkey"
)
_WEAK = re.compile(
    "([a-z0-9]*(token|pass|pwd|auth|cookie|session|key))|keys|tokens?|pw|creds?|sas|sid|pat|dsn|otp|pin|salt|cert|pem|"
    "authorization|cookies|sessionid|signature|sig|login|cred"
)
_OF_OTHERS = (
    *("error", "exception", "warning"),
    *("mode", "type", "method", "format", "count", "size", "dim", "len", "length", "ttl", "timeout"),
    *("column", "columns", "col", "field"),
)
# Before a weak name, which is the unit of a number then.
_OF_NUMBERS = ("max", "min", "num", "total")
# In a text, what has such a name is mostly something else.
_LOOSE = re.compile("(key|keys|session|pin|salt|sid|sig|cert|login|pass)$", re.IGNORECASE)
# In settings, names that end so are those of passwords, but for those of filters and of passes over something.
_PASSWORD = re.compile(r"[a-z](pass|pwd)$")
_PASSES = re.compile(
    "(by|com|sur|tres|low|high|band|all|no|one|two|three|single|multi|double|forward|backward|first|second|third|last|"
    "final|next|per|each|every|num|test|train|val|eval|warmup|data|over)pass$"
)
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", re.IGNORECASE)
_HARMLESS = re.compile(r"[-+]?[\d.]{0,5}(e[-+]?\d+)?|true|false|yes|no|on|off|none|null|auto", re.IGNORECASE)
# As secret scanners know them.
SECRET_FORMATS = re.compile(
    r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_\w{30,}|\bgithub_pat_\w{22,}|\bglpat-[\w-]{20,}|\bgl(?:dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{20,}"
    r"|\bxox[a-z]-[\w-]{10,}|\bxapp-\d-[\w-]{10,}|https://hooks\.slack\.com/[\w/+-]{20,}"
    r"|\bsk-[\w-]{20,}|\b[sr]k_(?:live|test|prod)_\w{10,}|\bwhsec_\w{20,}|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|\bhf_[A-Za-z0-9]{30,}|\bapi_org_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}"
    r"|\bpypi-[\w-]{50,}|\bdo[oprt]_v1_[a-f0-9]{64}|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bkey-[0-9a-f]{32}\b|\bdckr_pat_[\w-]{20,}"
    r"|\bglsa_\w{32,}|\bhv[sb]\.[\w-]{20,}|\bATATT3[\w=-]{50,}|\bsq0[a-z]{3}-[\w-]{20,}|\bpul-[a-f0-9]{40}|\brubygems_[a-f0-9]{48}"
    r"|\bdapi[a-f0-9]{32}|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|\blin_api_\w{30,}|\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"
    r"|\b(?:SK|AC)[a-f0-9]{32}\b|\bNRAK-[A-Z0-9]{27}|\bsntrys_[\w=+/]{30,}|\b\d{8,10}:AA[\w-]{32,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:[^-]*-----END [A-Z ]*-----|[\s\S]*)"
    # Of a header, unlike words such as "basic implementation".
    r"|(?:(?<=\bbearer )|(?<=\bbasic ))(?=[\w.~+/-]*[0-9=])[\w.~+/=-]{12,}"
    r"|(?:(?<=^bearer )|(?<=^basic )|(?<=['\":]bearer )|(?<=['\":]basic )|(?<=: bearer )|(?<=: basic ))"
    r"(?-i:(?=(?:[\w.~+/-]*[a-z][A-Z]){2}))[\w.~+/=-]{12,}"
    r"|(?<=[?&]sig=)[\w%+/=-]{12,}",
    re.IGNORECASE,
)
# The user of an address ends at its last @, because a password may contain one.
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s'\"]*@", re.IGNORECASE)
# What a hint says in place of a value.
_OF_HINTS = re.compile(r"VALUE")
_NAME = r"(?P<name>[A-Za-z_][\w.-]{0,99})"
# A sign at the value's end is the sentence's.
PAIR = re.compile(rf"{_NAME}=(?!b['\"])(?P<value>[^\s&'\"]*[^\s&'\".,;:])")
_QUOTE = r"\\*['\"]"
# In quotes, or a word that is no call or index.
_VALUE = (
    rf"(?:b?(?P<quote>{_QUOTE})(?P<quoted>(?:(?!(?P=quote))(?:\\.|.)){{1,999}})(?=(?P=quote))"
    r"|(?P<bare>(?![\w./-]+\.(?:py|ipynb)\b)[\w+/=.~@$!%*#?^:-]+(?<![.?!:])(?![\w(\[{])))"
)
# As dicts, dataclasses, settings and headers show it, and arguments of a command or a list of them.
_SHOWN_PAIRS = (
    re.compile(rf"{_NAME}(?P<sign>(?:{_QUOTE})?\s{{0,20}}[=:]\s{{0,20}}){_VALUE}"),
    re.compile(rf"(?<=--){_NAME}(?P<sign>(?:{_QUOTE},)?\s{{1,20}}){_VALUE}"),
)


def without(text: str, hidden: Iterable[str]) -> str:
    """Replace each of some texts, before a text is cut, because a part would not be found."""
    for each in sorted(hidden, key=len, reverse=True):  # a part of one may be another
        forms = _normal(each)
        for form in _forms(forms):
            text = text.replace(form, HIDDEN)
        for pattern in _in_pieces(forms):
            text = pattern.sub(HIDDEN, text)
    return text


@functools.cache
def _normal(hidden: str) -> tuple[str, ...]:
    """Return a text in all normal forms of Unicode, in which letters and their accents may be apart."""
    forms = (unicodedata.normalize(form, hidden) for form in ("NFC", "NFD", "NFKC", "NFKD"))
    return tuple(dict.fromkeys((hidden, *forms)))


@functools.cache
def _forms(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts as programs print them, longest first."""
    lines = [line for text in hidden for line in (text, *text.splitlines()) if len(line) >= SHORTEST]
    found = {form for line in lines for form in _quoted(line)}
    for text in _long(hidden):
        found |= {text.lower(), text.upper()}
    return tuple(sorted(found, key=len, reverse=True))


def _long(hidden: Iterable[str]) -> Iterator[str]:
    return (text for text in hidden if SHORTEST_OTHER <= len(text) <= _LONGEST_ENCODED)


@functools.cache
def _in_pieces(hidden: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return patterns of the texts, escaped and as lists, arrays and dumps show their bytes; longest texts first.

    Also of their encodings, which programs break into lines.
    """
    patterns: list[str] = []
    for text in sorted(_long(hidden), key=len, reverse=True):
        encoded = (text.encode(each, errors="replace").strip(b"\0") for each in _ENCODINGS)
        for numbers in {*map(tuple, encoded), tuple(map(ord, text))}:
            dump = f"h?{_BETWEEN_HEX}{_BEFORE_HEX}".join(f"{number:x}" for number in numbers)
            patterns += (rf"{_BEFORE_HEX}{dump}h?{_END}", "".join(map(_shown, numbers)))
            for base in ("d", "o"):
                others = f"{_BETWEEN_OTHERS}0{{0,2}}".join(f"{number:{base}}" for number in numbers)
                patterns.append(rf"(?<!\d)0{{0,2}}{others}(?!\d){_END}")
        patterns += ("".join(map(_escaped, text)), _BETWEEN_OTHERS.join(map(re.escape, text)))
        patterns += (
            _BROKEN.join(map(re.escape, form)) for form in _encoded(text) if len(form) >= SHORTEST_OTHER
        )
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _shown(number: int) -> str:
    """Return a pattern of a byte as it is, as Python and shells show it, and of what replaces one that is no text."""
    forms = [rf"\\*{re.escape(chr(number))}", rf"\\+x{number:02x}", rf"\\+0{{0,2}}{number:o}"]
    forms += [rf"\\+{letter}" for letter, code in zip("tnr", b"\t\n\r", strict=True) if code == number]
    forms += ["\N{REPLACEMENT CHARACTER}"] if number > 0x7F else []
    return f"(?:{'|'.join(forms)})"


def _escaped(character: str) -> str:
    """Return a pattern of a character as it is and as addresses, HTML, JSON, shells and mails escape it, also twice."""
    code, content = ord(character), character.encode(errors="replace")
    contents = {content, character.encode("latin-1", errors="ignore") or content}
    names = [name for name in (codepoint2name.get(code), "apos" if character == "'" else None) if name]
    reference = "|".join([f"#0*{code}", f"#x0*{code:x}", *names])
    surrogates = character.encode("utf-16-be", errors="replace").hex()
    units = "".join(rf"\\+u{surrogates[at : at + 4]}" for at in range(0, len(surrogates), 4))
    forms = [
        rf"\\*{re.escape(character)}" + (re.escape(character) + "?" if character in _BOTH else ""),
        units,
        rf"\\+[ux]\{{?0*{code:x}\}}?",
        rf"&(?:amp;)*(?:{reference});",
        rf"\\+N\{{{re.escape(unicodedata.name(character, '-'))}\}}",
    ]
    for sign, base in (("%(?:25)*", "02x"), ("=", "02x"), (r"\\+x", "02x"), (r"\\+", "03o")):
        forms += ("".join(f"{sign}{each:{base}}" for each in encoded) for encoded in contents)
    return f"(?:{'|'.join(forms)})"


def _quoted(line: str) -> set[str]:
    """Return a line as it is and quoted, also as part of what is quoted again."""
    found = {line}
    for _ in range(_QUOTED_TIMES):
        found |= {quote(each) for each in found for quote in _QUOTES}
    return found | {each for quote in _FINAL_QUOTES for each in map(quote, found)}


def _encoded(text: str) -> Iterator[str]:
    content = text.encode(errors="replace")
    yield from _in_base(content, base64.b64encode, 6)
    yield from _in_base(content, base64.urlsafe_b64encode, 6)
    yield from _in_base(content, base64.b32encode, 5)


def _in_base(content: bytes, encode: Callable[[bytes], bytes], bits: int) -> Iterator[str]:
    """Yield what content is in the encoding of any text that has it, as in an Authorization header."""
    for before in range(bits // math.gcd(bits, 8)):
        # Characters that are of the content alone.
        first, last = -(-8 * before // bits), 8 * (before + len(content)) // bits
        yield encode(bytes(before) + content).decode()[first:last]


def names_secret(name: str, value: str = "") -> bool:
    """Return whether a name of a variable, an option or a constant is one of a secret, which has this value."""
    words = _words(name)
    if _is_strong(words):
        return True
    if words and (words[-1] in _OF_OTHERS or (words[0] in _OF_NUMBERS and value.isdecimal())):
        return False
    return any(_WEAK.fullmatch(word) for word in words) and not (value and _HARMLESS.fullmatch(value))


# As prompts, messages and commands show it.
_TOLD = re.compile(
    r"\b(?:(?:api|access|secret|private|auth)[ _-]?key|password|passphrase|(?P<weak>token|secret))"
    rf"(?:\s(?:is|was))?[:,]?\s{{1,20}}(?!is\b|was\b){_VALUE}|(?<=-u )[\w.@-]+:(?P<user>\S+)",
    re.IGNORECASE,
)
_VALUES = ("value", "quoted", "bare")


def without_secrets(text: str) -> str:
    """Remove user names and passwords from addresses, values with names of secrets, and what looks like a secret."""

    def meant(name: str, value: str) -> bool:
        return not _OF_HINTS.fullmatch(value) and names_secret(name, value)

    def pair(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        hides = meant(name, value) and (is_mixed(value) or not _is_loose(name))
        return f"{name}={HIDDEN}" if hides else found[0]

    def shown(found: re.Match[str]) -> str:
        name, sign, value = found["name"], found["sign"], found["quoted"] or found["bare"]
        clear = is_mixed(value) and not (_is_loose(name) and sign.strip() == ":")
        hides = meant(name, value) and (clear or (found["quoted"] and _is_strong(_words(name))))
        return found[0].removesuffix(value) + HIDDEN if hides else found[0]

    def told(found: re.Match[str]) -> str:
        value = found["quoted"] or found["bare"] or found["user"]
        mixed = is_mixed(value) and len(value) >= (_SHORTEST_TOLD if found["weak"] else SHORTEST_OTHER)
        hides = (mixed or found["user"]) and not value.isdecimal() and not _OF_HINTS.fullmatch(value)
        return found[0].removesuffix(value) + HIDDEN if hides else found[0]

    text = PAIR.sub(pair, SECRET_FORMATS.sub(HIDDEN, _USER.sub(r"\1", text)))
    for pattern in _SHOWN_PAIRS:
        text = pattern.sub(shown, text)
    return _TOLD.sub(told, text)


def is_secret_setting(name: str, value: str) -> bool:
    """Return whether a value in settings, with the names before it, is named like a secret and no word or default."""
    strong = (_is_strong(_words(name)) or _is_password(name, value)) and len(value) >= _SHORTEST_NAMED
    mixed = is_mixed(re.sub(r"\s", "", value)) and not (_is_loose(name) and re.search(r"\s", value))
    counts = value.isdecimal() and not {*_OF_NUMBERS}.isdisjoint(_words(name))
    return names_secret(name, value) and (strong or (mixed and not counts))


def named_secrets(text: str) -> Iterator[str]:
    """Yield the values in settings, such as those of a .env, JSON or YAML file, that are named like secrets."""
    for pattern in (PAIR, *_SHOWN_PAIRS):
        for found in pattern.finditer(text):
            groups = found.groupdict()
            name, value = groups["name"], next(groups[each] for each in _VALUES if groups.get(each))
            if is_secret_setting(name, value):
                yield value


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _is_strong(words: Iterable[str]) -> bool:
    return _STRONG.search("".join(words)) is not None


def _is_password(name: str, value: str) -> bool:
    joined = "".join(_words(name))
    named = _PASSWORD.search(joined) and not _PASSES.search(joined)
    return bool(named) and not _NUMBER.fullmatch(value)


def _is_loose(name: str) -> bool:
    return not _is_strong(_words(name)) and _LOOSE.search(name) is not None


def is_mixed(text: str) -> bool:
    """Return whether a text is long and has digits, as secrets have and most words do not."""
    return len(text) >= SHORTEST_OTHER and bool(re.search(r"\d", text)) and not re.search(r"\s", text)
