"""A sweep: a problem, and the keys of it that take many values."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from planner.schema.base import Strict
from planner.schema.hardware import Positive
from planner.schema.problem import Name


class Grid(Strict):
    """Values from one end to the other, both included: so many ``points``, or each ``factor`` times the one before."""

    begin: float = Field(alias="from")
    to: float
    points: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    factor: Annotated[float, Field(gt=1)] | None = None
    scale: Literal["log", "linear"] = "log"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.points is None) == (self.factor is None):
            raise ValueError("needs either points or factor")
        if not self.begin < self.to:
            raise ValueError(f"contradictory limits: from = {self.begin:g} is not below to = {self.to:g}")
        if self.begin <= 0 and (self.scale == "log" or self.factor is not None):
            raise ValueError("a logarithmic scale begins above 0")
        return self

    def values(self) -> list[float]:
        """The grid's values, ascending; whole numbers where all are."""
        if self.factor is not None:
            count = int(np.floor(np.log(self.to / self.begin) / np.log(self.factor) + 1e-9)) + 1
            return [self.begin * self.factor**number for number in range(count)]
        assert self.points is not None
        if self.scale == "linear":
            return [float(value) for value in np.linspace(self.begin, self.to, self.points)]
        return [float(f"{value:.12g}") for value in np.geomspace(self.begin, self.to, self.points)]


Values = Annotated[list[Any], Field(min_length=1)] | Grid


class Case(Strict):
    """A named variant: keys of the problem that are set together."""

    name: Name
    set: dict[str, Any] = Field(default_factory=dict)


class Options(Strict):
    """How each problem is solved."""

    gap: Annotated[float, Field(gt=0, lt=1)] | None = None  # None: the solver's default
    time_limit: Positive | None = None  # seconds for one problem; its plan by then is kept
    retries: Annotated[int, Field(ge=0, le=100)] = 1  # after a worker died or hung


class Sweep(Strict):
    """All combinations of ``problem``, ``cases`` and ``axes``; neighbours along the last start from one another's plan."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Name
    description: str = ""
    problem: Name | Annotated[list[Name], Field(min_length=1)]
    common: dict[str, Any] = Field(default_factory=dict, alias="set")  # keys of every problem
    cases: list[Case] = Field(default_factory=list)
    axes: dict[str, Values] = Field(default_factory=dict)
    options: Options = Options()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [case.name for case in self.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"cases: two have the same name: {', '.join(sorted(names))}")
        return self
