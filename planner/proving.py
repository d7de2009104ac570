"""Answering a question: seeds and local search for a first plan, the program for the proof; or plain enumeration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from planner.errors import InputError, SolverError
from planner.outcome import Outcome, Progress, Status

if TYPE_CHECKING:
    from planner.algebra.space import Integers, Space
    from planner.question import Question
    from planner.search.local import LocalSearch, Pool

#: Seconds of local search at most, before the program is built.
LOCAL_SEARCH_SECONDS = 0.2
SEED_PLANS = 4000

Report = Callable[[float, float, str], None]

#: The least that any plan needs of what is limited is proved this closely.
LEAST_GAP = 1e-3


def prove(
    question: Question, *, gap: float = 1e-3, time_limit: float = math.inf, top: int = 1, seed: int = 0,
    presolve: bool = True, start: Sequence[Mapping[str, int]] = (), progress: Callable[[Progress], None] | None = None,
) -> Outcome:  # fmt: skip
    """The best plan of ``question`` and what is proved about it.

    ``gap`` is the relative distance from the best that may remain, ``time_limit`` in seconds. ``top`` asks for further
    good plans, the best that were met on the way. ``start`` are plans to begin with, such as those of a like question;
    those that are none here are left out. Without ``presolve`` the mixed-integer program proves everything alone.
    Raises `InputError` for meaningless options.
    """
    _check(gap, time_limit, top)
    return _Proof(question, gap, time_limit, seed, presolve, progress).run(start, top)


def exhaust(question: Question, *, time_limit: float = math.inf, top: int = 1) -> Outcome:
    """The ``top`` best plans of ``question`` and a proof, by pricing every plan. Raises `InputError` as `prove` does."""
    from planner.search.exhaustive import exhaust as enumerate_all

    _check(0.5, time_limit, top)
    started = time.monotonic()
    found = enumerate_all(question.space, question.objective, question.limit, question.capacity,
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
    return Outcome(status, _plans(question.space, found.best), values, bound, stopped, least, statistics)


class _Proof:
    """One run of the search and the program."""

    def __init__(
        self, question: Question, gap: float, time_limit: float, seed: int, presolve: bool,
        progress: Callable[[Progress], None] | None,
    ) -> None:  # fmt: skip
        from planner.milp.outer_approximation import OuterApproximation, Search
        from planner.search.local import LocalSearch, Pool

        self.question, self.gap, self.seed, self.progress = question, gap, seed, progress
        self.started = time.monotonic()
        self.deadline = self.started + time_limit
        self.prover = partial(
            OuterApproximation, order=question.order, complete=question.complete, gap=gap, deadline=self.deadline,
            seed=seed, presolve=presolve, staged=question.staged,
        )  # fmt: skip
        self.local = LocalSearch(question.space, question.objective, question.limit, question.capacity, self.deadline)
        self.pool = Pool.empty(len(question.space.axes))
        self.search = Search(self.pool)
        self.least: float | None = None
        self.infeasible = False

    def run(self, start: Sequence[Mapping[str, int]], top: int) -> Outcome:
        question, pool = self.question, self.pool
        statistics: dict[str, float | int | str] = {"solver": "highs", "seed": self.seed}
        try:
            self.local.price(pool, indices_of(question.space, start))
            if question.order[1] or not len(pool.values):
                self._find(self.local, pool)
            self._report(pool.best, 0.0, "local search")
            statistics |= {
                "local_search_s": time.monotonic() - self.started, "local_search_value": pool.best,
            }  # fmt: skip
            proof = self.prover(self.local, question.objective, question.limit, question.capacity,
                                floor=question.floor, report=self._report)  # fmt: skip
            if not len(pool.values) or not question.order[1]:
                self.infeasible = not proof.find(pool) and not len(pool.values)
            if not len(pool.values) and question.diagnose:
                statistics |= self._least_of_limit()
            if len(pool.values):
                self.search = proof.run(self.search)
                statistics |= self.search.statistics
        except KeyboardInterrupt:
            self.search.stopped = "interrupted"
        except SolverError as error:  # the plan found so far stands, with the bound proved so far
            if not len(pool.values):
                raise
            self.search.stopped = f"solver failure: {error}"
        statistics |= {"wall_s": time.monotonic() - self.started, "plans_priced": pool.priced}
        return self._outcome(top, statistics)

    def _report(self, incumbent: float, bound: float, phase: str) -> None:
        if self.progress is not None:
            self.progress(Progress(incumbent, bound, phase, time.monotonic() - self.started))

    def _find(self, local: LocalSearch, pool: Pool) -> None:
        """Seeds, unless the pool has plans, and improvements of them; all plans where they are few."""
        if not len(pool.values):
            if local.exhaust(pool):
                return
            local.seed(pool, self.question.subspaces, SEED_PLANS)
        until = min(self.deadline, time.monotonic() + LOCAL_SEARCH_SECONDS)
        local.improve(pool, self.question.neighbourhoods, starts=3, deadline=until)

    def _least_of_limit(self) -> dict[str, float | int | str]:
        """The least that any plan needs of what is limited, where no plan within the limit is known yet."""
        from planner.milp.outer_approximation import Search
        from planner.search.local import LocalSearch, Pool

        space, limit, capacity = self.question.space, self.question.limit, self.question.capacity
        local = LocalSearch(space, limit, limit, math.inf, self.deadline)
        pool = Pool.empty(len(space.axes))
        self._find(local, pool)
        if not len(pool.values):
            self.infeasible |= not _any_plan(local, pool)
        if not len(pool.values):
            return {}
        tight = min(self.gap, LEAST_GAP)  # what is needed must be told from what there is
        least = self.prover(local, limit, None, math.inf, floor=limit, report=_silent, gap=tight).run(Search(pool))
        self.search.stopped, self.least = least.stopped, least.bound
        self.infeasible |= least.bound > capacity
        self.local.price(self.pool, pool.indices)
        if len(self.pool.values):
            self._find(self.local, self.pool)
        return least.statistics

    def _outcome(self, top: int, statistics: dict[str, float | int | str]) -> Outcome:
        pool, search = self.pool, self.search
        values = tuple(float(value) for value in pool.values[:top])
        plans = _plans(self.question.space, pool.indices[:top])
        if not values:
            status, bound = (Status.INFEASIBLE, math.inf) if self.infeasible else (Status.UNKNOWN, 0.0)
            stopped = "" if self.infeasible else search.stopped
            return Outcome(status, plans, values, bound, stopped, self.least, statistics)
        optimal = 1.0 - search.bound / values[0] <= self.gap
        status, stopped = (Status.OPTIMAL, "") if optimal else (Status.FEASIBLE, search.stopped)
        return Outcome(status, plans, values, search.bound, stopped, self.least, statistics)


def indices_of(space: Space, plans: Sequence[Mapping[str, int]]) -> Integers:
    """Plans given by their columns as indices of shape (plans, axes); those that ``space`` does not hold are left out."""
    found = []
    for plan in plans:
        index = []
        for axis in space.axes:
            same = [values == plan.get(column) for column, values in axis.table.items()]
            here = np.flatnonzero(np.logical_and.reduce(same))
            if not len(here):
                break
            index.append(int(here[0]))
        else:
            found.append(index)
    indices = np.array(found, dtype=np.int64).reshape(len(found), len(space.axes))
    return indices[space.holds(space.columns(indices))] if len(indices) else indices


def _check(gap: float, time_limit: float, top: int) -> None:
    problems = []
    if not 0 < gap < 1:
        problems.append(f"gap: must lie between 0 and 1, not {gap}")
    if math.isnan(time_limit) or time_limit < 0:
        problems.append(f"time limit: must be a number of seconds, at least 0, not {time_limit}")
    if top < 1:
        problems.append(f"top: must be at least 1, not {top}")
    if problems:
        raise InputError(problems)


def _silent(*_: object) -> None:
    """Report nothing."""


def _any_plan(local: LocalSearch, pool: Pool) -> bool:
    """Whether the space has a plan at all; the first ones found are priced."""
    for indices in local.enumerator.combinations():
        if len(indices):
            local.price(pool, indices)
            return True
    return False


def _plans(space: Space, indices: Integers) -> tuple[dict[str, int], ...]:
    columns = space.columns(indices)
    return tuple({name: int(values[plan]) for name, values in columns.items()} for plan in range(len(indices)))
