"""The program is a relaxation of the exact problem: every row holds at every plan, and its optimum is the true one."""

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo.repn import generate_standard_repn
from scipy.sparse import csr_matrix

from planner.algebra.evaluation import evaluate
from planner.algebra.space import Allowed
from planner.milp.highs import Solver
from planner.milp.program import Program
from planner.milp.tree import Tabulator
from planner.outcome import Status
from planner.search.exhaustive import exhaust
from planner.search.local import LocalSearch
from planner.solving import optimise
from tests.property.spaces import SMALL_SEEDS, small_instance

KINDS = ("one_choice", "relation", "pair", "maximum", "log", "joint", "tangent", "excluded")
#: Seeds of small programs.
SEEDS = (1, 5, 11, 14, 24, 34, 74, 79, 116, 120, 128, 144)
#: HiGHS' own tolerance with a small gap; rows are of order one.
ROUNDING = 1e-7


class Built:
    """A program of an instance in HiGHS, cut at its root, and every plan with its exact costs."""

    def __init__(self, seed, rounds=3):
        self.instance, self.plans = small_instance(seed)
        space, columns = self.instance.space, self.instance.space.columns(self.plans)
        self.cost, self.memory = (evaluate(e, columns) for e in (self.instance.objective, self.instance.peak_memory))
        self.capacity = float(np.quantile(self.memory, 0.8))
        self.fitting = np.flatnonzero(self.memory <= self.capacity)
        order = self.fitting[np.argsort(self.cost[self.fitting], kind="stable")]
        self.best, self.reference = self.plans[order[0]], float(self.cost[order[0]])
        tabulator = Tabulator(space)
        self.program = Program(
            space, [np.ones(axis.size, dtype=bool) for axis in space.axes], tabulator.tree(self.instance.objective),
            self.reference, tabulator.tree(self.instance.peak_memory), self.capacity, self.plans[order[:5]],
        )  # fmt: skip
        for relation in space.relations:
            if isinstance(relation, Allowed) and len(space.axes_of(relation.columns)) == 2:
                first, second = (space.position[axis.name] for axis in space.axes_of(relation.columns))
                grid = space.tabulate(relation.function, relation.columns).astype(bool)
                self.program.forbid_pairs(first, second, grid)
        self.solver = Solver(self.program)
        for _ in range(rounds):
            self.value, solution = self.solver.relax()
            self.program.cut_at_point(solution, 1e-3)
        self.program.cut_at_plan(self.plans[0])
        self.solver.add_pending()
        self.number = {id(variable): index for index, variable in enumerate(self.program.variables)}
        self.rows = {kind: self.matrix(kind) for kind in KINDS}

    def matrix(self, kind):
        """The Pyomo constraints of a kind as a matrix with lower and upper sides."""
        entries, lower, upper = [], [], []
        for line, constraint in enumerate(getattr(self.program.model, kind).values()):
            body = generate_standard_repn(constraint.body)
            assert body.is_linear()
            entries += [(line, self.number[id(v)], c) for v, c in zip(body.linear_vars, body.linear_coefs, strict=True)]
            low, high = pyo.value(constraint.lower), pyo.value(constraint.upper)
            lower.append(-np.inf if low is None else low - body.constant)
            upper.append(np.inf if high is None else high - body.constant)
        lines, places, values = zip(*entries, strict=True) if entries else ((), (), ())
        shape = (len(lower), len(self.program.variables))
        return csr_matrix((values, (lines, places)), shape=shape), np.array(lower), np.array(upper)

    def exact(self, plan):
        """The exact values of all variables at a plan; maxima are as small as their rows allow."""
        program = self.program
        values = np.zeros(len(program.variables))
        values[: program.choices] = program.choices_of(plan)
        for term in program.terms.values():
            log = float(term.leaf.logs(plan[None, :])[0]) - term.scale
            values[term.log] = log if np.isfinite(log) else 0.0
            values[term.share] = np.exp(log)
        for joint, column, _ in program.joints.values():
            values[column] = joint.logs[tuple(plan[place] for place in joint.axes)]
        matrix, lower, _ = self.rows["maximum"]
        for _ in range(len(lower) + 1):
            before = values.copy()
            for line in range(len(lower)):
                row = matrix.getrow(line)
                (own,) = row.indices[row.data == 1.0]
                rest = float((row.data * values[row.indices]).sum()) - values[own]
                values[own] = max(values[own], lower[line] - rest)
            if (values == before).all():
                return values
        raise AssertionError("maxima depend on each other in a circle")


@pytest.fixture(scope="module", params=SEEDS)
def built(request):
    return Built(request.param)


def test_every_row_holds_at_every_plan(built):
    for index in np.random.default_rng(0).permutation(built.fitting)[:60]:
        values = built.exact(built.plans[index])
        for kind, (matrix, lower, upper) in built.rows.items():
            activity = matrix @ values
            assert (activity >= lower - ROUNDING).all(), kind
            assert (activity <= upper + ROUNDING).all(), kind
        for variable, value in zip(built.program.variables, values, strict=True):
            low, high = variable.bounds
            assert low is None or value >= low - ROUNDING
            assert high is None or value <= high + ROUNDING


def test_the_exact_values_cost_what_the_plan_costs(built):
    for index in np.random.default_rng(1).permutation(built.fitting)[:20]:
        cost = built.exact(built.plans[index])[built.program.cost] * built.reference
        assert cost <= built.cost[index] * (1 + 1e-9)
        assert cost == pytest.approx(built.cost[index], rel=1e-4), "only negligible monomials are left out"


