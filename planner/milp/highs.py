"""The boundary to HiGHS: what the solver is given and what it says are checked here, so that nothing is taken on trust.

Guards, each for a failure that was measured with Pyomo 6.10 and HiGHS 1.16: a coefficient that is not finite or out of
range makes HiGHS drop whole batches of rows (`check_coefficients`, `check_rows`); unknown options are ignored
(`set_option`); the greeting goes to standard output (`quiet_highs`); the number of threads is pinned by the first solve
(`quiet_highs`, `run_model`); Ctrl-C is swallowed (`run`); with a start, objective and bound can be those of another
problem (`Solver._consistent`); a status is never inferred from an objective value (`STATUSES`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from planner.errors import SolverError

if TYPE_CHECKING:
    from planner.algebra.expressions import Array
    from planner.milp.program import Program

#: HiGHS drops what is not above the first, and rejects whole batches of rows with what is not below the second.
SMALLEST_COEFFICIENT, LARGEST_COEFFICIENT = 1e-9, 1e8

#: The tree is small and its first bound good: nearly all time would go to heuristics, restarts and separation.
MIP_OPTIONS: dict[str, float | int | bool | str] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_allow_restart": False,
    "mip_allow_cut_separation_at_nodes": False,
    "mip_root_presolve_only": True,
    "mip_pscost_minreliable": 0,
    "mip_abs_gap": 0.0,
}


class MipStatus(StrEnum):
    """How a run of HiGHS ended."""

    PROVEN = "proven"
    INFEASIBLE = "infeasible"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"


STATUSES = {
    highspy.HighsModelStatus.kOptimal: MipStatus.PROVEN,
    highspy.HighsModelStatus.kInfeasible: MipStatus.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: MipStatus.TIME_LIMIT,
    highspy.HighsModelStatus.kInterrupt: MipStatus.INTERRUPTED,
    getattr(highspy.HighsModelStatus, "kHighsInterrupt", None): MipStatus.INTERRUPTED,  # not in the stubs
}


@dataclass(frozen=True)
class MipResult:
    """What a run gave. ``solution`` is None without a feasible point; ``bound`` is HiGHS' dual bound."""

    status: MipStatus
    solution: Array | None
    bound: float
    nodes: int


_greeted = False


@contextmanager
def _stdout_discarded() -> Iterator[None]:
    """File descriptor 1 to nowhere: HiGHS 1.16 greets there when it is first constructed, before any option is set."""
    sys.stdout.flush()
    try:
        saved = os.dup(1)
    except OSError:  # standard output is closed: nobody can read a greeting
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def quiet_highs() -> highspy.Highs:
    """A silent, single-threaded HiGHS object."""
    global _greeted
    if _greeted:
        model = highspy.Highs()
    else:
        with _stdout_discarded():
            model = highspy.Highs()
            highspy.Highs.resetGlobalScheduler(True)  # an earlier solve elsewhere may have pinned more threads
        _greeted = True
    set_options(model, {"output_flag": False, "threads": 1, "parallel": "off"})
    return model


def set_options(model: highspy.Highs, options: dict[str, float | int | bool | str]) -> None:
    """Set HiGHS options. Raises `SolverError` for one that HiGHS does not take."""
    for option, value in options.items():
        if model.setOptionValue(option, value) != highspy.HighsStatus.kOk:
            raise SolverError(f"HiGHS refused option {option} = {value}")


def run_model(model: highspy.Highs) -> highspy.HighsModelStatus:
    """Run HiGHS and return its status.

    HiGHS refuses to start where somebody has pinned another number of threads since; its scheduler is then made anew.
    """
    model.run()
    if model.getModelStatus() == highspy.HighsModelStatus.kNotset:
        highspy.Highs.resetGlobalScheduler(True)
        model.run()
    return model.getModelStatus()


def check_coefficients(values: Array, what: str) -> None:
    """Raises `SolverError` unless all are finite and of a magnitude that HiGHS keeps."""
    magnitudes = np.abs(values)
    if not np.all(np.isfinite(magnitudes)):
        raise SolverError(f"{what}: a coefficient is not finite")
    wrong = (magnitudes >= LARGEST_COEFFICIENT) | ((magnitudes <= SMALLEST_COEFFICIENT) & (magnitudes > 0))
    if wrong.any():
        raise SolverError(f"{what}: coefficient {float(values[wrong][0]):g} is out of the range that HiGHS keeps")


def check_rows(model: highspy.Highs, expected: int) -> None:
    """Raises `SolverError` when HiGHS holds another number of rows than it was given."""
    if model.getNumRow() != expected:
        raise SolverError(f"HiGHS holds {model.getNumRow()} rows of {expected}: it rejected some")


