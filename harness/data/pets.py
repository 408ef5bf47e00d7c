"""The cats-and-dogs archive (J. Elson et al., "Asirra", 2007, published by Microsoft): 25,000 photographs.

Broken files (empty, truncated, not JPEG) are skipped and counted, because training would fail on them.
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
from harness.model.workload import Data

CLASSES = ("cat", "dog")
_MEMBER = re.compile(r"PetImages/(?P<name>Cat|Dog)/(?P<number>\d+)\.jpg")
_MODES = ("RGB", "L")
_BATCH_FILES = 64  # read at a time


def unpack_pets(files: Sequence[Path], data: Data, folder: Path) -> str:
    """Write the first intact pictures as <part>/<class>/<number>.jpg; return a remark on skipped files.

    The first pictures of each class are for training, the next for testing, as in the article.

    Raises:
        DataError: the archive has too few intact pictures.
    """
    (path,) = files
    written = skipped = 0
    with zipfile.ZipFile(path) as archive:
        for label, name in enumerate(CLASSES):
            counts = [len(range(label, count, data.classes)) for count in (data.train, data.test)]
            targets = _targets(folder, name, counts)
            for content, intact in _read_class(archive, name):
                if not intact:
                    skipped += 1
                elif target := next(targets, None):
                    target.write_bytes(content)
                    written += 1
                else:
                    break
            if next(targets, None) is not None:
                raise DataError(
                    f"{path} has fewer than {sum(counts):,} intact pictures of class {name}.",
                    hint="Declare fewer samples in the workload's Data(...), or use --data procedural.",
                )
    return f"{skipped:,} broken files of {skipped + written:,} skipped"


def is_intact(content: bytes) -> bool:
    """Return whether a file is a complete RGB or greyscale JPEG."""
    try:
        with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
            image.load()
            return image.mode in _MODES
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False


def _targets(folder: Path, name: str, counts: Sequence[int]) -> Iterator[Path]:
    for part, count in zip(PARTS, counts, strict=True):
        (folder / part / name).mkdir(parents=True)
        for number in range(count):
            yield folder / part / name / f"{number:05d}.jpg"


def _read_class(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[bytes, bool]]:
    """Yield the content of each file of a class, in numeric order, and whether it is intact."""
    members = sorted(
        (int(match["number"]), member)
        for member in archive.namelist()
        if (match := _MEMBER.fullmatch(member.replace("\\", "/"))) and match["name"].lower() == name
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(members), _BATCH_FILES):
            contents = [archive.read(member) for _, member in members[start : start + _BATCH_FILES]]
            yield from zip(contents, pool.map(is_intact, contents), strict=True)
