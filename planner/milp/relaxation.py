"""Lower bounds of posynomials over a box of the space, from linear-programming duality; no tolerance is trusted.

A monomial's logarithm is linear in the one-hot choices, and so are the relations. For any multipliers ``y`` of the rows,

    z(x) = constant + sum_a g_a(x_a) = zmin + sum_a c_a(x_a) + slack,    c_a >= 0, slack >= 0,

with ``c = g - A'y`` shifted to a least value of 0 on every axis and ``zmin`` collecting the shifts and ``y'b``. The identity
holds whatever ``y`` is, so a rounding error of the linear program can weaken a bound but not falsify it. The best ``y``
makes ``zmin`` the relaxation's minimum. Such normal forms bound sums of monomials for every value, and for every pair of
values, of the axes at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import highspy
import numpy as np

from planner.milp.highs import check_rows, quiet_highs, run_model, set_options
from planner.milp.minorants import outer_sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array
    from planner.algebra.space import Row, Space
    from planner.milp.tree import Joint, Leaf

    Masks = list[NDArray[np.bool_]]

#: How far the rows are moved towards the centre of the live values when multipliers are chosen.
INWARD = 1e-3
#: Safety of the floating-point sums above, in logarithms.
MARGIN = 1e-9
#: Growths are cut off at e^LARGEST: smaller than the truth, so still bounds, and products stay finite.
LARGEST = 60.0


@dataclass(frozen=True)
class NormalForm:
    """``log leaf >= least + sum over axes of costs[axis][value] + remainders``; minus infinity (dead) where it vanishes.

    ``costs`` are full-length tables, at least 0 on the box, +inf outside it and -inf where the leaf vanishes. Each
    remainder is a joint table, at least 0 on the box. ``multipliers`` are those of the relations; of one that is an
    inequality, multiplier times slack comes on top.
    """

    leaf: Leaf
    least: float
    costs: dict[int, Array]
    remainders: tuple[tuple[tuple[int, ...], Array], ...]
    multipliers: Array


class Relaxation:
    """The linear relaxation of a space's relations over a box, re-solved for one leaf after another."""

    def __init__(self, space: Space, masks: Masks, relations: Sequence[Row]) -> None:
        self.space, self.masks = space, masks
        self.values = [np.flatnonzero(mask) for mask in masks]
        self.offsets = np.concatenate([[0], np.cumsum([len(values) for values in self.values])])
        self.columns = int(self.offsets[-1])
        rows, lower, upper = [], [], []
        for row in relations:
            dense = np.zeros(self.columns)
            for name, weights in row.weights.items():
                place = space.position[name]
                dense[self._slice(place)] = weights[self.values[place]]
            rows.append(dense)
            lower.append(row.lower)
            upper.append(row.upper)
        self.matrix = np.array(rows).reshape(len(rows), self.columns)
        self.lower, self.upper = np.array(lower), np.array(upper)
        self._models: dict[object, _Model] = {}
        self._multipliers: dict[object, tuple[Array, list[list[Array]], list[Array]]] = {}

    def _slice(self, place: int) -> slice:
        return slice(int(self.offsets[place]), int(self.offsets[place + 1]))

    def normal_form(self, leaf: Leaf) -> NormalForm | None:
        """The leaf's normal form with the best multipliers; None if it vanishes on the whole box."""
        objective = np.zeros(self.columns)
        open_columns = np.ones(self.columns)
        for place, table in leaf.tables.items():
            here = table[self.values[place]]
            dead = here == -np.inf
            if dead.all():
                return None
            objective[self._slice(place)] = np.where(dead, 0.0, here)
            open_columns[self._slice(place)] = np.where(dead, 0.0, 1.0)
        key = tuple(joint.key for joint in leaf.joints)
        if key in self._multipliers:  # any multipliers give a bound; those of a like leaf are good ones
            return self._shifted(leaf, *self._multipliers[key])
        if key not in self._models:
            self._models[key] = _Model(self, leaf.joints)
        found = self._models[key].minimise(objective, open_columns)
        if found is None:
            return None
        if key:
            self._multipliers[key] = found
        return self._shifted(leaf, *found)

    def _shifted(self, leaf: Leaf, multipliers: Array, parts: list[list[Array]], rests: list[Array]) -> NormalForm:
        """Reduced costs for the multipliers, shifted to a least value of 0 on each axis."""
        active = multipliers != 0
        sides = np.where(multipliers > 0, self.lower, self.upper)
        least = leaf.constant + float(multipliers[active] @ sides[active]) - MARGIN
        reduced = -(multipliers @ self.matrix) if len(multipliers) else np.zeros(self.columns)
        for place, table in leaf.tables.items():
            reduced[self._slice(place)] += table[self.values[place]]
        for joint, own in zip(leaf.joints, parts, strict=True):
            for place, part in zip(joint.axes, own, strict=True):
                reduced[self._slice(place)] += part
        costs: dict[int, Array] = {}
        for place, axis in enumerate(self.space.axes):
            here = reduced[self._slice(place)]
            alive = here > -np.inf
            low = float(here[alive].min())
            least += low
            if np.any(here[alive] - low > 1e-12) or not alive.all():
                table = np.full(axis.size, np.inf)
                table[self.values[place]] = np.where(alive, here - low, -np.inf)
                costs[place] = table
        remainders = []
        for joint, rest in zip(leaf.joints, rests, strict=True):
            low = float(rest.min())
            least += low
            full = np.zeros(joint.logs.shape)
            full[np.ix_(*(self.values[place] for place in joint.axes))] = rest - low
            remainders.append((joint.axes, full))
        return NormalForm(leaf, least, costs, tuple(remainders), multipliers)


