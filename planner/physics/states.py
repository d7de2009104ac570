"""Weights, gradients and optimizer states: who holds which shard, what reducing and updating them takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, choice, power, term, total
from planner.algebra.units import BYTE, SECOND
from planner.physics import collectives, stages
from planner.physics.collectives import placed
from planner.physics.compute import BF16
from planner.physics.setting import Setting

WEIGHT_BYTES = BF16

Pick = Callable[..., stages.Stage]


def sharded_from(zero: int, column: str) -> Factor:
    """``1 / column`` if the ZeRO stage is at least ``zero``, else 1."""

    def share(stage: Array, degree: Array) -> Array:
        return np.where(stage >= zero, 1.0 / degree, 1.0)

    return Factor(f"1/{column} if zero>={zero}", ("zero", column), share)


def dense_factor(setting: Setting, pick: Pick) -> Factor:
    """Elements of the picked stage that tensor parallelism shards."""
    model = setting.model

    def count(pp: int, vp: int) -> float:
        return stages.dense_parameters(model, pick(model, pp, vp), pp)

    return stages.stage_factor(model, f"dense parameters of the {pick.__name__} stage", count)


def expert_factor(setting: Setting, pick: Pick) -> Factor:
    """Elements of the picked stage in routed experts."""
    model = setting.model

    def count(pp: int, vp: int) -> float:
        return stages.expert_parameters(model, pick(model, pp, vp))

    return stages.stage_factor(model, f"expert parameters of the {pick.__name__} stage", count)


def heaviest(model: object, pp: int, vp: int) -> stages.Stage:
    """The stage with the most elements to reduce and update."""
    return max(
        stages.stages(model, pp, vp),  # type: ignore[arg-type]
        key=lambda stage: stages.dense_parameters(model, stage, pp) + stages.expert_parameters(model, stage),  # type: ignore[arg-type]
    )


def local_parameters(setting: Setting, pick: Pick) -> list[tuple[str, tuple[Factor, ...], str]]:
    """(kind, factors that give the elements on one rank before ZeRO, the degree that ZeRO shards over)."""
    kinds: list[tuple[str, tuple[Factor, ...], str]] = [("dense", (dense_factor(setting, pick), power("tp", -1)), "shard")]
    if setting.model.moe is not None:
        held = (expert_factor(setting, pick), power("ep", -1), power("etp", -1))
        kinds.append(("expert", held, "edp"))
    return kinds


def memory(setting: Setting, pick: Pick) -> list[Expression]:
    """Bytes of weights, gradients and optimizer states on a rank of the picked stage.

    ZeRO shards optimizer states from stage 1, gradients from stage 2, weights at stage 3 (Rajbhandari et al. 2020, arXiv
    1910.02054, section 5); at stage 3 two gathered layers are held while they are used.
    """
    assumptions = setting.assumptions
    held = [
        ("weights", WEIGHT_BYTES, 3),
        ("gradients", float(assumptions.gradient_bytes), 2),
        ("optimizer states", assumptions.optimizer_bytes, 1),
    ]
    source = "ZeRO, arXiv 1910.02054"
    terms: list[Expression] = []
    for _, local, degree in local_parameters(setting, pick):
        for name, size, zero in held:
            shards = [sharded_from(zero, placed(degree, tier)) for tier in setting.tiers]
            terms.append(term(name, BYTE, size, *local, *shards, source=source))
        gathered = Factor(
            f"gathered layers at zero 3 {pick.__name__}", ("pp", "vp"), _two_layers_of(setting, pick)
        )
        only = choice("zero", {0: 0.0, 3: 1.0}, "[zero=3]")
        terms.append(term("gathered weights", BYTE, WEIGHT_BYTES, *local, gathered, only, source=source))
    return terms


def _two_layers_of(setting: Setting, pick: Pick) -> Callable[..., Array]:
    layers = stages.stage_factor(
        setting.model,
        f"two layers of the {pick.__name__} stage",
        lambda pp, vp: min(1.0, 2.0 / max(1, pick(setting.model, pp, vp).layers)),
    )
    return layers.function


def reduction(setting: Setting) -> Expression:
    """Gradient reduction and weight gathering over the data-parallel group, once a step or once a micro-batch; seconds.

    ZeRO 0: all-reduce of the gradients; 1: reduce-scatter of gradients, all-gather of weights; 2: the gradients are
    reduce-scattered after every micro-batch; 3: and the weights gathered for its forward and backward pass. With several
    replicas of all shards (HSDP) the shards are then all-reduced between them.
    """
    gradient = float(setting.assumptions.gradient_bytes)
    weights = WEIGHT_BYTES
    once = choice("zero", {0: 2 * gradient, 1: gradient + weights, 2: weights, 3: 0.0}, "bytes reduced once")
    often = choice("zero", {2: gradient, 3: gradient + 2 * weights}, "bytes reduced every micro-batch")
    name = "data-parallel communication"
    terms: list[Expression] = []
    for _, local, degree in local_parameters(setting, heaviest):
        for factors in ((once,), (often, power("grad_accum"))):
            terms += collectives.ring(setting, degree, name, 1.0, 1.0, *local, *factors)
        inside = tuple(power(placed(degree, tier), -1) for tier in setting.tiers)
        terms += collectives.ring(setting, "replica", name, gradient, 2.0, *local, *inside)
    terms += collectives.latencies(setting, "shard", "data-parallel latency", 2.0)
    terms += collectives.latencies(setting, "replica", "data-parallel latency", 2.0)
    return total("data-parallel communication", terms)


def update(setting: Setting) -> Expression:
    """The optimizer step: every state, gradient and weight read and written once; seconds."""
    assumptions = setting.assumptions
    traffic = 2 * assumptions.optimizer_bytes + assumptions.gradient_bytes + WEIGHT_BYTES
    terms = []
    for _, local, degree in local_parameters(setting, heaviest):
        shards = [sharded_from(1, placed(degree, tier)) for tier in setting.tiers]
        terms.append(term("optimizer step", SECOND, traffic / setting.memory_rate, *local, *shards))
    return total("optimizer step", terms)
