"""Local search: a pool of the best distinct plans, all of them real."""

import time

import numpy as np
import pytest

from planner.algebra.evaluation import evaluate
from planner.physics import heuristics
from planner.search import local as local_module
from planner.search.exhaustive import exhaust
from planner.search.local import LocalSearch, Pool
from tests.property.spaces import SMALL_SEEDS, small_instance


def search_of(instance, capacity=None):
    return LocalSearch(instance.space, instance.objective, instance.peak_memory, capacity or instance.setting.capacity)


def prices(instance, plans):
    columns = instance.space.columns(plans)
    return evaluate(instance.objective, columns), evaluate(instance.peak_memory, columns)


def assert_sound(pool, instance, capacity):
    """Distinct plans that keep the rules and fit, best first, with their exact values."""
    assert len(pool.values) <= pool.size
    assert len(np.unique(pool.indices, axis=0)) == len(pool.indices) == len(pool.values)
    if not len(pool.values):
        assert pool.best == np.inf
        return
    assert instance.space.holds(instance.space.columns(pool.indices)).all()
    cost, memory = prices(instance, pool.indices)
    assert cost.tolist() == pool.values.tolist()
    assert (memory <= capacity).all()
    assert (np.diff(pool.values) >= 0).all()
    assert pool.best == cost.min()


@pytest.mark.parametrize("seed", SMALL_SEEDS[:8])
@pytest.mark.parametrize("size", [1, 5, 24])
def test_the_pool_keeps_the_best_distinct_plans(seed, size):
    instance, plans = small_instance(seed)
    cost, memory = prices(instance, plans)
    capacity = float(np.median(memory))
    search, pool = search_of(instance, capacity), Pool.empty(len(instance.space.axes), size)
    shuffled = np.random.default_rng(seed).permutation(np.concatenate([plans, plans[::2]]))
    for begin in range(0, len(shuffled), 17):
        search.price(pool, shuffled[begin : begin + 17])
        assert_sound(pool, instance, capacity)
    assert pool.values.tolist() == np.sort(cost[memory <= capacity])[:size].tolist()
    assert pool.priced == len(shuffled)
    assert pool.least_memory == memory.min()
    assert prices(instance, pool.least_memory_plan[None, :])[1][0] == memory.min()


@pytest.mark.parametrize("seed", SMALL_SEEDS[:4])
def test_price_says_whether_the_best_improved(seed):
    instance, plans = small_instance(seed)
    order = np.argsort(-prices(instance, plans)[0], kind="stable")
    search, pool = search_of(instance, np.inf), Pool.empty(len(instance.space.axes))
    assert search.price(pool, plans[order[:1]])
    assert not search.price(pool, plans[order[:1]])
    assert not search.price(pool, plans[:0])
    assert search.price(pool, plans)
    assert not search.price(pool, plans)


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_seeds_and_improvements_are_sound(seed, monkeypatch):
    monkeypatch.setattr(local_module, "NEIGHBOURS", 50)
    instance, _ = small_instance(seed)
    capacity = instance.setting.capacity
    search, pool = search_of(instance), Pool.empty(len(instance.space.axes), 6)
    search.seed(pool, heuristics.subspaces(instance.space), 20)
    assert_sound(pool, instance, capacity)
    before = pool.best
    search.improve(pool, heuristics.NEIGHBOURHOODS, starts=3, deadline=time.monotonic() + 1.0)
    assert_sound(pool, instance, capacity)
    assert pool.best <= before


@pytest.mark.parametrize("seed", SMALL_SEEDS)
def test_small_spaces_are_priced_whole(seed):
    instance, plans = small_instance(seed)
    search, pool = search_of(instance), Pool.empty(len(instance.space.axes))
    assert search.exhaust(pool)
    found = exhaust(instance.space, instance.objective, instance.peak_memory, instance.setting.capacity, keep=24)
    assert found.plans == pool.priced == len(plans)
    assert found.complete
    assert pool.values.tolist() == found.values.tolist()
    assert pool.least_memory == found.least_memory


def test_large_spaces_are_not_priced_whole(monkeypatch):
    monkeypatch.setattr(local_module, "FEW_STEPS", 3)
    instance, _ = small_instance(SMALL_SEEDS[0])
    search, pool = search_of(instance), Pool.empty(len(instance.space.axes))
    assert not search.exhaust(pool)
    assert_sound(pool, instance, instance.setting.capacity)


def test_where_nothing_fits_the_pool_stays_empty_but_knows_the_least_memory():
    instance, plans = small_instance(SMALL_SEEDS[0])
    search, pool = search_of(instance, 1.0), Pool.empty(len(instance.space.axes))
    search.seed(pool, heuristics.subspaces(instance.space), 10_000)
    search.improve(pool, heuristics.NEIGHBOURHOODS, starts=3, deadline=time.monotonic() + 1.0)
    assert not len(pool.values)
    assert pool.best == np.inf
    assert pool.least_memory == prices(instance, plans)[1].min()


def test_a_deadline_in_the_past_improves_nothing():
    instance, plans = small_instance(SMALL_SEEDS[0])
    search, pool = search_of(instance, np.inf), Pool.empty(len(instance.space.axes))
    search.price(pool, plans[-1:])
    search.improve(pool, heuristics.NEIGHBOURHOODS, starts=3, deadline=time.monotonic() - 1.0)
    assert pool.priced == 1
