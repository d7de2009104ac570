"""Time of one matrix product on one accelerator, from its memory hierarchy; seconds.

A weight matrix of d1 x d2 meets b columns of activations. What moves across each boundary of the hierarchy follows from
tiles as large as the inner memory holds; the slowest boundary or the arithmetic decides. Formulas: arXiv 2411.01137 and
its authors' public program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.algebra.expressions import Array

#: Tensor cores work in granules of this many rows and columns.
GRANULE = 8
#: Bytes of a register file of one processing block, blocks in a multiprocessor, usable part of registers and of L2.
REGISTER_BYTES, BLOCKS, USABLE = 64 * 1024, 4, 0.75
BYTES_PER_CLOCK = 128  # of one multiprocessor's shared memory
THREADS = 128  # of one multiprocessor, each with its part of the tensor core


@dataclass(frozen=True)
class Device:
    """One accelerator; bytes, bytes/s, FLOP/s and seconds. ``word`` is the bytes of a number."""

    multiprocessors: int
    clock: float  # Hz, sustained
    peak: float
    sustained: float  # fraction of the peak that long runs of large products reach
    memory: float
    memory_bandwidth: float
    cache: float
    cache_bandwidth: float
    distributed_shared_memory: bool  # multiprocessors read one another's
    kernel_latency: float
    word: float = 2.0
    #: The published program takes one multiprocessor's registers, not all of them, for a capacity that may exceed L2's.
    registers_of_one: bool = True

    @property
    def reachable(self) -> float:
        """FLOP/s of long runs of large products."""
        return self.peak * self.sustained

    @property
    def shared_bandwidth(self) -> float:
        """Bytes/s of the multiprocessors' shared memories together."""
        return BYTES_PER_CLOCK * self.multiprocessors * self.clock


def product_time(device: Device, rows: Array, inner: Array, columns: Array, weight_gradient: bool) -> Array:
    """Seconds of one product of a ``rows`` x ``inner`` weight matrix with ``columns`` of activations.

    ``weight_gradient``: the product that accumulates the gradient of the weights, instead of one that yields activations.
    All arrays have one shape.
    """
    registers = USABLE * REGISTER_BYTES
    shared = BLOCKS * registers
    outer = shared if device.registers_of_one else shared * device.multiprocessors
    from_memory, _ = _traffic(
        device.word, rows, inner, columns, max(USABLE * device.cache, outer), 1, False, weight_gradient
    )
    from_cache, between = _traffic(
        device.word, rows, inner, columns, shared, device.multiprocessors, device.distributed_shared_memory,
        weight_gradient,
    )  # fmt: skip
    from_shared, _ = _traffic(
        device.word, rows, inner, columns, registers, BLOCKS * device.multiprocessors, False, weight_gradient
    )
    arithmetic = 2.0 * _granules(rows) * _granules(inner) * _granules(columns) / device.reachable
    slowest = np.maximum(from_memory / device.memory_bandwidth, (from_memory + from_cache) / device.cache_bandwidth)
    slowest = np.maximum(slowest, (from_cache + between + from_shared) / device.shared_bandwidth)
    found: Array = np.maximum(slowest, arithmetic) + device.kernel_latency
    return found


def layer_time(device: Device, first: Array, second: Array, tokens: Array) -> Array:
    """Seconds of the six products of a layer of two matrices, on shards of ``first`` x ``second``, for ``tokens``.

    Each matrix is multiplied forward, for the gradient of the activations, and for that of the weights.
    """
    plain = product_time(device, first, second, tokens, False) + product_time(device, second, first, tokens, False)
    gradient = product_time(device, first, second, tokens, True) + product_time(device, second, first, tokens, True)
    return 2.0 * plain + gradient


def _granules(size: Array) -> Array:
    found: Array = np.ceil(size / GRANULE) * GRANULE
    return found


def _tiles(word: float, rows: Array, columns: Array, capacity: float) -> tuple[Array, Array]:
    """How many tiles that fit in ``capacity`` a matrix has along its rows and along its columns; not whole numbers."""
    area = rows * columns / np.ceil(rows * columns * word / capacity)
    height = np.maximum(np.minimum(rows, np.sqrt(area)), area / columns)
    return rows / height, columns * height / area


def _traffic(
    word: float, rows: Array, inner: Array, columns: Array, capacity: float, instances: int, distributed: bool,
    weight_gradient: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Bytes that cross into ``instances`` memories of ``capacity`` bytes each, and bytes between these memories."""
    weights, first, second = rows * inner * word, rows * columns * word, inner * columns * word
    total = capacity * instances
    down, across = _tiles(word, rows, inner, total if distributed else capacity)
    crossing = np.where(2.0 * weights <= total, 0.0, (2.0 if weight_gradient else 1.0) * weights)
    crossing = crossing + down * second + (across if weight_gradient else 2.0 * across - 1.0) * first
    if not distributed:
        return crossing, np.zeros_like(crossing)
    own_down, own_across = _tiles(word, rows, inner, capacity)
    between = np.where(own_down > 1, own_down * second, 0.0)
    if weight_gradient:
        between = between + np.where(own_across > 1, own_across * first, 0.0)
    else:
        between = between + 2.0 * (own_across - 1.0) * first
    return crossing, between
