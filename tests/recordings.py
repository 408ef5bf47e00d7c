"""Recorded runs: archives in tests/data with one run folder each, and the expected results of their analysis.

`python -m tests.recordings` updates the expected results; every changed number needs a reason.
"""

import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.analysis import analyse
from harness.model.analysis import Analysis, Estimate
from harness.run.store import read_run

DATA = Path(__file__).resolve().parent / "data"
SUFFIX, EXPECTED = ".tar.xz", ".expected.json"
# Whole runs on one GPU.
NAMES = ("h200-launch-bound", "h200-compute-bound", "h200-input-bound", "h200-inference")
# The default suite on the CPU and a GPU, with its two large models on the GPU.
SUITE = "h100-default"
# A default workload and the machine's trials on each GPU and on both, with a soak.
TWO_GPUS = "h100-two-gpus"
# One, two and four GPUs; stopped by Ctrl-C during the last trial.
SEVERAL = "h200-four-gpus"
# An article's workload as published; stopped by Ctrl-C during the CPU trial.
PUBLISHED = "h200-cats-dogs"
# The default suite with remedies and the machine's own trials, on a GPU alone.
MACHINE_RUN = "h200-machine"
# The default suite with a process for each run of a script, readings in rounds, and remedies between baselines.
PROCESSES = "h100-processes"
# Copies between the pairs of four GPUs, the all-reduce by size, FP8, and seeded results under a load.
PAIRS = "h200-pairs"
# A convolutional network on two CPUs, one of which another program used for the first 45 s.
NEIGHBOUR = "vcpus-neighbour"
ALL = (*NAMES, SUITE, PROCESSES, TWO_GPUS, SEVERAL, PUBLISHED, MACHINE_RUN, PAIRS, NEIGHBOUR)


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a recording and return its run folder, named after the archive."""
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into / archive.name.removesuffix(SUFFIX)


def recording(name: str, into: Path) -> Path:
    return unpack(DATA / f"{name}{SUFFIX}", into)


def figures(analysis: Analysis) -> dict[str, Any]:
    """Return description -> results of an analysis: numbers with their intervals, and causes."""
    return dict(_figures(analysis))


def _figures(analysis: Analysis) -> Iterator[tuple[str, Any]]:
    for case, variant, result in analysis.variants:
        name = f"{case.workload} {case.device} {variant}"
        yield f"{name} samples/s", _ends(result.throughput)
        yield f"{name} J/sample", _ends(result.energy_j_per_sample)
        yield f"{name} steps", list(result.step_quantiles.values())
        if time := result.breakdown:
            yield f"{name} parts", {part.value: value.median for part, value in time.parts.items()}
        for kind, ratio in result.ratios.items():
            yield f"{name} {kind}", _ends(ratio)
        for capacity in result.capacities:
            yield f"{name} within {capacity.bound_s:g} s", [_ends(capacity.rate_per_s), capacity.kept]
        for latency in result.latencies:
            how = f"{latency.scenario} {latency.batch_size} {latency.rate_per_s or ''}"
            yield f"{name} {how}", dict(latency.quantiles_s)
    for able in analysis.capabilities:
        yield f"{able.device} {able.name} of the sheet", able.sheet and able.value.median / able.sheet
    found = [(case, finding) for case in analysis.cases for finding in case.findings]
    for number, (case, finding) in enumerate(found):
        yield f"finding {number}", [
            case.workload, case.device, finding.cause.value, list(finding.stages), _ends(finding.share),
            _ends(finding.ablation.predicted) if finding.ablation else None, finding.remedy and finding.remedy.variant,
        ]  # fmt: skip
    yield (
        "caveats",
        [
            " ".join(filter(None, (each.kind, each.workload, each.device, each.variant, each.source)))
            for each in analysis.caveats
        ],
    )


def _ends(value: Estimate | None) -> list[float]:
    return [] if value is None else [value.low, value.median, value.high]


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.6g}")
        case list():
            return [_rounded(each) for each in value]
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
    return value


def _write() -> None:
    for name in ALL:
        with tempfile.TemporaryDirectory() as folder:
            result = figures(analyse(read_run(recording(name, Path(folder)))))
        lines = (f"{json.dumps(key)}: {json.dumps(_rounded(value))}" for key, value in result.items())
        text = ",\n".join(lines)
        (DATA / f"{name}{EXPECTED}").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
