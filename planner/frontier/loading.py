"""Frontier problems from the catalogue or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import catalog
from planner.errors import InputError
from planner.frontier.problem import Frontier, frontier_of
from planner.schema.base import read_toml, validate
from planner.schema.frontier import Device, FrontierProblem
from planner.schema.overrides import apply_override

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_frontier(reference: str, overrides: Sequence[str] = ()) -> tuple[FrontierProblem, Device, str]:
    """The frontier problem that ``reference`` names, with ``key=value`` overrides, its device and its file.

    Raises `InputError` with every problem found.
    """
    path = catalog.locate("problem", reference)
    document: dict[str, Any] = read_toml(path)
    if document.get("kind") != "frontier":
        raise InputError(f"{path}: kind: is no frontier problem (those say kind = \"frontier\"); use 'planner solve'")
    for override in overrides:
        apply_override(document, override, FrontierProblem)
    problem = validate(FrontierProblem, document, str(path))
    try:
        device = catalog.load_device(problem.device, Path(path).parent)
    except InputError as error:
        raise InputError([f"{path}: device: {line}" for line in error.problems]) from None
    return problem, device, str(path)


def load_frontier(reference: str, overrides: Sequence[str] = ()) -> Frontier:
    """The frontier problem that ``reference`` names, resolved. Raises `InputError` with every problem found."""
    problem, device, origin = read_frontier(reference, overrides)
    return frontier_of(problem, device, origin)
