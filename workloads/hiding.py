"""Texts that must not be recorded or shown are replaced, however a program prints them. Standard library only."""

from __future__ import annotations

import base64
import functools
import html
import json
import math
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

# Stands for a secret.
HIDDEN = "***"
# Values that are shorter also stand for other things in a text.
SHORTEST, SHORTEST_OTHER = 4, 8
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
_ENCODINGS = ("utf-8", "utf-16-le", "utf-32-le")
# What is between the characters of the wider ones, as such and shown.
_BETWEEN_WIDE = ("\0", "\0" * 3, "\\x00", "\\x00" * 3)
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


def without(text: str, hidden: Iterable[str]) -> str:
    """Replace each of some texts, before a text is cut, because a part would not be found."""
    hidden = tuple(hidden)
    for form in _forms(hidden):
        text = text.replace(form, HIDDEN)
    for pattern in _in_pieces(hidden):
        text = pattern.sub(HIDDEN, text)
    return text


@functools.cache
def _forms(hidden: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts as programs print them, longest first."""
    lines = [line for text in hidden for line in (text, *text.splitlines()) if len(line) >= SHORTEST]
    found = {form for line in lines for form in _quoted(line)}
    for text in _long(hidden):
        found |= {text.lower(), text.upper(), *(between.join(text) for between in _BETWEEN_WIDE)}
    return tuple(sorted(found, key=len, reverse=True))


def _long(hidden: Iterable[str]) -> Iterator[str]:
    return (text for text in hidden if SHORTEST_OTHER <= len(text) <= _LONGEST_ENCODED)


@functools.cache
def _in_pieces(hidden: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return patterns of the texts as lists, arrays and dumps show their bytes or characters; longest texts first.

    Also of their encodings, which programs break into lines.
    """
    patterns = []
    for text in sorted(_long(hidden), key=len, reverse=True):
        encoded = (text.encode(each, errors="replace").rstrip(b"\0") for each in _ENCODINGS)
        for numbers in {*map(tuple, encoded), tuple(map(ord, text))}:
            dump = f"h?{_BETWEEN_HEX}{_BEFORE_HEX}".join(f"{number:x}" for number in numbers)
            patterns.append(rf"{_BEFORE_HEX}{dump}h?{_END}")
            for base in ("d", "o"):
                others = f"{_BETWEEN_OTHERS}0{{0,2}}".join(f"{number:{base}}" for number in numbers)
                patterns.append(rf"(?<!\d)0{{0,2}}{others}(?!\d){_END}")
        patterns.append(_BETWEEN_OTHERS.join(map(re.escape, text)))
        patterns += (
            _BROKEN.join(map(re.escape, form)) for form in _encoded(text) if len(form) >= SHORTEST_OTHER
        )
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


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
