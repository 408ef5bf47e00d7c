"""What GPUs of one machine exchange: copies from one to another, and sums over all of them."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import tensorflow as tf

from workloads.driver import devices

# A call to repeat, the work of one call, and what waits for its end.
Work = tuple[Callable[[], Any], float, Callable[[], Any]]

PEER_BYTES = 128 << 20
# Bytes that one call reduces, and the limits of how often: a call of small sums is long beside its launch.
CALL_BYTES, FEWEST_SUMS, MOST_SUMS = 8 << 30, 4, 256
# Keys of collectives, far from those of TensorFlow's strategies, which count from 1.
_KEYS = itertools.count(2_000_000)
_ENABLED_BEFORE = 704  # cudaErrorPeerAccessAlreadyEnabled: TensorFlow enables it where it can


class UnavailableError(RuntimeError):
    """This device has no such capability; the message says why."""


class Cuda:
    """The CUDA runtime that TensorFlow has loaded.

    Raises:
        UnavailableError: it cannot be loaded, or a call failed.
    """

    def __init__(self, library: Any = None) -> None:
        try:
            # The name finds TensorFlow's copy.
            self._library = library or ctypes.CDLL("libcudart.so.12")
        except OSError as error:
            raise UnavailableError(f"The CUDA runtime cannot be loaded: {error}.") from error

    def __call__(self, function: str, *arguments: Any, allowed: int = 0) -> None:
        """Call a function that returns an error code, which must be 0 or `allowed`."""
        code = getattr(self._library, function)(*arguments)
        if code not in (0, allowed):
            raise UnavailableError(f"{function} failed with CUDA error {code}.")
        if code:
            self._library.cudaGetLastError()  # or a later call would report it


class Peers:
    """Copies between the GPUs of this process, which keep a buffer of PEER_BYTES each."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._buffers: dict[int, ctypes.c_void_p] = {}

    def access(self, source: int, target: int) -> bool:
        """Return whether `target` reads the memory of `source` without the host, and enable that."""
        able = ctypes.c_int()
        self._cuda("cudaDeviceCanAccessPeer", ctypes.byref(able), target, source)
        if able.value:
            self._cuda("cudaSetDevice", target)
            self._cuda("cudaDeviceEnablePeerAccess", source, 0, allowed=_ENABLED_BEFORE)
        return bool(able.value)

    def copy(self, source: int, target: int) -> Work:
        """Return copies of PEER_BYTES from one GPU to another; without peer access CUDA goes through the host."""
        buffers = self._buffer(target), self._buffer(source)
        size, stream = ctypes.c_size_t(PEER_BYTES), ctypes.c_void_p()
        self._cuda("cudaSetDevice", target)
        call = partial(
            self._cuda, "cudaMemcpyPeerAsync", buffers[0], target, buffers[1], source, size, stream
        )
        return call, float(PEER_BYTES), partial(self._cuda, "cudaDeviceSynchronize")

    def _buffer(self, gpu: int) -> ctypes.c_void_p:
        if gpu not in self._buffers:
            buffer = ctypes.c_void_p()
            self._cuda("cudaSetDevice", gpu)
            self._cuda("cudaMalloc", ctypes.byref(buffer), ctypes.c_size_t(PEER_BYTES))
            self._buffers[gpu] = buffer
        return self._buffers[gpu]


@cache
def peers() -> Peers:
    """Return the copies of this process."""
    return Peers(Cuda())


def all_reduce(names: Sequence[str], size: int, sums: int = 0) -> Work:
    """Return sums of float32 arrays over all GPUs, in place; work is counted as NCCL's bus bandwidth.

    That is 2 (n - 1) / n of the bytes of each array (NVIDIA nccl-tests, PERFORMANCE.md), which does not depend on the
    number of GPUs. XLA compiles all sums of a call into one program per GPU: TensorFlow alone takes 0.4 ms to notice
    the end of each. Nothing is filled or read in between.

    Args:
        size: bytes of an array.
        sums: how many a call has; 0 for CALL_BYTES in all.

    Raises:
        UnavailableError: there is only one device.
    """
    count, key = len(names), next(_KEYS)
    if count < 2:
        raise UnavailableError("It takes two GPUs or more.")
    gpu = names[0].startswith("GPU")
    sums = sums or max(FEWEST_SUMS, min(MOST_SUMS, CALL_BYTES // size))
    parts: list[tf.Tensor] = []
    tokens: list[tf.Variable] = []
    for name in names:
        with tf.device(name):
            # They grow beyond float32, which takes no longer.
            parts.append(tf.ones(size // 4))
            # With a common token the devices would wait for each other in sequence and deadlock.
            tokens.append(tf.Variable(0.0, trainable=False))

    def summed(part: tf.Tensor, token: tf.Variable) -> tf.Tensor:
        return tf.raw_ops.CollectiveReduceV2(
            input=part, group_size=count, group_key=key, instance_key=key, ordering_token=[token.handle],
            merge_op="Add", final_op="Id", communication_hint="nccl" if gpu else "ring",
        )  # fmt: skip

    def repeated(
        step: Callable[[list[tf.Tensor]], list[tf.Tensor]], values: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        result: list[tf.Tensor] = tf.while_loop(
            lambda number, *_: number < sums,
            lambda number, *each: (number + 1, *step(list(each))),
            [tf.constant(0), *values],
            parallel_iterations=1,
        )
        return result[1:]

    def compiled(token: tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
        @tf.function(jit_compile=True, autograph=False)
        def on_one(part: tf.Tensor) -> tf.Tensor:
            return repeated(lambda each: [summed(each[0], token)], [part])[0][0]

        return on_one

    programs = list(map(compiled, tokens))

    def on_all(values: list[tf.Tensor]) -> list[tf.Tensor]:
        results = []
        for name, value, token in zip(names, values, tokens, strict=True):
            with tf.device(name):
                results.append(summed(value, token))
        return results

    @tf.function(autograph=False)
    def call() -> list[tf.Tensor]:
        if not gpu:  # where XLA has no all-reduce, and all devices loop together
            return [each[0] for each in repeated(on_all, parts)]
        results = []
        for name, part, program in zip(names, parts, programs, strict=True):
            with tf.device(name):
                results.append(program(part))
        return results

    return call, 2.0 * (count - 1) / count * size * sums, devices.synchronise
