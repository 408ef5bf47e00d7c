"""Read and write limits files: TOML with a list of limits, each a line of text that people read too.

limits = [
  "health = ok",
  "capability.bf16 >= 650 TFLOP/s",
  "soak.sustained / soak.cold >= 0.9",
  "resnet50.tuned >= 0.97 of H100",
]
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from statistics import median

from harness.analysis.acceptance import outcome_of
from harness.analysis.quantities import (
    CAPABILITIES,
    HEALTH_LEVELS,
    Quantity,
    applying,
    planned_names,
    quantity_of,
)
from harness.errors import UsageError
from harness.model.analysis import Limit, LimitOutcome, Value
from harness.model.comparison import KnownMachine
from harness.model.device import CPU, positions
from harness.model.platform import HOST
from harness.model.run import PlannedTrial
from harness.run.catalogue import built_in
from harness.untrusted import parse_toml, printable, read_file
from workloads.variants import BASELINE, TUNED

_MAX_BYTES = 1 << 20
_MAX_LIMITS = 1000
_HINT = "docs/limits.md has the names, their units and an example of each."
_LIMIT = re.compile(
    r"(?P<name>\S+?)(?:\s*/\s*(?P<over>\S+?))?(?:\s+on\s+(?P<device>\S+?))?\s*(?P<sign>>=|<=|=)\s*(?P<value>.+)"
)
_NUMBER = re.compile(r"(?P<number>[0-9.]+(?:e[+-]?[0-9]+)?)\s*(?P<percent>%)?\s*(?P<unit>.*)", re.IGNORECASE)
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SMALL = {"m": 1e-3, "µ": 1e-6, "\N{GREEK SMALL LETTER MU}": 1e-6, "n": 1e-9}


def read_limits(path: Path, known: Sequence[KnownMachine]) -> tuple[Limit, ...]:
    """Read a limits file.

    Args:
        known: machines that a limit may be relative to.

    Raises:
        StoreError: the file cannot be read, or is too large.
        UsageError: it is not a limits file, or a limit has an unknown name or another unit.
    """
    content = read_file(path, max_bytes=_MAX_BYTES)
    try:
        document = parse_toml(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read as TOML: {printable(str(error), 200)}.",
            hint='Write it as limits = ["health = ok", "capability.bf16 >= 650 TFLOP/s"]; see docs/limits.md.',
        ) from error
    texts = document.get("limits")
    if (
        document.keys() != {"limits"}
        or not isinstance(texts, list)
        or not 0 < len(texts) <= _MAX_LIMITS
        or not all(isinstance(text, str) for text in texts)
    ):
        raise UsageError(
            f"{path} is not a limits file: it needs one list named limits, of 1 to {_MAX_LIMITS:,} texts.",
            hint='Write it as limits = ["health = ok", "capability.bf16 >= 650 TFLOP/s"]; see docs/limits.md.',
        )
    return tuple(_in_file(path, number, text, known) for number, text in enumerate(texts, 1))


def _in_file(path: Path, number: int, text: str, known: Sequence[KnownMachine]) -> Limit:
    try:
        return parse_limit(text, known)
    except UsageError as error:
        raise UsageError(f"{path}, limit {number}: {error.message}", hint=error.hint) from error


def parse_limit(text: str, known: Sequence[KnownMachine] = ()) -> Limit:
    """Return a limit from its text.

    Raises:
        UsageError: it has another form, an unknown name or reference, or a wrong unit.
    """
    text = printable(" ".join(text.split()), 200)
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a limit.", hint="Write it as NAME >= NUMBER UNIT; see docs/limits.md."
        )
    name, over, device, sign, value = (
        match[each] or "" for each in ("name", "over", "device", "sign", "value")
    )
    units = _units(name)
    if over:
        if not set(units) & set(_units(over)):
            raise UsageError(
                f"{name} is in {units[0]} and {over} in {_units(over)[0]}, so {name} / {over} is not a ratio.",
                hint=_HINT,
            )
        units = ("ratio",)
    if device and device not in (CPU, HOST) and not positions(device):
        raise UsageError(
            f"{device!r} is not a device.", hint="Write it as `on cpu`, `on gpu0` or `on gpu0+gpu1`."
        )
    if (sign == "=") != (units == ("level",)):
        raise UsageError(
            f"{sign!r} does not go with {name}.",
            hint="Only health takes =; write `health = ok`, or >= and <= with numbers.",
        )
    bound = _bound(Limit(text=text, name=name, over=over, device=device, bound=0.0), units, value, known)
    if not 0 <= bound < math.inf:
        raise UsageError(f"{value!r} is too large for a limit.", hint=f"Write it as {name} >= NUMBER UNIT.")
    return Limit(text=text, name=name, over=over, device=device, at_most=sign != ">=", bound=bound)


def _units(name: str) -> tuple[str, ...]:
    quantity = quantity_of(name)
    if quantity is None:
        raise _unknown(name, _vocabulary())
    return quantity.units(name)


def _vocabulary() -> Iterator[str]:
    yield from ("health", "soak.cold", "soak.sustained")
    yield from (f"capability.{capability}" for capability in CAPABILITIES)
    for name in (entry.workload.name for entry in built_in()):
        for variant in (TUNED, BASELINE):
            yield f"{name}.{variant}"
            yield from (f"{name}.{variant}.{measure}" for measure in ("step", "mfu", "energy", "memory"))
        yield from (f"scaling.{name}.{count}" for count in (2, 4, 8))


def _unknown(name: str, choices: Iterable[str]) -> UsageError:
    near = get_close_matches(name, list(choices), n=3, cutoff=0.5)
    suggestion = (
        f"Did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}? " if near else ""
    )
    return UsageError(f"Unknown quantity {name!r}.", hint=f"{suggestion}{_HINT}")


def _bound(limit: Limit, units: Sequence[str], text: str, known: Sequence[KnownMachine]) -> float:
    if units[0] == "level":
        if text not in ("ok", "attention"):
            raise UsageError(
                f"{text!r} is not a level of health.",
                hint="Write `health = ok`, or `health = attention` if only failures count.",
            )
        return HEALTH_LEVELS[text]
    match = _NUMBER.fullmatch(text)
    number = math.nan
    if match:
        try:
            number = float(match["number"])
        except ValueError:
            match = None
    if match is None or not 0 < number < math.inf:
        raise UsageError(
            f"{text!r} is not a positive number.", hint=f"Write it as {limit.name} >= NUMBER UNIT."
        )
    unit = match["unit"].strip()
    if match["percent"]:
        number /= 100
    share, _, reference = unit.rpartition("of ")
    if reference and not share.strip() and unit.startswith("of "):
        return number * _referenced(limit, reference.strip(), known)
    if match["percent"] and (unit or "ratio" not in units):
        raise UsageError(
            f"{limit.name} is in {' or '.join(units)}, not in %.",
            hint="A percentage goes with ratios, or write `97% of H100`.",
        )
    scale = _scale(unit, units)
    if scale is None:
        raise UsageError(
            f"{limit.name}{' / ' + limit.over if limit.over else ''} is in {_readable(units)}, not {unit!r}.",
            hint=f"Write the number in {_readable(units)}. {_HINT}",
        )
    return number * scale


def _readable(units: Sequence[str]) -> str:
    words = {"ratio": "no unit, such as 0.95 or 95%", "FLOP/s": "TFLOP/s", "B/s": "GB/s", "B": "GB"}
    return " or ".join(words.get(unit, unit) for unit in units)


def _scale(unit: str, units: Sequence[str]) -> float | None:
    """Return what a unit counts in one of `units`; None if it is none of them."""
    for base in units:
        if unit in ("", base):
            return 1.0
        if _takes_prefix(base) and unit.removesuffix(base) in _PREFIXES and unit.endswith(base):
            return _PREFIXES[unit.removesuffix(base)]
        if base in ("s", "J/sample") and unit.endswith(base) and unit.removesuffix(base) in _SMALL:
            return _SMALL[unit.removesuffix(base)]
        if base == "B" and unit == "GiB":
            return float(1 << 30)
    return None


def _referenced(limit: Limit, reference: str, known: Sequence[KnownMachine]) -> float:
    """Return the median of a limit's quantity over the machines of a name, or whose devices have it in their name."""
    word = reference.casefold()
    machines = [machine for machine in known if machine.name.casefold() == word]
    if not machines:
        pattern = re.compile(rf"(?<![\w]){re.escape(word)}(?![\w])")
        machines = [
            machine
            for machine in known
            if any(pattern.search(one.kind.casefold()) for one in machine.devices.values())
        ]
    if not machines:
        raise UsageError(
            f"No known machine is called {reference!r}, and no GPU of one.",
            hint=f"Choose from: {', '.join(machine.name for machine in known)}. Add one with --reference FILE.",
        )
    found = []
    for machine in machines:
        top, bottom = (machine.values(name) for name in (limit.name, limit.over))
        chosen = {value.device for value in applying(top, limit.device)}
        found += [
            value.estimate.median / _at(bottom, value) for value in top if value.device in chosen and _at(bottom, value)
        ] if limit.over else [value.estimate.median for value in top if value.device in chosen]  # fmt: skip
    if not found:
        raise UsageError(
            f"{reference} has no value of {limit.name}{' / ' + limit.over if limit.over else ''}.",
            hint="Write a number with its unit instead, or add a machine that has it with --reference FILE.",
        )
    return median(found)


