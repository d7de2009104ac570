"""Solving an instance: seeds and local search for a first plan, the program for the proof; or plain enumeration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.errors import InputError, SolverError
from planner.outcome import Outcome, Progress, Status
from planner.physics import heuristics
from planner.physics.placement import place_whole

if TYPE_CHECKING:
    from planner.algebra.space import Integers
    from planner.instance import Instance
    from planner.search.local import LocalSearch, Pool

#: Seconds of local search at most, before the program is built.
LOCAL_SEARCH_SECONDS = 0.2
SEED_PLANS = 4000

Solver = Literal["highs", "exhaustive"]


def optimise(
    instance: Instance, *, gap: float = 1e-3, time_limit: float = math.inf, top: int = 1, solver: Solver = "highs",
    seed: int = 0, presolve: bool = True, progress: Callable[[Progress], None] | None = None,
) -> Outcome:  # fmt: skip
    """The best plan of ``instance`` and what is proved about it.

    ``gap`` is the relative distance from the best that may remain, ``time_limit`` in seconds. ``top`` asks for further
    good plans: proved to be the next best with the exhaustive solver, otherwise the best that were met on the way.
    Without ``presolve`` the mixed-integer program proves everything alone, which takes longer.
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
    return _prove(instance, gap, deadline, top, seed, presolve, report, started)


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
    instance: Instance, gap: float, deadline: float, top: int, seed: int, presolve: bool,
    report: Callable[[float, float, str], None], started: float,
) -> Outcome:  # fmt: skip
    from planner.milp.outer_approximation import OuterApproximation, Search
    from planner.search.local import LocalSearch, Pool

    space, capacity = instance.space, instance.setting.capacity
    prover = partial(
        OuterApproximation, order=heuristics.joining_order(space), complete=partial(_completed, instance), gap=gap,
        deadline=deadline, seed=seed, presolve=presolve,
    )  # fmt: skip
    local = LocalSearch(space, instance.objective, instance.peak_memory, capacity, deadline)
    pool = Pool.empty(len(space.axes))
    statistics: dict[str, float | int | str] = {"solver": "highs", "seed": seed}
    search = Search(pool)
    least_memory: float | None = None
    infeasible = False
    try:
        _find(local, pool, deadline)
        report(pool.best, 0.0, "local search")
        statistics |= {"local_search_s": time.monotonic() - started, "local_search_value": pool.best}
        proof = prover(local, instance.objective, instance.peak_memory, capacity, floor=instance.floor, report=report)
        if not len(pool.values):
            proof.find(pool)
        if not len(pool.values):
            memory = instance.peak_memory
            memory_local = LocalSearch(space, memory, memory, math.inf, deadline)
            memory_pool = Pool.empty(len(space.axes))
            _find(memory_local, memory_pool, deadline)
            if not len(memory_pool.values):
                infeasible = not _any_plan(memory_local, memory_pool)
            if len(memory_pool.values):
                least = prover(memory_local, memory, None, math.inf, floor=memory, report=_silent).run(
                    Search(memory_pool)
                )
                search.stopped, least_memory = least.stopped, least.bound
                statistics |= least.statistics
                infeasible = least.bound > capacity
                local.price(pool, memory_pool.indices)
                if len(pool.values):
                    _find(local, pool, deadline)
        if len(pool.values):
            search = proof.run(search)
            statistics |= search.statistics
    except KeyboardInterrupt:
        search.stopped = "interrupted"
    except SolverError as error:  # the plan found so far stands, with the bound proved so far
        if not len(pool.values):
            raise
        search.stopped = f"solver failure: {error}"
    statistics |= {"wall_s": time.monotonic() - started, "plans_priced": pool.priced}
    values = tuple(float(value) for value in pool.values[:top])
    plans = _plans(instance, pool.indices[:top])
    if not values:
        status, bound = (Status.INFEASIBLE, math.inf) if infeasible else (Status.UNKNOWN, 0.0)
        return Outcome(status, plans, values, bound, "" if infeasible else search.stopped, least_memory, statistics)
    optimal = 1.0 - search.bound / values[0] <= gap
    status, stopped = (Status.OPTIMAL, "") if optimal else (Status.FEASIBLE, search.stopped)
    return Outcome(status, plans, values, search.bound, stopped, least_memory, statistics)


def _silent(*_: object) -> None:
    """Report nothing."""


def _completed(instance: Instance, combinations: Integers) -> Integers:
    """Plans for combinations of degrees, from the innermost tier outwards; those for which it keeps the rules."""
    space, links = instance.space, instance.setting.links
    columns = space.columns(combinations)
    ones = np.ones(len(combinations))
    totals = {name: columns.get(name, ones) for name in ("tp", "cp", "pp", "shard", "replica", "ep", "etp")}
    parts = place_whole(totals, [link.fanout for link in links])
    plans = combinations.copy()
    valid = np.ones(len(plans), dtype=bool)
    for position, axis in enumerate(space.axes):
        if (combinations[:, position] < 0).any():
            ((column, values),) = axis.table.items()
            index = np.minimum(np.searchsorted(values, parts[column]), axis.size - 1)
            valid &= values[index] == parts[column]
            plans[:, position] = index
    plans = plans[valid]
    return plans[space.holds(space.columns(plans))] if len(plans) else plans


def _find(local: LocalSearch, pool: Pool, deadline: float) -> None:
    """Seeds, unless the pool has plans, and improvements of them; all plans where they are few."""
    if not len(pool.values):
        if local.exhaust(pool):
            return
        local.seed(pool, heuristics.subspaces(local.space), SEED_PLANS)
    until = min(deadline, time.monotonic() + LOCAL_SEARCH_SECONDS)
    local.improve(pool, heuristics.NEIGHBOURHOODS, starts=3, deadline=until)


def _any_plan(local: LocalSearch, pool: Pool) -> bool:
    """Whether the space has a plan at all; the first ones found are priced."""
    for indices in local.enumerator.combinations():
        if len(indices):
            local.price(pool, indices)
            return True
    return False


def _plans(instance: Instance, indices: Integers) -> tuple[dict[str, int], ...]:
    columns = instance.space.columns(indices)
    return tuple({name: int(values[plan]) for name, values in columns.items()} for plan in range(len(indices)))
