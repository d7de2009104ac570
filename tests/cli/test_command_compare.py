"""``planner compare``, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command


def test_levers_over_a_problem(planner: Command, tiny: Path) -> None:
    ran = planner("compare", tiny, "--json", "--jobs", "2")
    assert ran.returncode == 0, ran.stderr
    rows = {row["case"]: row for row in json.loads(ran.stdout)["rows"]}
    baseline = rows.pop("as it is")
    assert len(rows) >= 6
    for row in rows.values():
        assert row["step_time_s"] <= baseline["step_time_s"] * 1.001  # none of them is dearer for so small a model
    again = planner("compare", tiny)
    assert "near-memory" in again.stdout
    own = planner("solve", tiny, "--set", "factors.memory_bandwidth=4", "--json")
    assert json.loads(own.stdout)["step_time_s"] == pytest.approx(rows["near-memory"]["step_time_s"], rel=2e-3)


def test_levers_over_budgets(planner: Command) -> None:
    ran = planner("compare", "frontier-h100-dense", "--budgets", "1e25,1e26", "--scenarios", "fast-network,six-months",
                  "--json", "--plots", "curves")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(ran.stdout)["rows"]
    assert {(row["case"], row["budget"]) for row in rows} == {
        (case, budget) for case in ("as it is", "fast-network", "six-months") for budget in (1e25, 1e26)
    }
    assert all(row["status"] == "optimal" for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpt3-175b-64-a100", "--scenarios", "large-batches"], "means nothing to gpt3-175b-64-a100"),
        (["gpt3-175b-64-a100", "--budgets", "1e25"], "has no compute budget"),
        (["frontier-h100-dense", "--budgets", "many"], "numbers of FLOP"),
        (["frontier-h100-dense", "--scenarios", "faster"], "not in the catalogue"),
    ],
)
def test_comparisons_that_cannot_be(planner: Command, arguments: list[str], said: str) -> None:
    ran = planner("compare", *arguments)
    assert ran.returncode == 2
    assert said in ran.stderr