def _at(values: Sequence[Value], other: Value) -> float:
    return next((value.estimate.median for value in values if value.device == other.device), 0.0)


def check_workloads(limits: Sequence[Limit], planned: Sequence[PlannedTrial]) -> None:
    """Check that the workloads that limits are about exist.

    Raises:
        UsageError: one is neither built in nor in the plan.
    """
    known = {entry.workload.name for entry in built_in()} | {trial.workload for trial in planned}
    for limit in limits:
        for name in filter(None, (limit.name, limit.over)):
            quantity = quantity_of(name)
            workload = (quantity.names(name) or {}).get("WORKLOAD") if quantity else None
            if workload and workload not in known:
                raise _unknown(name, (*planned_names(planned), *_vocabulary()))


def check_planned(limits: Sequence[Limit], planned: Sequence[PlannedTrial]) -> None:
    """Check that a plan measures everything that limits are about.

    Raises:
        UsageError: it does not.
    """
    check_workloads(limits, planned)
    names = planned_names(planned)
    for limit in limits:
        for name in filter(None, (limit.name, limit.over)):
            quantity = quantity_of(name)
            assert quantity is not None  # parse_limit rejects other names
            devices = names.get(name, ())
            if not devices:
                raise _not_planned(name, quantity, names)
            if limit.device and not quantity.everywhere and limit.device not in devices:
                raise UsageError(
                    f"The limit {limit.text!r} is on {limit.device}, where this run does not measure {name}.",
                    hint=f"Choose from: {', '.join(devices)}; or name the device with --device.",
                )


