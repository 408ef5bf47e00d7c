"""The cats-and-dogs archive (J. Elson et al., "Asirra", 2007, published by Microsoft): 25,000 photographs.

Broken files (empty, truncated, not JPEG) are skipped and counted: training would fail at the first.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from harness.data.jpegs import PARTS
from harness.errors import DataError
from workloads.protocol import Data

CLASSES = ("cat", "dog")
_MEMBER = re.compile(r"PetImages/(?P<name>Cat|Dog)/(?P<number>\d+)\.jpg")
_MODES = ("RGB", "L")
# Files that are read at a time.
_AHEAD = 64


def unpack_pets(files: Sequence[Path], data: Data, folder: Path) -> str:
    """Write the first intact pictures as <part>/<class>/<number>.jpg and return a remark on those skipped.

    The first ones of each class are for training, the next for testing, as in the article.

    Raises:
        DataError: the archive has too few intact pictures.
    """
    (path,) = files
    kept = skipped = 0
    with zipfile.ZipFile(path) as archive:
        for label, name in enumerate(CLASSES):
            wanted = [len(range(label, count, data.classes)) for count in (data.train, data.test)]
            targets = _targets(folder, name, wanted)
            for content, whole in _checked(archive, name):
                if not whole:
                    skipped += 1
                elif target := next(targets, None):
                    target.write_bytes(content)
                    kept += 1
                else:
                    break
            if next(targets, None) is not None:
                raise DataError(
                    f"{path} has fewer than {sum(wanted):,} intact pictures of class {name}.",
                    hint="Declare fewer in the workload's Data(...), or use --data procedural.",
                )
    return f"{skipped:,} broken files of {skipped + kept:,} skipped"


def is_whole(content: bytes) -> bool:
    """Return whether a file is a complete JPEG in colour or grey."""
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
            image.load()
            return image.mode in _MODES
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


def _targets(folder: Path, name: str, wanted: Sequence[int]) -> Iterator[Path]:
    for part, count in zip(PARTS, wanted, strict=True):
        (folder / part / name).mkdir(parents=True)
        for number in range(count):
            yield folder / part / name / f"{number:05d}.jpg"


def _checked(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the content of a class's files by number, and whether each is intact."""
    members = sorted(
        (int(match["number"]), member)
        for member in archive.namelist()
        if (match := _MEMBER.fullmatch(member.replace("\\", "/"))) and match["name"].lower() == name
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(members), _AHEAD):
            contents = [archive.read(member) for _, member in members[start : start + _AHEAD]]
            yield from zip(contents, pool.map(is_whole, contents), strict=True)
