import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from harness.analysis import analyse
from harness.model.analysis import Analysis, Cause, CaveatKind, Reading
from harness.model.platform import HealthCheck, Level
from harness.run.catalogue import built_in
from harness.run.store import read_run
from reports import machine, numbers
from reports.overview import rows
from tests.recordings import ALL, DATA, EXPECTED, PAIRS, PUBLISHED, SEVERAL, SUFFIX, figures, recording
from workloads.variants import BASELINE, TUNED

pytestmark = pytest.mark.slow

Folders = Callable[[str], Path]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    into = tmp_path_factory.mktemp("recordings")

    def unpacked(name: str) -> Path:
        path = into / name
        return path if path.exists() else recording(name, into)

    return unpacked


@cache
def replay(path: Path) -> Analysis:
    return analyse(read_run(path))


def test_all_recordings_are_tested_and_small():
    assert {path.name for path in DATA.glob(f"*{SUFFIX}")} == {f"{name}{SUFFIX}" for name in ALL}
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 4 << 20


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, f"{name}/{key}")
    else:
        yield name, value


@pytest.mark.parametrize("name", ALL)
def test_results_match_the_expected_values(name, folder):
    result = dict(leaves(figures(replay(folder(name)))))
    wanted = dict(leaves(json.loads((DATA / f"{name}{EXPECTED}").read_text(encoding="utf-8"))))
    numbers = {key for key, value in wanted.items() if isinstance(value, float)}
    assert {key: result[key] for key in result.keys() - numbers} == {
        key: wanted[key] for key in wanted.keys() - numbers
    }
    for key in numbers:
        assert result[key] == pytest.approx(wanted[key], rel=1e-4), key


def test_published_results_are_compared_with_the_variant_of_their_settings(folder: Folders) -> None:
    run = read_run(folder("h200-compute-bound"))
    (declared,) = (each.workload for each in built_in() if each.workload.name == "resnet50")
    replayed = analyse(replace(run, workloads=(declared,)))
    compared = {each.number.value: each for each in replayed.published}
    half, single = compared[2375.0], compared[909.0]
    assert (half.number.variant, single.number.variant) == (TUNED, BASELINE)
    assert half.factor is not None and half.factor.median == pytest.approx(2.97, abs=0.01)
    (row,) = rows(replayed)
    assert row.published == single
    # An article reports a utilisation of 0 to 10 %: the CPU reads, decodes and augments.
    idle = replay(folder(PUBLISHED)).cases[0].variants[BASELINE]
    assert 0 < idle.telemetry[Reading("nvml", "gpu0", "gpu_util_pct")] < 10


def test_power_that_limited_four_gpus_is_said_of_the_variants_it_slowed(folder):
    """The recording has power_capped_s rise by a second per second at 1,841 to 1,890 of 1,980 MHz."""
    analysis = replay(folder(SEVERAL))
    slowed = {
        case.device: (variant, each.clocks)
        for case, variant, each in analysis.variants
        if each.clocks and each.clocks.slowed
    }
    assert list(slowed) == ["gpu0", "gpu0+gpu1", "gpu0+gpu1+gpu2+gpu3"]
    for variant, each in slowed.values():
        assert variant == TUNED
        assert each.slowed == {Cause.POWER: pytest.approx(1.0, abs=0.01)}
        assert 1830 < each.mhz < 1900
    caveats = [each for each in analysis.caveats if each.kind is CaveatKind.THROTTLED]
    assert {each.device for each in caveats} == slowed.keys()
    assert "1,841" in machine.verdict(analysis)[0]


def printed(text: str) -> float:
    """Return the number at the beginning of a text such as "9,080/s" or "1.38× ±5 %"."""
    found = re.match(r"[\d,.]+", text)
    assert found, text
    return float(found.group().replace(",", ""))


def test_four_linked_gpus_copy_alike_and_computed_the_same(folder):
    analysis = analyse(read_run(folder(PAIRS)))
    linked = [
        pair for pair in analysis.pairs if pair.source.startswith("gpu") and pair.target.startswith("gpu")
    ]
    assert len(linked) == 12 and not any(pair.odd for pair in analysis.pairs)
    assert {(pair.direct, pair.link) for pair in linked} == {(True, "NVLink")}
    assert all(380e9 < pair.value.median < 390e9 for pair in linked)
    (sizes,) = machine.all_reduces(analysis).values()
    assert [round(each.value.median / 1e9) for each in sizes] == [47, 129, 235, 291, 318, 326]
    same = [item for item in analysis.health if item.check is HealthCheck.ANSWERS]
    assert [(item.level, item.facts["checked"]) for item in same] == [(Level.OK, 752)] * 4
    assert "fp8" in {each.name for each in analysis.capabilities}


@pytest.mark.parametrize("name", ALL)
def test_printed_numbers_agree_when_they_are_divided_and_multiplied(name: str, folder: Folders) -> None:
    """Three digits each: rounding alone makes quotients differ by up to a percent."""
    agrees = partial(pytest.approx, rel=0.0101)
    analysis, compared = replay(folder(name)), 0
    for row in rows(analysis):
        for step in row.changes:
            if row.baseline and step.speed:
                quotient = printed(numbers.speed(step.speed)) / printed(numbers.speed(row.baseline))
                assert printed(numbers.factor(step.gain.median)) == agrees(quotient)
                compared += 1
        if row.path and row.best:
            product = math.prod(printed(numbers.factor(factor)) for _, factor in row.path)
            assert printed(numbers.factor(row.best.gain.median)) == agrees(product)
        if row.cpu and row.over_cpu and row.baseline:
            quotient = printed(numbers.speed(row.baseline)) / printed(numbers.speed(row.cpu))
            assert printed(numbers.factor(row.over_cpu.median)) == agrees(quotient)
        if row.each_gpu:
            whole = printed(numbers.speed(row.baseline or row.tuned))
            assert printed(numbers.speed(row.each_gpu)) * row.gpus == agrees(whole)
    assert compared or not any(row.gain for row in rows(analysis))
