"""The answer to a frontier problem: the cluster, the plan, what it costs by part, and the proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.errors import MismatchError
from planner.frontier import costs
from planner.frontier.closed_forms import limits_at
from planner.frontier.costs import DEGREES, part
from planner.frontier.setting import SCHEDULES
from planner.outcome import Status

if TYPE_CHECKING:
    from planner.algebra.expressions import Expression
    from planner.frontier.budget import Obstacle
    from planner.frontier.problem import Frontier
    from planner.frontier.setting import Setting
    from planner.outcome import Outcome

Json = dict[str, Any]
#: The run time as the solver gives it and the sum of its parts must agree to this, relatively.
AGREEMENT = 1e-9


@dataclass(frozen=True)
class FrontierPlan:
    """The smallest cluster that finishes in time and its fastest plan, or why there is none.

    Times in seconds for the whole run, compute in FLOP; ``mfu`` and ``bound_mfu`` are fractions of the peak rate;
    ``linear`` is the part of the sustained rate that is used. ``time_s`` adds up to ``run_time_s``; ``traffic_months`` are
    the times of each kind of communication by itself, hidden or not. ``limits_flop``: compute at which the closed forms
    expect linear scaling, or all training, to end for this batch and depth. ``obstacles``: what stops a hopeless run.
    """

    status: str
    problem: str
    device: str
    compute_flop: float
    limit_months: float
    model: Json
    plan: Json | None = None
    run_time_s: float | None = None
    months: float | None = None
    bound_months: float | None = None
    gap: float | None = None
    mfu: float | None = None
    bound_mfu: float | None = None
    linear: float | None = None
    memory: float | None = None  # fraction of the cluster's
    time_s: dict[str, float] = field(default_factory=dict)
    traffic_months: dict[str, float] = field(default_factory=dict)
    limits_flop: dict[str, float | None] = field(default_factory=dict)
    obstacles: list[Json] = field(default_factory=list)
    reason: str = ""
    stopped: str = ""
    solver: Json = field(default_factory=dict)

    @classmethod
    def of(cls, frontier: Frontier, outcome: Outcome, stops: list[Obstacle] | None = None) -> FrontierPlan:
        """The answer that an outcome gives. Raises `MismatchError` if its plan costs something else than it says."""
        setting, model = frontier.setting, frontier.model
        known: Json = {
            "status": str(outcome.status),
            "problem": frontier.problem.name,
            "device": frontier.device.name,
            "compute_flop": model.compute,
            "limit_months": frontier.problem.run.months,
            "model": {
                "width": model.width, "ff": model.ff, "layers": model.layers, "experts": model.experts,
                "parameters": model.parameters, "tokens": model.tokens, "batch_tokens": model.batch,
                "tokens_per_parameter": model.tokens / model.parameters,
            },
            "limits_flop": limits_at(frontier),
            "obstacles": [asdict(stop) for stop in stops or []],
            "stopped": outcome.stopped,
            "solver": {key: value for key, value in outcome.statistics.items()
                       if not isinstance(value, float) or isfinite(value)},
        }  # fmt: skip
        if not outcome.plans:
            return cls(**known, reason=_reason(frontier, outcome, stops or []))
        plan, seconds = outcome.plans[0], outcome.values[0]
        parts = shares(setting, plan)
        if not abs(sum(parts.values()) - seconds) <= AGREEMENT * seconds:
            raise MismatchError(f"the parts of the run time make {sum(parts.values()):.12g} s, not {seconds:.12g} s")
        used = costs.utilisation_of(setting, seconds, plan["gpus"])
        bounded = outcome.bound > 0
        return cls(
            **known,
            plan=_degrees(setting, plan),
            run_time_s=seconds,
            months=seconds / setting.month,
            bound_months=outcome.bound / setting.month,
            gap=outcome.gap,
            mfu=used,
            bound_mfu=costs.utilisation_of(setting, outcome.bound, plan["gpus"]) if bounded else None,
            linear=used / setting.accelerator.sustained,
            memory=float(_at(plan)(costs.memory_use(setting))[0]),
            time_s=parts,
            traffic_months={name: value / setting.month for name, value in traffic(setting, plan).items()},
        )

    def to_json(self) -> Json:
        """The answer as a JSON document."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """The answer in a notebook."""
        if self.plan is None or self.mfu is None:
            return f"<b>{self.status}</b>: {self.reason}"
        cells = "".join(
            f"<tr><td>{key}</td><td>{value}</td></tr>" for key, value in self.plan.items() if key != "placement"
        )
        return (
            f"<b>{self.compute_flop:.3g} FLOP in {self.months:.3g} months</b>, MFU {self.mfu:.1%}<table>{cells}</table>"
        )


def shares(setting: Setting, plan: Mapping[str, int]) -> dict[str, float]:
    """What the run's seconds go into; they add up to the run time.

    Arithmetic at the sustained rate, what of the matrix products is not arithmetic (memory traffic, granules), kernel
    latency, network traffic that is not hidden, pipeline bubble, network latency, data-parallel reduction.
    """
    evaluator, batches = _at(plan), setting.batches

    def value(expression: Expression | None) -> float:
        return 0.0 if expression is None else float(evaluator(expression)[0]) * batches

    products = value(costs.matrix_products(setting))
    arithmetic = setting.model.compute / (setting.accelerator.reachable * plan["gpus"])
    kernels = 6.0 * setting.accelerator.kernel_latency * batches * setting.model.layers * setting.model.experts * (
        plan["tp_model"] * plan["tp_ff"] * plan["all_microbatches"] / plan["gpus"]
    )  # fmt: skip
    whole = float(evaluator(costs.run_time(setting))[0])
    latency = value(costs.latency(setting)) if plan["schedule"] == SCHEDULES["ordinary"] else 0.0
    data = value(costs.data_traffic(setting)) + value(costs.total_of("", costs.data_latency(setting)))
    stretch = float(evaluator.factor(costs.pipeline_stretch())[0])
    if setting.assumptions.overlap_data:
        data = max(0.0, whole - float(evaluator(costs.layers_time(setting))[0]) * batches * stretch - latency)
    layers = (whole - latency - data) / stretch
    found = {
        "arithmetic": arithmetic,
        "memory traffic and granules": products - kernels - arithmetic,
        "kernel latency": kernels,
        "exposed network traffic": layers - products,
        "pipeline bubble": layers * (stretch - 1.0),
        "network latency": latency,
        "data-parallel reduction": data,
    }
    return {name: seconds for name, seconds in found.items() if seconds > 1e-12 * whole}


def traffic(setting: Setting, plan: Mapping[str, int]) -> dict[str, float]:
    """Seconds of the run that each kind of communication takes by itself, whether it is hidden or not."""
    evaluator = _at(plan)

    def value(expression: Expression | None) -> float:
        return 0.0 if expression is None else float(evaluator(expression)[0]) * setting.batches

    return {
        "tensor parallel": value(costs.all_tensor_traffic(setting)),
        "data parallel": value(costs.data_traffic(setting)),
        "pipeline and experts": value(costs.all_point_to_point(setting)),
        "latency": value(costs.latency(setting)) + value(costs.total_of("", costs.data_latency(setting))),
    }


def _at(plan: Mapping[str, int]) -> Evaluator:
    return Evaluator({name: np.array([float(value)]) for name, value in plan.items()})


def _degrees(setting: Setting, plan: Mapping[str, int]) -> Json:
    schedule = next(name for name, code in SCHEDULES.items() if code == plan["schedule"])
    levels = range(len(setting.levels))
    return {
        "gpus": plan["gpus"],
        **{degree: plan[degree] for degree in DEGREES},
        "vp": plan["vp"],
        "microbatches": plan["microbatches"],
        "schedule": schedule,
        "tokens_per_microbatch": setting.model.batch / (plan["all_microbatches"] * setting.model.experts),
        "placement": {degree: [plan[part(degree, level)] for level in levels] for degree in DEGREES},
    }


def _reason(frontier: Frontier, outcome: Outcome, stops: list[Obstacle]) -> str:
    """Why there is no plan, in one sentence."""
    if outcome.status is not Status.INFEASIBLE:
        return f"stopped before any plan was found ({outcome.stopped or 'no reason given'}); nothing is proved"
    sizes = frontier.sizes
    if not sizes:
        return f"no cluster that may be chosen is large enough to finish within {frontier.problem.run.months:g} months"
    span = f"{sizes[0]:,} to {sizes[-1]:,}" if len(sizes) > 1 else f"{sizes[0]:,}"
    text = f"no cluster of {span} accelerators finishes within {frontier.problem.run.months:g} months"
    helps = [f"{stop.name} ({stop.gpus:,} accelerators would do)" for stop in stops if stop.gpus is not None]
    if helps:
        return f"{text}; it could without the limits of {' or of '.join(helps)}"
    return f"{text}; lifting no single limit ({', '.join(stop.name for stop in stops)}) helps" if stops else text
