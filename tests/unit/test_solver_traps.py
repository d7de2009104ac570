"""Every known trap of Pyomo and HiGHS has a guard (pyomo_highs.md): nothing that a solver says is taken on trust."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import highspy
import numpy as np
import pytest

from planner.algebra.evaluation import evaluate
from planner.errors import InputError, MismatchError, SolverError
from planner.instance import load
from planner.milp import highs
from planner.milp.highs import MipStatus, Solver, check_coefficients, check_rows, quiet_highs, set_options
from planner.milp.program import Program
from planner.milp.tree import Tabulator
from planner.outcome import Status
from planner.search.local import LocalSearch
from planner.solving import optimise
from tests.property.spaces import SMALL_SEEDS, small_instance

LONG = "gpt3-175b-1k-a100"  # without the presolve it takes much longer than any of these tests


def python(script, timeout=120.0):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=timeout, check=False)


def small_program():
    instance, plans = small_instance(SMALL_SEEDS[0])
    tree = Tabulator(instance.space).tree(instance.objective)
    masks = [np.ones(axis.size, dtype=bool) for axis in instance.space.axes]
    return Program(instance.space, masks, tree, 1.0, None, math.inf, plans[:1]), plans


# --- rows that are dropped in silence --------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [1e16, -1e16, 1e15, 1e8, math.inf, -math.inf, math.nan, 1e-10, -1e-12, 1e-9])
def test_coefficients_that_highs_would_not_keep_are_refused(bad):
    with pytest.raises(SolverError, match="objective"):
        check_coefficients(np.array([1.0, bad, 2.0]), "objective")


def test_coefficients_in_range_are_accepted():
    check_coefficients(np.array([0.0, -0.0, 1.0, -1e-8, 2e-9, 9e7, -9e7]), "row")
    check_coefficients(np.zeros(0), "no row")


@pytest.mark.parametrize("bad", [1e16, math.inf, math.nan])
def test_a_program_with_such_a_coefficient_is_never_solved(bad):
    program, _ = small_program()
    program.add_row("tangent", {0: 1.0, 1: bad}, 0.0)
    program.model.tangent[len(program.model.tangent)].deactivate()
    solver = Solver(program)
    program.pending.append(("tangent", {0: 1.0, 1: bad}, 0.0, math.inf))
    with pytest.raises(SolverError, match="tangent"):
        solver.add_pending()


@pytest.mark.parametrize("bad", [1e16, -1e15])
def test_a_model_with_such_a_coefficient_is_never_loaded(bad):
    program, _ = small_program()
    program.add_row("tangent", {0: 1.0, 1: bad}, 0.0)
    with pytest.raises(SolverError, match="constraint matrix"):
        Solver(program)


def test_highs_still_drops_whole_batches_and_the_count_of_rows_shows_it():
    model = quiet_highs()
    model.addVars(2, np.zeros(2), np.ones(2))
    model.addRows(2, np.zeros(2), np.ones(2), 2, np.array([0, 1], dtype=np.int32), np.array([0, 1], dtype=np.int32),
                  np.array([1.0, 1e16]))  # fmt: skip
    assert model.getNumRow() == 0, "the trap is still there: a good row went with a bad one"
    with pytest.raises(SolverError, match="0 rows of 2"):
        check_rows(model, 2)
    check_rows(model, 0)


def test_tiny_coefficients_are_dropped_on_the_safe_side():
    """A row without them must still be a valid bound: everything that was feasible stays feasible."""
    program, _ = small_program()
    for tiny in (1e-9, -1e-9, 1e-12):
        program.add_row("tangent", {0: 1.0, 1: tiny}, 0.0)
        _, row, lower, _ = program.pending[-1]
        assert 1 not in row
        for choices in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)):
            if choices[0] + tiny * choices[1] >= 0.0:
                assert row[0] * choices[0] >= lower - 1e-8
    Solver(program)


# --- options, threads and standard output ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", [("mip_rel_gapp", 0.1), ("presolve", "maybe"), ("threads", -1), ("time_limit", "abc")]
)
def test_an_option_that_highs_does_not_take_is_an_error(option):
    with pytest.raises(SolverError, match=option[0]):
        set_options(quiet_highs(), dict([option]))


def test_every_option_that_is_used_is_known():
    set_options(quiet_highs(), highs.MIP_OPTIONS)


def test_the_greeting_does_not_reach_standard_output():
    ran = python("from planner.milp.highs import quiet_highs; quiet_highs(); print('x'); quiet_highs()")
    assert (ran.returncode, ran.stdout) == (0, "x\n"), ran.stderr


def test_a_closed_standard_output_is_no_obstacle():
    ran = python("import os; os.close(1); from planner.milp.highs import quiet_highs; quiet_highs()")
    assert ran.returncode == 0, ran.stderr


def test_json_is_all_that_a_solve_prints():
    command = [sys.executable, "-m", "planner", "solve", "llama3-8b-8-h100", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == "optimal"


DEFAULT_SOLVE = """
import highspy
from concurrent.futures import ThreadPoolExecutor
def default_solve():
    h = highspy.Highs(); h.setOptionValue('output_flag', False)
    x = [h.addBinary() for _ in range(12)]
    h.addConstr(sum((3 + i) * x[i] for i in range(12)) <= 40)
    h.maximize(sum((5 + i % 7) * x[i] for i in range(12)))
    assert h.getModelStatus() == highspy.HighsModelStatus.kOptimal, h.getModelStatus()
