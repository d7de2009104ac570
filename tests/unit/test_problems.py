"""Every problem that comes with the planner can be read, and has plans to choose from."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.instance import load
from planner.search.enumeration import Enumerator

PROBLEMS = catalog.names("problem")


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
