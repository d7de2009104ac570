"""Every problem that comes with the planner can be read, and has plans to choose from."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.batch.grid import points
from planner.batch.sweeps import find_sweep
from planner.batch.tasks import task_of
from planner.frontier.loading import load_frontier
from planner.instance import load
from planner.search.enumeration import Enumerator

FRONTIER = [name for name in catalog.names("problem") if name.startswith("frontier-")]
PROBLEMS = [name for name in catalog.names("problem") if name not in FRONTIER]


@pytest.mark.parametrize("name", FRONTIER)
def test_a_frontier_problem_refers_to_a_device_and_has_clusters_to_choose_from(name: str) -> None:
    frontier = load_frontier(name)
    assert frontier.problem.device in catalog.names("device")
    assert frontier.problem.source
    assert len(frontier.sizes) > 20
    assert (frontier.model.experts > 1) == name.endswith("sparse")


@pytest.mark.parametrize("name", catalog.names("sweep"))
def test_a_sweep_has_points_that_make_sense(name: str) -> None:
    path, sweep = find_sweep(name)
    for point in points(sweep):
        assert len(task_of(point, sweep.options, path.parent).key) == 40


def test_there_are_problems_of_every_size() -> None:
    sizes = {load(name).cluster.accelerators for name in PROBLEMS}
    assert len(PROBLEMS) >= 18
    assert min(sizes) <= 8
    assert max(sizes) >= 2**20


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_has_a_space(name: str) -> None:
    instance = load(name)
    enumerator = Enumerator(instance.space)
    assert enumerator.propagate(enumerator.everything) is not None
    assert instance.setting.capacity > 0
    assert instance.problem.source


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_refers_to_the_catalogue(name: str) -> None:
    problem, path = catalog.load_problem(name)
    assert problem.model in catalog.names("model")
    assert problem.cluster in catalog.names("cluster")
    assert path.stem == name
