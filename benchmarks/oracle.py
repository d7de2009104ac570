"""The optimum and the bound against the exhaustive oracle, on the random instances of the property tests."""

from __future__ import annotations

import time
from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.registry import Options
from benchmarks.tables import Table

if TYPE_CHECKING:
    from planner.instance import Instance

GENERATOR = "tests.property.instances"
AGREEMENT = 1e-6
EXAMPLES = 10  # seeds of disagreements that are named


def run(options: Options) -> list[Table]:
    table = Table("Optimum and bound against the exhaustive oracle", ["what", "instances"])
    try:
        random_instance = import_module(GENERATOR).random_instance
    except ModuleNotFoundError as error:
        table.notes.append(f"not run: {error}")
        return [table]
    found: Counter[str] = Counter()
    bad: list[str] = []
    seconds = {"exhaustive": 0.0, "highs": 0.0}
    for seed in range(options.samples):
        for kind in compare(random_instance(seed), seconds):
            found[kind] += 1
            if kind.startswith("WRONG"):
                bad.append(f"seed {seed}: {kind}")
    table.add("all", options.samples)
    for kind in sorted(found):
        table.add(kind, found[kind])
    table.notes += [
        f"equal to {AGREEMENT:g}, relatively",
        f"seconds: oracle {seconds['exhaustive']:.1f}, program {seconds['highs']:.1f}",
        *bad[:EXAMPLES],
    ]
    return [table]


def compare(instance: Instance, seconds: dict[str, float]) -> list[str]:
    """What one instance shows; whatever should never be seen starts with WRONG."""
    answers = {solver: _answer(instance, solver, seconds) for solver in ("exhaustive", "highs")}
    oracle, program = answers["exhaustive"], answers["highs"]
    if not oracle.values or not program.values:
        if bool(oracle.values) != bool(program.values):
            return [f"WRONG: oracle {oracle.status}, program {program.status}"]
        return ["infeasible in both" if program.status == "infeasible" else f"WRONG: {program.status} without a plan"]
    best = oracle.values[0]
    kinds = ["equal" if abs(program.values[0] - best) <= AGREEMENT * best else "WRONG: optimum differs"]
    if program.bound > best * (1 + AGREEMENT):
        kinds.append("WRONG: bound above the optimum")
    return kinds


def _answer(instance: Instance, solver: str, seconds: dict[str, float]) -> Any:
    optimise = import_module("planner.solving").optimise
    started = time.perf_counter()
    answer = optimise(instance, gap=AGREEMENT / 2, solver=solver)
    seconds[solver] += time.perf_counter() - started
    return answer