class _Model:
    """The relaxation in HiGHS, with convex-combination weights for some joint factors."""

    def __init__(self, relaxation: Relaxation, joints: tuple[Joint, ...]) -> None:
        self.relaxation = relaxation
        self.grids = [joint.logs[np.ix_(*(relaxation.values[place] for place in joint.axes))] for joint in joints]
        self.joints = joints
        self.model = quiet_highs()
        set_options(self.model, {"presolve": "off"})
        columns = relaxation.columns
        weights = sum(grid.size for grid in self.grids)
        self.model.addVars(columns + weights, np.zeros(columns + weights), np.ones(columns + weights))
        for place in range(len(relaxation.values)):
            index = np.arange(relaxation.offsets[place], relaxation.offsets[place + 1], dtype=np.int32)
            self.model.addRow(1.0, 1.0, len(index), index, np.ones(len(index)))
        for row, lower, upper in zip(relaxation.matrix, relaxation.lower, relaxation.upper, strict=True):
            index = np.flatnonzero(row).astype(np.int32)
            self.model.addRow(lower, upper, len(index), index, row[index])
        self.first_marginal = self.model.getNumRow()
        begin = columns
        for joint, grid in zip(joints, self.grids, strict=True):
            numbers = np.arange(begin, begin + grid.size).reshape(grid.shape)
            begin += grid.size
            for dimension, place in enumerate(joint.axes):
                for value in range(grid.shape[dimension]):
                    members = numbers.take(value, axis=dimension).reshape(-1)
                    index = np.concatenate([members, [relaxation.offsets[place] + value]]).astype(np.int32)
                    self.model.addRow(0.0, 0.0, len(index), index, np.append(np.ones(len(members)), -1.0))
        check_rows(self.model, self.first_marginal + sum(sum(grid.shape) for grid in self.grids))
        if weights:
            index = np.arange(columns, columns + weights, dtype=np.int32)
            self.model.changeColsCost(weights, index, np.concatenate([grid.reshape(-1) for grid in self.grids]))
        self.index = np.arange(columns, dtype=np.int32)
        first = len(relaxation.values)
        self.relations = np.arange(first, first + len(relaxation.lower), dtype=np.int32)

    def _move_inward(self, open_columns: Array) -> None:
        """Move the rows' sides a little towards the centre of the live values.

        Among equally good multipliers, those are found that leave the smallest costs on average (Magnanti and Wong 1981).
        """
        relaxation = self.relaxation
        centre = np.zeros(relaxation.columns)
        for place in range(len(relaxation.values)):
            part = relaxation._slice(place)
            centre[part] = open_columns[part] / open_columns[part].sum()
        middle = relaxation.matrix @ centre
        sides = []
        for side in (relaxation.lower, relaxation.upper):
            moved = side.copy()
            finite = np.isfinite(side)
            moved[finite] += INWARD * (middle[finite] - side[finite])
            sides.append(moved)
        self.model.changeRowsBounds(len(self.relations), self.relations, *sides)  # type: ignore[attr-defined]

    def minimise(self, objective: Array, open_columns: Array) -> tuple[Array, list[list[Array]], list[Array]] | None:
        """Multipliers of the relations, separable parts of each joint and what remains of it; None if nothing is alive."""
        relaxation = self.relaxation
        self.model.changeColsCost(len(self.index), self.index, objective)
        self.model.changeColsBounds(len(self.index), self.index, np.zeros(len(self.index)), open_columns)
        self._move_inward(open_columns)
        status = run_model(self.model)
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        duals = np.zeros(self.model.getNumRow())
        if status == highspy.HighsModelStatus.kOptimal:
            duals = np.array(self.model.getSolution().row_dual)
        multipliers = duals[len(relaxation.values) : self.first_marginal]
        multipliers = np.where((multipliers > 0) & ~np.isfinite(relaxation.lower), 0.0, multipliers)
        multipliers = np.where((multipliers < 0) & ~np.isfinite(relaxation.upper), 0.0, multipliers)
        begin = self.first_marginal
        parts, rests = [], []
        for grid in self.grids:
            own = []
            for size in grid.shape:
                own.append(duals[begin : begin + size])
                begin += size
            parts.append(own)
            rests.append(grid - outer_sum(own))
        return multipliers, parts, rests
