"""Lists of CPUs as cpusets write them (cpuset(7), "List format")."""

from __future__ import annotations

_DIGITS = 5  # of a CPU's number: Linux has room for some thousand


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as "0-3,8"; empty for what is none, and for numbers that no CPU has."""
    numbers: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        if not all(number.isdecimal() and len(number) <= _DIGITS for number in (first, last or first)):
            return ()
        numbers += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(numbers))
