"""What a trial runs on, as text: "cpu", "gpu0", or "gpu0+gpu1" for several GPUs together; and lists of CPUs.

A GPU's number is its position in the manifest's `gpus`. Only this module knows the form of the text; text that has
another form is a device without GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

CPU = "cpu"
# Any GPU; of trials, only as a kind.
GPU = "gpu"

# Few digits, because runs are read from untrusted reports.
_ONE = rf"{GPU}(?:0|[1-9][0-9]{{0,3}})"
_GPUS = re.compile(rf"{_ONE}(?:\+{_ONE})*")


def of_gpus(*positions: int) -> str:
    """Return the device that consists of these GPUs."""
    return "+".join(f"{GPU}{position}" for position in positions)


def positions(device: str) -> tuple[int, ...]:
    """Return the positions of a device's GPUs: (0, 1) for "gpu0+gpu1", () for "cpu"."""
    return tuple(map(int, re.findall("[0-9]+", device))) if _GPUS.fullmatch(device) else ()


def gpu_names(device: str) -> tuple[str, ...]:
    """Return a device's GPUs as devices: ("gpu0", "gpu1") for "gpu0+gpu1", () for "cpu"."""
    return tuple(of_gpus(position) for position in positions(device))


def single_devices(devices: Iterable[str]) -> tuple[str, ...]:
    """Return the CPU and the GPUs that occur in devices, each once."""
    return tuple(dict.fromkeys(part for device in devices for part in gpu_names(device) or (device,)))


def is_gpu(device: str) -> bool:
    """Return whether a device is one or more GPUs."""
    return device.startswith(GPU)


def device_kind(device: str) -> str:
    """Return CPU or GPU."""
    return GPU if is_gpu(device) else CPU


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as "0-3,8" (cpuset(7), "List format"); empty if the list is not valid."""
    numbers: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        last = last if dash else first
        # Linux supports a few thousand CPUs.
        if not all(number.isdecimal() and len(number) <= 5 for number in (first, last)):
            return ()
        if int(first) > int(last):
            return ()
        numbers += range(int(first), int(last) + 1)
    return tuple(dict.fromkeys(numbers))
