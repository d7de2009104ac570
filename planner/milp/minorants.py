"""Separable lower bounds of a joint factor, as tight as wanted wherever they are wanted.

For a table ``L`` over the grid of some axes, tables ``p_d`` with ``sum_d p_d(x_d) <= L(x)`` for all ``x`` give a row that is
linear in the one-hot choices. The best of them at a point, fractional or not, solves a linear program (the dual of a
transportation problem); at a grid point it is exact, since a vertex of a product of simplices is extreme. So the rows
converge to the convex envelope with no further columns, where joint one-hots would need one for each grid point.
"""

from __future__ import annotations

import highspy
import numpy as np

from planner.algebra.expressions import Array
from planner.milp.highs import quiet_highs, run_model

#: Rows may be lower than the truth away from where they are made; this bounds how low.
DEEPEST = 60.0


class Minorants:
    """Makes separable lower bounds of one table ``logs`` (over live values only)."""

    def __init__(self, logs: Array) -> None:
        self.logs = logs
        self.starts = np.concatenate([[0], np.cumsum(logs.shape)]).astype(int)
        self.columns = int(self.starts[-1])
        cells = np.argwhere(np.ones(logs.shape, dtype=bool))
        members = (cells + self.starts[:-1]).astype(np.int32)
        self.members = members
        count = len(cells)
        self.model = quiet_highs()
        self.model.addVars(self.columns, np.full(self.columns, -DEEPEST), np.full(self.columns, DEEPEST))
        begins = (np.arange(count) * logs.ndim).astype(np.int32)
        self.model.addRows(count, np.full(count, -np.inf), logs.reshape(-1), members.size, begins,
                           members.reshape(-1), np.ones(members.size))  # fmt: skip
        self.everywhere = np.bincount(members.reshape(-1), minlength=self.columns) * (1e-2 / count)
        self.index = np.arange(self.columns, dtype=np.int32)

    def at(self, weights: list[Array]) -> tuple[list[Array], float]:
        """Tables of the best lower bound at fractional choices ``weights`` (one array for each axis), and its value there.

        A slight weight on the whole grid chooses among ties. The tables are shifted to be valid whatever rounding did.
        """
        point = np.concatenate(weights)
        self.model.changeColsCost(self.columns, self.index, -(point + self.everywhere))
        if run_model(self.model) == highspy.HighsModelStatus.kOptimal:
            solution = np.array(self.model.getSolution().col_value)
        else:
            solution = np.zeros(self.columns)
        fit = solution[self.members].sum(axis=1)
        solution[: self.starts[1]] += float((self.logs.reshape(-1) - fit).min())
        parts = [solution[begin:end] for begin, end in zip(self.starts[:-1], self.starts[1:], strict=True)]
        return parts, float(point @ solution)

    def corner(self, cell: tuple[int, ...]) -> list[Array]:
        """Tables of a lower bound that is exact at a grid point."""
        weights = [np.zeros(size) for size in self.logs.shape]
        for weight, value in zip(weights, cell, strict=True):
            weight[value] = 1.0
        parts, value_there = self.at(weights)
        missing = float(self.logs[cell]) - value_there
        if missing > 1e-9:  # lower everything else along the first axis, and lift the point
            others = [p for p in parts]
            lifted = others[0].copy()
            lifted[cell[0]] += missing
            for dimension in range(1, len(parts)):
                lowered = others[dimension] - missing
                lowered[cell[dimension]] += missing
                others[dimension] = lowered
            others[0] = lifted
            return others
        return parts

    def cover(self, cells: list[tuple[int, ...]], accuracy: float, most: int) -> list[list[Array]]:
        """Bounds exact at ``cells``, then at the worst covered grid points until all are within ``accuracy``."""
        best = np.full(self.logs.shape, -np.inf)
        found = []
        for cell in cells:
            found.append(self.corner(cell))
            best = np.maximum(best, outer_sum(found[-1]))
        while len(found) < most:
            missing = self.logs - best
            worst = np.unravel_index(int(np.argmax(missing)), missing.shape)
            if missing[worst] <= accuracy:
                break
            found.append(self.corner(tuple(int(i) for i in worst)))
            best = np.maximum(best, outer_sum(found[-1]))
        return found


def outer_sum(parts: list[Array]) -> Array:
    """The sum of one table for each axis, on their grid."""
    total = np.zeros([len(part) for part in parts])
    for dimension, part in enumerate(parts):
        shape = [1] * len(parts)
        shape[dimension] = -1
        total = total + part.reshape(shape)
    return total