def _not_planned(name: str, quantity: Quantity, names: Mapping[str, tuple[str, ...]]) -> UsageError:
    same = [name for name in names if (one := quantity_of(name)) and one.pattern == quantity.pattern]
    near = get_close_matches(name, same, n=3, cutoff=0.4)
    suggestion = f" This run measures {', '.join(near)}." if near else ""
    return UsageError(
        f"This run would not measure {name}.",
        hint=f"It needs {quantity.needs}; or take the limit out of the file.{suggestion}",
    )


def limits_text(runs: Sequence[Sequence[Value]], margin: float, names: Sequence[str]) -> str | None:
    """Return a limits file that good runs meet with a margin; None without any.

    What all of them measured, but some would not meet for certain, is left out and named in a comment: those limits
    would reject good machines.

    Args:
        runs: the values of each run that limits may be written for.
        margin: how much worse than the worst median a machine may be, as a share.
        names: of the runs, for the comment.
    """
    lines: list[str] = []
    left_out: list[str] = []
    for name in dict.fromkeys(value.name for value in runs[0]):
        found = [applying((value for value in run if value.name == name), "") for run in runs]
        if all(found):
            text = _line(name, [value for values in found for value in values], margin)
            met = (outcome_of(value, parse_limit(text)) for values in found for value in values)
            (lines if set(met) == {LimitOutcome.MET} else left_out).append(text)
    if not lines:
        return None
    listed = "".join(f"  {json.dumps(line)},\n" for line in lines)
    about = " ".join(printable(", ".join(names), 200).split())
    text = f"# {margin * 100:g} % beyond the worst median of {about}. See docs/limits.md.\nlimits = [\n{listed}]\n"
    if left_out:
        text += "# Left out, because these runs scatter too much, or have a single reading, to meet them for certain:\n"
    return text + "".join(f"# {line}\n" for line in left_out)


def _takes_prefix(unit: str) -> bool:
    return unit == "B" or unit.endswith("/s")


def _line(name: str, found: Sequence[Value], margin: float) -> str:
    medians = [value.estimate.median for value in found]
    if name == "health":
        return "health = ok" if not max(medians) else "health = attention"
    lower = found[0].lower
    bound = max(medians) * (1 + margin) if lower else min(medians) * (1 - margin)
    return f"{name} {'<=' if lower else '>='} {_written(bound, found[0].estimate.unit, up=lower)}"


def _written(value: float, unit: str, *, up: bool) -> str:
    """Return a number with its unit in four digits, rounded to the side that is easier to meet."""
    prefix = ""
    if _takes_prefix(unit):
        prefix = max(
            (prefix for prefix in _PREFIXES if _PREFIXES[prefix] <= value),
            key=_PREFIXES.__getitem__,
            default="",
        )
    scaled = value / _PREFIXES[prefix]
    step = 10.0 ** (math.floor(math.log10(scaled)) - 3)
    rounded = (math.ceil if up else math.floor)(scaled / step) * step
    # Products of powers of ten have rounding errors of their own.
    number = f"{float(format(rounded, '.4g')):.10g}"
    return number if unit == "ratio" else f"{number} {prefix}{unit}"
