"""The smallest cluster and its best plan against the price of every plan on every size, on random small problems."""

import numpy as np
import pytest

from planner.algebra.evaluation import Evaluator
from planner.frontier.budget import run_seconds, solve_frontier
from planner.frontier.loading import load_frontier
from planner.frontier.problem import smallest_cluster
from planner.frontier.space import build_space
from planner.outcome import Status
from planner.proving import prove
from planner.search.enumeration import Enumerator

BATCH = 10


def random_frontier(seed):
    """A problem of a few thousand plans a size: small models, few doublings, tight or loose limits."""
    draw = np.random.default_rng(seed)

    def one_of(values):
        return values[int(draw.integers(len(values)))]

    levels = one_of([1, 2, 2, 2, 3])
    bandwidths = [900, 300, 100][:levels] if draw.random() < 0.8 else ["infinite", 50, 25][:levels]
    overrides = [
        f"network.names={['a', 'b', 'c'][:levels]}".replace("'", '"'),
        f"network.sizes={[one_of([2, 4]), 2][: levels - 1]}",
        f"network.bandwidth_gb_per_s={bandwidths}".replace("'", '"'),
        f"network.latency_us={[float(draw.uniform(0, 20)) for _ in range(levels)]}",
        f"experts={one_of([1, 1, 2, 3, 4])}",
        f"layers={one_of([4, 6, 8, 12])}",
        f"width={one_of([512, 768, 1024])}",
        f"batch.factor={one_of([0.002, 0.01, 0.05])}",
        f"most_doublings={one_of([5, 6, 7])}",
        f"memory={float(np.exp(draw.uniform(np.log(1e-5), np.log(1e-2)))) if draw.random() < 0.3 else 1.0}",
        f"network_bandwidth={float(np.exp(draw.uniform(np.log(0.01), np.log(10))))}",
        f"overlap_tensor={one_of(['true', 'true', 'false'])}",
        f"overlap_data={one_of(['false', 'false', 'true'])}",
        f"zero_bubble_latency={one_of(['false', 'true'])}",
    ]
    if draw.random() < 0.3:
        overrides.append(f"schedule={one_of(['ordinary', 'zero-bubble'])}")
    if draw.random() < 0.2:
        overrides.append('ep="all"')
    if draw.random() < 0.2:
        overrides.append("gpus=any")
    at_ease = load_frontier("frontier-h100-dense", overrides)
    busy = float(np.exp(draw.uniform(np.log(0.01), np.log(10))))  # accelerators that would do if nothing held them up
    seconds = at_ease.model.compute / (at_ease.setting.accelerator.reachable * busy)
    return load_frontier("frontier-h100-dense", [*overrides, f"months={seconds / at_ease.setting.month}"])


def best_of_all(frontier):
    """The smallest size with a plan that finishes in time and fits in memory, and the least time on it."""
    for size in frontier.sizes:
        try:
            space = build_space(frontier.problem, frontier.setting, [size], frontier.origin)
        except ValueError:
            continue
        best = np.inf
        for indices in Enumerator(space).combinations():
            columns = Evaluator(space.columns(indices))
            times = columns(frontier.run_time)[columns(frontier.need) <= 1.0]
            best = min(best, float(times.min(initial=np.inf)))
        if np.isfinite(best):
            return size, best
    return None


def assert_agrees(seed):
    frontier = random_frontier(seed)
    exact = best_of_all(frontier)
    found = solve_frontier(frontier, gap=1e-6)
    if exact is None:
        assert found.status is Status.INFEASIBLE, seed
        return False
    size, seconds = exact
    assert found.status is Status.OPTIMAL, seed
    plan = found.plans[0]
    assert plan["gpus"] == size, seed
    assert found.values[0] == pytest.approx(seconds, rel=1e-6), seed
    assert found.values[0] == pytest.approx(run_seconds(frontier, plan), rel=1e-12), seed
    assert found.bound <= seconds * (1 + 1e-9), seed
    return True


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_the_smallest_cluster_is_that_of_enumeration(first):
    solved = [assert_agrees(seed) for seed in range(first, first + BATCH)]
    assert any(solved)


@pytest.mark.parametrize("seed", range(200, 204))
def test_the_program_alone_finds_it_too(seed):
    frontier = random_frontier(seed)
    found = solve_frontier(frontier, gap=1e-4)
    alone = prove(smallest_cluster(frontier, frontier.sizes[:2]), gap=1e-3, presolve=False)
    if found.plans and alone.plans and alone.status is Status.OPTIMAL and found.plans[0]["gpus"] <= frontier.sizes[1]:
        assert run_seconds(frontier, alone.plans[0]) == pytest.approx(found.values[0], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_thousands_of_random_frontier_problems_agree_with_enumeration(first):
    for seed in range(first, first + 100):
        assert_agrees(seed)
