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

from planner.algebra.evaluation import Evaluator
from planner.algebra.space import Allowed
from planner.errors import SolverError
from planner.milp.dominance import leaves_of, undominated
from planner.milp.highs import MipStatus, Solver
from planner.milp.presolve import (
    LARGEST_CORE,
    Bound,
    Contracted,
    Contraction,
    contracted,
    few_selections,
    selections,
    useful_relations,
)
from planner.milp.program import Program
from planner.milp.tree import Tabulator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Array, Expression
    from planner.algebra.space import Integers
    from planner.milp.tree import SumNode
    from planner.search.local import LocalSearch, Pool

    Masks = list[NDArray[np.bool_]]

#: Rounds of cuts at the relaxation's own solution before the first tree, and the least gain of a round.
ROOT_ROUNDS, ROOT_GAIN = 20, 2e-4
#: The solver's tolerances can lift a bound by about this much; it is taken off.
SAFETY = 1e-6
#: A bound this much above a known plan of the program is no rounding error.
FALSE_PROOF = 1e-5
MAX_ROUNDS = 60
#: Costs, as multiples of the relaxation's, up to which degrees are joined first; the factor if nothing fits that well; and
#: the least part of the cutoff to begin with, and the part of it that is not worth a pass of its own.
FIRST_REACH, NEXT_REACH, LEAST_REACH, NEARLY_ALL = 1.15, 1.3, 0.02, 0.75
#: A known plan that costs no more than this times the least of the relaxation is near the best.
NEAR = 3.0
#: A cost that no plan reaches.
UNLIMITED = 1e200
#: How far beyond the least cost that was dropped the next plans are looked for.
NEXT_GAIN = 0.05
#: The limit is not lowered, nor raised, by less than this part of itself.
LEAST_STEP = 1e-3
#: Steps grow by this power from one to the next while nothing is found, if what is found need not be completed: then too
#: long a step costs little.
NEXT_GROWTH = 1.5
#: Combinations of degrees, the most promising, that are completed to plans in the presolve.
MOST_COMPLETED = 20_000

Report = Callable[[float, float, str], None]


@dataclass
class Search:
    """What is known while searching: the pool's best plans, a proven bound, and how it came about."""

    pool: Pool
    bound: float = 0.0
    stopped: str = ""
    cutoff: float = np.inf  # below the objective of every plan that the presolve has dropped
    statistics: dict[str, float | int | str] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """Relative distance of the best plan from the bound."""
        return 1.0 - self.bound / self.pool.best if np.isfinite(self.pool.best) else np.inf


