"""The smallest cluster that trains a budget's model in time, and its fastest plan, with a proof."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from planner.frontier.problem import Frontier, frontier_of, size_first, smallest_cluster
from planner.outcome import Outcome, Progress, Status
from planner.proving import prove

if TYPE_CHECKING:
    from planner.schema.frontier import Device, FrontierProblem

#: Cluster sizes that are decided together: the smallest few, and what lies within a factor; in the first lots of sizes a
#: plan is likely to exist.
FIRST_SIZES, TOGETHER, HOPEFUL = 4, 2.0, 1
#: What stops a run is found out with any plan, a good one is not needed.
ANY_PLAN = 0.5
#: Why nothing is proved where a size could not be decided.
UNDECIDED = "too many plans for a smaller cluster to decide on it"
#: As good as without limit, and as good as nothing.
ENDLESS, NOTHING = 1e12, 1e-12

#: What may stop a run: its name, and the factors without it.
OBSTACLES: tuple[tuple[str, dict[str, float]], ...] = (
    ("latency", {"latency": 0.0}),
    ("network bandwidth", {"network_bandwidth": ENDLESS}),
    ("memory bandwidth", {"memory_bandwidth": ENDLESS, "cache_bandwidth": ENDLESS}),
    ("memory", {"memory": ENDLESS}),
)


@dataclass(frozen=True)
class Obstacle:
    """One thing whose absence would let the run finish in time, and on how many accelerators (None: not even then)."""

    name: str
    gpus: int | None


def solve_frontier(
    frontier: Frontier, *, gap: float = 1e-4, time_limit: float = math.inf, seed: int = 0,
    start: Sequence[Mapping[str, int]] = (), progress: Callable[[Progress], None] | None = None,
) -> Outcome:  # fmt: skip
    """The smallest cluster of the frontier's sizes that finishes in time, and its fastest plan.

    The outcome's values and bound are seconds of the run on as many accelerators; every smaller size is proved too
    small, unless the outcome says that one could not be decided.
    ``start`` are plans of like problems. Raises `InputError` for meaningless options and for decisions that leave nothing.
    """
    deadline = time.monotonic() + time_limit
    statistics: dict[str, float | int | str] = {}
    outcome = Outcome(Status.INFEASIBLE, (), (), math.inf)
    answer = partial(_answer, frontier, gap=gap, deadline=deadline, seed=seed, progress=progress)
    windows, undecided, number = list(_windows(frontier.sizes)), False, 0
    while windows:
        sizes, number = windows.pop(0), number + 1
        outcome = answer(sizes, hopeful=number <= HOPEFUL, start=start)
        statistics = _added(statistics, outcome.statistics)
        if outcome.status is Status.UNKNOWN and not outcome.stopped and time.monotonic() < deadline:
            # too many plans to look at: one size at a time, and a larger one where that is still too many
            windows[:0] = [[size] for size in sizes] if len(sizes) > 1 else []
            undecided |= len(sizes) == 1
            continue
        if len(sizes) > 1 and outcome.plans and size_first(sizes, frontier.setting) is None:
            smallest = outcome
            outcome = answer([outcome.plans[0]["gpus"]], hopeful=True, start=outcome.plans)
            statistics = _added(statistics, outcome.statistics)
            if smallest.status is not Status.OPTIMAL:
                outcome = replace(outcome, status=Status.FEASIBLE, bound=0.0, stopped=smallest.stopped)
        if outcome.plans or outcome.status is not Status.INFEASIBLE:
            break
    outcome = replace(outcome, statistics=statistics | {"cluster_sizes": len(frontier.sizes)})
    if undecided:
        found = Status.FEASIBLE if outcome.plans else Status.UNKNOWN
        outcome = replace(outcome, status=found, bound=0.0, stopped=outcome.stopped or UNDECIDED)
    if not outcome.plans:
        return outcome
    seconds = run_seconds(frontier, outcome.plans[0])
    proved = outcome.bound / outcome.values[0]
    return replace(outcome, values=(seconds,), plans=outcome.plans[:1], bound=seconds * proved)


def _answer(
    frontier: Frontier, sizes: list[int], *, gap: float, deadline: float, seed: int, hopeful: bool,
    start: Sequence[Mapping[str, int]], progress: Callable[[Progress], None] | None,
) -> Outcome:  # fmt: skip
    question = smallest_cluster(frontier, sizes, hopeful)
    remaining = max(0.0, deadline - time.monotonic())
    return prove(question, gap=gap, time_limit=remaining, seed=seed, start=start, progress=progress)


def run_seconds(frontier: Frontier, plan: Mapping[str, int]) -> float:
    """Seconds of the run under a plan."""
    from planner.algebra.breakdown import explain

    return explain(frontier.run_time, plan).value


def obstacles(problem: FrontierProblem, device: Device, time_limit: float = math.inf) -> list[Obstacle]:
    """What keeps a run from finishing in time: for each cause, the smallest cluster that would do without it."""
    deadline = time.monotonic() + time_limit
    found = []
    for name, factors in OBSTACLES:
        without = problem.model_copy(update={"factors": problem.factors.model_copy(update=factors)})
        remaining = max(0.0, deadline - time.monotonic())
        outcome = solve_frontier(frontier_of(without, device), gap=ANY_PLAN, time_limit=remaining)
        if outcome.plans or outcome.status is Status.INFEASIBLE:
            found.append(Obstacle(name, outcome.plans[0]["gpus"] if outcome.plans else None))
    return found


def _windows(sizes: list[int]) -> Iterator[list[int]]:
    """Sizes that are decided together, ascending: what lies within a factor, but at first the few smallest."""
    begin = 0
    while begin < len(sizes):
        end = begin + (FIRST_SIZES if begin == 0 else 1)
        while end < len(sizes) and sizes[end] < TOGETHER * sizes[begin]:
            end += 1
        yield sizes[begin:end]
        begin = end


def _added(total: dict[str, float | int | str], other: Mapping[str, float | int | str]) -> dict[str, float | int | str]:
    """Statistics of several runs: times and counts add up, of anything else the last."""
    merged = dict(total)
    for key, value in other.items():
        before = merged.get(key)
        counts = key in ("wall_s", "local_search_s", "plans_priced", "nodes", "iterations")
        merged[key] = before + value if counts and isinstance(before, int | float) else value  # type: ignore[operator]
    return merged
