"""Lists of CPUs as cpusets write them (cpuset(7), "List format")."""

from __future__ import annotations


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as "0-3,8"; empty for what is none."""
    numbers: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return ()
        numbers += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(numbers))
