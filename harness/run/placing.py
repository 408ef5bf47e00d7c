"""A container's paths as its process sees them, where an engine shows them elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from workloads.protocol import Edit, Fix, Spec
from workloads.variants import BASELINE


def placed(spec: Spec, seen: Callable[[str], str]) -> Spec:
    """Return a specification with its paths, also those of data sets in scripts, as the container's process sees them.

    Args:
        seen: returns a path of the container as its process sees it.
    """
    data = {name: seen(folder) for name, folder in spec.data.items()}
    literals = {repr(folder): repr(data[name]) for name, folder in spec.data.items()}
    written = re.compile("|".join(map(re.escape, literals)) or "(?!)")
    baseline = spec.scripts[BASELINE].text if BASELINE in spec.scripts else ""
    longer = [
        (len(baseline[: found.end()].encode()), len(literals[found[0]].encode()) - len(found[0].encode()))
        for found in written.finditer(baseline)
    ]

    def moved(place: int) -> int:
        return place + sum(more for end, more in longer if end <= place)

    def edits(fix: Fix) -> Iterator[Edit]:
        return (replace(each, start=moved(each.start), end=moved(each.end)) for each in fix.edits)

    return replace(
        spec,
        data=data,
        scripts={
            variant: replace(
                each, path=seen(each.path), text=written.sub(lambda found: literals[found[0]], each.text)
            )
            for variant, each in spec.scripts.items()
        },
        fixes={name: replace(fix, edits=tuple(edits(fix))) for name, fix in spec.fixes.items()},
    )
