"""Every feasible combination of a space, in chunks of bounded memory.

Axes are joined one by one; a partial combination is dropped as soon as some relation's row cannot be met any more by what
the remaining axes can add. The rows and pair tables are those of the program, so that both see one space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.algebra.space import Allowed, Integers, Space

#: Partial combinations expanded at once; bounds the memory to some tens of megabytes.
CHUNK = 32768
TOLERANCE = 1e-9

Masks = dict[str, NDArray[np.bool_]]


class TooManyError(Exception):
    """Enumeration took more steps than it was given."""


@lru_cache(maxsize=32)
def enumerator_of(space: Space) -> Enumerator:
    """The enumerator of a space; one for all questions about it."""
    return Enumerator(space)


class Enumerator:
    """The relations of a space as arrays, ready for joining and for propagation."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.lower = np.array([row.lower for row in space.rows]) - TOLERANCE
        self.upper = np.array([row.upper for row in space.rows]) + TOLERANCE
        self.weights: list[Array] = []  # one (rows, values) array for each axis
        for axis in space.axes:
            zero = np.zeros(axis.size)
            stacked = [row.weights.get(axis.name, zero) for row in space.rows]
            self.weights.append(np.array(stacked).reshape(len(space.rows), axis.size))
        self.tables = [self._table(relation) for relation in space.relations if isinstance(relation, Allowed)]

    def _table(self, relation: Allowed) -> tuple[tuple[int, ...], NDArray[np.bool_]]:
        axes = self.space.axes_of(relation.columns)
        grid = self.space.tabulate(relation.function, relation.columns).astype(bool)
        return tuple(self.space.position[axis.name] for axis in axes), grid

    @cached_property
    def everything(self) -> list[NDArray[np.bool_]]:
        """Masks that admit every value of every axis."""
        return [np.ones(axis.size, dtype=bool) for axis in self.space.axes]

    def propagate(self, masks: list[NDArray[np.bool_]]) -> list[NDArray[np.bool_]] | None:
        """The masks without values that no relation admits, by interval and pair reasoning; None when one is empty."""
        masks = [mask.copy() for mask in masks]
        while True:
            before = sum(int(mask.sum()) for mask in masks)
            if any(not mask.any() for mask in masks):
                return None
            low = np.array([weights[:, mask].min(axis=1) for weights, mask in zip(self.weights, masks, strict=True)])
            high = np.array([weights[:, mask].max(axis=1) for weights, mask in zip(self.weights, masks, strict=True)])
            total_low, total_high = low.sum(axis=0), high.sum(axis=0)
            for place, weights in enumerate(self.weights):
                reachable_low = weights + (total_low - low[place])[:, None]
                reachable_high = weights + (total_high - high[place])[:, None]
                fits = (reachable_low <= self.upper[:, None]) & (reachable_high >= self.lower[:, None])
                masks[place] &= fits.all(axis=0)
            for places, grid in self.tables:
                if not places:
                    if not grid.all():
                        return None
                    continue
                live = grid
                for dimension, place in enumerate(places):
                    shape = [1] * len(places)
                    shape[dimension] = -1
                    live = live & masks[place].reshape(shape)
                for dimension, place in enumerate(places):
                    others = tuple(d for d in range(len(places)) if d != dimension)
                    masks[place] &= live.any(axis=others)
            after = sum(int(mask.sum()) for mask in masks)
            if after == before:
                return masks

    def masks(self, fixed: Mapping[int, int]) -> list[NDArray[np.bool_]]:
        """Masks in which the axes at the places of ``fixed`` have one value only."""
        masks = [mask.copy() for mask in self.everything]
        for place, index in fixed.items():
            masks[place][:] = False
            masks[place][index] = True
        return masks

    def combinations(
        self, masks: list[NDArray[np.bool_]] | None = None, most_steps: float = np.inf
    ) -> Iterator[Integers]:
        """Index arrays of shape (plans, axes) of every combination that keeps all relations and the masks.

        Raises `TooManyError` after about ``most_steps`` partial combinations.
        """
        steps = 0
        live = self.propagate(self.everything if masks is None else masks)
        if live is None:
            return
        values = [np.flatnonzero(mask) for mask in live]
        order = self._order(values)
        low = np.array([self.weights[p][:, v].min(axis=1) for p, v in enumerate(values)])
        high = np.array([self.weights[p][:, v].max(axis=1) for p, v in enumerate(values)])
        later_low = np.zeros((len(order) + 1, len(self.lower)))
        later_high = np.zeros((len(order) + 1, len(self.lower)))
        for depth in range(len(order) - 1, -1, -1):
            later_low[depth] = later_low[depth + 1] + low[order[depth]]
            later_high[depth] = later_high[depth + 1] + high[order[depth]]
        closing = self._closing_tables(order)
        start = (0, np.zeros((1, len(order)), dtype=np.int16), np.zeros((1, len(self.lower))))
        stack = [start]
        while stack:
            depth, indices, sums = stack.pop()
            if depth == len(order):
                full = indices.astype(np.int64)
                valid = self.space.holds(self.space.columns(full))
                yield full if valid.all() else full[valid]
                continue
            place = order[depth]
            grown_indices, grown_sums = [], []
            for value in values[place]:
                sums_here = sums + self.weights[place][:, value]
                fits = np.all(sums_here + later_low[depth + 1] <= self.upper, axis=1)
                fits &= np.all(sums_here + later_high[depth + 1] >= self.lower, axis=1)
                for places, grid in closing[depth]:
                    where = tuple(value if p == place else indices[:, p] for p in places)
                    fits &= grid[where]
                if not fits.any():
                    continue
                kept = indices[fits]
                kept[:, place] = value
                grown_indices.append(kept)
                steps += len(kept)
                grown_sums.append(sums_here[fits])
            if not grown_indices:
                continue
            if steps > most_steps:
                raise TooManyError
            all_indices, all_sums = np.concatenate(grown_indices), np.concatenate(grown_sums)
            for begin in range(0, len(all_indices), CHUNK):
                part = slice(begin, begin + CHUNK)
                stack.append((depth + 1, all_indices[part], all_sums[part]))

    def _order(self, values: list[Integers]) -> list[int]:
        """Axes in an order that completes rows early: next is one whose tightest row has fewest open axes."""
        involved = [np.any(w[:, v] != w[:, v[:1]], axis=1) for w, v in zip(self.weights, values, strict=True)]
        left = set(range(len(values)))
        order: list[int] = []
        open_axes = np.sum(involved, axis=0, dtype=float) if len(self.lower) else np.zeros(0)
        while left:
            ranks = {place: float(np.min(open_axes, where=involved[place], initial=np.inf)) for place in left}
            chosen = min((rank, len(values[place]), place) for place, rank in ranks.items())[2]
            left.remove(chosen)
            order.append(chosen)
            open_axes = open_axes - involved[chosen]
        return order

    def _closing_tables(self, order: list[int]) -> list[list[tuple[tuple[int, ...], NDArray[np.bool_]]]]:
        depth_of = {place: depth for depth, place in enumerate(order)}
        closing: list[list[tuple[tuple[int, ...], NDArray[np.bool_]]]] = [[] for _ in order]
        for places, grid in self.tables:
            if places:
                closing[max(depth_of[place] for place in places)].append((places, grid))
        return closing
