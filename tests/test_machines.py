"""Files of known machines: those that ship, which pull requests add to, one's own, and where a machine stands."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import reference
from harness.analysis import analyse, judged
from harness.analysis.known import known_machine
from harness.analysis.quantities import quantity_of
from harness.cli.rendering import Standards, without_effect
from harness.errors import StoreError
from harness.model.analysis import Analysis, Condition, Standing
from harness.model.comparison import KnownDevice, KnownMachine
from harness.run.machines import (
    INDEX,
    MACHINE_SUFFIX,
    MACHINES,
    added_machines,
    machine_json,
    read_machine,
    shipped_machines,
)
from reports import machine
from reports.page import figures_of
from tests import special_runs
from tests.report_pages import recorded

FILES = sorted(MACHINES.glob(f"*{MACHINE_SUFFIX}"))
# What identifies a machine: UUIDs, MAC and IP addresses, serial numbers, paths, and names with a domain.
IDENTITY = re.compile(
    r"GPU-|MIG-|[0-9a-f]{8}-[0-9a-f]{4}-|([0-9a-f]{2}:){5}|\b\d+\.\d+\.\d+\.\d+\b|serial|hostname|/home|/root"
    r"|\.(internal|local|com|net|org|io)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_that_ships_is_small_readable_and_anonymous(path: Path) -> None:
    """Whoever adds a machine by pull request is told here what is wrong with its file."""
    text = path.read_text(encoding="utf-8")
    assert len(text) < 16 << 10
    assert not IDENTITY.search(text), "tfbench report RUN -f machine writes nothing that identifies a machine"
    known = read_machine(path)
    assert text == machine_json(known), "no more fields than tfbench writes"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", known.date) and known.host and known.devices
    assert re.fullmatch(r"[a-z0-9-]+", known.name)
    for device in known.devices.values():
        assert device.kind and device.values
        assert [name for name in device.values if quantity_of(name) is None] == []


def test_the_index_is_that_of_the_files() -> None:
    assert INDEX.read_text(encoding="utf-8") == reference.index(), "run: python -m benchmarks.reference"
    assert {each.name for each in shipped_machines(["NVIDIA H200"])} == {"four-h200", "h200"}
    assert len(shipped_machines()) == len(FILES)
    assert shipped_machines(["a GPU of another world"]) == ()


@pytest.mark.parametrize("name", ["h100-default", "h200-machine", "h100-two-gpus"])
def test_a_run_writes_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    run = recorded(name)
    known = known_machine(analyse(run))
    (tmp_path / f"here{MACHINE_SUFFIX}").write_text(machine_json(known), encoding="utf-8")
    assert added_machines([tmp_path]) == (replace(known, name="here"),)
    text = machine_json(known)
    assert len(text) < 8 << 10
    assert not IDENTITY.search(text)
    assert all(gpu.uuid not in text for gpu in run.manifest.gpus)
    assert str(run.manifest.host_facts.get("boot_id", "none")) not in text


def test_names_of_users_scripts_stay_private() -> None:
    run = special_runs.measured_machine_run()
    options = replace(run.manifest.options, workloads=("/home/ann/cifar100-mlp.py",))
    private = analyse(replace(run, manifest=replace(run.manifest, options=options)))
    assert "cifar100-mlp" in machine_json(known_machine(analyse(run)))
    assert "cifar100-mlp" not in machine_json(known_machine(private))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "is not the file of a machine"),
        ('{"schema": "tfbench-extract", "schema_version": 2}', r"at `\$.schema`"),
        ('{"schema": "tfbench-machine", "schema_version": 2}', "schema_version"),
        (" " * (50 << 20), "larger than 64 KiB"),
        (
            machine_json(KnownMachine(date="", host="", devices={"cpu": KnownDevice(kind="", values={"x": -1.0})})),
            "no measured value",
        ),
        (
            machine_json(KnownMachine(date="", host="", devices={"cpu": KnownDevice(kind="", values={"x": 1e-300})})),
            "no measured value",
        ),
    ],
)  # fmt: skip
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "other.machine.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=message) as caught:
        read_machine(path)
    assert "--format machine" in caught.value.hint
    assert "\n" not in caught.value.message
    with pytest.raises(StoreError, match=r"has no files named \*\.machine\.json"):
        added_machines([tmp_path / "empty"] if (tmp_path / "empty").mkdir() is None else [])


def others(count: int, *, scale: float = 1.0, step: float = 0.01, **changes: object) -> list[KnownMachine]:
    """Return machines like the simulated one, each faster than the one before."""
    own = known_machine(analyse(special_runs.measured_machine_run()))

    def scaled(device: KnownDevice, factor: float) -> KnownDevice:
        values = {name: value * factor for name, value in device.values.items()}
        return replace(device, values=values, **changes)

    return [
        replace(
            own,
            name=str(number),
            devices={
                name: scaled(device, scale * (1 + step * number)) for name, device in own.devices.items()
            },
        )
        for number in range(count)
    ]


def among(machines: list[KnownMachine], scale: float = 1.0) -> tuple[Analysis, Standing]:
    analysis = judged(analyse(special_runs.measured_machine_run(scale=scale)), machines)
    return analysis, next(
        each
        for each in analysis.standings
        if (each.value.name, each.value.device) == ("capability.bf16", "gpu0")
    )


@pytest.mark.parametrize(
    ("count", "scale", "words"),
    [
        (1, 0.9, "below the only other"),
        (4, 1.015, "between the 2nd and 3rd of 4"),
        (4, 1.1, "above all 4"),
        (12, 1.065, "better than 7 of 12"),
        (39, 1.145, "38th percentile of 39"),
    ],
)
def test_the_place_is_said_as_exactly_as_the_others_allow(count: int, scale: float, words: str) -> None:
    _, standing = among(others(count), scale)
    assert machine.place(standing) == words
    assert len(standing.others) == count


def test_a_machine_is_not_compared_with_its_own_file() -> None:
    own = replace(known_machine(analyse(special_runs.measured_machine_run())), name="this one")
    _, standing = among([*others(4, scale=1.001), own])
    assert len(standing.others) == 4


def test_only_the_same_kind_is_compared_and_drawn() -> None:
    analysis, standing = among(others(4), 0.95)
    assert standing.kind == "NVIDIA H200"
    assert standing.ratio == pytest.approx(0.95 / 1.015, rel=0.01)
    assert "GPU 0 at 94\u202f% of 4 others like it" in machine.verdict(analysis)[0]
    rows = figures_of(analysis)["figure-kind"].table.rows
    assert {row[1] for row in rows} >= {"BF16", "cifar100-mlp.tuned"}
    assert "reading the data" not in {row[1] for row in rows}, "which is not of the kind"
    foreign = others(4, kind="another")
    assert judged(analyse(special_runs.measured_machine_run()), foreign).standings == ()
    assert (
        without_effect(analysis, Standards(machines=tuple(others(4))))
        == without_effect(analysis, Standards())
        == ""
    )
    assert "this run has none of them" in without_effect(analysis, Standards(machines=tuple(foreign)))
    alone = replace(analysis, standings=())
    assert "has measured none" in without_effect(alone, Standards(machines=tuple(others(4))))
    own = replace(known_machine(analysis), name="own")
    assert "this run's own file" in without_effect(alone, Standards(machines=(own,)))
    assert "figure-kind" not in figures_of(judged(analyse(special_runs.measured_machine_run()), foreign))


def test_differences_that_conditions_explain_are_told_apart() -> None:
    same, other = others(2), others(3, scale=1.1, driver="999.1")
    assert among([*same, *other])[1].explained == (Condition.DRIVER,)
    assert among(other)[1].unshared == (Condition.DRIVER,), "nothing with this driver is known"
    faster = others(3, scale=1.1)
    assert among(faster)[1].explained == among(faster)[1].unshared == ()
    clocked = others(3, scale=1.1, mhz={"capability.bf16": 1980 * 1.1})
    assert Condition.CLOCK in among(clocked)[1].explained
    assert machine.why(among(clocked)[1]) == "explained by the clock"
    near = others(3, scale=1.005, driver="999.1")
    assert among(near)[1].unshared == (), "a small difference needs no explanation"


def test_the_index_is_json_of_kinds() -> None:
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    assert {name for names in index.values() for name in names} == {
        path.name.removesuffix(MACHINE_SUFFIX) for path in FILES
    }
