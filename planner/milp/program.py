"""The mixed-integer program: a relaxation of "the cheapest plan within the limits", tightened by cuts.

Variables: one-hot choices (binary); for every monomial its log and its share of a reference cost; for every joint factor
its log; for every maximum its value. Each constraint's docstring is its formula. `Program` owns the Pyomo model and keeps a
HiGHS object in step with it, so that cuts are rows added, not models rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyomo.environ as pyo
from pyomo.core.expr.numeric_expr import LinearExpression

from planner.milp.minorants import Minorants

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array
    from planner.algebra.space import Integers, Space
    from planner.milp.tree import Joint, Leaf, MaxNode, SumNode

    Masks = list[NDArray[np.bool_]]

#: Monomials that stay below this share of the reference are left out: the bound stays valid.
NEGLIGIBLE = 1e-7
#: Coefficients at and below this are dropped by HiGHS; they are dropped here, on the safe side, first.
SMALLEST = 1e-9
#: First tangents, in logarithms of the share: a coarse grid from the top, and where good plans are.
GRID_STEP = 1.5
GRID_DEPTH = 7.0
#: Tangents lie between these logarithms of the share.
HIGHEST, LOWEST = 0.7, -13.0
#: Accuracy (in logarithms) and number of the first lower bounds of joint factors.
JOINT_ACCURACY, JOINT_ROWS = 0.05, 12

#: Monomials that differ by a constant factor share variables if its logarithm is not more than about this.
SAME_SIZE = 3.0

Row = dict[int, float]


@dataclass
class Term:
    """The variables of one monomial: columns of its share and its log, its values' tables, and where it vanishes."""

    leaf: Leaf
    scale: float  # log of the share = leaf.logs - scale
    share: int
    log: int
    dead: NDArray[np.int64]  # choice columns for which the monomial vanishes