class Solver:
    """A `Program` in HiGHS: first as a linear program, then with integer choices."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.model = quiet_highs()
        self.rows = 0
        self._load()

    def _load(self) -> None:
        """Read the Pyomo model once; later rows are added one by one."""
        variables = self.program.variables
        number = {id(variable): index for index, variable in enumerate(variables)}
        cost = np.zeros(len(variables))
        objective = generate_standard_repn(self.program.model.objective.expr)
        for variable, value in zip(objective.linear_vars, objective.linear_coefs, strict=True):
            cost[number[id(variable)]] = value
        check_coefficients(cost, "objective")
        bounds = [variable.bounds for variable in variables]
        lower = np.array([-np.inf if low is None else low for low, _ in bounds])
        upper = np.array([np.inf if high is None else high for _, high in bounds])
        self.model.addVars(len(variables), lower, upper)
        index = np.arange(len(variables), dtype=np.int32)
        self.model.changeColsCost(len(variables), index, cost)
        starts, members, values, sides = [0], [], [], []
        for constraint in self.program.model.component_data_objects(pyo.Constraint, active=True):
            body = generate_standard_repn(constraint.body)
            members += [number[id(variable)] for variable in body.linear_vars]
            values += list(body.linear_coefs)
            starts.append(len(members))
            low, high = pyo.value(constraint.lower), pyo.value(constraint.upper)
            sides.append((-np.inf if low is None else low, np.inf if high is None else high))
        check_coefficients(np.array(values), "constraint matrix")
        low_sides, high_sides = np.array(sides).T
        self.rows = len(sides)
        bounds_of_rows = (np.ascontiguousarray(low_sides), np.ascontiguousarray(high_sides))
        begins, columns = np.array(starts[:-1], dtype=np.int32), np.array(members, dtype=np.int32)
        self.model.addRows(self.rows, *bounds_of_rows, len(values), begins, columns, np.array(values))
        check_rows(self.model, self.rows)
        self.program.pending.clear()

    def add_pending(self) -> None:
        """Pass the rows that the program has added since."""
        for kind, row, lower, upper in self.program.pending:
            index = np.array(list(row), dtype=np.int32)
            values = np.array(list(row.values()))
            check_coefficients(values, kind)
            self.model.addRow(lower, upper, len(index), index, values)
            self.rows += 1
        self.program.pending.clear()
        check_rows(self.model, self.rows)

    def relax(self) -> tuple[float, Array] | None:
        """Optimum and solution of the linear relaxation; None if it is infeasible."""
        self.add_pending()
        status = run_model(self.model)
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(f"linear relaxation: {self.model.modelStatusToString(status)}")
        return float(self.model.getInfo().objective_function_value), self._solution()

    def _solution(self) -> Array:
        return np.array(self.model.getSolution().col_value)

    def run(
        self, *, gap: float, time_limit: float, seed: int, start: Array | None = None,
        report: Callable[[float, float], None] | None = None,
    ) -> MipResult:  # fmt: skip
        """Solve with integer choices until ``gap`` is proved, relative to the program's own best value.

        ``start`` are the choice variables of a known plan; ``report`` gets HiGHS' incumbent and bound from time to time.
        """
        self.add_pending()
        choices = np.arange(self.program.choices, dtype=np.int32)
        kinds = np.array([highspy.HighsVarType.kInteger] * len(choices))
        self.model.changeColsIntegrality(len(choices), choices, kinds)
        exact = gap < 1e-4
        tolerance = 1e-9 if exact else 1e-7
        set_options(self.model, MIP_OPTIONS | {
            "mip_rel_gap": gap, "time_limit": min(time_limit, 1e9), "random_seed": seed,
            "primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance,
            "mip_feasibility_tolerance": 1e-9 if exact else 1e-6, "mip_min_logging_interval": 0.5,
        })  # fmt: skip
        if start is not None:
            self.model.setSolution(len(choices), choices, start)
        self._solve(report)
        if not self._consistent():  # seen with a start that presolve solves the program with: an offset is lost
            set_options(self.model, {"presolve": "off"})
            self.model.clearSolver()
            self._solve(report)
            set_options(self.model, {"presolve": "choose"})
            if not self._consistent():
                raise SolverError("HiGHS reports another objective than its solution has")
        status = STATUSES.get(self.model.getModelStatus())
        if status is None:
            text = self.model.modelStatusToString(self.model.getModelStatus())
            raise SolverError(f"HiGHS stopped with status {text}")
        info = self.model.getInfo()
        feasible = info.primal_solution_status == 2
        return MipResult(
            status, self._solution() if feasible else None, float(info.mip_dual_bound), int(info.mip_node_count)
        )

    def _consistent(self) -> bool:
        """Whether the reported objective is that of the reported solution, where there is one."""
        info = self.model.getInfo()
        if info.primal_solution_status != 2:
            return True
        own = float(self._solution()[self.program.cost])
        return abs(own - float(info.objective_function_value)) <= 1e-6 * max(1.0, abs(own))

    def _solve(self, report: Callable[[float, float], None] | None) -> None:
        if report is not None:

            def news(event: Any) -> None:
                report(float(event.data_out.mip_primal_bound), float(event.data_out.mip_dual_bound))

            self.model.cbMipLogging += news
        if threading.current_thread() is threading.main_thread():
            self.model.HandleKeyboardInterrupt = True  # Ctrl-C ends the run with incumbent and bound
            with redirect_stdout(sys.stderr):  # where highspy talks about it
                self.model.solve()
        else:
            self.model.run()
        if self.model.getModelStatus() == highspy.HighsModelStatus.kNotset:
            run_model(self.model)
        if report is not None:
            self.model.cbMipLogging -= news
