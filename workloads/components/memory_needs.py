"""What generation and embedding tables need of memory, and whether it fits, before anything is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.client import device_lib

# What the framework and activations need beside weights and caches.
SHARE = 0.9
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def device_bytes() -> float:
    """Return the memory of the first GPU that TensorFlow may use, else of the container or machine, in bytes."""
    if tf.config.get_visible_devices("GPU"):
        found = [each.memory_limit for each in device_lib.list_local_devices() if each.device_type == "GPU"]
        return float(found[0])
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _CGROUPS):
        text = path.read_text().strip() if path.is_file() else ""
        limits += [int(text)] if text.isdecimal() else []
    return float(min(limits))


class Needs(NamedTuple):
    """What a new token needs at least.

    Attributes:
        flops: floating-point operations of a token, with its share of the prompt: products of matrices, a
            multiplication and an addition each.
        step_bytes: weights that a step of the loop reads, whatever its batch.
        sequence_bytes: keys and values that a step reads of each sequence, on average over its tokens.
    """

    flops: float
    step_bytes: float
    sequence_bytes: float


def generation_needs(
    *, layers: int, width: int, vocabulary: int, positions: int, prompt: int, new_tokens: int, batch: int,
    weight_bytes: int, cache_bytes: int, caches: int = 1,
) -> Needs:  # fmt: skip
    """Return what a decoder of GPT-2's shape needs to generate; check that positions and memory suffice.

    Args:
        prompt, new_tokens: tokens of a sequence; positions: most that the network has.
        batch: sequences.
        weight_bytes, cache_bytes: size of a weight, and of a number in the cache of keys and values.
        caches: how many copies of the cache are there at once.

    Raises:
        ValueError: the sequence is longer than the positions.
        MemoryError: weights or caches do not fit; the message says what does.
    """
    if min(prompt, new_tokens, batch) < 1:
        raise ValueError("PROMPT, NEW_TOKENS and BATCH_SIZE must be at least 1.")
    length = prompt + new_tokens
    if length > positions:
        most = positions - prompt
        fits = f"At most {most:,} new tokens fit." if most > 0 else f"A prompt has at most {positions - 1:,}."
        raise ValueError(
            f"The model has {positions:,} positions; a prompt of {prompt:,} and {new_tokens:,} new tokens take "
            f"{length:,}. {fits}"
        )
    blocks, table = 12 * layers * width**2, vocabulary * width
    weights = weight_bytes * (blocks + table + positions * width)
    token = 2 * layers * width * cache_bytes  # its keys and values
    sequence, free = token * length * caches, SHARE * device_bytes()
    what = f"Weights take {_gb(weights)} of the {_gb(free)} that this device has for weights and caches"
    if weights + sequence > free:
        raise MemoryError(f"{what}, and the cache of one sequence {_gb(sequence)}. Use a smaller SIZE.")
    if weights + batch * sequence > free:
        most = int((free - weights) // sequence)
        raise MemoryError(
            f"{what}, and caches of {batch:,} sequences {_gb(batch * sequence)}. A batch of at most {most:,} fits."
        )
    # Each token but the last goes through the blocks, each new one through the matrix of the logits; a token attends
    # to itself and all before it.
    flops = (
        2 * blocks * (length - 1) + 2 * table * new_tokens + 4 * layers * width * (length - 1) * length / 2
    )
    return Needs(
        flops=flops / new_tokens,
        step_bytes=weight_bytes * (blocks + table),
        sequence_bytes=token * (prompt + new_tokens / 2),
    )


def check_tables(*, row_bytes: int, fixed_bytes: float, rows: list[int], most_rows: int) -> None:
    """Check that embedding tables fit.

    Args:
        row_bytes: size of a row with the optimizer's state and temporary copies.
        fixed_bytes: what the rest needs.
        rows: rows of each table; most_rows: the limit that was applied to each.

    Raises:
        MemoryError: they do not; the message says what limit does.
    """
    free = SHARE * device_bytes() - fixed_bytes
    need = row_bytes * sum(rows)
    if need <= free:
        return
    low, high = 0, most_rows
    while high - low > 1:
        middle = (low + high) // 2
        fits = row_bytes * sum(min(middle, each) for each in rows) <= free
        low, high = (middle, high) if fits else (low, middle)
    fits_text = f"MAX_ROWS={low} fits." if low else "Use a smaller batch."
    raise MemoryError(
        f"Tables of {sum(rows):,} rows take {_gb(need)} with the optimizer's state; the device has {_gb(max(0, free))} "
        f"for them. {fits_text}"
    )


def _gb(size: float) -> str:
    return f"{size / 1e9:.3g} GB"
