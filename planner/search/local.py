"""Good plans quickly: a few seeds, improved by freeing some axes at a time and pricing every combination of them.

It proves nothing. The program needs it for a first incumbent, and for the points at which to lay its first tangents.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.search.enumeration import Masks, TooManyError, enumerator_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from planner.algebra.expressions import Array, Expression
    from planner.algebra.space import Integers, Space

#: Plans priced in one neighbourhood at most; larger ones are cut off, which costs quality and not correctness.
NEIGHBOURS = 20000
#: Partial combinations on the way to a plan, at most, on average.
STEPS_A_PLAN = 30
#: Spaces that take no more steps to enumerate are priced whole.
FEW_STEPS = 20000


@dataclass
class Pool:
    """The best distinct plans so far, best first, and the least memory seen."""

    size: int
    indices: Integers
    values: Array
    least_memory: float = np.inf
    least_memory_plan: Integers | None = None
    priced: int = 0
    seen: set[bytes] = field(default_factory=set)

    @classmethod
    def empty(cls, axes: int, size: int = 24) -> Pool:
        """A pool without plans."""
        return cls(size, np.zeros((0, axes), dtype=np.int64), np.zeros(0))

    @property
    def best(self) -> float:
        """The lowest objective, infinite in an empty pool."""
        return float(self.values[0]) if len(self.values) else np.inf


class LocalSearch:
    """Prices plans of one space for one objective and one memory limit."""

    def __init__(
        self, space: Space, objective: Expression, memory: Expression, capacity: float, deadline: float = np.inf
    ) -> None:
        self.space, self.objective, self.memory, self.capacity = space, objective, memory, capacity
        self.enumerator = enumerator_of(space)
        self.deadline = deadline  # no search goes on beyond this time of the monotonic clock
        self.family = [axis.name.rsplit("_", 1)[0] if axis.name[-1].isdigit() else axis.name for axis in space.axes]

    def price(self, pool: Pool, indices: Integers) -> bool:
        """Add the plans that fit to ``pool``; whether its best improved."""
        if not len(indices):
            return False
        before = pool.best
        evaluator = Evaluator(self.space.columns(indices))
        used = evaluator(self.memory)
        pool.priced += len(indices)
        least = int(np.argmin(used))
        if used[least] < pool.least_memory:
            pool.least_memory, pool.least_memory_plan = float(used[least]), indices[least]
        fits = used <= self.capacity
        if fits.any():
            cost = evaluator(self.objective)[fits]
            chosen = np.argsort(cost, kind="stable")[: pool.size]
            values = np.concatenate([pool.values, cost[chosen]])
            plans = np.concatenate([pool.indices, indices[fits][chosen]])
            plans, first = np.unique(plans, axis=0, return_index=True)
            values = values[first]
            order = np.argsort(values, kind="stable")[: pool.size]
            pool.indices, pool.values = plans[order], values[order]
        return pool.best < before * (1 - 1e-12)

    def exhaust(self, pool: Pool) -> bool:
        """Price every plan, if that takes no more than a few steps; whether that was done."""
        try:
            for indices in self.enumerator.combinations(most_steps=FEW_STEPS):
                self.price(pool, indices)
                if time.monotonic() > self.deadline:
                    return False
        except TooManyError:
            return False
        return True

    def seed(self, pool: Pool, subspaces: Iterable[Masks], limit: int) -> None:
        """Price up to ``limit`` plans of each subspace, until one gives a plan that fits."""
        for masks in subspaces:
            live = [masks.get(axis.name, np.ones(axis.size, dtype=bool)) for axis in self.space.axes]
            self._explore(pool, live, limit)
            if len(pool.values):
                return

    def improve(self, pool: Pool, neighbourhoods: Sequence[tuple[str, ...]], *, starts: int, deadline: float) -> None:
        """Free the families of each neighbourhood around the best plans until none of them improves."""
        while time.monotonic() < deadline:
            improved = False
            centres = pool.indices[:starts] if len(pool.values) else self._closest(pool)
            for centre in centres:
                key = centre.tobytes()
                if key in pool.seen:
                    continue
                pool.seen.add(key)
                for families in neighbourhoods:
                    fixed = {p: int(centre[p]) for p, family in enumerate(self.family) if family not in families}
                    improved |= self._explore(pool, self.enumerator.masks(fixed), NEIGHBOURS)
                    if time.monotonic() > deadline:
                        return
            if not improved and all(centre.tobytes() in pool.seen for centre in centres):
                return

    def _closest(self, pool: Pool) -> Integers:
        if pool.least_memory_plan is None:
            return np.zeros((0, len(self.space.axes)), dtype=np.int64)
        return pool.least_memory_plan[None, :]

    def _explore(self, pool: Pool, masks: list[NDArray[np.bool_]], limit: int) -> bool:
        improved, priced = False, 0
        try:
            for indices in self.enumerator.combinations(masks, most_steps=STEPS_A_PLAN * limit):
                improved |= self.price(pool, indices)
                priced += len(indices)
                if priced >= limit or time.monotonic() > self.deadline:
                    break
        except TooManyError:
            pass
        return improved
