"""A sweep file as points: one problem each, with what it sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from planner.schema.base import read_toml, validate
from planner.schema.sweep import Case, Grid, Sweep

#: Points along the last axis that one worker takes in turn, each from the plan before.
CHAIN = 8
PROBLEM, CASE = "problem", "case"


@dataclass(frozen=True)
class Point:
    """One problem of a sweep: ``labels`` place it on the sweep's axes, ``settings`` are (key, value) of the problem."""

    position: int
    problem: str
    labels: dict[str, Any]
    settings: tuple[tuple[str, Any], ...]


def read_sweep(path: Path) -> Sweep:
    """The sweep in a TOML file. Raises `InputError` with every problem found."""
    return validate(Sweep, read_toml(path), str(path))


def axis_values(values: list[Any] | Grid) -> list[Any]:
    """The values of one axis."""
    return values.values() if isinstance(values, Grid) else values


def points(sweep: Sweep) -> Iterator[Point]:
    """All points of a sweep, the last axis fastest."""
    several = isinstance(sweep.problem, list)
    problems = sweep.problem if isinstance(sweep.problem, list) else [sweep.problem]
    keys = list(sweep.axes)
    grids = [axis_values(values) for values in sweep.axes.values()]
    cases: list[Case | None] = list(sweep.cases) or [None]
    for position, (problem, case, *values) in enumerate(product(problems, cases, *grids)):
        labels: dict[str, Any] = {PROBLEM: problem} if several else {}
        settings: list[tuple[str, Any]] = list(sweep.common.items())
        if case is not None:
            labels[CASE] = case.name
            settings += case.set.items()
        labels |= dict(zip(keys, values, strict=True))
        settings += zip(keys, values, strict=True)
        yield Point(position, problem, labels, tuple(settings))


def size(sweep: Sweep) -> int:
    """How many points a sweep has."""
    count = len(sweep.problem) if isinstance(sweep.problem, list) else 1
    count *= max(1, len(sweep.cases))
    for values in sweep.axes.values():
        count *= len(axis_values(values))
    return count


def chains(sweep: Sweep) -> Iterator[list[Point]]:
    """The points in chains of neighbours along the last axis; no chain is longer than `CHAIN`."""
    last = len(axis_values(list(sweep.axes.values())[-1])) if sweep.axes else 1
    chain: list[Point] = []
    for point in points(sweep):
        place = point.position % last
        if chain and place % CHAIN == 0:
            yield chain
            chain = []
        chain.append(point)
    if chain:
        yield chain
