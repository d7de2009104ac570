"""Values that another value of the same axis beats in every plan.

Value v gives way to w if every monomial, of the objective and of the memory, is no larger with w, both weigh the same in
every relation, and w is allowed wherever v is. Then exchanging v for w in any plan makes no cost larger.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from planner.algebra.expressions import Array
    from planner.milp.tree import Leaf, SumNode
    from planner.search.enumeration import Enumerator

    Masks = list[NDArray[np.bool_]]

TOLERANCE = 1e-12


def leaves_of(node: SumNode) -> Iterator[Leaf]:
    """Every monomial of a tree."""
    yield from node.leaves
    for maximum in node.maxima:
        for term in maximum.terms:
            yield from leaves_of(term)


def undominated(enumerator: Enumerator, masks: Masks, trees: list[SumNode]) -> Masks:
    """The masks without dominated values. Of equal values one stays."""
    tables: list[list[Array]] = [[] for _ in masks]
    seen: set[tuple[int, bytes]] = set()
    for tree in trees:
        for leaf in leaves_of(tree):
            for place, table in leaf.tables.items():
                _note(tables[place], seen, place, table)
            for joint in leaf.joints:
                for dimension, place in enumerate(joint.axes):
                    others = [masks[other] for other in joint.axes if other != place]
                    matrix = np.moveaxis(joint.logs, dimension, 0)
                    matrix = matrix[np.ix_(np.arange(len(masks[place])), *(np.flatnonzero(mask) for mask in others))]
                    _note(tables[place], seen, place, matrix.reshape(len(masks[place]), -1))
    result = [mask.copy() for mask in masks]
    for place, mask in enumerate(masks):
        values = np.flatnonzero(mask)
        if len(values) < 2:
            continue
        costs = (
            np.concatenate([table.reshape(len(mask), -1) for table in tables[place]], axis=1) if tables[place] else None
        )
        grids = [np.moveaxis(grid, places.index(place), 0).reshape(len(mask), -1)
                 for places, grid in enumerator.tables if place in places]  # fmt: skip
        alike: dict[bytes, list[int]] = defaultdict(list)
        for value in values:
            alike[np.round(enumerator.weights[place][:, value], 9).tobytes()].append(int(value))
        for group in alike.values():
            for v in group:
                for w in group:
                    if v == w or not result[place][w]:
                        continue
                    allowed = all(np.all(grid[w] | ~grid[v]) for grid in grids)
                    if allowed and (costs is None or np.all(costs[w] <= costs[v] + TOLERANCE)):
                        result[place][v] = False
                        break
    return result


def _note(found: list[Array], seen: set[tuple[int, bytes]], place: int, table: Array) -> None:
    key = (place, table.tobytes())
    if key not in seen:
        seen.add(key)
        found.append(table)
