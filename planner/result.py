"""The answer to a problem as a person or a program wants it: the plan, its costs by part, and the proof."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from planner.algebra.breakdown import explain
from planner.algebra.evaluation import Evaluator
from planner.errors import InputError, MismatchError
from planner.outcome import Status
from planner.physics import compute
from planner.physics.collectives import placed
from planner.physics.setting import GIB, PRECISIONS, RECOMPUTES, SCHEDULES, Precision, Recompute
from planner.search.enumeration import Enumerator
from planner.stagewise import stage_uses
from planner.version import __version__

if TYPE_CHECKING:
    from planner.algebra.space import Space
    from planner.instance import Instance
    from planner.outcome import Outcome

Json = dict[str, Any]

#: The costs of a plan as the solver gives them and as they are here must agree to this, relatively.
AGREEMENT = 1e-6
#: Memory within this fraction of the capacity binds.
NEARLY = 0.02
SECONDS_A_DAY = 86400.0


@dataclass(frozen=True)
class Plan:
    """The best plan that was found, what it costs, and how far from the best any other could be.

    Times are in seconds for one training step, memory in bytes of one accelerator. ``bound_step_time_s`` is below the
    step time of every plan in the space (with a free batch: of every plan, scaled to this plan's batch). ``mfu`` and
    ``hfu`` are fractions of the dense peak of the plan's precision; ``hfu`` counts recomputed FLOP too.
    ``plan`` holds the degrees, their placement on the network tiers (innermost first) and the stages.
    """

    status: str
    problem: str
    model: str
    cluster: str
    plan: Json
    step_time_s: float
    bound_step_time_s: float | None  # None: nothing is proved yet
    gap: float | None
    mfu: float
    hfu: float
    tokens_per_s_per_gpu: float
    tflops_per_gpu: float
    training_days: float | None  # where the problem says how many tokens the run has
    memory_bytes: Json
    time_s: dict[str, float]
    binding: list[str]
    notes: list[str]
    alternatives: list[Json]
    stopped: str
    seed: int | None
    solver: Json
    inputs: Json  # the problem and all that it refers to, as they were read, and the value of every axis
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, instance: Instance, outcome: Outcome, seed: int | None = None) -> Self | None:
        """The best plan of ``outcome``; None when it has none.

        Raises `MismatchError` when the plan breaks a rule or costs something else than the solver says.
        """
        if not outcome.plans:
            return None
        columns = dict(outcome.plans[0])
        _verify(instance, columns, outcome.values[0])
        setting, training = instance.setting, instance.problem.training
        step = _step_time(instance, columns)
        uses = stage_uses(setting, columns)
        fullest = max(uses, key=lambda use: use.total)
        summary = degrees(instance, columns)
        batch, gpus = columns["global_batch"], summary["gpus"]
        tokens = batch * training.sequence_length
        bound = outcome.bound * (batch if _is_per_sequence(instance) else 1)
        rate = batch * instance.model_flop / (step * gpus)
        peak = setting.peak(Precision(columns["precision"]))
        return cls(
            status=str(outcome.status),
            problem=instance.problem.name,
            model=instance.model.name,
            cluster=instance.cluster.name,
            plan=summary | {"placement": placement(instance, columns), "stages": [use.to_json() for use in uses]},
            step_time_s=step,
            bound_step_time_s=_finite(bound),
            gap=_finite(outcome.gap) if isfinite(bound) else None,
            mfu=rate / peak,
            hfu=rate / peak * (1 + recomputed_flop(instance, columns["recompute"]) / instance.model_flop),
            tokens_per_s_per_gpu=tokens / (step * gpus),
            tflops_per_gpu=rate / 1e12,
            training_days=_training_days(instance, tokens, step),
            memory_bytes={
                "total": fullest.total,
                "capacity": setting.capacity,
                "fullest_stage": fullest.stage,
                "by_part": dict(fullest.memory),
                "per_stage": [use.total for use in uses],
            },
            time_s=explain(instance.step_time, columns).flat(),
            binding=binding(instance, columns, fullest.total),
            notes=notes(instance, columns, fullest.total),
            alternatives=[
                {"step_time_s": _step_time(instance, other), **degrees(instance, other)} for other in outcome.plans[1:]
            ],
            stopped=outcome.stopped,
            seed=seed,
            solver=_plain(outcome.statistics),
            inputs=instance.to_json() | {"columns": {name: int(value) for name, value in columns.items()}},
            versions=versions(),
        )

    def to_json(self) -> Json:
        """The plan as a JSON document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The plan of a document that `to_json` gave. Raises `InputError` for missing or unknown keys."""
        known = {item.name for item in fields(cls)}
        problems = [f"plan: {key}: is missing" for key in sorted(known - document.keys())]
        problems += [f"plan: {key}: is not a known key" for key in sorted(document.keys() - known)]
        if problems:
            raise InputError(problems)
        return cls(**document)

    def _repr_html_(self) -> str:
        """The plan in a notebook."""
        shown = {key: value for key, value in self.plan.items() if not isinstance(value, dict | list)}
        cells = "".join(f"<tr><td>{key}</td><td>{value}</td></tr>" for key, value in shown.items())
        gap = "unproved" if self.gap is None else f"gap {self.gap:.2%}"
        return f"<b>{self.step_time_s:.4g} s a step</b>, MFU {self.mfu:.1%}, {gap}<table>{cells}</table>"


def no_plan(instance: Instance, outcome: Outcome, seed: int | None = None) -> Json:
    """The JSON document of an outcome without a plan: why there is none."""
    return {
        "status": str(outcome.status),
        "problem": instance.problem.name,
        "model": instance.model.name,
        "cluster": instance.cluster.name,
        "plan": None,
        "reason": reason(instance, outcome),
        "least_memory_bytes": None if outcome.least_memory is None else _finite(outcome.least_memory),
        "capacity_bytes": instance.setting.capacity,
        "bound": _finite(outcome.bound),
        "stopped": outcome.stopped,
        "seed": seed,
        "solver": _plain(outcome.statistics),
        "versions": versions(),
    }


def reason(instance: Instance, outcome: Outcome) -> str:
    """Why there is no plan, in one sentence with numbers."""
    if outcome.status is not Status.INFEASIBLE:
        return f"stopped before any plan was found ({outcome.stopped or 'no reason given'}); nothing is proved"
    capacity, least = instance.setting.capacity, outcome.least_memory
    usable = f"{capacity / GIB:.1f} GiB usable"
    if least is not None and isfinite(least):
        if least > capacity:
            return f"no plan fits: the least any plan needs is {least / GIB:.1f} GiB of {usable}"
        return f"no plan keeps every rule and fits in {usable}"
    found = conflicts(instance.space)
    text = "no combination of the decisions keeps every rule"
    return f"{text}; there would be some without any one of: {'; '.join(found)}" if found else text


def conflicts(space: Space) -> list[str]:
    """Names of the relations that alone keep the propagation of ``space`` from succeeding."""
    from planner.algebra.space import Space as Relaxed

    def kind(name: str) -> str:
        counted = name.startswith(("accelerators", "accumulation by the totals"))
        return "the number of accelerators" if counted else name

    def possible(omitted: str) -> bool:
        kept = tuple(relation for relation in space.relations if kind(relation.name) != omitted)
        enumerator = Enumerator(Relaxed(space.axes, kept, space.constants))
        return enumerator.propagate(enumerator.everything) is not None

    if possible(""):
        return []
    return [name for name in dict.fromkeys(kind(relation.name) for relation in space.relations) if possible(name)]


def degrees(instance: Instance, columns: Mapping[str, int]) -> Json:
    """The decisions of a plan by their usual names, derived degrees included.

    ``edp`` counts all ranks that hold the same expert weights, so that edp ep etp pp is the accelerators; a dense model
    has Megatron Core's defaults, ep = 1 and etp = tp.
    """
    tiers = instance.setting.tiers

    def degree(name: str) -> int:
        return prod(columns[placed(name, tier)] for tier in tiers)

    tp, cp, pp, replicas = columns["tp"], columns["cp"], columns["pp"], degree("replica")
    ranks = degree("shard") * replicas  # context ranks included
    dense = instance.model.moe is None
    return {
        "dp": ranks // cp,
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "ep": 1 if dense else columns["ep"],
        "etp": tp if dense else columns["etp"],
        "edp": ranks if dense else degree("edp") * replicas,
        "vp": columns["vp"],
        "micro_batch": columns["micro_batch"],
        "grad_accum": columns["grad_accum"],
        "global_batch": columns["global_batch"],
        "zero": columns["zero"],
        "recompute": _spelling(RECOMPUTES, columns["recompute"]),
        "sequence_parallel": bool(columns["sequence_parallel"]),
        "precision": _spelling(PRECISIONS, columns["precision"]),
        "schedule": _spelling(SCHEDULES, columns["schedule"]),
        "gpus": ranks * tp * pp,
        "replicas": replicas,
    }


def placement(instance: Instance, columns: Mapping[str, int]) -> dict[str, list[int]]:
    """Each degree's part on every network tier, innermost first."""
    tiers = instance.setting.tiers

    def parts(name: str) -> list[int]:
        return [columns[placed(name, tier)] for tier in tiers]

    found = {name: parts(name) for name in ("tp", "cp", "pp")}
    per_tier = zip(parts("shard"), parts("replica"), found["cp"], strict=True)
    found["dp"] = [shard * replica // context for shard, replica, context in per_tier]
    found["replicas"] = parts("replica")
    if instance.model.moe is not None:
        found |= {name: parts(name) for name in ("ep", "etp")}
        found["edp"] = [own * other for own, other in zip(parts("edp"), parts("replica"), strict=True)]
    return found


def recomputed_flop(instance: Instance, recompute: int) -> float:
    """FLOP for one sequence that the backward pass does again because of the plan's recomputation.

    Full: the forward pass of every layer, a third of its three; selective: the attention core where it is not fused.
    What fused attention recomputes by itself is not counted.
    """
    setting, model = instance.setting, instance.model
    if recompute == Recompute.FULL:
        head = (1 + model.mtp_layers) * model.d_model * model.vocab + 2 * model.mtp_layers * model.d_model**2
        return (instance.model_flop - 6.0 * head * setting.sequence) / 3
    if recompute == Recompute.SELECTIVE and setting.assumptions.attention == "unfused":
        return (model.layers + model.mtp_layers) * compute.attention_flop(setting)
    return 0.0


def binding(instance: Instance, columns: Mapping[str, int], used: float) -> list[str]:
    """What keeps the plan from going further: limits that it touches. Not every one of them costs time."""
    found = []
    setting, space = instance.setting, instance.space
    if used >= (1 - NEARLY) * setting.capacity:
        found.append("memory")
    for name in ("tp", "cp", "pp", "vp", "ep", "micro_batch"):
        if name in space.owner:
            largest = int(space.owner[name].table[name].max())
            if columns[name] == largest:
                found.append(f"{name} at its largest allowed degree ({largest})")
    link = setting.links[0]
    if len(setting.links) > 1 and columns["tp"] > 1 and columns[placed("tp", 0)] == link.fanout == columns["tp"]:
        found.append(f"tp fills the {link.name} domain ({link.fanout})")
    if columns["micro_batch"] == columns["grad_accum"] == 1:
        found.append("global_batch: one sequence a data-parallel rank")
    return found


def notes(instance: Instance, columns: Mapping[str, int], used: float) -> list[str]:
    """How far the figures can be trusted."""
    found = []
    hardware, cluster = instance.hardware, instance.cluster
    if hardware.efficiency.source.startswith("default"):
        found.append(f"the efficiency profile of {hardware.name} is the catalogue's default, not calibrated")
    for kind, record in (("cluster", cluster), ("model", instance.model)):
        if "hypothetical" in record.source.lower():
            found.append(f"{kind} {record.name} is hypothetical")
        elif "unverified" in record.source.lower():
            found.append(f"{kind} {record.name}: part of its data is from memory, unverified")
    if columns["precision"] == Precision.FP8:
        found.append("mfu and hfu are fractions of the fp8 peak; attention and the output layer run in 16 bits")
    if _is_per_sequence(instance):
        found.append("the batch is free: the time for one sequence is minimised, and the bound is scaled to this batch")
    if used > instance.setting.capacity * (1 + AGREEMENT):
        found.append("a stage that the program does not look at needs more memory than there is")
    return found


def versions() -> dict[str, str]:
    """The versions of everything that an answer depends on."""
    return {
        "planner": __version__,
        "pyomo": version("pyomo"),
        "highspy": version("highspy"),
        "python": platform.python_version(),
    }


def _verify(instance: Instance, columns: Mapping[str, int], value: float) -> None:
    arrays = {name: np.array([float(number)]) for name, number in columns.items()}
    if not instance.space.holds(arrays)[0]:
        raise MismatchError("the solver's plan breaks a rule of its space")
    evaluator = Evaluator(arrays)
    cost = float(evaluator(instance.objective)[0])
    if not abs(cost - value) <= AGREEMENT * abs(cost):
        raise MismatchError(f"the solver's plan costs {cost:.9g} s, not the {value:.9g} s that the solver says")
    used, capacity = float(evaluator(instance.peak_memory)[0]), instance.setting.capacity
    if used > capacity * (1 + AGREEMENT):
        raise MismatchError(f"the solver's plan needs {used / GIB:.2f} GiB of {capacity / GIB:.2f} GiB")


def _step_time(instance: Instance, columns: Mapping[str, int]) -> float:
    arrays = {name: np.array([float(number)]) for name, number in columns.items()}
    return float(Evaluator(arrays)(instance.step_time)[0])


def _is_per_sequence(instance: Instance) -> bool:
    return "global_batch" in instance.space.owner


def _spelling(table: Mapping[str, int], code: int) -> str:
    return next(name for name, value in table.items() if value == code)


def _training_days(instance: Instance, tokens_a_step: int, step: float) -> float | None:
    tokens = instance.problem.training.tokens
    if tokens is None:
        return None
    return tokens / instance.setting.assumptions.sample_efficiency / tokens_a_step * step / SECONDS_A_DAY


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _plain(statistics: Mapping[str, Any]) -> Json:
    return {key: _finite(value) if isinstance(value, float) else value for key, value in statistics.items()}
