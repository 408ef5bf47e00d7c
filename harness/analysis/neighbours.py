"""Compare the GPUs of one machine with each other: same hour, same host, no reference needed.

For each GPU, the deviation in a family of quantities is the median over them of log(its value / median of the other
GPUs' values). A GPU is named if its deviation is

- at least MIN_LOSS, below which nobody would return a GPU;
- improbable beside the scatter of the other GPUs. Three deviations alone are a poor estimate of a scatter, so it is
  moderated by the usual one (Smyth 2004, "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3):
  PRIOR_DEGREES degrees of freedom with a standard deviation of PRIOR, about that of GPUs in one host. The level of 5 %
  is shared by all GPUs and families (Bonferroni);
- beyond the error of its own readings, which matters where trials scatter widely: t at WITHIN, four standard errors of
  many readings. Without several readings, the standard error is that of the deviations within the family, and a family
  of one or two cannot name a GPU.

tests/test_neighbours.py has the rates: 100 draws of equal GPUs name none, and a GPU that is 6 % slow is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from harness.analysis.quantities import values
from harness.intervals import t_quantile
from harness.model.analysis import Analysis, Estimate, Outlier
from harness.model.device import gpu_names
from workloads.protocol import COPIES, PRECISIONS

MIN_GPUS = 3
MIN_LOSS = 0.03
PRIOR, PRIOR_DEGREES = 0.01, 4
LEVEL, WITHIN = 0.05, 3e-5

_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "compute": tuple(f"capability.{each}" for each in PRECISIONS),
    "memory": ("capability.memory",),
    "copies": tuple(f"capability.{each}" for each in COPIES),
    "launch": ("capability.launch",),
}
ALL, WORKLOADS = "all", "workloads"

Table = Mapping[str, Mapping[str, Estimate]]  # name -> GPU -> value


def outliers(analysis: Analysis) -> tuple[Outlier, ...]:
    """Return the GPUs that are slower than their neighbours, each once, with its widest family."""
    gpus = analysis.run.manifest.gpus
    kinds = dict.fromkeys(gpu.name for gpu in gpus)
    result: dict[str, Outlier] = {}
    for kind in kinds:
        same = [f"gpu{position}" for position, gpu in enumerate(gpus) if gpu.name == kind]
        tables = _families(analysis, same)
        tests = max(1, len(tables) * len(same))
        for family, table in tables.items():
            for each in _named(family, table, LEVEL / tests):
                result.setdefault(each.device, each)
    return tuple(result.values())


def _families(analysis: Analysis, gpus: Sequence[str]) -> dict[str, Table]:
    """Return the quantities of each family that all these GPUs measured; all of them together come first."""
    found: dict[str, dict[str, Estimate]] = {}
    for each in values(analysis, kept=True):
        alone = each.device in gpus and gpu_names(each.device) == (each.device,)
        if alone and not each.lower and each.estimate.median > 0:
            found.setdefault(each.name, {})[each.device] = each.estimate
    measured = max((len(each) for each in found.values()), default=0)
    whole = {name: each for name, each in found.items() if len(each) == measured >= MIN_GPUS}
    tables: dict[str, Table] = {ALL: whole}
    for family, names in _FAMILIES.items():
        tables[family] = {name: whole[name] for name in names if name in whole}
    listed = {name for names in _FAMILIES.values() for name in names}
    tables[WORKLOADS] = {name: each for name, each in whole.items() if name not in listed}
    return {family: table for family, table in tables.items() if table}


def _named(family: str, table: Table, level: float) -> Iterator[Outlier]:
    gpus = list(next(iter(table.values())))
    rows = [[row[gpu] for gpu in gpus] for row in table.values()]
    logs = np.log([[each.median for each in row] for row in rows])
    for position, gpu in enumerate(gpus):
        k = len(gpus) - 1
        # Against each other: the one that may be slow has no say in their scatter.
        inner = np.delete(logs, position, axis=1)
        own = np.array([_deviation(inner, other) for other in range(k)])
        scatter = float(((own - own.mean()) ** 2).sum()) * ((k - 1) / k) ** 2
        degrees = k - 1 + PRIOR_DEGREES
        deviation = math.sqrt((scatter + PRIOR_DEGREES * PRIOR**2) / degrees)
        chance = t_quantile(degrees, level) * deviation * math.sqrt(1 + 1 / k)
        noise = _noise(logs, rows, position)
        loss = -_deviation(logs, position)
        if loss >= -math.log(1 - MIN_LOSS) and loss > chance and loss > noise:
            yield Outlier(device=gpu, family=family, ratio=math.exp(-loss), others=k)


def _deviation(logs: NDArray[np.float64], position: int) -> float:
    others = np.delete(logs, position, axis=1)
    return float(np.median(logs[:, position] - np.median(others, axis=1)))


def _noise(logs: NDArray[np.float64], rows: Sequence[Sequence[Estimate]], position: int) -> float:
    """Return what the error of a deviation does not exceed, from readings, or else from the scatter in the family."""
    count, k = len(logs), logs.shape[1] - 1
    median_costs = math.sqrt(math.pi / 2) if count > 2 else 1.0
    spreads = [_spread(row) for row in rows]
    degrees = sum(each for _, each in spreads)
    if degrees:
        # Single readings scatter as others do.
        usual = median(deviation for deviation, each in spreads if each)
        squares = (
            (deviation if each else usual) ** 2 / min(value.n for value in row)
            for (deviation, each), row in zip(spreads, rows, strict=True)
        )
        error = math.sqrt(median(squares) * (1 + 1 / k))
    elif count > 2:
        own = logs[:, position] - np.median(np.delete(logs, position, axis=1), axis=1)
        error, degrees = 1.4826 * median(np.abs(own - np.median(own)).tolist()), count - 1
    else:
        return math.inf
    return t_quantile(degrees, WITHIN) * error * median_costs / math.sqrt(count)


def _spread(row: Sequence[Estimate]) -> tuple[float, int]:
    """Return the deviation of a reading's logarithm and its degrees of freedom, pooled over the GPUs; 0 if unknown."""
    squares, degrees = 0.0, 0
    for value in row:
        if value.n > 1 and value.low > 0:
            error = math.log(value.high / value.low) / 2 / t_quantile(value.degrees)
            squares += error**2 * value.n * (value.n - 1)
            degrees += value.n - 1
    return (math.sqrt(squares / degrees), degrees) if degrees else (0.0, 0)