from tests.property.spaces import small_instance
from planner.solving import optimise
instance, _ = small_instance(24)
def ours():
    outcome = optimise(instance, presolve=False, gap=1e-6)
    assert (outcome.status, outcome.stopped) == ('optimal', ''), outcome
def in_a_thread(*calls):
    with ThreadPoolExecutor(1) as thread:
        for call in calls:
            thread.submit(call).result()
"""


@pytest.mark.parametrize("order", [
    "default_solve(); ours()",
    "ours(); default_solve(); ours()",
    "ours(); in_a_thread(default_solve, ours)",
    "in_a_thread(ours); default_solve(); ours()",
])  # fmt: skip
def test_threads_that_others_pinned_are_no_obstacle(order):
    ran = python(DEFAULT_SOLVE + order)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_a_solve_outside_the_main_thread():
    ran = python(DEFAULT_SOLVE + "in_a_thread(ours); ours()")
    assert ran.returncode == 0, ran.stderr[-2000:]


# --- statuses, limits and failures -----------------------------------------------------------------------------------


def test_only_statuses_of_a_known_meaning_are_taken():
    meant = {"kOptimal": MipStatus.PROVEN, "kInfeasible": MipStatus.INFEASIBLE, "kTimeLimit": MipStatus.TIME_LIMIT,
             "kInterrupt": MipStatus.INTERRUPTED, "kHighsInterrupt": MipStatus.INTERRUPTED}  # fmt: skip
    for name, status in highspy.HighsModelStatus.__members__.items():
        assert highs.STATUSES.get(status) in (meant.get(name), None)
    assert {highs.STATUSES[getattr(highspy.HighsModelStatus, name)] for name in list(meant)[:4]} == set(MipStatus)


def test_a_status_that_is_not_known_is_an_error(monkeypatch):
    program, _ = small_program()
    solver = Solver(program)
    for status in set(highspy.HighsModelStatus.__members__.values()) - set(highs.STATUSES):
        monkeypatch.setattr(solver.model, "getModelStatus", lambda status=status: status)
        with pytest.raises(SolverError, match="status"):
            solver.run(gap=1e-3, time_limit=10, seed=0)


def test_an_infeasible_program_is_said_to_be_so():
    program, plans = small_program()
    program.add_row("excluded", {c: 1.0 for c in range(int(program.offsets[1]))}, -math.inf, 0.0)
    solver = Solver(program)
    result = solver.run(gap=1e-3, time_limit=10, seed=0)
    assert result.status is MipStatus.INFEASIBLE
    assert result.solution is None
    assert len(plans)


def test_a_relaxation_without_a_proper_status_is_an_error():
    program, _ = small_program()
    solver = Solver(program)
    solver.model.changeColsBounds(
        1, np.array([program.cost], dtype=np.int32), np.array([-math.inf]), np.array([math.inf])
    )
    solver.model.deleteRows(solver.rows, np.arange(solver.rows, dtype=np.int32))
    solver.rows = 0
    with pytest.raises(SolverError, match="relaxation"):
        solver.relax()


def assert_honest(outcome):
    assert outcome.status is Status.FEASIBLE
    assert outcome.plans
    assert 0 <= outcome.bound <= outcome.values[0]
    assert outcome.gap == pytest.approx(1 - outcome.bound / outcome.values[0])


def test_a_time_limit_gives_the_plan_and_an_honest_gap():
    started = time.monotonic()
    outcome = optimise(load(LONG), time_limit=2.0, presolve=False, gap=1e-6)
    assert time.monotonic() - started < 10
    assert_honest(outcome)
    assert outcome.stopped == "time limit"
    assert outcome.bound > 0
    assert outcome.gap > 1e-6


def test_no_time_at_all_is_no_proof():
    outcome = optimise(load(LONG), time_limit=0.0)
    assert outcome.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert outcome.bound >= 0


def large_instance(monkeypatch):
    """A small instance whose space counts as too large to be priced whole: the program starts from the worst plan."""
    instance, plans = small_instance(24)
    worst = plans[int(np.argmax(evaluate(instance.objective, instance.space.columns(plans))))]
    monkeypatch.setattr(LocalSearch, "exhaust", lambda self, pool: self.price(pool, worst[None, :]) or True)
    return instance


def test_a_failure_of_the_solver_leaves_the_plan_and_the_bound_so_far(monkeypatch):
    def fail(*_, **__):
        raise SolverError("broken")

    monkeypatch.setattr(Solver, "run", fail)
    outcome = optimise(large_instance(monkeypatch), presolve=False, gap=1e-6)
    assert_honest(outcome)
    assert "broken" in outcome.stopped
    assert outcome.bound > 0


def test_a_failure_before_any_plan_is_raised(monkeypatch):
    def fail(*_, **__):
        raise SolverError("broken")

    infeasible, _ = small_instance(64)
    monkeypatch.setattr(Solver, "__init__", fail)
    monkeypatch.setattr(Solver, "run", fail)
    with pytest.raises(SolverError, match="broken"):
        optimise(infeasible, presolve=False, gap=1e-6)


@pytest.mark.parametrize("boast", [1.5, 1e6])
def test_a_false_bound_that_a_plan_refutes_is_never_reported(monkeypatch, boast):
    run = Solver.run

    def boasts(self, **options):
        result = run(self, **options)
        return type(result)(result.status, result.solution, result.bound * boast, result.nodes)

    monkeypatch.setattr(Solver, "run", boasts)
    try:
        outcome = optimise(large_instance(monkeypatch), presolve=False, gap=1e-6)
    except (SolverError, MismatchError):
        return
    assert outcome.bound <= outcome.values[0]


@pytest.mark.parametrize("seed", SMALL_SEEDS[::2])
@pytest.mark.parametrize("gap", [1e-6, 0.1])
def test_no_bound_is_above_the_optimum(seed, gap):
    instance, _ = small_instance(seed)
    oracle = optimise(instance, solver="exhaustive")
    outcome = optimise(instance, gap=gap)
    assert outcome.status is oracle.status
    if oracle.values:
        assert outcome.bound <= oracle.values[0] * (1 + 1e-9)
        assert outcome.values[0] <= oracle.values[0] / (1 - gap) * (1 + 1e-9)
        assert outcome.gap <= gap


@pytest.mark.parametrize("options", [{"gap": 0.0}, {"gap": math.nan}, {"gap": -1.0}, {"time_limit": -1.0},
                                     {"time_limit": math.nan}, {"top": 0}])  # fmt: skip
def test_meaningless_options_are_refused(options):
    with pytest.raises(InputError):
        optimise(small_instance(SMALL_SEEDS[0])[0], **options)


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------

RUNNER = f"""
import sys, json
from planner.instance import load
from planner.solving import optimise
def tell(news): print(news.phase, news.incumbent, news.bound, file=sys.stderr, flush=True)
outcome = optimise(load({LONG!r}), presolve=False, gap=1e-6, progress=tell)
print(json.dumps([outcome.status, outcome.stopped, outcome.plans[0], outcome.values[0], outcome.bound]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("seconds", [0.05, 2.5], ids=["at the root", "in the tree"])
def test_an_interrupt_gives_the_plan_and_the_bound(seconds):
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        for line in child.stderr:
            if line.startswith("relaxation") and float(line.split()[-1]) > 0:
                break
        else:
            pytest.fail("ended by itself without a bound")
        time.sleep(seconds)
        child.send_signal(signal.SIGINT)
        try:
            output, errors = child.communicate(timeout=20)
        finally:
            child.kill()
    assert child.returncode == 0, errors[-2000:]
    assert output.count("\n") == 1, "nothing but the answer on standard output"
    status, stopped, plan, value, bound = json.loads(output)
    assert (status, stopped) == ("feasible", "interrupted")
    assert plan["tp"] >= 1
    assert 0 < bound <= value < math.inf
