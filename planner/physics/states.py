"""Weights, gradients and optimizer states: who holds which shard, what reducing and updating them takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, choice, largest, power, product, term, total
from planner.algebra.units import BYTE, ONE, SECOND
from planner.physics import collectives, stages
from planner.physics.collectives import placed
from planner.physics.compute import BF16
from planner.physics.setting import Setting

if TYPE_CHECKING:
    from planner.schema.model import Model

WEIGHT_BYTES = BF16
NEVER = 4  # beyond the ZeRO stages

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
        return stages.dense_parameters(model, pick(model, pp, vp, setting.weighed), pp)

    return stages.stage_factor(model, f"dense parameters of the {pick.__name__} stage", count)


def expert_factor(setting: Setting, pick: Pick) -> Factor:
    """Elements of the picked stage in routed experts."""
    model = setting.model

    def count(pp: int, vp: int) -> float:
        return stages.expert_parameters(model, pick(model, pp, vp, setting.weighed))

    return stages.stage_factor(model, f"expert parameters of the {pick.__name__} stage", count)


def heaviest(model: Model, pp: int, vp: int, weighed: bool = False) -> stages.Stage:
    """The stage with the most elements to reduce and update."""
    return max(
        stages.stages(model, pp, vp, weighed),
        key=lambda stage: stages.dense_parameters(model, stage, pp) + stages.expert_parameters(model, stage),
    )


def local_parameters(setting: Setting, pick: Pick) -> list[tuple[str, tuple[Factor, ...], str]]:
    """(kind, factors that give the elements on one rank before ZeRO, the degree that ZeRO shards over)."""
    dense = (dense_factor(setting, pick), power("tp", -1))
    kinds: list[tuple[str, tuple[Factor, ...], str]] = [("dense", dense, "shard")]
    if setting.model.moe is not None:
        held = (expert_factor(setting, pick), power("ep", -1), power("etp", -1))
        kinds.append(("expert", held, "edp"))
    return kinds


def memory(setting: Setting, pick: Pick) -> list[Expression]:
    """Bytes of weights, gradients and optimizer states on a rank of the picked stage.

    ZeRO shards optimizer states from stage 1, gradients from stage 2, weights at stage 3 (Rajbhandari et al. 2020,
    arXiv 1910.02054, section 5); at stage 3 two gathered layers are held while they are used. Where the assumptions
    reshard only once a step, gradients and gathered weights are whole until then.
    """
    assumptions = setting.assumptions
    whole = assumptions.reshard == "step"
    held = [
        ("weights", WEIGHT_BYTES, 3),
        ("gradients", assumptions.gradient_bytes + assumptions.gradient_copies_bytes, NEVER if whole else 2),
        ("optimizer states", assumptions.optimizer_bytes, 1),
    ]
    source = "ZeRO, arXiv 1910.02054"
    terms: list[Expression] = []
    for _, local, degree in local_parameters(setting, pick):
        for name, size, zero in held:
            shards = [sharded_from(zero, degree)] if zero < NEVER else []
            terms.append(term(name, BYTE, size, *local, *shards, source=source))
        gathered = [] if whole else [_two_layers_of(setting, pick)]
        only = choice("zero", {0: 0.0, 3: 1.0}, "[zero=3]")
        terms.append(term("gathered weights", BYTE, WEIGHT_BYTES, *local, *gathered, only, source=source))
    return terms


def _two_layers_of(setting: Setting, pick: Pick) -> Factor:
    """The part of the picked stage's weights that two of its layers are."""
    return stages.stage_factor(
        setting.model,
        f"two layers of the {pick.__name__} stage",
        lambda pp, vp: min(1.0, 2.0 / max(1, pick(setting.model, pp, vp, setting.weighed).layers)),
    )


