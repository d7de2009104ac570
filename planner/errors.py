"""The package's own exceptions: what the user did wrong, what has no answer, and what is our fault."""

from __future__ import annotations


class PlannerError(Exception):
    """Base class of every error that the planner raises on purpose."""


class InputError(PlannerError):
    """The input is wrong; ``problems`` lists everything that is wrong with it, one line each.

    Each line names the file, the key, the value and what would be right.
    """

    def __init__(self, problems: str | list[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class UnitError(PlannerError):
    """Two quantities of different units were added or compared."""


class SolverError(PlannerError):
    """HiGHS or Pyomo did something that must not be trusted (a dropped row, an unknown status)."""


class MismatchError(PlannerError):
    """The program and the exact evaluation disagree about a plan: a defect of ours, never hidden."""
