"""Where given degrees lie on the network tiers: the canonical placement, in Megatron-LM's rank order.

Ranks are numbered tp first, then cp, then dp, then pp, and accelerators tier by tier from the inside, so that tp takes
the innermost links and pp the outermost. Experts have a mesh of their own inside the ranks that tp and the data-
parallel group occupy on each tier: etp first, then ep, then edp (Megatron-Core's parallel folding, arXiv 2504.14960).

A search decides the placement; a published run does not state it. Degrees that really ran need not divide a tier, so
the parts are real numbers: the product over the tiers is the degree in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.algebra.space import divisors
from planner.physics.collectives import placed

#: A part this close to the whole degree is the whole degree: rounding must not send a group across a tier.
CLOSE = 1e-9


def place(totals: Mapping[str, Array], fanouts: Sequence[Array | float]) -> dict[str, Array]:
    """The parts of every degree on every tier, as the columns that the cost expressions read.

    ``totals`` has ``tp``, ``cp``, ``pp``, ``shard`` and ``replica`` (with shard x replica = dp x cp), ``ep`` and
    ``etp``; arrays of shape (plans,), at least 1. ``fanouts`` says how many units each tier joins, innermost first, a
    number or an array of shape (plans,); the last may be infinite and takes all that is left. Returns ``tp_0``,
    ``tp_1`` ... for ``tp``, ``cp``, ``pp``, ``shard``, ``replica``, ``ep``, ``etp`` and ``edp``, and the totals of
    ``shard``, ``replica`` and ``edp``, all at least 1, of shape (plans,).

    Context ranks are data ranks, so cp lies inside shard. The expert mesh is that of one replica: etp x ep x edp = tp x
    shard; ep x etp must not exceed it.
    """
    left = {name: np.asarray(totals[name], dtype=float) for name in ("tp", "cp", "pp", "shard", "replica", "ep", "etp")}
    columns: dict[str, Array] = {}
    outermost = len(fanouts) - 1
    for tier, fanout in enumerate(fanouts):
        free = np.inf if tier == outermost else np.asarray(fanout, dtype=float)
        room: Array = np.broadcast_to(free, left["tp"].shape)
        parts: dict[str, Array] = {"tp": _part(left["tp"], room)}
        room = room / parts["tp"]
        parts["cp"] = _part(left["cp"], room)
        parts["shard"] = _part(left["shard"], room)
        room = room / parts["shard"]
        parts["replica"] = _part(left["replica"], room)
        room = room / parts["replica"]
        parts["pp"] = _part(left["pp"], room)
        mesh = parts["tp"] * parts["shard"]
        parts["etp"] = _part(left["etp"], mesh)
        parts["ep"] = _part(left["ep"], mesh / parts["etp"])
        for name, part in parts.items():
            left[name] = left[name] / part
        parts["edp"] = np.maximum(mesh / (parts["etp"] * parts["ep"]), 1.0)
        columns |= {placed(name, tier): part for name, part in parts.items()}
    columns |= {name: np.asarray(totals[name], dtype=float) for name in ("shard", "replica")}
    columns["edp"] = np.prod([columns[placed("edp", tier)] for tier in range(len(fanouts))], axis=0)
    return columns


def _part(degree: Array, room: Array) -> Array:
    """What of a degree goes on a tier: all of it, or what has room; shape (plans,)."""
    return np.where(degree <= room * (1 + CLOSE), degree, np.maximum(room, 1.0))


def place_whole(totals: Mapping[str, Array], fanouts: Sequence[int]) -> dict[str, Array]:
    """As `place`, with whole parts: on each tier the largest divisor of what is left of a degree that has room.

    Some degrees cannot be placed so, and then do not multiply to their totals: the rules of a space tell which.
    """
    left = {
        name: np.asarray(totals[name]).astype(np.int64) for name in ("tp", "cp", "pp", "shard", "replica", "ep", "etp")
    }
    columns: dict[str, Array] = {}
    for tier, fanout in enumerate(fanouts):
        room = np.full(left["tp"].shape, int(fanout))
        parts: dict[str, NDArray[np.int64]] = {}
        for name in ("tp", "shard", "replica", "pp"):
            parts[name] = _largest_divisor(left[name], room)
            room = room // parts[name]
        parts["cp"] = np.gcd(left["cp"], parts["shard"] * parts["replica"])
        mesh = parts["tp"] * parts["shard"]
        parts["etp"] = np.gcd(left["etp"], mesh)
        parts["ep"] = np.gcd(left["ep"], mesh // parts["etp"])
        for name, part in parts.items():
            left[name] = left[name] // part
        parts["edp"] = mesh // (parts["etp"] * parts["ep"])
        columns |= {placed(name, tier): part.astype(float) for name, part in parts.items()}
    return columns


def _largest_divisor(values: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest divisor of each value that is no more than its room."""
    pairs, inverse = np.unique(np.stack([values, rooms]), axis=1, return_inverse=True)
    table = [max(d for d in divisors(int(value)) if d <= max(1, room)) for value, room in pairs.T]
    return np.array(table, dtype=np.int64)[inverse.reshape(-1)]