class OuterApproximation:
    """Minimises ``objective`` over the plans of ``local``'s space whose ``limit`` is within ``capacity``.

    ``floor`` is nowhere above the objective and does not depend on the placement; ``order`` are the places of the axes of
    totals and of parts, in the order in which the presolve joins them; ``complete`` gives plans for combinations of totals
    (rows, axes; parts open).
    """

    def __init__(
        self, local: LocalSearch, objective: Expression, limit: Expression | None, capacity: float, *,
        floor: Expression, order: tuple[list[int], list[int]], complete: Callable[[Integers], Integers], gap: float,
        deadline: float, seed: int, report: Report, presolve: bool = True, staged: bool = True,
    ) -> None:  # fmt: skip
        self.local, self.space = local, local.space
        self.expression, self.limit_expression, self.capacity = objective, limit, capacity
        self.floor, self.order, self.complete, self.presolve = floor, order, complete, presolve
        self.gap, self.deadline, self.seed, self.report, self.staged = gap, deadline, seed, report, staged
        self.found = False  # a first plan, by `find`, that is known to be good: nothing of it had to be completed
        self.whole: Contraction | None = None  # of floor and limit, costs relative to 1; it depends on no plan

    def run(self, search: Search) -> Search:
        """Improve ``search`` until its gap is closed, nothing fits, or time is up.

        Its pool holds at least one plan, with values of ``objective``.
        """
        enumerator = self.local.enumerator
        masks = enumerator.propagate(enumerator.everything)
        assert masks is not None, "the pool holds a plan, so the space is not empty"
        space = contracted(self.space, masks, np.zeros((1, 0), dtype=np.int64), [], search.pool.indices[0])
        if self.presolve:
            found = self._contract(search, masks)
            if found is None:
                return search
            space = found
        self._program(search, space)
        return search

    def find(self, pool: Pool) -> bool:
        """Price some plans whose degrees keep the limit; False if there is proved to be none.

        Degrees are joined under a growing limit of their cost, so that the first plans are good ones; unless ``staged`` says
        that there are hardly any, and all of them are to be looked at. A plan of the pool ends the growth: if it cannot cost
        much more than the best, nothing dearer is looked at to begin with.
        """
        assert self.limit_expression is not None
        enumerator, space = self.local.enumerator, self.space
        masks = enumerator.propagate(enumerator.everything)
        if masks is None:
            return False
        first_values = np.array([int(np.argmax(mask)) for mask in masks])
        tabulator = Tabulator(space)
        floor, limit = tabulator.tree(self.floor), tabulator.tree(self.limit_expression)
        costs = [Bound(leaves, 1.0) for leaves in selections(floor, first_values)]
        limits = [Bound(leaves, self.capacity) for leaves in selections(limit, first_values)]
        whole = Contraction(enumerator, masks, costs, limits, useful_relations(space, self.order[0]))
        if few_selections(floor) and few_selections(limit):
            self.whole = whole
        everything = np.full((1, len(space.axes)), -1)
        possible = False
        root, growth = whole.root(), NEXT_REACH
        reach = UNLIMITED if not self.staged else root * FIRST_REACH
        if pool.best <= NEAR * root:
            reach = pool.best * (1.0 - NEXT_GAIN)
        explored, ceiling = root, np.inf  # everything below was looked at; more than can be lies below
        while np.isfinite(reach):
            reach = min(reach, pool.best)
            contraction = whole.tightened(reach)
            core = contraction.join(self.order[0], everything, [], self._late)
            if core is None:
                if self._late() or reach < explored * (1.0 + LEAST_STEP):
                    return True
                ceiling = min(ceiling, reach)
                reach = root * FIRST_REACH if reach == UNLIMITED else explored + (reach - explored) / 4
                continue
            possible |= len(core) > 0 and len(self.order[1]) > 0  # others than those that were completed may do
            for begin in range(0, len(core), MOST_COMPLETED):
                self.local.price(pool, self.complete(core[begin : begin + MOST_COMPLETED]))
            if len(pool.values) and (pool.best <= reach or self.order[1]):
                self.found = not self.order[1]
                return True
            beyond = contraction.dropped * (1.0 + NEXT_GAIN)
            growth = NEXT_REACH if beyond > growth or self.order[1] else growth**NEXT_GROWTH
            explored = reach
            reach *= max(growth, beyond)
            if reach >= ceiling:
                reach = (explored + ceiling) / 2
                if reach < explored * (1.0 + LEAST_STEP):
                    return True
        return possible

    def _cutoff(self, search: Search) -> float:
        """Plans that cost more than this need not be looked at. It also bounds all those that were dropped before."""
        search.cutoff = min(search.cutoff, search.pool.best * (1.0 - 0.9 * self.gap))
        return search.cutoff

    def _contract(self, search: Search, masks: Masks) -> Contracted | None:
        """The space without what the bounds exclude; None, and the bound set, if no better plan is left."""
        pool, space = search.pool, self.space
        totals, parts = self.order
        self.report(pool.best, search.bound, "presolve")
        live, contraction = self._leading(search, masks)
        core, joined = self._degrees(search, contraction), totals
        if core is not None:
            search.statistics["combinations_of_degrees"] = len(core)
        if core is not None and len(core) > LARGEST_CORE:
            objective = self._within(search, Tabulator(space).tree(self.expression))
            relations = useful_relations(space, totals)
            whole = Contraction(self.local.enumerator, live, objective, [], relations)
            core, joined = whole.join(parts, core, totals, self._late), totals + parts
            if core is not None:
                self.local.price(pool, core[space.holds(space.columns(core))])
                core = core[Evaluator(space.columns(core))(self.expression) <= self._cutoff(search)]
        if core is None:  # too many
            search.cutoff = np.inf
            return contracted(space, live, np.zeros((1, 0), dtype=np.int64), [], pool.indices[0])
        if not len(core):
            search.bound = max(search.bound, self._cutoff(search))
            return None
        search.statistics["core"] = len(core)
        return contracted(space, live, core, joined, pool.indices[0])

    def _leading(self, search: Search, masks: Masks) -> tuple[Masks, Contraction]:
        """Values that are not dominated, and the bounds under which the leading axes are joined."""
        enumerator, space, plan = self.local.enumerator, self.space, search.pool.indices[0]
        search.statistics["rows"] = len(space.rows) + len(space.axes)
        live, contraction = masks, self.whole
        if contraction is None:
            tabulator = Tabulator(space)
            floor = tabulator.tree(self.floor)
            trees, limits = [tabulator.tree(self.expression), floor], []
            if self.limit_expression is not None:
                trees.append(tabulator.tree(self.limit_expression))
                limits = [Bound(leaves, self.capacity) for leaves in selections(trees[-1], plan)]
            found = enumerator.propagate(undominated(enumerator, masks, trees))
            assert found is not None
            live = found
            search.statistics["monomials"] = sum(len(list(leaves_of(tree))) for tree in trees)
            relations = useful_relations(space, self.order[0])
            contraction = Contraction(enumerator, live, self._within(search, floor), limits, relations)
        else:
            contraction = contraction.tightened(self._cutoff(search))
        search.statistics["columns"] = sum(int(mask.sum()) for mask in live)
        return live, contraction

    def _within(self, search: Search, node: SumNode) -> list[Bound]:
        """Bounds of plans that cost no more than the cutoff."""
        return [Bound(leaves, self._cutoff(search)) for leaves in selections(node, search.pool.indices[0])]

    def _degrees(self, search: Search, contraction: Contraction) -> Integers | None:
        """Combinations of degrees that may belong to a better plan; None if they take too long or are too many.

        First only those are joined that may cost little more than the relaxation: completed to plans, the best of them
        tighten the cutoff, and usually no others are needed.
        """
        space, pool = self.space, search.pool
        everything = np.full((1, len(space.axes)), -1)
        reach = 1.0 if self.found else contraction.root() * FIRST_REACH
        first_cutoff = search.cutoff
        self._raise_bound(search, contraction.root() * first_cutoff)
        while True:
            reach = max(reach, LEAST_REACH)
            if reach > NEARLY_ALL:
                reach = 1.0
            core = contraction.tightened(reach).join(self.order[0], everything, [], self._late)
            if core is None:
                return None
            columns = Evaluator(space.columns(core))  # the floor and the memory do not read the parts, which are open
            floors = columns(self.floor)
            if self.limit_expression is not None:
                fits = columns(self.limit_expression) <= self.capacity
                core, floors = core[fits], floors[fits]
            self.local.price(pool, self.complete(core[np.argsort(floors, kind="stable")[:MOST_COMPLETED]]))
            self.report(pool.best, search.bound, "presolve")
            if reach >= 1.0 or self._cutoff(search) <= reach * first_cutoff:
                return core[floors <= self._cutoff(search)]
            reach *= NEXT_REACH

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _program(self, search: Search, space_left: Contracted) -> None:
        """Prove what is left with the program; the search's cutoff bounds what the presolve has dropped."""
        pool, space = search.pool, space_left.space
        tabulator = Tabulator(space)
        objective = tabulator.tree(self.expression)
        limit = tabulator.tree(self.limit_expression) if self.limit_expression is not None else None
        masks = [np.ones(axis.size, dtype=bool) for axis in space.axes]
        reference = pool.best
        good = space_left.drop(pool.indices[:12], self.space)
        program = Program(space, masks, objective, reference, limit, self.capacity, good)
        for relation in space.relations:
            if isinstance(relation, Allowed):
                places = [space.position[axis.name] for axis in space.axes_of(relation.columns)]
                if len(places) == 2:
                    grid = space.tabulate(relation.function, relation.columns).astype(bool)
                    program.forbid_pairs(places[0], places[1], grid)
        solver = Solver(program)
        if self._root(search, program, solver, reference):
            self._rounds(search, space_left, program, solver, reference)
        else:
            search.bound = min(search.cutoff, pool.best)
        self._size(search, program, solver)

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

    def _rounds(
        self, search: Search, space_left: Contracted, program: Program, solver: Solver, reference: float
    ) -> None:
        pool = search.pool
        seen: set[bytes] = set()
        nodes = 0
        for iteration in range(1, MAX_ROUNDS + 1):
            remaining = self.deadline - time.monotonic()
            if remaining <= 0:
                search.stopped = "time limit"
                return
            known = space_left.drop(pool.indices[:1], self.space)
            start = program.choices_of(known[0]) if len(known) else None

            def news(_incumbent: float, bound: float) -> None:
                self.report(pool.best, max(search.bound, min(bound * reference, search.cutoff, pool.best)), "tree")

            gap = max(self.gap * 0.9, 1e-9)
            result = solver.run(gap=gap, time_limit=remaining, seed=self.seed, start=start, report=news)
            nodes += result.nodes
            search.statistics |= {"iterations": iteration, "nodes": nodes}
            proved = np.inf if result.status is MipStatus.INFEASIBLE else result.bound * reference
            if len(known) and proved > pool.best * (1.0 + FALSE_PROOF):
                raise SolverError(f"HiGHS claims that nothing is below {proved:g}; a plan of {pool.best:g} is known")
            before = search.bound
            self._raise_bound(search, proved)
            if result.status is MipStatus.INFEASIBLE:
                return
            if result.solution is not None:
                self._examine(search, space_left, program, result.solution, seen)
            if search.bound > pool.best * (1.0 + FALSE_PROOF):
                refuted, search.bound = search.bound, before
                raise SolverError(f"HiGHS claims that nothing is below {refuted:g}; a plan of {pool.best:g} was found")
            search.bound = min(search.bound, pool.best)
            self.report(pool.best, search.bound, "tree")
            if search.gap <= self.gap:
                return
            if result.status is not MipStatus.PROVEN:
                search.stopped = str(result.status)
                return
            if result.solution is None:
                raise SolverError(f"HiGHS proved a bound of {result.bound * reference:g} without a plan")
        search.stopped = f"no proof after {MAX_ROUNDS} rounds"

    def _raise_bound(self, search: Search, bound: float) -> None:
        """Take a bound of the program: no more than what bounds the dropped plans, and than the best plan itself."""
        search.bound = max(
            search.bound, min(bound * (1.0 - min(SAFETY, 0.1 * self.gap)), search.cutoff, search.pool.best)
        )

    def _examine(
        self, search: Search, space_left: Contracted, program: Program, solution: Array, seen: set[bytes]
    ) -> None:
        """Price the proposed plan exactly; make the program exact there, or exclude it if it still proposes it."""
        proposed = program.plan(solution)
        plan = space_left.lift(proposed[None, :], self.space)
        known = proposed.tobytes() in seen
        if known or not bool(self.space.holds(self.space.columns(plan))[0]):
            program.exclude(proposed)
        else:
            self.local.price(search.pool, plan)
            seen.add(proposed.tobytes())
            program.cut_at_plan(proposed)
