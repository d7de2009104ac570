"""Solving an instance: its question, and the two ways to answer it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner import proving
from planner.physics import heuristics
from planner.physics.placement import place_whole
from planner.question import Question

if TYPE_CHECKING:
    from planner.algebra.space import Integers
    from planner.instance import Instance
    from planner.outcome import Outcome, Progress

Solver = Literal["highs", "exhaustive"]


def optimise(
    instance: Instance, *, gap: float = 1e-3, time_limit: float = math.inf, top: int = 1, solver: Solver = "highs",
    seed: int = 0, presolve: bool = True, start: Sequence[Mapping[str, int]] = (),
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:  # fmt: skip
    """The best plan of ``instance`` and what is proved about it; options as in `planner.proving.prove`.

    The exhaustive solver prices every plan: of it ``top`` gives plans that are proved to be the next best.
    Raises `InputError` for meaningless options.
    """
    question = question_of(instance)
    if solver == "exhaustive":
        return proving.exhaust(question, time_limit=time_limit, top=top)
    return proving.prove(question, gap=gap, time_limit=time_limit, top=top, seed=seed, presolve=presolve, start=start,
                         progress=progress)  # fmt: skip


def question_of(instance: Instance) -> Question:
    """The least step time within the memory of an accelerator."""
    return Question(
        space=instance.space,
        objective=instance.objective,
        limit=instance.peak_memory,
        capacity=instance.setting.capacity,
        floor=instance.floor,
        order=heuristics.joining_order(instance.space),
        complete=partial(_completed, instance),
        subspaces=list(heuristics.subspaces(instance.space)),
        neighbourhoods=heuristics.NEIGHBOURHOODS,
    )


def _completed(instance: Instance, combinations: Integers) -> Integers:
    """Plans for combinations of degrees, from the innermost tier outwards; those for which it keeps the rules."""
    space, links = instance.space, instance.setting.links
    columns = space.columns(combinations)
    ones = np.ones(len(combinations))
    totals = {name: columns.get(name, ones) for name in ("tp", "cp", "pp", "shard", "replica", "ep", "etp")}
    parts = place_whole(totals, [link.fanout for link in links])
    plans = combinations.copy()
    valid = np.ones(len(plans), dtype=bool)
    for position, axis in enumerate(space.axes):
        if (combinations[:, position] < 0).any():
            ((column, values),) = axis.table.items()
            index = np.minimum(np.searchsorted(values, parts[column]), axis.size - 1)
            valid &= values[index] == parts[column]
            plans[:, position] = index
    plans = plans[valid]
    return plans[space.holds(space.columns(plans))] if len(plans) else plans
