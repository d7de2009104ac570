"""Solving an instance: seeds and local search for a first plan, the program for the proof; or plain enumeration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.errors import InputError
from planner.outcome import Outcome, Progress, Status
from planner.physics import heuristics

if TYPE_CHECKING:
    from planner.algebra.expressions import Expression
    from planner.algebra.space import Integers
    from planner.instance import Instance
    from planner.search.local import LocalSearch, Pool

#: Seconds of local search at most, before the program is built.
LOCAL_SEARCH_SECONDS = 1.0
SEED_PLANS = 20000

Solver = Literal["highs", "exhaustive"]


def optimise(
    instance: Instance, *, gap: float = 1e-3, time_limit: float = math.inf, top: int = 1, solver: Solver = "highs",
    seed: int = 0, progress: Callable[[Progress], None] | None = None,
) -> Outcome:  # fmt: skip
    """The best plan of ``instance`` and what is proved about it.

    ``gap`` is the relative distance from the best that may remain, ``time_limit`` in seconds. ``top`` asks for further
    good plans: proved to be the next best with the exhaustive solver, otherwise the best that were met on the way.
    Raises `InputError` for meaningless options.
    """
    problems = []
    if not 0 < gap < 1:
        problems.append(f"gap: must lie between 0 and 1, not {gap}")
    if math.isnan(time_limit) or time_limit < 0:
        problems.append(f"time limit: must be a number of seconds, at least 0, not {time_limit}")
    if top < 1:
        problems.append(f"top: must be at least 1, not {top}")
    if problems:
        raise InputError(problems)
    started = time.monotonic()
    deadline = started + time_limit

    def report(incumbent: float, bound: float, phase: str) -> None:
        if progress is not None:
            progress(Progress(incumbent, bound, phase, time.monotonic() - started))

    if solver == "exhaustive":
        return _exhaust(instance, top, time_limit, started)
    return _prove(instance, gap, deadline, top, seed, report, started)


def _exhaust(instance: Instance, top: int, time_limit: float, started: float) -> Outcome:
    from planner.search.exhaustive import exhaust

    found = exhaust(instance.space, instance.objective, instance.peak_memory, instance.setting.capacity,
                    keep=top, time_limit=time_limit)  # fmt: skip
    statistics: dict[str, float | int | str] = {
        "solver": "exhaustive", "plans": found.plans, "plans_within_memory": found.fitting,
        "wall_s": time.monotonic() - started,
    }  # fmt: skip
    values = tuple(float(value) for value in found.values)
    if found.complete:
        status = Status.OPTIMAL if values else Status.INFEASIBLE
        bound = values[0] if values else math.inf
    else:
        status = Status.FEASIBLE if values else Status.UNKNOWN
        bound = 0.0
    least = found.least_memory if math.isfinite(found.least_memory) else None
    stopped = "" if found.complete else "time limit"
    return Outcome(status, _plans(instance, found.best), values, bound, stopped, least, statistics)


def _prove(
    instance: Instance, gap: float, deadline: float, top: int, seed: int,
    report: Callable[[float, float, str], None], started: float,
) -> Outcome:  # fmt: skip
    from planner.search.local import LocalSearch, Pool

    local = LocalSearch(instance.space, instance.objective, instance.peak_memory, instance.setting.capacity)
    pool = Pool.empty(len(instance.space.axes))
    statistics: dict[str, float | int | str] = {"solver": "highs", "seed": seed}
    bound, stopped, infeasible, least_memory = 0.0, "", False, None
    try:
        until = min(deadline, time.monotonic() + LOCAL_SEARCH_SECONDS)
        local.seed(pool, heuristics.subspaces(instance.space), SEED_PLANS)
        local.improve(pool, heuristics.NEIGHBOURHOODS, starts=3, deadline=until)
        report(pool.best, 0.0, "local search")
        statistics["local_search_s"] = time.monotonic() - started
        statistics["local_search_value"] = pool.best
        if not len(pool.values):
            search = _least_memory(instance, local, pool, gap, deadline, seed, report)
            statistics |= search.statistics
            stopped = search.stopped
            least_memory = search.bound
            infeasible = search.infeasible or search.bound > instance.setting.capacity
        if len(pool.values) and not stopped:
            search = _outer_approximation(instance, local, gap, deadline, seed, report).run(_search(pool))
            statistics |= search.statistics
            bound, stopped = search.bound, search.stopped
    except KeyboardInterrupt:
        stopped = "interrupted"
    statistics["wall_s"] = time.monotonic() - started
    statistics["plans_priced"] = pool.priced
    values = tuple(float(value) for value in pool.values[:top])
    plans = _plans(instance, pool.indices[:top])
    if values:
        status = Status.OPTIMAL if 1.0 - bound / values[0] <= gap else Status.FEASIBLE
        if status is Status.OPTIMAL:
            stopped = ""
    else:
        status = Status.INFEASIBLE if infeasible else Status.UNKNOWN
        bound = math.inf if infeasible else 0.0
    return Outcome(status, plans, values, bound, stopped, least_memory, statistics)


def _search(pool: Pool):  # type: ignore[no-untyped-def]
    from planner.milp.outer_approximation import Search

    return Search(pool)


def _outer_approximation(instance, local, gap, deadline, seed, report):  # type: ignore[no-untyped-def]
    from planner.milp.outer_approximation import OuterApproximation

    return OuterApproximation(local, instance.objective, instance.peak_memory, instance.setting.capacity,
                              gap=gap, deadline=deadline, seed=seed, report=report)  # fmt: skip


def _least_memory(instance, local, pool, gap, deadline, seed, report):  # type: ignore[no-untyped-def]
    """Minimise the peak memory: either a plan fits, or the bound says by how much none does."""
    from planner.milp.outer_approximation import OuterApproximation, Search
    from planner.search.local import LocalSearch, Pool

    memory_local = LocalSearch(instance.space, instance.peak_memory, instance.peak_memory, math.inf)
    memory_pool = Pool.empty(len(instance.space.axes))
    memory_local.seed(memory_pool, heuristics.subspaces(instance.space), SEED_PLANS)
    if not len(memory_pool.values):
        for indices in memory_local.enumerator.combinations():
            if len(indices):
                memory_local.price(memory_pool, indices)
                break
    if not len(memory_pool.values):
        return Search(pool, bound=math.inf, infeasible=True)
    memory_local.improve(memory_pool, heuristics.NEIGHBOURHOODS, starts=2, deadline=time.monotonic() + 0.5)
    search = OuterApproximation(memory_local, instance.peak_memory, None, math.inf, gap=gap, deadline=deadline,
                                seed=seed, report=lambda *_: None).run(Search(memory_pool))  # fmt: skip
    local.price(pool, memory_pool.indices)
    if len(pool.values):
        local.improve(pool, heuristics.NEIGHBOURHOODS, starts=3, deadline=time.monotonic() + LOCAL_SEARCH_SECONDS)
    return search


def _plans(instance: Instance, indices: Integers) -> tuple[dict[str, int], ...]:
    columns = instance.space.columns(indices)
    return tuple({name: int(values[plan]) for name, values in columns.items()} for plan in range(len(indices)))


def exact_value(expression: Expression, plan: dict[str, int]) -> float:
    """The exact value of an expression at a plan."""
    return float(Evaluator({name: np.array([float(value)]) for name, value in plan.items()})(expression)[0])