def test_the_relations_admit_exactly_the_plans(built):
    space, random = built.instance.space, np.random.default_rng(2)
    wild = built.plans[random.integers(len(built.plans), size=60)].copy()
    for plan in wild:
        place = random.integers(len(space.axes))
        plan[place] = random.integers(space.axes[place].size)
    for plan, holds in zip(wild, space.holds(space.columns(wild)), strict=True):
        kept = True
        for kind in ("one_choice", "relation", "pair"):
            matrix, lower, upper = built.rows[kind]
            activity = matrix[:, : built.program.choices] @ built.program.choices_of(plan)
            kept &= bool((activity >= lower - ROUNDING).all() and (activity <= upper + ROUNDING).all())
        assert kept or not holds
        single = {r.name for r in space.relations if isinstance(r, Allowed) and len(space.axes_of(r.columns)) != 2}
        assert holds or not kept or single, "what the rows admit keeps the rules"


def test_relaxations_are_lower_bounds(built):
    assert built.value * built.reference <= built.reference * (1 + ROUNDING)
    assert built.value > 0


def test_cuts_at_a_plan_make_the_program_exact_there(built):
    choices = np.arange(built.program.choices, dtype=np.int32)
    zeros, ones = np.zeros(len(choices)), np.ones(len(choices))
    try:
        for index in np.random.default_rng(3).permutation(built.fitting)[:3]:
            plan = built.plans[index]
            built.program.cut_at_plan(plan)
            chosen = built.program.choices_of(plan)
            built.solver.model.changeColsBounds(len(choices), choices, chosen, chosen)
            value, solution = built.solver.relax()
            exact = built.cost[index] / built.reference
            assert value <= exact * (1 + 1e-6) + 1e-6
            if built.cost[index] <= 2 * built.reference:  # tangents reach e^HIGHEST, about twice the best
                assert value == pytest.approx(exact, rel=1e-4)
            assert built.program.plan(solution).tolist() == plan.tolist()
    finally:
        built.solver.model.changeColsBounds(len(choices), choices, zeros, ones)


def test_pyomo_and_highs_hold_the_same_rows(built):
    constraints = list(built.program.model.component_data_objects(pyo.Constraint, active=True))
    built.solver.add_pending()
    assert built.solver.rows == built.solver.model.getNumRow() == len(constraints)
    assert built.solver.model.getNumCol() == len(built.program.variables)
    entries = sum(len(generate_standard_repn(constraint.body).linear_vars) for constraint in constraints)
    assert built.solver.model.getNumNz() == entries


def test_pyomo_and_highs_hold_the_same_coefficients():
    built = Built(SEEDS[0], rounds=0)
    fresh = Solver(built.program)  # reads every constraint, in the order of Pyomo's blocks
    lp, point = fresh.model.getLp(), np.random.default_rng(0).normal(size=len(built.program.variables))
    starts, index, value = (np.array(part) for part in (lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_))
    shape = (fresh.model.getNumRow(), len(point))
    matrix = csr_matrix((value, index, starts), shape=shape) if lp.a_matrix_.format_.name == "kRowwise" else (
        csr_matrix((value, index, starts), shape=shape[::-1]).T
    )  # fmt: skip
    ours = [built.rows[kind] for kind in KINDS]
    assert matrix @ point == pytest.approx(np.concatenate([rows @ point for rows, _, _ in ours]))
    assert list(lp.row_lower_) == pytest.approx(np.concatenate([lower for _, lower, _ in ours]).tolist())
    assert list(lp.row_upper_) == pytest.approx(np.concatenate([upper for _, _, upper in ours]).tolist())


def test_an_excluded_plan_is_the_only_one_that_goes():
    built = Built(SEEDS[0], rounds=0)
    built.program.exclude(built.best)
    matrix, _, upper = built.matrix("excluded")
    for plan in built.plans:
        kept = bool((matrix[:, : built.program.choices] @ built.program.choices_of(plan) <= upper).all())
        assert kept == (plan.tolist() != built.best.tolist())


def test_coefficients_too_small_for_highs_are_dropped():
    built = Built(SEEDS[0], rounds=0)
    built.program.add_row("tangent", {0: 1.0, 1: 1e-9, 2: -1e-12, 3: 2e-9}, -5.0)
    _, row, _, _ = built.program.pending[-1]
    assert row == {0: 1.0, 3: 2e-9}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_program_s_optimum_is_that_of_enumeration(seed, monkeypatch):
    """From the worst plan that fits: the program has to find the best one by itself."""
    instance, plans = small_instance(seed)
    columns = instance.space.columns(plans)
    fits = evaluate(instance.peak_memory, columns) <= instance.setting.capacity
    worst = plans[int(np.argmax(np.where(fits, evaluate(instance.objective, columns), -1.0)))]

    def only_the_worst(self, pool):
        self.price(pool, worst[None, :])
        return True

    monkeypatch.setattr(LocalSearch, "exhaust", only_the_worst)
    oracle = exhaust(instance.space, instance.objective, instance.peak_memory, instance.setting.capacity)
    outcome = optimise(instance, presolve=False, gap=1e-6)
    assert outcome.status is Status.OPTIMAL
    assert outcome.values[0] == pytest.approx(oracle.values[0], rel=1e-6)
    assert outcome.bound <= oracle.values[0] * (1 + 1e-9)
    assert outcome.gap <= 1e-6


def test_seeds_are_small():
    assert all(len(small_instance(seed)[1]) <= 300 for seed in (*SEEDS, *SMALL_SEEDS))
