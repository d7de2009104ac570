"""Every feasible combination, once, in chunks of bounded memory."""

from itertools import product

import numpy as np
import pytest

from planner.algebra.space import Allowed, Axis, Space
from planner.search import enumeration
from planner.search.enumeration import Enumerator, TooManyError
from tests.property.spaces import grid, random_space

SEEDS = range(60)


def by_brute_force(space):
    """Index tuples of all combinations that hold, in lexicographic order."""
    every = np.array(list(product(*(range(axis.size) for axis in space.axes))))
    return [tuple(row) for row in every[space.holds(space.columns(every))].tolist()]


def enumerated(space, **options):
    return [tuple(row) for chunk in Enumerator(space).combinations(**options) for row in chunk.tolist()]


@pytest.mark.parametrize("seed", SEEDS)
def test_combinations_are_those_that_hold(seed):
    space = random_space(seed)
    assert sorted(enumerated(space)) == by_brute_force(space)


@pytest.mark.parametrize("seed", SEEDS)
def test_small_chunks_give_the_same_and_stay_small(seed, monkeypatch):
    monkeypatch.setattr(enumeration, "CHUNK", 3)
    space = random_space(seed)
    chunks = list(Enumerator(space).combinations())
    assert sorted(tuple(row) for chunk in chunks for row in chunk.tolist()) == by_brute_force(space)
    assert all(len(chunk) <= 3 for chunk in chunks)


@pytest.mark.parametrize("seed", SEEDS)
def test_combinations_within_masks(seed):
    space = random_space(seed)
    masks = [np.arange(axis.size) % 3 != seed % 3 for axis in space.axes]
    before = [mask.tolist() for mask in masks]
    expected = [row for row in by_brute_force(space) if all(m[v] for m, v in zip(masks, row, strict=True))]
    assert sorted(enumerated(space, masks=masks)) == expected
    assert [mask.tolist() for mask in masks] == before


@pytest.mark.parametrize("seed", SEEDS)
def test_propagation_never_removes_a_value_of_a_feasible_combination(seed):
    space = random_space(seed)
    enumerator = Enumerator(space)
    plans = by_brute_force(space)
    for plan in plans[:: max(1, len(plans) // 5)]:
        masks = [np.arange(axis.size) != (value + 1) % axis.size for axis, value in zip(space.axes, plan, strict=True)]
        masks = [mask if mask.size > 1 else ~np.zeros_like(mask) for mask in masks]
        left = [row for row in plans if all(m[v] for m, v in zip(masks, row, strict=True))]
        live = enumerator.propagate(masks)
        assert live is not None
        assert all(live[place][value] for row in left for place, value in enumerate(row))
        assert all(not (after & ~before).any() for before, after in zip(masks, live, strict=True))
    whole = enumerator.propagate(enumerator.everything)
    if plans:
        assert whole is not None
        assert all(whole[place][value] for row in plans for place, value in enumerate(row))


def test_propagation_proves_some_spaces_empty():
    empty = [seed for seed in SEEDS if not by_brute_force(random_space(seed))]
    proved = [
        seed
        for seed in empty
        if Enumerator(random_space(seed)).propagate(Enumerator(random_space(seed)).everything) is None
    ]
    assert proved
    assert set(proved) <= set(empty)


def test_fixed_axes_have_one_value():
    space = random_space(1)
    masks = Enumerator(space).masks({0: 1, 2: 0})
    assert [mask.sum() for mask in masks] == [1, space.axes[1].size, 1, *(axis.size for axis in space.axes[3:])]
    assert masks[0][1]
    assert masks[2][0]


def axes(*sizes):
    return tuple(Axis(f"x{n}", {f"x{n}": np.arange(1, size + 1)}) for n, size in enumerate(sizes))


def test_a_space_without_relations_has_every_combination():
    space = Space(axes(2, 3, 4), ())
    assert sorted(enumerated(space)) == [tuple(row) for row in grid(space).tolist()]


def test_a_relation_between_constants_only_admits_all_or_nothing():
    fine = Allowed("fine", ("c",), lambda c: c == 4)
    assert len(enumerated(Space(axes(2, 3), (fine,), {"c": 4}))) == 6
    assert enumerated(Space(axes(2, 3), (fine,), {"c": 5})) == []


def test_an_axis_without_values_has_no_combinations():
    space = Space(axes(2, 3), ())
    assert enumerated(space, masks=[np.ones(2, dtype=bool), np.zeros(3, dtype=bool)]) == []


def test_too_many_steps_are_refused_and_enough_are_not():
    space = Space(axes(10, 10, 10), ())
    with pytest.raises(TooManyError):
        enumerated(space, most_steps=500)
    assert len(enumerated(space, most_steps=2000)) == 1000


def test_the_stack_stays_small(monkeypatch):
    """Depth first: what waits is at most one level's worth of chunks for each axis."""
    monkeypatch.setattr(enumeration, "CHUNK", 10)
    sizes = [len(chunk) for chunk in Enumerator(Space(axes(6, 6, 6, 6, 6), ())).combinations()]
    assert sum(sizes) == 6**5
    assert max(sizes) <= 10
