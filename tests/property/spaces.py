"""Random small spaces, and every plan of a space or an instance, for tests that look at all of them."""

from __future__ import annotations

import random
from functools import cache

import numpy as np

from planner.algebra.space import Allowed, AtMost, Axis, Equal, Relation, Space, Whole, holds
from planner.instance import Instance
from planner.search.enumeration import Enumerator
from tests.property.instances import random_instance

#: Seeds of `random_instance` with some tens to some thousands of plans, of varied models and clusters.
SMALL_SEEDS = (1, 5, 11, 14, 23, 24, 34, 39, 49, 64, 74, 79, 88, 100, 116, 120, 128, 144, 151, 154)

VALUES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 21, 49, 61, 122)


def random_space(seed: int) -> Space:
    """Three to five axes, one of two columns, with a constant and relations of every kind; mostly with feasible plans."""
    choose = random.Random(seed)
    names = [f"x{number}" for number in range(choose.choice([3, 4, 5]))]
    axes = []
    for name in names:
        size = choose.randint(1, 6)
        table = {name: np.array(choose.choices(VALUES, k=size), dtype=np.int64)}
        if name == "x1":
            table["second"] = np.array(choose.choices(VALUES, k=size), dtype=np.int64)
        axes.append(Axis(name, table))
    columns = [*names, "second", "constant"]
    constants = {"constant": choose.choice(VALUES)}

    def powers(count: int) -> dict[str, int]:
        return {column: choose.choice([-2, -1, -1, 1, 1, 2]) for column in choose.sample(columns, count)}

    def relation(name: str) -> Relation:
        kind, count = choose.choice(["equal", "whole", "most", "allowed"]), choose.randint(1, 3)
        if kind == "equal":
            return Equal(name, powers(2), choose.choice([1, 1, 2, 3, 6, 61]))
        if kind == "whole":
            return Whole(name, powers(count), choose.choice([1, 12, 61, 420]))
        if kind == "most":
            return AtMost(name, tuple(choose.sample(columns, count)), choose.choice([6, 49, 61, 1000]))
        bound = choose.choice([7, 10, 20])
        return Allowed(name, tuple(choose.sample([*names, "constant"], 2)), lambda a, b: a + b != bound)

    free = Space(tuple(axes), (), constants)
    known = free.columns(np.array([[choose.randrange(axis.size) for axis in axes]]))
    relations: list[Relation] = []
    while len(relations) < 1 + seed % 4:
        found = relation(f"relation {len(relations)}")
        if seed % 5 == 0 or holds(found, known)[0]:
            relations.append(found)
    return Space(tuple(axes), tuple(relations), constants)


def grid(space: Space) -> np.ndarray:
    """Indices of every combination of the axes, feasible or not, in lexicographic order; shape (combinations, axes)."""
    return np.indices([axis.size for axis in space.axes]).reshape(len(space.axes), -1).T


@cache
def small_instance(seed: int) -> tuple[Instance, np.ndarray]:
    """A random instance with every plan that keeps the rules; shape (plans, axes)."""
    instance = random_instance(seed)
    chunks = list(Enumerator(instance.space).combinations())
    plans = np.concatenate(chunks) if chunks else np.zeros((0, len(instance.space.axes)), dtype=np.int64)
    return instance, plans
