"""Shrinking the space before the program is built: leading decisions are enumerated, and bounded as they are.

Axes are joined one by one, as in plain enumeration; but a partial combination goes as soon as every plan that completes it
costs more than ``(1 - eps)`` times a known plan, or needs more memory than there is. The bounds are the normal forms of
`planner.milp.relaxation`: a monomial's least value times one growth factor for each decision taken. What is left of the
joined axes becomes *one* axis, the core, with a row for each surviving combination; the program then decides among these
rows and the remaining axes. What went is bounded, so it enters the certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.algebra.space import Axis, Space
from planner.milp.relaxation import NormalForm, Relaxation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array, Expression
    from planner.algebra.space import Integers, Row
    from planner.milp.tree import Leaf, SumNode
    from planner.search.enumeration import Enumerator

    Masks = list[NDArray[np.bool_]]

#: Partial combinations at once, at most: beyond, the presolve stops where it is.
WIDEST = 100_000
#: Combinations that the core may have without another phase.
LARGEST_CORE = 300
#: Combinations that the core may have in the program.
LARGEST_PROGRAM = 3000
#: Growth factors are cut off at e^LARGEST: smaller than the truth, so still bounds, and products stay finite.
LARGEST_GROWTH = 40.0


@dataclass(frozen=True)
class Bound:
    """Plans that are looked for have ``sum of leaves <= limit``."""

    leaves: list[Leaf]
    limit: float


@dataclass(frozen=True)
class Contracted:
    """The space with a core axis, and how many combinations of the core survived; ``joined`` are the axes in it."""

    space: Space
    core: Integers  # (survivors, axes of the old space), -1 where an axis was not joined
    joined: list[int]
    values: Mapping[int, Integers]  # the values left on the other axes of the old space

    def lift(self, plans: Integers, old: Space) -> Integers:
        """Plans of the contracted space as plans of the old one."""
        lifted = np.zeros((len(plans), len(old.axes)), dtype=np.int64)
        for place, axis in enumerate(self.space.axes):
            if axis.name == "core":
                lifted[:, self.joined] = self.core[plans[:, place]][:, self.joined]
            else:
                old_place = old.position[axis.name]
                lifted[:, old_place] = self.values[old_place][plans[:, place]]
        return lifted

    def drop(self, plans: Integers, old: Space) -> Integers:
        """Those plans of the old space that are in the contracted one, as its plans."""
        kept = []
        for plan in plans:
            match = np.flatnonzero((self.core[:, self.joined] == plan[self.joined]).all(axis=1))
            own = {"core": int(match[0])} if len(match) and self.joined else {}
            for place, values in self.values.items():
                here = np.flatnonzero(values == plan[place])
                if len(here):
                    own[old.axes[place].name] = int(here[0])
            if len(own) == len(self.space.axes):
                kept.append([own[axis.name] for axis in self.space.axes])
        return np.array(kept, dtype=np.int64).reshape(len(kept), len(self.space.axes))


def _within(
    space: Space, core: Integers, evaluator: Evaluator, expression: Expression, limit: float
) -> tuple[Integers, Evaluator]:
    core = core[evaluator(expression) <= limit]
    return core, Evaluator(space.columns(core))


def selections(node: SumNode, plan: Integers) -> list[list[Leaf]]:
    """Sums of leaves that are nowhere above the tree: that of the largest terms at ``plan``, and of one other choice each."""
    base: list[Leaf] = []
    others: list[list[Leaf]] = []
    _select(node, plan, base, others, [])
    return [base, *others]


def _select(node: SumNode, plan: Integers, base: list[Leaf], others: list[list[Leaf]], beside: list[Leaf]) -> None:
    own = list(node.leaves)
    chosen: list[list[Leaf]] = []
    for maximum in node.maxima:
        values = [_value(term, plan) for term in maximum.terms]
        picked: list[Leaf] = []
        _select(maximum.terms[int(np.argmax(values))], plan, picked, [], [])
        chosen.append(picked)
    for number, maximum in enumerate(node.maxima):
        rest = beside + own + [leaf for other, leaves in enumerate(chosen) if other != number for leaf in leaves]
        best = int(np.argmax([_value(term, plan) for term in maximum.terms]))
        for position, term in enumerate(maximum.terms):
            picked, inner = [], []
            _select(term, plan, picked, inner, rest)
            if position == best:
                others += inner
            else:
                others.append(rest + picked)
    base += own + [leaf for leaves in chosen for leaf in leaves]


def _value(node: SumNode, plan: Integers) -> float:
    total = sum(float(np.exp(leaf.logs(plan[None, :])[0])) for leaf in node.leaves)
    return total + sum(max(_value(term, plan) for term in maximum.terms) for maximum in node.maxima)


class Contraction:
    """Joins axes, one after another, under bounds."""

    def __init__(self, enumerator: Enumerator, masks: Masks, bounds: list[Bound], relations: Sequence[Row]) -> None:
        self.enumerator, self.space, self.masks = enumerator, enumerator.space, masks
        self.values = [np.flatnonzero(mask) for mask in masks]
        forms, self.shares = self._forms(bounds, relations)
        self.start = np.exp(np.array([form.least for form in forms]))
        self.growth: list[Array] = []  # per axis (values, leaves)
        for place, mask in enumerate(masks):
            rows = np.ones((len(mask), len(forms)))
            for k, form in enumerate(forms):
                if place in form.costs:
                    rows[:, k] = np.exp(np.minimum(form.costs[place], LARGEST_GROWTH))
            self.growth.append(rows)
        self.least = np.array([self.growth[place][values].min(axis=0) for place, values in enumerate(self.values)])
        self.rests = [
            (k, axes, np.exp(np.minimum(table, LARGEST_GROWTH)))
            for k, form in enumerate(forms)
            for axes, table in form.remainders
            if table.max() > 1e-9
        ]
        self.low = np.array([enumerator.weights[p][:, v].min(axis=1) for p, v in enumerate(self.values)])
        self.high = np.array([enumerator.weights[p][:, v].max(axis=1) for p, v in enumerate(self.values)])

    def _forms(self, bounds: list[Bound], relations: Sequence[Row]) -> tuple[list[NormalForm], Array]:
        """Normal forms of the leaves of all bounds, and each leaf's weight in each bound, (bounds, leaves)."""
        relaxation = Relaxation(self.space, self.masks, relations)
        number: dict[object, int] = {}
        forms: list[NormalForm] = []
        weights: list[dict[int, float]] = []
        for bound in bounds:
            own: dict[int, float] = {}
            for leaf in bound.leaves:
                key = (leaf.shape(), round(leaf.constant, 9))
                if key not in number:
                    form = relaxation.normal_form(leaf)
                    number[key] = -1 if form is None else len(forms)
                    if form is not None:
                        forms.append(form)
                if number[key] >= 0:
                    own[number[key]] = own.get(number[key], 0.0) + 1.0 / bound.limit
            weights.append(own)
        shares = np.zeros((len(bounds), len(forms)))
        for line, own in zip(shares, weights, strict=True):
            line[list(own)] = list(own.values())
        return forms, shares

    def join(
        self, order: list[int], core: Integers, joined: list[int], stop: Callable[[], bool]
    ) -> tuple[Integers, list[int]] | None:
        """Join the axes of ``order`` to the combinations ``core`` of the axes ``joined``, as far as they stay few.

        Combinations have shape (rows, axes), -1 where an axis is open. None if nothing survives.
        """
        state = self._state(core, joined)
        joined = list(joined)
        for place in order:
            grown = self._join(state, place, joined)
            if grown is None:
                return None
            if len(grown[0]) > WIDEST or stop():
                break
            state = grown
            joined.append(place)
        return state[0].astype(np.int64), joined

    def _state(self, core: Integers, joined: list[int]) -> tuple[NDArray[np.int16], Array, Array]:
        """Row sums and growths of given combinations."""
        sums = np.zeros((len(core), len(self.enumerator.lower)))
        values = np.repeat(self.start[None, :], len(core), axis=0)
        for place in joined:
            sums += self.enumerator.weights[place][:, core[:, place]].T
            values *= self.growth[place][core[:, place]]
        for k, axes, table in self.rests:
            if set(axes) <= set(joined):
                values[:, k] *= table[tuple(core[:, p] for p in axes)]
        return core.astype(np.int16), sums, values

    def _join(
        self, state: tuple[NDArray[np.int16], Array, Array], place: int, joined: list[int]
    ) -> tuple[NDArray[np.int16], Array, Array] | None:
        indices, sums, values = state
        enumerator = self.enumerator
        rest = [p for p in range(len(self.values)) if p != place and p not in joined]
        least_rest = self.low[rest].sum(axis=0)
        most_rest = self.high[rest].sum(axis=0)
        later = self.least[rest].prod(axis=0)
        weights = (self.shares * later).T
        known = {place, *joined}
        tables = [(places, grid) for places, grid in enumerator.tables if place in places and known.issuperset(places)]
        rests = [(k, axes, table) for k, axes, table in self.rests if place in axes and known.issuperset(axes)]
        found: list[tuple[NDArray[np.int16], Array, Array]] = []
        for value in self.values[place]:
            sums_here = sums + enumerator.weights[place][:, value]
            fits = np.all(sums_here + least_rest <= enumerator.upper, axis=1)
            fits &= np.all(sums_here + most_rest >= enumerator.lower, axis=1)
            for places, grid in tables:
                fits &= grid[tuple(value if p == place else indices[:, p] for p in places)]
            if not fits.any():
                continue
            kept = indices[fits]
            kept[:, place] = value
            grown = values[fits] * self.growth[place][value]
            for k, axes, table in rests:
                grown[:, k] *= table[tuple(kept[:, p] for p in axes)]
            good = np.all(grown @ weights <= 1.0, axis=1)
            if good.any():
                found.append((kept[good], sums_here[fits][good], grown[good]))
        if not found:
            return None
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]


