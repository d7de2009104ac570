"""Problems of the size of real ones are proved to the gap that was asked for, within seconds."""

import time

import pytest

from planner.instance import load
from planner.outcome import Status
from planner.solving import optimise


@pytest.mark.parametrize("name", ["gpt3-175b-1k-a100", "llama3-405b-16k-h100", "deepseek-v3-2k-h800"])
def test_a_shipped_problem_is_solved_to_a_thousandth(name):
    started = time.monotonic()
    outcome = optimise(load(name), gap=1e-3)
    assert outcome.status is Status.OPTIMAL
    assert outcome.stopped == ""
    assert outcome.gap <= 1e-3
    assert 0 < outcome.bound <= outcome.values[0]
    assert time.monotonic() - started < 60, "about ten times what it takes"
