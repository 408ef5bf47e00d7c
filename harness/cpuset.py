"""Parse CPU lists (cpuset(7), "List format")."""

from __future__ import annotations

_MAX_DIGITS = 5  # Linux supports a few thousand CPUs


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as "0-3,8"; empty if the list is not valid."""
    numbers: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not all(number.isdecimal() and len(number) <= _MAX_DIGITS for number in (first, last)):
            return ()
        numbers += range(int(first), int(last) + 1)
    return tuple(dict.fromkeys(numbers))