@dataclass(frozen=True)
class Phase:
    """Axes to join, the bounds to join them under, and exact limits of expressions of these axes' columns alone."""

    order: list[int]
    bounds: list[Bound]
    exact: list[tuple[Expression, float]]


def useful_relations(space: Space, order: list[int]) -> list[Row]:
    """The rows that multipliers are for: equalities, and limits of the axes that are joined first.

    A multiplier of any other inequality would leave a slack in every bound, also of whole plans.
    """
    first = {space.axes[place].name for place in order}
    return [row for row in space.rows if row.lower == row.upper or (not row.exact and first.issuperset(row.weights))]


def contract(
    enumerator: Enumerator, masks: Masks, phases: list[Phase], keep: Integers, stop: Callable[[], bool]
) -> Contracted | None:
    """The space contracted in ``phases``. The plan ``keep`` stays in it. None: no plan is within all bounds."""
    space = enumerator.space
    core, joined = np.full((1, len(space.axes)), -1), []
    relations = useful_relations(space, phases[0].order)
    for phase in phases:
        if joined and len(core) <= LARGEST_CORE:
            break
        found = Contraction(enumerator, masks, phase.bounds, relations).join(phase.order, core, joined, stop)
        if found is None:
            return None
        core, joined = found
        if set(phase.order) <= set(joined):
            evaluator = Evaluator(space.columns(core))  # columns of open axes are not read
            for expression, limit in phase.exact:
                core, evaluator = _within(space, core, evaluator, expression, limit)
            if not len(core):
                return None
    if len(core) > LARGEST_PROGRAM:  # too many for one axis: keep what the values tell
        masks = list(masks)
        for place in joined:
            masks[place] = np.zeros_like(masks[place])
            masks[place][core[:, place]] = True
            masks[place][keep[place]] = True
        core, joined = np.full((1, len(space.axes)), -1), []
    own = np.full(len(space.axes), -1)
    own[joined] = keep[joined]
    if not (core == own).all(axis=1).any():
        core = np.concatenate([core, own[None, :]])
    table = {column: values[core[:, place]] for place in joined for column, values in space.axes[place].table.items()}
    rest = {axis.name: mask for axis, mask in zip(space.axes, masks, strict=True)}
    axes = [Axis("core", table)] if joined else []
    axes += [axis.restrict(rest[axis.name]) for place, axis in enumerate(space.axes) if place not in joined]
    values = {place: np.flatnonzero(masks[place]) for place in range(len(masks)) if place not in joined}
    return Contracted(Space(tuple(axes), space.relations, space.constants), core, joined, values)