class Program:
    """The program over the ``masks`` of a space, in units of ``reference``: cost / reference is minimised.

    ``limit`` is an optional tree that must not exceed ``capacity``.
    """

    def __init__(
        self, space: Space, masks: Masks, objective: SumNode, reference: float,
        limit: SumNode | None, capacity: float, good: Integers,
    ) -> None:  # fmt: skip
        self.space, self.masks, self.good = space, masks, good
        self.values = [np.flatnonzero(mask) for mask in masks]
        self.offsets = np.concatenate([[0], np.cumsum([len(values) for values in self.values])]).astype(int)
        self.choices = int(self.offsets[-1])
        self.position = [np.full(len(mask), -1) for mask in masks]
        for place, values in enumerate(self.values):
            self.position[place][values] = np.arange(len(values)) + self.offsets[place]
        self.model = self._declare()
        self.variables: list[Any] = [self.model.choice[i] for i in range(self.choices)]
        self.terms: dict[object, Term] = {}
        self.joints: dict[bytes, tuple[Joint, int, Minorants]] = {}
        self.pending: list[tuple[str, Row, float, float]] = []
        self._one_choice()
        self._relations()
        self.cost = self._column("cost", 0.0, np.inf)
        self.model.objective = pyo.Objective(expr=self.variables[self.cost])
        self._at_least(self.cost, objective, reference)
        if limit is not None:
            fullness = self._column("fullness", 0.0, 1.0)
            self._at_least(fullness, limit, capacity)

    # --- building -----------------------------------------------------------------------------------------------

    def _declare(self) -> Any:
        model = pyo.ConcreteModel()
        model.choice = pyo.Var(range(self.choices), domain=pyo.Binary)
        model.continuous = pyo.VarList(domain=pyo.Reals)
        for name in ("one_choice", "relation", "pair", "maximum", "log", "joint", "tangent", "excluded"):
            model.add_component(name, pyo.ConstraintList())
        return model

    def _column(self, name: str, lower: float, upper: float) -> int:
        variable = self.model.continuous.add()
        variable.setlb(None if lower == -np.inf else float(lower))
        variable.setub(None if upper == np.inf else float(upper))
        self.variables.append(variable)
        return len(self.variables) - 1

    def add_row(self, kind: str, row: Row, lower: float, upper: float = np.inf) -> None:
        """Add ``lower <= row <= upper`` to the constraint list ``kind`` and, later, to HiGHS."""
        row = {column: value for column, value in row.items() if abs(value) > SMALLEST}
        expression = LinearExpression(
            constant=0.0, linear_coefs=list(row.values()), linear_vars=[self.variables[column] for column in row]
        )
        bounds = (None if lower == -np.inf else lower, expression, None if upper == np.inf else upper)
        if bounds[0] is not None and bounds[0] == bounds[2]:
            getattr(self.model, kind).add(expression == lower)
        else:
            getattr(self.model, kind).add(bounds)
        self.pending.append((kind, row, lower, upper))

    def _one_choice(self) -> None:
        """Sum over the values of an axis of choice = 1."""
        for place in range(len(self.values)):
            self.add_row("one_choice", {int(c): 1.0 for c in self._columns(place)}, 1.0, 1.0)

    def _relations(self) -> None:
        """Sum over axes of weight of the chosen value within its bounds; forbidden pairs sum to at most 1."""
        for relation in self.space.rows:
            row: Row = {}
            for name, weights in relation.weights.items():
                place = self.space.position[name]
                row |= {
                    int(c): float(w)
                    for c, w in zip(self._columns(place), weights[self.values[place]], strict=True)
                    if w
                }
            if row:
                slack = 0.0 if relation.exact else 1e-9
                self.add_row("relation", row, relation.lower - slack, relation.upper + slack)

    def forbid_pairs(self, first: int, second: int, allowed: NDArray[np.bool_]) -> None:
        """Choice of a value plus all choices of the other axis that it excludes <= 1."""
        grid = allowed[np.ix_(self.values[first], self.values[second])]
        for index, line in enumerate(grid):
            if not line.all():
                row = {int(self._columns(first)[index]): 1.0}
                row |= {int(column): 1.0 for column in self._columns(second)[~line]}
                self.add_row("pair", row, -np.inf, 1.0)

    def _columns(self, place: int) -> NDArray[np.int64]:
        return np.arange(self.offsets[place], self.offsets[place + 1])

    def _at_least(self, column: int, node: SumNode, reference: float) -> None:
        """Value of a maximum >= sum of the shares of each of its terms."""
        if not node.leaves and len(node.maxima) == 1:  # the sum is one maximum: no variable of its own
            for term in node.maxima[0].terms:
                self._at_least(column, term, reference)
            return
        row: Row = {column: 1.0}
        for leaf in node.leaves:
            term_found = self._term(leaf, reference)
            if term_found is not None:
                row[term_found.share] = row.get(term_found.share, 0.0) - float(
                    np.exp(leaf.constant - term_found.leaf.constant)
                )
        for maximum in node.maxima:
            row[self._maximum(maximum, reference)] = -1.0
        self.add_row("maximum", row, 0.0)

    def _maximum(self, node: MaxNode, reference: float) -> int:
        column = self._column("maximum", 0.0, np.inf)
        for term in node.terms:
            self._at_least(column, term, reference)
        return column

    def _term(self, leaf: Leaf, reference: float) -> Term | None:
        key = (leaf.shape(), reference, round(leaf.constant / SAME_SIZE))
        known = self.terms.get(key)
        if known is not None:
            return known
        scale = float(np.log(reference))
        tables, dead, low, high = {}, [], leaf.constant - scale, leaf.constant - scale
        for place, table in leaf.tables.items():
            here = table[self.values[place]]
            alive = here > -np.inf
            if not alive.any():
                return None
            dead.append(self._columns(place)[~alive])
            tables[place] = np.where(alive, here, 0.0)
            low, high = low + float(here[alive].min()), high + float(here[alive].max())
        joints = [self._joint(joint) for joint in leaf.joints]
        for joint in leaf.joints:
            grid = joint.logs[np.ix_(*(self.values[place] for place in joint.axes))]
            low, high = low + float(grid.min()), high + float(grid.max())
        if high < np.log(NEGLIGIBLE):
            return None
        share = self._column("share", 0.0, np.inf)
        log = self._column("log", -np.inf, np.inf)
        term = Term(leaf, scale, share, log, np.concatenate(dead) if dead else np.zeros(0, dtype=int))
        self._define_log(term, tables, joints, high)
        points = set(np.arange(min(high, 0.0), max(low, -GRID_DEPTH) - 1e-9, -GRID_STEP).tolist())
        at_good = leaf.logs(self.good) - scale
        points |= set(np.round(at_good[np.isfinite(at_good)], 6).tolist())
        for point in points:
            self.tangent(term, point)
        self.terms[key] = term
        return term

    def _define_log(self, term: Term, tables: dict[int, Array], joints: list[int], high: float) -> None:
        """Log >= constant + tables of the chosen values + joint logs - depth * (choices for which it vanishes).

        ``depth`` is the most that the rest can be, so that log may be 0 or less where the monomial vanishes.
        """
        row: Row = {term.log: 1.0}
        for place, table in tables.items():
            for column, value in zip(self._columns(place), table, strict=True):
                if value:
                    row[int(column)] = row.get(int(column), 0.0) - float(value)
        for column in joints:
            row[column] = row.get(column, 0.0) - 1.0
        for column in term.dead:
            row[int(column)] = row.get(int(column), 0.0) + max(high, 0.0)
        self.add_row("log", row, term.leaf.constant - term.scale)

    def tangent(self, term: Term, point: float) -> None:
        """Share >= e^u (1 - u) (1 - choices for which it vanishes) + e^u log, the tangent of exp at u."""
        u = min(max(point, LOWEST), HIGHEST)
        slope = float(np.exp(u))
        row: Row = {term.share: 1.0, term.log: -slope}
        for column in term.dead:
            row[int(column)] = slope * (1.0 - u)
        self.add_row("tangent", row, slope * (1.0 - u))

    def _joint(self, joint: Joint) -> int:
        known = self.joints.get(joint.key)
        if known is None:
            logs = joint.logs[np.ix_(*(self.values[place] for place in joint.axes))]
            column = self._column("joint", float(logs.min()), float(logs.max()))
            minorants = Minorants(logs)
            known = self.joints[joint.key] = (joint, column, minorants)
            cells = {self._cell(joint, plan) for plan in self.good[:4]}
            for parts in minorants.cover(sorted(cells), JOINT_ACCURACY, JOINT_ROWS):
                self._joint_row(joint, column, parts)
        return known[1]

    def _cell(self, joint: Joint, plan: Integers) -> tuple[int, ...]:
        return tuple(int(self.position[place][plan[place]] - self.offsets[place]) for place in joint.axes)

    def _joint_row(self, joint: Joint, column: int, parts: list[Array]) -> None:
        """Log of a joint factor >= separable lower bound: sum over its axes of a table of the chosen value."""
        row: Row = {column: 1.0}
        for place, part in zip(joint.axes, parts, strict=True):
            row |= {int(c): -float(value) for c, value in zip(self._columns(place), part, strict=True) if value}
        self.add_row("joint", row, 0.0)

    # --- tightening ---------------------------------------------------------------------------------------------

    def cut_at_point(self, solution: Array, tolerance: float) -> int:
        """Cuts that a fractional solution violates by more than ``tolerance``; how many there were."""
        count = 0
        for joint, column, minorants in self.joints.values():
            weights = [np.clip(solution[self._columns(place)], 0.0, 1.0) for place in joint.axes]
            parts, value = minorants.at(weights)
            if value > solution[column] + tolerance:
                self._joint_row(joint, column, parts)
                count += 1
        for term in self.terms.values():
            alive = 1.0 - float(solution[term.dead].sum())
            if alive < 0.01:
                continue
            point = min(max(float(solution[term.log]) / alive, LOWEST), HIGHEST)
            if alive * np.exp(point) > solution[term.share] + tolerance:
                self.tangent(term, point)
                count += 1
        return count

    def cut_at_plan(self, plan: Integers) -> None:
        """Cuts that make the program exact at a plan: every monomial's tangent and every joint factor's bound there."""
        for joint, column, minorants in self.joints.values():
            self._joint_row(joint, column, minorants.corner(self._cell(joint, plan)))
        for term in self.terms.values():
            point = float(term.leaf.logs(plan[None, :])[0]) - term.scale
            if np.isfinite(point):
                self.tangent(term, point)

    def exclude(self, plan: Integers) -> None:
        """Sum of the choices of a plan <= number of axes - 1."""
        row = {int(self.position[place][plan[place]]): 1.0 for place in range(len(plan))}
        self.add_row("excluded", row, -np.inf, float(len(plan) - 1))

    # --- solutions ----------------------------------------------------------------------------------------------

    def plan(self, solution: Array) -> Integers:
        """The plan of an integral solution: the value with the largest choice on every axis."""
        return np.array(
            [values[int(np.argmax(solution[self._columns(place)]))] for place, values in enumerate(self.values)]
        )

    def choices_of(self, plan: Integers) -> Array:
        """The choice variables of a plan, which must lie in the masks."""
        chosen = np.zeros(self.choices)
        for place, value in enumerate(plan):
            chosen[self.position[place][value]] = 1.0
        return chosen
