"""The pipeline of a plan as it runs, and the step around it, with the times that the cost model gives each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.algebra.expressions import Array
from planner.errors import InputError
from planner.physics import stages, states, step
from planner.physics.setting import SCHEDULES, Schedule, Setting
from planner.schedule import closed_forms
from planner.schedule.dualpipe import bidirectional, bidirectional_routes
from planner.schedule.engine import Durations, simulate
from planner.schedule.orders import Order, Route, orders
from planner.schedule.stage_times import StageTimes, stage_times
from planner.schedule.timeline import Timeline

#: A schedule that can be simulated but not planned: it needs two copies of the weights.
DUALPIPE = "dualpipe"
NAMES = (*SCHEDULES, DUALPIPE)


@dataclass(frozen=True)
class SimulatedPipeline:
    """A plan's pipeline as it ran (``schedule`` is its spelling), and the step that it is part of; seconds.

    ``times`` are those of the chunks as the schedule lays them. ``reduction`` is what of the gradient reduction is left
    when the pipeline has ended, ``around`` the rest of a step. ``modelled`` is the cost model's step time, of which
    ``modelled_pipeline`` is the pipeline with its bubble; None for a schedule that it does not have. ``theory`` is the
    bubble in the literature for even stages, at the mean of the stages' times. ``held`` are the bytes of activations that
    each stage holds at most, shape (stages,).
    """

    schedule: str
    times: StageTimes
    timeline: Timeline
    reduction: float
    around: float
    modelled: float | None
    modelled_pipeline: float | None
    theory: float
    held: Array

    @property
    def step_time(self) -> float:
        """Seconds of a step: the simulated pipeline, what of the gradient reduction is not hidden, and the rest."""
        return self.timeline.makespan + self.reduction + self.around


def simulated(setting: Setting, columns: Mapping[str, int], schedule: str | None = None) -> SimulatedPipeline:
    """Simulate the pipeline of the plan ``columns``; under another ``schedule`` of `NAMES` if one is given.

    Messages between stages take what the cost model says: of its bytes the assumed part travels while the sender computes.
    Of the gradient reduction C the assumed part f is hidden, from when the last micro-batch begins to add to a stage's
    gradients: a stage is done (1 - f) C after its pipeline, and no earlier than C after that. Raises `InputError` for a
    schedule that the degrees do not allow.
    """
    name = schedule or next(spelling for spelling, code in SCHEDULES.items() if code == columns["schedule"])
    plan = _under(columns, name)
    times = stage_times(setting, plan)
    order, ways, times = _laid_out(name, plan, times)
    timeline = simulate(
        order, Durations(times.forward, times.backward, times.weight, times.transfer, times.sending), ways
    )
    evaluator = Evaluator({column: np.array([float(value)]) for column, value in plan.items()})
    reduction = float(evaluator(states.reduction(setting))[0])
    exposed = (1 - setting.assumptions.dp_overlap) * reduction
    ends = np.array([stage[-1] for stage in timeline.ends])
    done = np.maximum(ends + exposed, timeline.last_gradients() + reduction)
    modelled = pipeline = None
    if name != DUALPIPE:
        modelled = float(evaluator(step.step_time(setting))[0])
        picks = ((stages.busiest, False, False), (stages.last, False, True), (stages.first, True, False))
        slowest = max(
            float(evaluator(step.stage_time(setting, pick, embeds=embeds, heads=heads))[0])
            for pick, embeds, heads in picks
        )
        pipeline = plan["grad_accum"] * slowest + float(evaluator(step.idle(setting))[0])
    return SimulatedPipeline(
        schedule=name,
        times=times,
        timeline=timeline,
        reduction=float(done.max()) - timeline.makespan,
        around=sum(float(evaluator(part)[0]) for part in step.around(setting)),
        modelled=modelled,
        modelled_pipeline=pipeline,
        theory=_theory(name, plan, times),
        held=timeline.most_held(times.kept),
    )


def _under(columns: Mapping[str, int], name: str) -> dict[str, int]:
    """The plan with another schedule: chunks of a stage are one where that does not interleave."""
    if name not in NAMES:
        raise InputError(f"schedule {name!r}: must be one of {', '.join(NAMES)}")
    if name == "interleaved":
        if columns["vp"] == 1:
            raise InputError("schedule 'interleaved': needs a plan of several chunks a stage, this one has vp = 1")
        return dict(columns)
    code = SCHEDULES.get(name, Schedule.ONE_F_ONE_B)
    return {**columns, "schedule": int(code), "vp": 1, "group": 1}


def _laid_out(
    name: str, plan: Mapping[str, int], times: StageTimes
) -> tuple[list[Order], list[Route] | None, StageTimes]:
    """Orders, routes, and the times by stage and chunk."""
    pp, micro_batches = plan["pp"], plan["grad_accum"]
    if name != DUALPIPE:
        return orders(Schedule(plan["schedule"]), pp, plan["vp"], micro_batches), None, times

    def both(part: Array) -> Array:  # each stage also holds the part of the stage opposite
        return np.concatenate([part, part[::-1]], axis=1)

    laid = StageTimes(both(times.forward), both(times.backward), both(times.weight), both(times.kept), times.sending,
                      times.transfer)  # fmt: skip
    return bidirectional(pp, micro_batches), bidirectional_routes(pp), laid


def _theory(name: str, plan: Mapping[str, int], times: StageTimes) -> float:
    forward, backward, weight = (
        float(part.sum()) / plan["pp"] for part in (times.forward, times.backward, times.weight)
    )
    if name == DUALPIPE:  # half of the micro-batches pass either chunk
        forward, backward, weight = forward / 2, backward / 2, weight / 2
        return closed_forms.bidirectional_bubble(plan["pp"], forward, backward, weight, forward + backward + weight)
    return closed_forms.bubble(Schedule(plan["schedule"]), plan["pp"], plan["vp"], forward, backward, weight)
