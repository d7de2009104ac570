"""What frameworks can realise: which degrees a model and a sequence allow, and which go together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.algebra.space import divisors
from planner.physics.setting import Schedule

if TYPE_CHECKING:
    from planner.schema.model import Model


def tensor_degrees(model: Model) -> list[int]:
    """Degrees that divide the heads and the feed-forward width; key-value heads are divided or replicated."""
    widths = [width for width in (model.d_ff, model.moe.d_shared if model.moe else 0) if width]
    return [
        tp
        for tp in divisors(model.heads)
        if all(width % tp == 0 for width in widths) and (model.kv_heads % tp == 0 or tp % model.kv_heads == 0)
    ]


def tensor_reason(model: Model) -> str:
    """Why a tensor degree is refused."""
    return f"tp must divide {model.heads} heads and the feed-forward width, and divide or be a multiple of the kv heads"


def context_degrees(sequence: int) -> list[int]:
    """1, and the degrees of which twice divide the sequence: each rank takes an early and a late piece."""
    return sorted({1, *(cp for cp in divisors(sequence) if sequence % (2 * cp) == 0)})


def even_chunks(layers: int, pp: int, vp: int) -> bool:
    """Whether interleaved chunks are of one size, but for one layer less on the first or the last."""
    return any((layers + spare) % (pp * vp) == 0 for spare in (0, 1, 2))


def pipelines(layers: int, degrees: Iterable[int], kinds: list[Schedule]) -> list[tuple[int, int, int]]:
    """(pp, vp, schedule) of every pipeline. Without a pipeline all schedules are one; it goes by the name of 1F1B."""
    found: list[tuple[int, int, int]] = []
    for pp in degrees:
        if pp == 1:
            plain = Schedule.ONE_F_ONE_B if Schedule.ONE_F_ONE_B in kinds else kinds[0]
            found.append((1, 1, int(plain)))
            continue
        for kind in kinds:
            if kind is not Schedule.INTERLEAVED:
                found.append((pp, 1, int(kind)))
                continue
            most = (layers + 2) // pp
            found += [(pp, vp, int(kind)) for vp in range(2, most + 1) if even_chunks(layers, pp, vp)]
    return found


def replicas_need_zero(zero: Array, replica: Array) -> NDArray[np.bool_]:
    """Without ZeRO every rank is a replica already: one group, not many."""
    return np.asarray((zero > 0) | (replica == 1))
