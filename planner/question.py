"""A question to a solver: minimise one cost over the plans of a space while another stays within its limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.expressions import Expression
    from planner.algebra.space import Integers, Space


@dataclass(frozen=True)
class Question:
    """``objective`` is minimised over ``space`` where ``limit`` is at most ``capacity``.

    The rest makes the search fast and changes no answer. ``floor`` is nowhere above the objective and reads only the
    axes of the first part of ``order``: the places of the axes in the order in which they are joined, those that decide
    most first, then those that ``complete`` can fill in. ``subspaces`` are masks, by axis, in which to look for a first
    plan; ``neighbourhoods`` are families of axes that are freed together around a plan. ``staged``: for a first plan,
    combinations that may cost little more than the relaxation are joined before all others. ``diagnose``: where no plan
    keeps the limit, find out the least that any needs.
    """

    space: Space
    objective: Expression
    limit: Expression
    capacity: float
    floor: Expression
    order: tuple[list[int], list[int]]
    complete: Callable[[Integers], Integers]
    subspaces: Sequence[dict[str, NDArray[Any]]]
    neighbourhoods: Sequence[tuple[str, ...]]
    staged: bool = True
    diagnose: bool = True
