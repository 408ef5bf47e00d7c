"""Embed a run in its HTML report, and read it back.

A page contains `<script id="tfbench-run">`: base64 of xz of a MessagePack document, in which an array is a type
("<i8" or "<f8") and its bytes. The document has the run and its analysis. In long runs, telemetry and single steps
are downsampled to keep the page small; the analysis is always that of the complete run.

Extracts, compact summaries of runs, are JSON files. Those of the reference machines ship with tfbench.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import lzma
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness.defaults import MAX_PAGE_CHARACTERS, MAX_PAGE_VALUES
from harness.errors import StoreError
from harness.model.analysis import Analysis
from harness.model.comparison import Extract
from harness.model.run import SCHEMA_VERSION, Run
from harness.run.downsampling import count_values, downsample_run
from harness.run.events import MAX_WARNINGS
from harness.run.json_values import from_plain, to_plain
from harness.run.store import check_workloads, read_run
from harness.untrusted import MAX_VALUES, check_message_pack, parse_json, read_file, sanitized

# File name suffix of extracts.
EXTRACT_SUFFIX = ".extract.json"
_REFERENCES = Path(__file__).with_name("references")
_ELEMENT = re.compile(rb'<script [^<>]{0,99}\bid="tfbench-run"[^<>]{0,99}>([A-Za-z0-9+/=\s]*)</script>')
_DIGEST = re.compile(rb'id="tfbench-digest">([0-9a-f]{64})<')
_MIN_VALUES = 20_000  # below this, downsampling no longer shrinks the page
_MAX_BYTES = 256 << 20  # the largest recorded run has 3 MB
_PRESET = 3  # takes a fifth of the default's time, for 4 % more bytes
_TYPES = ("<i8", "<f8")
_HINT = "Give a run folder, or a report.html of this version of tfbench."


def open_run(path: Path) -> Run:
    """Read a run from a run folder or report file.

    Raises:
        StoreError: it is neither.
    """
    return open_recording(path)[0]


def open_recording(path: Path) -> tuple[Run, Analysis | None]:
    """Read a run, and the analysis computed before it was downsampled (None if the run is complete).

    Raises:
        StoreError: it is neither.
    """
    if path.is_dir() or not os.path.lexists(path):
        return read_run(path), None
    return _unpack_from(path, read_file(path))


def verify(path: Path) -> tuple[str, str]:
    """Check the embedded run of a report against the digest that its page shows; return run id and digest.

    Raises:
        StoreError: not a report, without a digest, damaged or altered.
    """
    if path.is_dir():
        raise StoreError(
            f"{path} is not a report file.", hint="Give a report.html; run folders have no digest."
        )
    content = read_file(path)
    run, _ = _unpack_from(path, content)
    shown = [match.decode() for match in _DIGEST.findall(content)]
    digest = hashlib.sha256(_ELEMENT.findall(content)[0]).hexdigest()
    if shown != [digest]:
        said = ", ".join(shown) or "none"
        raise StoreError(
            f"{path} is altered: the SHA-256 of its run is {digest}, the page shows {said}.",
            hint="Get the report again from its author.",
        )
    return run.manifest.run_id, digest


def _unpack_from(path: Path, content: bytes) -> tuple[Run, Analysis | None]:
    matches = _ELEMENT.findall(content)
    if len(matches) != 1:
        raise StoreError(f"{path} is not a tfbench report.", hint=_HINT)
    try:
        return unpack(matches[0].decode("ascii"))
    except StoreError as error:
        raise StoreError(f"{path}: {error.message}", hint=error.hint) from error


def pack_for_page(analysis: Analysis, *, whole: bool) -> tuple[str, Analysis]:
    """Pack an analysis and its run for a page; downsample the run if it is too long.

    Args:
        whole: whether the run is complete, so that the analysis can be recomputed from it.

    Returns:
        The text for the page, and the analysis with the run as packed. Drawing the page from the latter ensures that
        a page regenerated from the packed run is identical.
    """
    limit = MAX_PAGE_VALUES
    while True:
        downsampled = downsample_run(analysis.run, limit)
        result = replace(analysis, run=downsampled)
        text = pack(result, whole=whole and downsampled is analysis.run)
        if len(text) <= MAX_PAGE_CHARACTERS or limit < _MIN_VALUES:
            return text, result
        limit = int(min(limit, count_values(downsampled)) * 0.95 * MAX_PAGE_CHARACTERS / len(text))


def pack(analysis: Analysis, *, whole: bool) -> str:
    """Encode an analysis and its run as text that is safe in HTML; `whole` as in `pack_for_page`."""
    document = {
        "schema": SCHEMA_VERSION,
        "whole": whole,
        "analysis": to_plain(analysis, _encode_array),
    }
    content = lzma.compress(msgspec.msgpack.encode(document), preset=_PRESET)
    return base64.b64encode(content).decode("ascii")


def unpack(text: str, *, max_bytes: int = _MAX_BYTES) -> tuple[Run, Analysis | None]:
    """Decode text from `pack`.

    Raises:
        StoreError: the text is not from `pack`, truncated, of another version, or decompresses to more than
            `max_bytes`.
    """
    content = _content(text, max_bytes)
    try:
        check_message_pack(content)
        document = sanitized(msgspec.msgpack.decode(content))
        if document["schema"] != SCHEMA_VERSION:
            raise StoreError(
                f"The embedded run has schema version {document['schema']!r:.20}; "
                f"this tfbench reads {SCHEMA_VERSION}.",
                hint="Use the tfbench version named at the end of the report.",
            )
        analysis = None
        if document["whole"] is not True:
            analysis = from_plain(document["analysis"], Analysis, _decode_array)
        run = analysis.run if analysis else from_plain(document["analysis"]["run"], Run, _decode_array)
        check_workloads(run.planned, run.workloads)
        if any(len(trial.warnings) > MAX_WARNINGS for trial in run.trials):
            raise ValueError("a trial has too many warnings")
    except (KeyError, TypeError) as error:
        raise StoreError("The embedded run is damaged: it is not a run.", hint=_HINT) from error
    except (ValueError, OverflowError, RecursionError) as error:
        # An analysis is laid out as its version of tfbench does.
        what = "damaged, or of another version" if isinstance(error, msgspec.ValidationError) else "damaged"
        raise StoreError(f"The embedded run is {what}: {error}.", hint=_HINT) from error
    return run, analysis


def _content(text: str, max_bytes: int) -> bytes:
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    try:
        content = decoder.decompress(base64.b64decode(text), max_length=max_bytes)
    except (binascii.Error, lzma.LZMAError, ValueError) as error:
        raise StoreError("The embedded run is damaged: it cannot be decompressed.", hint=_HINT) from error
    if not decoder.eof or decoder.unused_data:
        raise StoreError("The embedded run is damaged: it is truncated or too large.", hint=_HINT)
    return content


def _encode_array(array: NDArray[Any]) -> tuple[str, bytes]:
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    return kind, array.astype(kind).tobytes()


def _decode_array(value: Any) -> NDArray[Any]:
    kind, content = value
    if kind not in _TYPES:
        raise ValueError("an array of an unknown type")
    if len(content) > 8 * MAX_VALUES:
        raise ValueError("an array of too many values")
    array: NDArray[Any] = np.frombuffer(content, kind)
    return array.astype(array.dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractFile:
    """Content of an extract file."""

    schema: Literal["tfbench-extract"] = "tfbench-extract"
    schema_version: Literal[3] = 3
    extract: Extract


def read_extract_file(text: str | bytes) -> Extract:
    """Return an extract from JSON.

    Raises:
        StoreError: not an extract of this version.
    """
    try:
        return msgspec.convert(parse_json(text), ExtractFile).extract
    except ValueError as error:
        raise StoreError(
            f"Not an extract of this version: {error}.", hint="Recreate it with this version of tfbench."
        ) from error


def references() -> Mapping[str, Path]:
    """Return name -> extract file of the reference machines."""
    return {
        path.name.removesuffix(EXTRACT_SUFFIX): path
        for path in sorted(_REFERENCES.glob(f"*{EXTRACT_SUFFIX}"))
    }
