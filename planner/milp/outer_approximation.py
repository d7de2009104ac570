"""The best plan with a proof: rounds of the mixed-integer program and the exact evaluation until they meet.

The program is a relaxation, so its dual bound holds for every plan of the space. A plan that it proposes is priced exactly;
if it is not within the limit, or costs more than the program thinks, cuts make the program exact there, and it runs again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from planner.errors import MismatchError, SolverError
from planner.milp.dominance import undominated
from planner.milp.highs import MipResult, MipStatus, Solver
from planner.milp.program import Program
from planner.milp.tree import Tabulator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array, Expression
    from planner.algebra.space import Integers
    from planner.search.local import LocalSearch, Pool

#: Rounds of cuts at the relaxation's own solution before the first tree, and the least gain of a round.
ROOT_ROUNDS, ROOT_GAIN = 20, 2e-4
#: The solver's tolerances can lift a bound by about this much; it is taken off.
SAFETY = 1e-6
MAX_ROUNDS = 60

Report = Callable[[float, float, str], None]


@dataclass
class Search:
    """What is known while searching: the pool's best plans, a proven bound, and how it came about."""

    pool: Pool
    bound: float = 0.0
    stopped: str = ""
    infeasible: bool = False
    statistics: dict[str, float | int | str] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """Relative distance of the best plan from the bound."""
        return 1.0 - self.bound / self.pool.best if np.isfinite(self.pool.best) else np.inf


class OuterApproximation:
    """Minimises ``objective`` over the plans whose ``limit`` is within ``capacity``."""

    def __init__(
        self, local: LocalSearch, objective: Expression, limit: Expression | None, capacity: float, *,
        gap: float, deadline: float, seed: int, report: Report,
    ) -> None:  # fmt: skip
        self.local, self.space = local, local.space
        self.objective_expression, self.limit_expression, self.capacity = objective, limit, capacity
        self.gap, self.deadline, self.seed, self.report = gap, deadline, seed, report

    def run(self, search: Search) -> Search:
        """Improve ``search`` until its gap is closed, nothing fits, or time is up. Its pool holds a plan to start from.

        The values that the pool holds are those of ``objective``.
        """
        pool = search.pool
        masks = self.local.enumerator.propagate(self.local.enumerator.everything)
        if masks is None:
            search.infeasible = True
            return search
        tabulator = Tabulator(self.space)
        objective = tabulator.tree(self.objective_expression)
        limit = tabulator.tree(self.limit_expression) if self.limit_expression is not None else None
        masks = undominated(self.local.enumerator, masks, [objective] + ([limit] if limit else []))
        masks = self._keep(masks, pool.indices[:1])
        good = np.array([plan for plan in pool.indices[:12] if all(m[v] for m, v in zip(masks, plan, strict=True))])
        reference = pool.best
        program = Program(self.space, masks, objective, reference, limit, self.capacity, good)
        for places, grid in self.local.enumerator.tables:
            if len(places) == 2:
                program.forbid_pairs(places[0], places[1], grid)
        solver = Solver(program)
        self._size(search, program, solver)
        if not self._root(search, program, solver, reference):
            search.infeasible = not len(pool.values)
            search.bound = pool.best
            return search
        self._rounds(search, program, solver, reference)
        self._size(search, program, solver)
        return search

    def _keep(self, masks: list[NDArray[np.bool_]], plans: Integers) -> list[NDArray[np.bool_]]:
        for plan in plans:
            for place, value in enumerate(plan):
                masks[place][value] = True
        return masks

    def _size(self, search: Search, program: Program, solver: Solver) -> None:
        search.statistics |= {
            "columns": len(program.variables), "binaries": program.choices, "rows": solver.rows,
            "monomials": len(program.terms), "joint_factors": len(program.joints),
        }  # fmt: skip

    def _root(self, search: Search, program: Program, solver: Solver, reference: float) -> bool:
        """Cuts at the relaxation's solutions; False if the relaxation is infeasible."""
        previous = 0.0
        for _ in range(ROOT_ROUNDS):
            if time.monotonic() > self.deadline:
                break
            relaxed = solver.relax()
            if relaxed is None:
                return False
            value, solution = relaxed
            search.statistics["root_bound"] = value * reference
            self._raise_bound(search, value * reference)
            self.report(search.pool.best, search.bound, "relaxation")
            if 1.0 - value < self.gap * 0.5 or not program.cut_at_point(solution, 1e-3):
                break
            if value - previous < ROOT_GAIN and previous > 0:
                break
            previous = value
        return True

    def _rounds(self, search: Search, program: Program, solver: Solver, reference: float) -> None:
        pool = search.pool
        seen: set[bytes] = set()
        nodes = 0
        for iteration in range(1, MAX_ROUNDS + 1):
            remaining = self.deadline - time.monotonic()
            if remaining <= 0:
                search.stopped = "time limit"
                return
            search.statistics["iterations"] = iteration
            start = program.choices_of(pool.indices[0]) if len(pool.values) and program.contains(pool.indices[0]) else None

            def news(_incumbent: float, bound: float) -> None:
                self.report(pool.best, max(search.bound, min(bound, 1.0) * reference), "tree")

            result = solver.run(gap=max(self.gap * 0.9, 1e-9), time_limit=remaining, seed=self.seed, start=start, report=news)
            nodes += result.nodes
            search.statistics["nodes"] = nodes
            if result.status is MipStatus.INFEASIBLE:
                search.infeasible = not len(pool.values)
                search.bound = pool.best
                return
            self._raise_bound(search, result.bound * reference)
            if result.solution is not None:
                self._examine(pool, program, result.solution, seen)
            self.report(pool.best, search.bound, "tree")
            if search.gap <= self.gap:
                return
            if result.status is not MipStatus.PROVEN:
                search.stopped = str(result.status)
                return
            self._improve_bound_only(result, search, reference)
        search.stopped = f"no proof after {MAX_ROUNDS} rounds"

    def _improve_bound_only(self, result: MipResult, search: Search, reference: float) -> None:
        """A run that ended proven without a plan to examine cannot make progress: say so rather than loop."""
        if result.solution is None:
            raise SolverError(f"HiGHS proved a bound of {result.bound * reference:g} without a plan")

    def _raise_bound(self, search: Search, bound: float) -> None:
        search.bound = max(search.bound, min(bound * (1.0 - SAFETY), search.pool.best))

    def _examine(self, pool: Pool, program: Program, solution: Array, seen: set[bytes]) -> None:
        """Price the proposed plan exactly; make the program exact there, or exclude it if it still proposes it."""
        plan = program.plan(solution)
        if not bool(self.space.holds(self.space.columns(plan[None, :]))[0]):
            program.exclude(plan)
            return
        self.local.price(pool, plan[None, :])
        if plan.tobytes() in seen:
            program.exclude(plan)
            return
        seen.add(plan.tobytes())
        program.cut_at_plan(plan)


def check(claimed: float, exact: float, what: str) -> None:
    """Raises `MismatchError` when two computations of the same value differ by more than rounding."""
    if not np.isclose(claimed, exact, rtol=1e-9, atol=0.0):
        raise MismatchError(f"{what}: {claimed!r} was found, the exact evaluation says {exact!r}")
