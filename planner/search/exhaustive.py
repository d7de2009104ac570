"""The oracle: prices every plan of a space and returns the best. Exact, and slow on large spaces."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.search.enumeration import Enumerator

if TYPE_CHECKING:
    from planner.algebra.expressions import Expression
    from planner.algebra.space import Integers, Space


@dataclass(frozen=True)
class Enumerated:
    """What enumeration found. ``best`` holds indices of shape (found, axes), ``values`` their costs, ascending."""

    best: Integers
    values: np.ndarray[tuple[int], np.dtype[np.float64]]
    plans: int  # that keep every rule
    fitting: int  # of them, within memory
    least_memory: float  # bytes, of any plan
    complete: bool


def exhaust(
    space: Space, objective: Expression, memory: Expression, capacity: float, *, keep: int = 1,
    time_limit: float = float("inf"),
) -> Enumerated:  # fmt: skip
    """The ``keep`` best plans of ``space`` whose ``memory`` is within ``capacity``, by pricing all of them."""
    started = time.monotonic()
    best = np.zeros((0, len(space.axes)), dtype=np.int64)
    values = np.zeros(0)
    plans = fitting = 0
    least = np.inf
    complete = True
    for indices in Enumerator(space).combinations():
        if len(indices) == 0:
            continue
        evaluator = Evaluator(space.columns(indices))
        used = evaluator(memory)
        fits = used <= capacity
        plans += len(indices)
        fitting += int(fits.sum())
        least = min(least, float(used.min()))
        if fits.any():
            cost = evaluator(objective)[fits]
            cost_all = np.concatenate([values, cost])
            order = np.argsort(cost_all, kind="stable")[:keep]
            best = np.concatenate([best, indices[fits]])[order]
            values = cost_all[order]
        if time.monotonic() - started > time_limit:
            complete = False
            break
    return Enumerated(best, values, plans, fitting, least, complete)
