"""Scenarios over one problem, as a sweep: the problem as it is, then each lever."""

from __future__ import annotations

from typing import Any

from planner import catalog
from planner.errors import InputError
from planner.schema.base import read_toml, validate
from planner.schema.scenario import Scenario
from planner.schema.sweep import Sweep

BASELINE = "as it is"


def scenario_sweep(problem: str, names: list[str], budgets: list[float], settings: dict[str, Any]) -> Sweep:
    """The sweep of ``problem`` under the scenarios ``names`` (all that have a meaning for it, if empty).

    ``budgets`` (FLOP) are an axis of a frontier problem. Raises `InputError` for scenarios that mean nothing to the
    problem, and for budgets of one that has none.
    """
    path = catalog.locate("problem", problem)
    kind = "frontier" if read_toml(path).get("kind") == "frontier" else "solve"
    wanted = names or catalog.names("scenario")
    found = [catalog.load_scenario(name) for name in wanted]
    lacking = [scenario.name for scenario in found if _keys(scenario, kind) is None]
    if names and lacking:
        raise InputError([f"scenario {name}: has no {kind} table: it means nothing to {problem}" for name in lacking])
    if budgets and kind == "solve":
        raise InputError(f"--budgets: {problem} has no compute budget; frontier problems have")
    cases: list[dict[str, Any]] = [{"name": BASELINE}]
    cases += [
        {"name": scenario.name, "set": _keys(scenario, kind)} for scenario in found if scenario.name not in lacking
    ]
    document: dict[str, Any] = {"schema": 1, "name": f"{problem}: levers", "problem": str(path), "cases": cases,
                                "set": settings}  # fmt: skip
    if budgets:
        document["axes"] = {"budget": budgets}
    return validate(Sweep, document, "scenarios")


def _keys(scenario: Scenario, kind: str) -> dict[str, Any] | None:
    return scenario.frontier if kind == "frontier" else scenario.solve
