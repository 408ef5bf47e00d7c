"""The default of a workload's `data`: pixels as fractions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workloads.protocol import Arrays, Split


def unit_range(arrays: Arrays, params: Mapping[str, Any]) -> tuple[Split, Split]:
    """Scale integer samples to float32 in [0, 1], as in the articles; labels are unchanged."""
    del params
    return (
        (_unit(arrays["x_train"]), np.asarray(arrays["y_train"])),
        (_unit(arrays["x_test"]), np.asarray(arrays["y_test"])),
    )


def _unit(x: Any) -> Any:
    x = np.asarray(x)
    if not np.issubdtype(x.dtype, np.integer):
        return x.astype(np.float32, copy=False)
    return x.astype(np.float32) / np.float32(np.iinfo(x.dtype).max)
