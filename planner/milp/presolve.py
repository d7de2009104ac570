"""Shrinking the space before the program is built: leading decisions are enumerated, and bounded as they are.

Axes are joined one by one, as in plain enumeration; but a partial combination goes as soon as every plan that completes it
costs more than ``(1 - eps)`` times a known plan, or needs more memory than there is. The bounds are the normal forms of
`planner.milp.relaxation`: a monomial's least value times one growth factor for each decision taken. What is left of the
joined axes becomes *one* axis, the core, with a row for each surviving combination; the program then decides among these
rows and the remaining axes. What went is bounded, so it enters the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.space import Axis, Space
from planner.milp.relaxation import NormalForm, Relaxation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array
    from planner.algebra.space import Integers
    from planner.milp.tree import Leaf, SumNode
    from planner.search.enumeration import Enumerator

    Masks = list[NDArray[np.bool_]]

#: Partial combinations at once, at most: beyond, the presolve stops where it is.
WIDEST = 100_000
#: Combinations that the core may have in the program, and the number at which joining stops.
LARGEST_CORE, SMALL_ENOUGH = 1500, 150
#: Partial combinations on which the next axis is chosen.
SAMPLE = 48
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

    def lift(self, plans: Integers, old: Space) -> Integers:
        """Plans of the contracted space as plans of the old one."""
        lifted = np.zeros((len(plans), len(old.axes)), dtype=np.int64)
        for place, axis in enumerate(self.space.axes):
            if axis.name == "core":
                rows = self.core[plans[:, place]]
                for old_place in self.joined:
                    lifted[:, old_place] = rows[:, old_place]
            else:
                lifted[:, old.position[axis.name]] = plans[:, place]
        return lifted

    def drop(self, plans: Integers, old: Space) -> Integers:
        """Those plans of the old space that are in the contracted one, as its plans."""
        kept = []
        for plan in plans:
            match = np.flatnonzero((self.core[:, self.joined] == plan[self.joined]).all(axis=1))
            if len(match):
                kept.append([
                    int(match[0]) if axis.name == "core" else int(plan[old.position[axis.name]]) for axis in self.space.axes
                ])  # fmt: skip
        return np.array(kept, dtype=np.int64).reshape(len(kept), len(self.space.axes))


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
            others += inner
            if position != best:
                others.append(rest + picked)
    base += own + [leaf for leaves in chosen for leaf in leaves]


def _value(node: SumNode, plan: Integers) -> float:
    total = sum(float(np.exp(leaf.logs(plan[None, :])[0])) for leaf in node.leaves)
    return total + sum(max(_value(term, plan) for term in maximum.terms) for maximum in node.maxima)


class Contraction:
    """Joins axes under bounds, widest first kept small: the next axis is the one that multiplies a sample least."""

    def __init__(self, enumerator: Enumerator, masks: Masks, bounds: list[Bound]) -> None:
        self.enumerator, self.space, self.masks = enumerator, enumerator.space, masks
        self.values = [np.flatnonzero(mask) for mask in masks]
        forms, shares = self._forms(bounds)
        self.start = np.exp(np.array([form.least for form in forms]))
        self.shares = shares
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

    def _forms(self, bounds: list[Bound]) -> tuple[list[NormalForm], Array]:
        """Normal forms of the leaves of all bounds, and each leaf's weight in each bound, (bounds, leaves)."""
        relaxation = Relaxation(self.space, self.masks)
        number: dict[tuple[bytes, float], int] = {}
        forms: list[NormalForm] = []
        weights: list[dict[int, float]] = []
        for bound in bounds:
            own: dict[int, float] = {}
            for leaf in bound.leaves:
                key = (leaf.key, round(leaf.constant, 9))
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

    def run(self, deadline_reached: object) -> tuple[Integers, list[int]] | None:
        """Surviving combinations (rows, axes; -1 where open) and the joined axes; None if nothing survives."""
        enumerator = self.enumerator
        low = np.array([enumerator.weights[p][:, v].min(axis=1) for p, v in enumerate(self.values)])
        high = np.array([enumerator.weights[p][:, v].max(axis=1) for p, v in enumerate(self.values)])
        state = (
            np.full((1, len(self.values)), -1, dtype=np.int16),
            np.zeros((1, len(enumerator.lower))),
            self.start[None, :],
        )
        joined: list[int] = []
        best: tuple[Integers, list[int]] = (state[0].astype(np.int64), [])
        generator = np.random.default_rng(0)
        while len(joined) < len(self.values):
            place = self._next(state, joined, low, high, generator)
            grown = self._join(state, place, joined, low, high)
            if grown is None:
                return None
            if len(grown[0]) > WIDEST or deadline_reached():  # type: ignore[operator]
                break
            state = grown
            joined.append(place)
            if len(state[0]) <= LARGEST_CORE:
                best = (state[0].astype(np.int64), list(joined))
                if len(state[0]) <= SMALL_ENOUGH and len(joined) >= len(self.values) // 2:
                    break
        return best

    def _next(
        self, state: tuple[NDArray[np.int16], Array, Array], joined: list[int], low: Array, high: Array,
        generator: np.random.Generator,
    ) -> int:  # fmt: skip
        rows = len(state[0])
        chosen = generator.choice(rows, SAMPLE, replace=False) if rows > SAMPLE else np.arange(rows)
        sample = (state[0][chosen], state[1][chosen], state[2][chosen])
        best, best_count = -1, np.inf
        for place in range(len(self.values)):
            if place in joined:
                continue
            grown = self._join(sample, place, joined, low, high)
            count = 0.0 if grown is None else float(len(grown[0]))
            count += 1e-3 * len(self.values[place])
            if count < best_count:
                best, best_count = place, count
            if count <= 0.5 * len(chosen):
                break
        return best

    def _join(
        self, state: tuple[NDArray[np.int16], Array, Array], place: int, joined: list[int], low: Array, high: Array
    ) -> tuple[NDArray[np.int16], Array, Array] | None:
        indices, sums, values = state
        enumerator = self.enumerator
        rest = [p for p in range(len(self.values)) if p != place and p not in joined]
        least_rest = low[rest].sum(axis=0)
        most_rest = high[rest].sum(axis=0)
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


def contract(
    enumerator: Enumerator, masks: Masks, bounds: list[Bound], keep: Integers, deadline_reached: object
) -> Contracted | None:
    """The space contracted under ``bounds``; the plan ``keep`` stays in it. None: no plan is within all bounds."""
    space = enumerator.space
    found = Contraction(enumerator, masks, bounds).run(deadline_reached)
    if found is None:
        return None
    core, joined = found
    if not joined:
        return Contracted(space.restrict(dict(zip([axis.name for axis in space.axes], masks, strict=True))), core, [])
    own = np.full(len(space.axes), -1)
    own[joined] = keep[joined]
    if not (core == own).all(axis=1).any():
        core = np.concatenate([core, own[None, :]])
    table = {
        column: values[core[:, place]] for place in joined for column, values in space.axes[place].table.items()
    }
    axes = [Axis("core", table)]
    axes += [axis for place, axis in enumerate(space.axes) if place not in joined]
    return Contracted(Space(tuple(axes), space.relations, space.constants), core, joined)
