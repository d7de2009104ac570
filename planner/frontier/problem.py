"""A frontier problem with its device and model, and the questions that it asks of the solver."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.expressions import Expression, Factor, largest, power, product, term
from planner.algebra.units import ONE, SECOND
from planner.frontier import costs
from planner.frontier.scaling import Model, model_of_budget, model_of_width
from planner.frontier.setting import Setting, setting_of
from planner.frontier.space import build_space, cluster_sizes
from planner.question import Question

if TYPE_CHECKING:
    from planner.algebra.space import Space
    from planner.schema.frontier import Device, FrontierProblem

#: A cost stays below the exponential of this.
LARGEST_LOGARITHM = 200.0
GPUS = power("gpus")
#: Axes that are freed together around a plan.
NEIGHBOURHOODS: tuple[tuple[str, ...], ...] = (
    ("tp_model", "tp_ff", "dp", "all_microbatches", "microbatches", "gpus"),
    ("tp_model", "tp_ff", "pp", "pipeline", "microbatches", "all_microbatches"),
    ("dp", "pp", "pipeline", "microbatches", "all_microbatches", "gpus"),
    ("dp", "ep", "tp_ff", "microbatches", "all_microbatches"),
    ("pp", "pipeline", "ep", "dp", "microbatches"),
)


@dataclass(frozen=True)
class Frontier:
    """A frontier problem, resolved. ``origin`` names its file in messages; ``sizes`` are the candidate clusters."""

    problem: FrontierProblem
    device: Device
    model: Model
    setting: Setting
    sizes: list[int]
    origin: str

    @cached_property
    def run_time(self) -> Expression:
        """Seconds of the whole run."""
        return costs.run_time(self.setting)

    @cached_property
    def need(self) -> Expression:
        """Time and memory as fractions of what there is: a plan is possible where this is at most 1."""
        in_time = product(self.run_time, term("time", ONE / SECOND, 1.0 / self.setting.limit))
        return largest("need", [in_time, costs.memory_use(self.setting)])


def frontier_of(problem: FrontierProblem, device: Device, origin: str = "problem") -> Frontier:
    """The resolved problem: the model of its width, or of its budget."""
    width, budget = problem.width, problem.budget
    model = model_of_budget(problem, budget) if width is None else model_of_width(problem, width)
    setting = setting_of(problem, device, model)
    return Frontier(problem, device, model, setting, cluster_sizes(problem, setting, origin), origin)


def smallest_cluster(frontier: Frontier, sizes: list[int], hopeful: bool = True) -> Question:
    """The smallest of ``sizes`` that finishes in time, and its fastest plan.

    One cost orders both: (gpus / smallest)^k x run time, with k so large that a larger cluster never pays. Where sizes are
    so near to one another that this is out of bounds, the cost is the number of accelerators alone: then the fastest plan
    is a question of its own. ``hopeful``: a plan is likely to exist.
    """
    space = build_space(frontier.problem, frontier.setting, sizes, frontier.origin)
    objective = frontier.run_time
    if len(sizes) > 1:
        first = size_first(sizes, frontier.setting)
        objective = product(objective, term("", ONE, 1.0, first)) if first else term("gpus", ONE, 1.0, GPUS)
    return Question(
        space=space, objective=objective, limit=frontier.need, capacity=1.0, floor=objective,
        order=(joining_order(space), []), complete=lambda plans: plans, subspaces=[], neighbourhoods=NEIGHBOURHOODS,
        staged=hopeful, diagnose=False,
    )  # fmt: skip


def size_first(sizes: list[int], setting: Setting) -> Factor | None:
    """(gpus / smallest)^k: a step to the next size costs more than all the time between the least and the limit.

    The least is the time that all of the largest cluster takes at the sustained rate. None if the factor would overflow.
    """
    base = float(sizes[0])
    ratio = min(after / before for before, after in pairwise(sizes))
    fastest = setting.model.compute / (setting.accelerator.reachable * sizes[-1])
    exponent = float(np.ceil(np.log(setting.limit / fastest) / np.log(ratio)) + 1)
    if exponent * np.log(sizes[-1] / base) > LARGEST_LOGARITHM:
        return None
    return Factor(f"(gpus/{base:g})^{exponent:g}", ("gpus",), lambda gpus: (gpus / base) ** exponent)


def joining_order(space: Space) -> list[int]:
    """The places of the axes: the cluster, then degree by degree with its parts, those of most traffic first."""
    names = [axis.name for axis in space.axes]

    def parts(degree: str) -> list[str]:
        return [name for name in names if name.startswith(f"{degree}_")]

    wanted = [
        "gpus",
        "tp_model",
        *parts("tp_model"),
        "tp_ff",
        *parts("tp_ff"),
        "all_microbatches",
        "dp",
        "microbatches",
    ]
    wanted += ["pipeline", "ep", *parts("dp"), *parts("pp"), *parts("ep")]
    return [names.index(name) for name in wanted if name in names]
