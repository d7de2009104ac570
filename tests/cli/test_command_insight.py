"""``planner explain``, ``planner whatif`` and ``planner repair``, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command


@pytest.fixture
def plan(planner: Command, tiny: Path, tmp_path: Path) -> Path:
    assert planner("solve", tiny, "-o", "plan.json").returncode == 0
    return tmp_path / "plan.json"


def test_a_plan_is_explained(planner: Command, plan: Path) -> None:
    ran = planner("explain", plan, "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert sum(document["waits_for_s"].values()) == pytest.approx(document["step_time_s"])
    changes = {change["change"]: change for change in document["changes"]}
    assert changes["twice the matrix rates"]["gain"] > 0.05
    assert changes["8 GiB more memory"]["gain"] > -1e-3
    assert "twice the memory bandwidth" in planner("explain", plan).stdout


def test_a_wish_is_priced(planner: Command, plan: Path) -> None:
    ran = planner("whatif", plan, "--set", "tp=4", "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["plan"]["tp"] == 4
    assert document["price"] >= -1e-3
    assert "Instead of:" in planner("whatif", plan, "--set", "tp=4").stdout


@pytest.mark.parametrize(
    ("wish", "code", "said"),
    [("tp=5", 2, "decisions.tp: 5 is not possible"), ("model=gpt2", 2, "is another problem"), ("tpp=2", 2, "not a known key"),
     ("memory_gib=2", 1, "impossible: ")],
)  # fmt: skip
def test_wishes_that_cannot_be(planner: Command, plan: Path, wish: str, code: int, said: str) -> None:
    ran = planner("whatif", plan, "--set", wish)
    assert ran.returncode == code
    assert said in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr


def test_a_problem_without_a_plan_is_repaired(planner: Command, tiny: Path) -> None:
    without = planner("solve", tiny, "--set", "memory_gib=2")
    assert without.returncode == 1
    assert "planner repair" in without.stdout
    ran = planner("repair", tiny, "--set", "memory_gib=2", "--json")
    assert ran.returncode == 0, ran.stderr
    changes = [change for change in json.loads(ran.stdout)["changes"] if change["set"]]
    assert changes
    for change in changes:
        again = planner("solve", tiny, "--set", "memory_gib=2", "--set", change["set"])
        assert again.returncode == 0, change
    assert planner("repair", tiny).returncode == 2
