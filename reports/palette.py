"""The colours of a report, as CSS variables for light and dark pages; safe for colour-blind readers.

Categories use the palette of Okabe and Ito (2008) and also differ in lightness; GPUs also differ in dashes.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.analysis import Part

# Variable -> colour on a light page, colour on a dark one.
COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171a"),
    "raised": ("#f5f6f8", "#1d2125"),
    "ink": ("#1a1e23", "#e7e9eb"),
    "ink-2": ("#4f5862", "#a9b1ba"),
    "rule": ("#dfe3e8", "#31373d"),
    "link": ("#1d5b96", "#8bbcf0"),
    "good": ("#1f6f4a", "#6fd0a0"),
    "notice": ("#8a5a00", "#e8b860"),
    "alert": ("#b3261e", "#ff8a80"),
    "removed": ("#fbe9e7", "#46211e"),
    "added": ("#e4f3ea", "#17382a"),
    "cpu": ("#5b6770", "#a9b4bd"),
    "gpu": ("#0072b2", "#56b4e9"),
    "part-compute": ("#0072b2", "#3d8fc4"),
    "part-launch": ("#e69f00", "#e6ab2e"),
    "part-framework": ("#d55e00", "#e07a33"),
    "part-between-epochs": ("#8c8c2e", "#b5b55c"),
    "part-input-wait": ("#cc79a7", "#d48fb6"),
    "part-input-interference": ("#e9bcd5", "#a3668a"),
    "part-copy": ("#56b4e9", "#86cbf2"),
    "part-all-reduce": ("#009e73", "#3bbf98"),
    "part-host-contention": ("#7a5c1e", "#b89a58"),
    "part-unexplained": ("#b6bcc2", "#666e76"),
    "phase-start-up": ("#c9ced4", "#4a5158"),
    "phase-first-step": ("#f3d9a4", "#6b5320"),
    "phase-warm-up": ("#f7ead0", "#4a3d20"),
    "phase-measured": ("#cfe3f1", "#1d3f57"),
    "phase-requests": ("#cdeadd", "#1d4a3a"),
    "phase-evaluation": ("#e3e6ea", "#333a41"),
}
# Lines of several GPUs differ in both.
_LINES = ("gpu", "part-framework", "part-all-reduce", "part-input-wait")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))


def part_colour(part: Part) -> str:
    """Return the CSS colour of a part of the step time."""
    return f"var(--part-{part.value.replace(' ', '-')})"


def phase_colour(kind: str) -> str:
    """Return the CSS colour of a kind of phase."""
    return f"var(--phase-{kind.replace(' ', '-')})"


def gpu_colour(index: int) -> str:
    """Return the CSS colour of a GPU's lines."""
    return f"var(--{_LINES[index % len(_LINES)]})"


def style() -> str:
    """Return the variables as CSS: light by default and in print, dark on screen if preferred."""
    light, dark = (
        "".join(f"--{name}:{colours[side]};" for name, colours in COLOURS.items()) for side in (0, 1)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    )
