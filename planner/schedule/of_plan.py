"""The pipeline of a plan: its schedule, and how long each stage takes for each pass, from the cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planner.algebra.breakdown import explain
from planner.algebra.expressions import Array, Expression
from planner.physics import collectives, compute, stages, step
from planner.physics.memory import moe_count
from planner.physics.setting import Recompute, Schedule, Setting
from planner.schedule.engine import Durations, Timeline, simulate
from planner.schedule.orders import orders

#: Parts of a micro-batch's time on a stage that are forward, and that are the gradients of weights, by recomputation: of
#: three passes (forward, gradients of inputs, of weights), or of four with full recomputation.
FORWARD = {Recompute.NONE: 1 / 3, Recompute.SELECTIVE: 1 / 3, Recompute.FULL: 1 / 4}


@dataclass(frozen=True)
class SimulatedPipeline:
    """A plan's pipeline as it ran: ``timeline``, and seconds of a step outside of it."""

    schedule: Schedule
    timeline: Timeline
    outside: float
    modelled: float

    @property
    def step_time(self) -> float:
        """Seconds of a step: the simulated pipeline, and what the cost model counts outside of it."""
        return self.timeline.makespan + self.outside


def simulated(setting: Setting, columns: Mapping[str, int]) -> SimulatedPipeline:
    """Simulate the pipeline of the plan ``columns`` with the times that the cost model gives each stage.

    A stage's forward pass is a third of its micro-batch's time (a quarter with full recomputation), the gradients of inputs
    and weights a third each; exchanges are part of them, as in the model. Chunks of a stage take the stage's time by their
    number of layers. What the model adds to the pipeline (the part of the gradient reduction that is not hidden, the
    optimizer's step) is added unchanged.
    """
    schedule, pp, vp = Schedule(columns["schedule"]), columns["pp"], columns["vp"]
    seconds = stage_seconds(setting, columns)
    forward_part = FORWARD[Recompute(columns["recompute"])]
    forward = seconds * forward_part
    weight = seconds / 3 * (3 / 4 if columns["recompute"] == Recompute.FULL else 1)
    backward = seconds - forward - (weight if schedule is Schedule.ZERO_BUBBLE else 0)
    order = orders(schedule, pp, vp, columns["grad_accum"])
    timeline = simulate(order, Durations(forward, backward, weight))
    modelled = explain(step.step_time(setting), {name: float(value) for name, value in columns.items()}).value
    pipeline = seconds.sum(axis=1).max() * columns["grad_accum"]
    bubble = _value(step.layers_time(setting, stages.busiest), columns) * stages.bubble_slots(schedule, pp, vp)
    return SimulatedPipeline(schedule, timeline, modelled - pipeline - bubble, modelled)


def stage_seconds(setting: Setting, columns: Mapping[str, int]) -> Array:
    """Seconds of one micro-batch, all passes, on each chunk of each stage; shape (pp, vp)."""
    pp, vp = columns["pp"], columns["vp"]
    model = setting.model
    content = stages.chunks(model, pp, vp, setting.weighed)
    per_layer = {
        moe: _value(step.layer_time(setting, moe), columns) if moe_count(setting, stages.first, moe) else 0.0
        for moe in (False, True)
    }
    transfer = _value(collectives.pipeline_transfer(setting), columns) / vp
    seconds = np.array([
        [content[chunk * pp + stage].dense * per_layer[False] + content[chunk * pp + stage].moe * per_layer[True] + transfer
         for chunk in range(vp)] for stage in range(pp)
    ])  # fmt: skip
    seconds[0, 0] += _value(compute.embedding(setting), columns)
    seconds[-1, -1] += _value(compute.head(setting), columns)
    return seconds


def _value(expression: Expression, columns: Mapping[str, int]) -> float:
    return explain(expression, {name: float(value) for name, value in columns.items()}).value