def reduction(setting: Setting) -> Expression:
    """Gradient reduction and weight gathering over the data-parallel group, once a step or once a micro-batch; seconds.

    ZeRO 0: all-reduce of the gradients; 1: reduce-scatter of gradients, all-gather of weights; 2: the gradients are
    reduce-scattered after every micro-batch; 3: and the weights gathered for its forward and backward pass; once a step
    where the assumptions reshard only then. With several replicas of all shards (HSDP) the shards are then all-reduced
    between them. Tensors travel in buckets, of which the assumptions count so many to a layer of the stage (one is FSDP's
    unit, and Megatron-LM's buckets of 40 M elements are of that order), and each bucket pays the latency of its
    collectives: rings to shard and gather, two rounds of a tree to all-reduce. Where replicas take several steps alone, their
    exchange is spread over these (DiLoCo, arXiv 2311.08105). Compressed gradients are read, and their short form written,
    at either end.
    """
    assumptions = setting.assumptions
    gradient = assumptions.gradient_bytes * assumptions.gradient_compression
    weights = WEIGHT_BYTES
    once, often = {0: 2 * gradient, 1: gradient + weights, 2: weights}, {2: gradient, 3: gradient + 2 * weights}
    calls_once, calls_often = {1: 2.0, 2: 1.0}, {2: 1.0, 3: 3.0}
    if setting.assumptions.reshard == "step":
        once, often = dict.fromkeys((1, 2, 3), gradient + weights) | {0: 2 * gradient}, {}
        calls_once, calls_often = dict.fromkeys((1, 2, 3), 2.0), {}
    name, waiting = "data-parallel communication", "data-parallel latency"
    terms: list[Expression] = []
    volume = _by_step(once, often, "bytes reduced")
    alone = 1.0 / assumptions.local_steps
    across = total(name, collectives.ring(setting, "replica", name, gradient, 2.0 * alone))
    for _, local, degree in local_parameters(setting, heaviest):
        held = term("", ONE, 1.0, *local)
        shards = total(name, collectives.ring(setting, degree, name, 1.0, 1.0))
        terms.append(product(product(shards, volume), held))
        terms.append(product(across, term("", ONE, 1.0, *local, power(degree, -1))))
    buckets = stages.stage_factor(
        setting.model, "buckets", lambda pp, vp: float(max(1, heaviest(setting.model, pp, vp, setting.weighed).layers))
    )
    calls = _by_step(calls_once, calls_often, "collectives")
    rings = product(total(waiting, collectives.ring_latencies(setting, "shard", waiting, 1.0)), calls)
    whole = choice("zero", {0: 1.0}, "[zero=0]")
    trees = collectives.latencies(setting, "shard", waiting, 2.0, whole)
    between = collectives.latencies(setting, "replica", waiting, 2.0 * alone)
    waits = product(total(waiting, [rings, *trees, *between]), buckets)
    terms.append(product(waits, assumptions.reductions_per_layer))
    if assumptions.gradient_compression < 1:
        moved = 2 * (assumptions.gradient_bytes + gradient) / setting.memory_rate
        terms += [term("gradient compression", SECOND, moved, *local)
                  for _, local, _ in local_parameters(setting, heaviest)]  # fmt: skip
    return total(name, terms)


def _by_step(once: dict[int, float], often: dict[int, float], label: str) -> Expression:
    """By ZeRO stage: what happens once a step, and what happens for every micro-batch."""
    parts = [term("", ONE, 1.0, choice("zero", once, f"{label} once"))]
    if often:
        factors = (choice("zero", often, f"{label} every micro-batch"), power("grad_accum"))
        parts.append(term("", ONE, 1.0, *factors))
    return total("", parts)


def tied_embedding(setting: Setting) -> list[Expression]:
    """All-reduce of a tied embedding's gradient between the first and the last stage, once a step; seconds.

    Both hold a copy (Megatron-LM's embedding group); an all-reduce of two moves the volume once each way. The slowest
    tier that the pipeline crosses sets the pace.
    """
    model = setting.model
    if not model.tied_embeddings:
        return []
    volume = float(setting.assumptions.gradient_bytes) * model.vocab * model.d_model
    crossings = [
        term("tied embedding", SECOND, volume / link.bandwidth, power("tp", -1),
             collectives.crosses(placed("pp", tier)), source="arXiv 1909.08053, Megatron-LM's embedding group")
        for tier, link in enumerate(setting.links)
    ]  # fmt: skip
    return [largest("tied embedding", crossings)]


def update(setting: Setting) -> Expression:
    """The optimizer step: every state, gradient and weight read and written once; seconds."""
    assumptions = setting.assumptions
    traffic = 2 * assumptions.optimizer_bytes + assumptions.gradient_bytes + WEIGHT_BYTES
    terms = []
    for _, local, degree in local_parameters(setting, heaviest):
        terms.append(term("optimizer step", SECOND, traffic / setting.memory_rate, *local, sharded_from(1, degree)))
    return total("optimizer step", terms)
