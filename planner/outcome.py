"""What a solver says: the plans it found, and what it has proved about all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Status(StrEnum):
    """How an answer is to be taken."""

    OPTIMAL = "optimal"  # no plan is better by more than the gap that was asked for
    FEASIBLE = "feasible"  # a plan and an honest gap, stopped before the proof was complete
    INFEASIBLE = "infeasible"  # proved: no plan keeps the rules and fits in memory
    UNKNOWN = "unknown"  # stopped before any plan was found, nothing proved


@dataclass(frozen=True)
class Outcome:
    """The answer of a solver.

    ``plans`` are column values, best first, and ``values`` their objective (seconds, or seconds for one sequence where the
    global batch is free), as the exact evaluation prices them. ``bound`` is below the objective of every plan in the
    space. ``least_memory`` (bytes) is a lower bound on the peak memory of every plan, where one was computed.
    """

    status: Status
    plans: tuple[Mapping[str, int], ...]
    values: tuple[float, ...]
    bound: float
    stopped: str = ""  # "time limit", "interrupted", "solver failure: ..." or nothing
    least_memory: float | None = None
    statistics: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """``(best - bound) / best``; infinite without a plan."""
        return max(0.0, 1.0 - self.bound / self.values[0]) if self.values else float("inf")


@dataclass(frozen=True)
class Progress:
    """A line of news from a running solver; ``incumbent`` is infinite before the first plan."""

    incumbent: float
    bound: float
    phase: str
    elapsed: float
