"""Shrinking the box before the program is built: values and pairs of values that no better plan has.

With a known plan of cost T*, a value is dropped when every plan with it costs more than (1 - eps) T*, or needs more memory
than there is; likewise a pair is recorded as a conflict. What is dropped is bounded, so it enters the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from planner.milp.relaxation import Bounds, NormalForm, Relaxation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.space import Integers, Space
    from planner.milp.posynomials import Leaf, Posynomial
    from planner.search.enumeration import Enumerator

    Masks = list[NDArray[np.bool_]]

MAX_ROUNDS = 6


@dataclass
class Box:
    """What is left: masks, pair conflicts, and the normal forms of every leaf on the final masks."""

    masks: Masks
    conflicts: dict[tuple[int, int], NDArray[np.bool_]] = field(default_factory=dict)
    forms: dict[int, NormalForm | None] = field(default_factory=dict)
    rounds: int = 0

    @property
    def size(self) -> int:
        """Values left on all axes."""
        return sum(int(mask.sum()) for mask in self.masks)


@dataclass(frozen=True)
class Limit:
    """A posynomial that must not exceed ``limit`` in the plans that are looked for."""

    posynomial: Posynomial
    limit: float


def normal_forms(space: Space, masks: Masks, leaves: list[Leaf]) -> dict[int, NormalForm | None]:
    """Normal forms by the identity of the leaf."""
    relaxation = Relaxation(space, masks)
    return {id(leaf): relaxation.normal_form(leaf) for leaf in leaves}


def shrink(enumerator: Enumerator, limits: list[Limit], keep: Integers | None = None) -> Box | None:
    """The smallest box found that holds every plan within all ``limits``, and the plan ``keep``; None: there is none."""
    space = enumerator.space
    masks = enumerator.propagate(enumerator.everything)
    if masks is None:
        return None
    leaves = list({id(leaf): leaf for limit in limits for leaf in limit.posynomial}.values())
    box = Box(masks)
    for _ in range(MAX_ROUNDS):
        box.rounds += 1
        before = box.size
        box.forms = normal_forms(space, box.masks, leaves)
        bounds = [
            (Bounds([form for leaf in limit.posynomial if (form := box.forms[id(leaf)])], box.masks), limit.limit)
            for limit in limits
        ]
        masks = _by_value(enumerator, box.masks, bounds)
        if masks is not None:
            masks, conflicts = _by_pair(enumerator, masks, bounds)
            box.conflicts = conflicts
        if masks is None:
            if keep is None:
                return None
            masks = enumerator.masks(dict(enumerate(keep.tolist())))
            box.conflicts = {}
        if keep is not None:
            for place, index in enumerate(keep):
                masks[place][index] = True
        box.masks = masks
        if box.size > 0.97 * before:
            break
    box.forms = normal_forms(space, box.masks, leaves)
    return box


def _by_value(enumerator: Enumerator, masks: Masks, bounds: list[tuple[Bounds, float]]) -> Masks | None:
    """Drop values by their own bound, then by the bound of the box that they leave after propagation."""
    masks = [mask.copy() for mask in masks]
    for bound, limit in bounds:
        for place, values in enumerate(bound.by_value()):
            masks[place] &= values <= limit
    live = enumerator.propagate(masks)
    if live is None:
        return None
    for place in range(len(live)):
        for index in np.flatnonzero(live[place]):
            if live[place].sum() == 1:
                break
            trial = list(live)
            trial[place] = np.zeros_like(live[place])
            trial[place][index] = True
            reached = enumerator.propagate(trial)
            if reached is None or any(bound.within(reached) > limit for bound, limit in bounds):
                live[place][index] = False
    return enumerator.propagate(live)


def _by_pair(
    enumerator: Enumerator, masks: Masks, bounds: list[tuple[Bounds, float]]
) -> tuple[Masks | None, dict[tuple[int, int], NDArray[np.bool_]]]:
    """Conflicts between values of two axes, and the values that they leave without a partner."""
    conflicts: dict[tuple[int, int], NDArray[np.bool_]] = {}
    open_axes = [place for place, mask in enumerate(masks) if mask.sum() > 1]
    for a, first in enumerate(open_axes):
        for second in open_axes[a + 1 :]:
            bad = np.zeros((len(masks[first]), len(masks[second])), dtype=bool)
            for bound, limit in bounds:
                bad |= bound.by_pair(first, second) > limit
            bad &= masks[first][:, None] & masks[second][None, :]
            if bad.any():
                conflicts[first, second] = bad
    for (first, second), bad in conflicts.items():
        masks[first] = masks[first] & ~(bad | ~masks[second][None, :]).all(axis=1)
        masks[second] = masks[second] & ~(bad | ~masks[first][:, None]).all(axis=0)
    return enumerator.propagate(masks), conflicts
