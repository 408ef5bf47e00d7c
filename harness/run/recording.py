"""A run inside its report: packed into the HTML page, and taken out of it again.

A page carries `<script id="tfbench-run">`: base64 of xz of one MessagePack document, in which an array is its type
("<i8" or "<f8") and its bytes. The document holds the run and its analysis; of long runs telemetry and single steps
are thinned out so that the page stays small, and the analysis is the one of the whole run.
"""

from __future__ import annotations

import base64
import binascii
import lzma
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.defaults import PAGE_TEXT, PAGE_VALUES
from harness.errors import StoreError
from harness.model.analysis import Analysis
from harness.model.run import SCHEMA_VERSION, Run
from harness.run.plain import from_plain, to_plain
from harness.run.store import read_run
from harness.run.thinning import readings, thinned
from harness.untrusted import MOST_BYTES, cleaned, read_file

FORMAT = "tfbench-run"
_ELEMENT = re.compile(rb'<script [^<>]*\bid="tfbench-run"[^<>]*>([A-Za-z0-9+/=\s]*)</script>')
_LEAST_VALUES = 20_000  # what takes the room is then not these
_PRESET = 3  # a fifth of the time that xz takes by default, for 4 % more bytes
_TYPES = ("<i8", "<f8")
_HINT = "Name a run folder, or a report.html of this version of tfbench."


def open_run(path: Path) -> Run:
    """Read a run from its folder or out of a report file.

    Raises:
        StoreError: it is neither.
    """
    return open_recording(path)[0]


def open_recording(path: Path) -> tuple[Run, Analysis | None]:
    """Read a run from its folder or out of a report file.

    Returns:
        The run, and the analysis that was computed before it was thinned out; None where the run is whole.

    Raises:
        StoreError: it is neither.
    """
    if path.is_dir() or not os.path.lexists(path):
        return read_run(path), None
    content = read_file(path)
    result = _ELEMENT.findall(content)
    if len(result) != 1:
        raise StoreError(f"{path} is not a report that contains its run.", hint=_HINT)
    try:
        return unpack(result[0].decode("ascii"))
    except StoreError as error:
        raise StoreError(f"{path}: {error.message}", hint=error.hint) from error


def carried(analysis: Analysis, *, whole: bool) -> tuple[str, Analysis]:
    """Pack a run and its analysis for a page; too long a run is thinned out.

    Args:
        analysis: the analysis and, in it, the run.
        whole: whether the run is all that was recorded, and not itself taken out of a page for which it
            was thinned out.

    Returns:
        The text for the page's element, and the analysis with the run as it is in the text: a page drawn from
        it is the same when it is drawn again from the page itself.
    """
    most = PAGE_VALUES
    while True:
        shorter = thinned(analysis.run, most)
        fitting = replace(analysis, run=shorter)
        text = pack(fitting, whole=whole and shorter is analysis.run)
        if len(text) <= PAGE_TEXT or most < _LEAST_VALUES:
            return text, fitting
        most = int(min(most, readings(shorter)) * 0.95 * PAGE_TEXT / len(text))


def pack(analysis: Analysis, *, whole: bool) -> str:
    """Return a run and its analysis as text that is safe inside an HTML page.

    Args:
        analysis: the analysis and, in it, the run.
        whole: whether the run is all that was recorded, so that the analysis follows from it.
    """
    document = {
        "format": FORMAT,
        "schema": SCHEMA_VERSION,
        "whole": whole,
        "analysis": to_plain(analysis, _plain_array),
    }
    content = lzma.compress(msgspec.msgpack.encode(document), preset=_PRESET)
    return base64.b64encode(content).decode("ascii")


def unpack(text: str, *, most_bytes: int = MOST_BYTES) -> tuple[Run, Analysis | None]:
    """Take out of text what `pack` put in.

    Args:
        text: what `pack` gave.
        most_bytes: how large it may be unpacked: a page of some kilobytes must not fill the memory.

    Raises:
        StoreError: the text was not made by `pack`, is cut off, or is of a version that this one cannot read.
    """
    content = _content(text, most_bytes)
    try:
        document = cleaned(msgspec.msgpack.decode(content))
        if document["format"] != FORMAT:
            raise StoreError("The report contains no run of tfbench.", hint=_HINT)
        if document["schema"] != SCHEMA_VERSION:
            raise StoreError(
                f"The contained run has schema version {document['schema']!r}; "
                f"this tfbench reads {SCHEMA_VERSION}.",
                hint="Read it with the tfbench version that the report names at its end.",
            )
        analysis = None
        if document["whole"] is True:
            run = from_plain(document["analysis"]["run"], Run, _array)
        else:
            analysis = from_plain(document["analysis"], Analysis, _array)
            run = analysis.run
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"The contained run is damaged: {error}.", hint=_HINT) from error
    return run, analysis


def _content(text: str, most_bytes: int) -> bytes:
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    try:
        content = decoder.decompress(base64.b64decode(text), max_length=most_bytes)
    except (binascii.Error, lzma.LZMAError, ValueError) as error:
        raise StoreError("The contained run is damaged: it cannot be unpacked.", hint=_HINT) from error
    if not decoder.eof:
        raise StoreError("The contained run is damaged: it is truncated or too large.", hint=_HINT)
    return content


def _plain_array(array: NDArray[Any]) -> tuple[str, bytes]:
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    return kind, array.astype(kind).tobytes()


def _array(value: Any) -> NDArray[Any]:
    kind, content = value
    if kind not in _TYPES:
        raise ValueError("an array of another type")
    array: NDArray[Any] = np.frombuffer(content, kind)
    return array.astype(array.dtype.newbyteorder("="))
