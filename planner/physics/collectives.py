"""Time of communication: latency plus bytes over bandwidth, tier by tier; seconds.

A group of size n is split over the tiers, n = n_0 n_1 ...; its collective runs hierarchically: on tier k, n_k members
exchange what the tiers below have left, 1 / (n_0 ... n_(k-1)) of the volume. All-reduces and exchanges wait log2 n_k
rounds, as trees do; reduce-scatters and all-gathers run around a ring of all ranks, as in NCCL, and wait n - 1 hops, which
is what makes sharding over thousands of ranks slow. Every collective is launched once on every tier that it spans.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, Substitute, choice, largest, power, term, total
from planner.algebra.units import SECOND
from planner.physics.compute import BF16, SEQUENCE_SHARD
from planner.physics.setting import Recompute, Setting

RING_SOURCE = "ring: (n-1)/n of the volume (Thakur, Rabenseifner and Gropp 2005), hierarchical over tiers"


ROUNDS_SOURCE = "recursive doubling and halving (Thakur, Rabenseifner and Gropp 2005)"


RING_HOPS_SOURCE = "NCCL src/graph/tuning.cc: rings of n - 1 steps for reduce-scatter and all-gather"


def placed(degree: str, tier: int) -> str:
    """The column that holds the part of ``degree`` on ``tier``."""
    return f"{degree}_{tier}"


def ring_share(column: str) -> Factor:
    """``(n - 1) / n``."""
    return Factor(f"({column}-1)/{column}", (column,), lambda value: (value - 1.0) / value)


def others(column: str) -> Factor:
    """``n - 1``."""
    return Factor(f"{column}-1", (column,), lambda value: value - 1.0)


def distinct_units(column: str, choices: int) -> Factor:
    """Different units among ``choices`` uniform ones of ``n``, in parts of ``choices``: n (1 - (1 - 1/n)^k) / k."""

    def share(value: Array) -> Array:
        return value * (1.0 - (1.0 - 1.0 / value) ** choices) / choices

    return Factor(f"distinct {column} of {choices}", (column,), share)


def crosses(column: str) -> Factor:
    """1 where the group leaves its own unit on this tier, else 0."""
    return Factor(f"[{column}>1]", (column,), lambda value: (value > 1) * 1.0)


def waiting(setting: Setting, degree: str, tier: int) -> Factor:
    """Seconds that one collective waits on a tier: log2 n latencies of its link, and its launch where n > 1."""
    column, link, launch = placed(degree, tier), setting.links[tier].latency, setting.collective_latency(tier)

    def seconds(value: Array) -> Array:
        return np.log2(np.maximum(value, 1.0)) * link + (value > 1) * launch

    return Factor(f"wait {link:.9g} log2 {column} + {launch:.9g}", (column,), seconds)


def inner_shards(degree: str, tier: int) -> tuple[Factor, ...]:
    """``1 / (n_0 ... n_(tier-1))``: what the tiers below leave of the volume."""
    return tuple(power(placed(degree, inner), -1) for inner in range(tier))


def alone(degree: str, fanouts: list[int], tier: int) -> Substitute:
    """The part of ``degree`` on ``tier`` if its group fills the tiers from the inside; a real number, at least 1."""
    inner = float(np.prod(fanouts[:tier]))

    def part(value: Array) -> Array:
        return np.clip(value / inner, 1.0, fanouts[tier])

    return Substitute(degree, part, f"{placed(degree, tier)} alone")


def least_exchange(setting: Setting, degree: str) -> Factor:
    """Seconds a byte that every rank of a group spreads evenly over it, at the least over all placements.

    Of n ranks at most C lie within the tiers below k, so that 1 - C/n leaves them, over the links from k outwards.
    """
    capacities = np.cumprod([1, *(link.fanout for link in setting.links)])
    rates = [sum(link.bandwidth for link in setting.links[tier:]) for tier in setting.tiers]

    def seconds(value: Array) -> Array:
        leaving = [np.maximum(0.0, 1.0 - capacities[tier] / value) / rates[tier] for tier in setting.tiers]
        least: Array = np.max(leaving, axis=0)
        return least

    return Factor(f"least exchange over {degree}", (degree,), seconds)


def ring(setting: Setting, degree: str, name: str, volume: float, repeats: float, *factors: Factor) -> list[Expression]:
    """``repeats`` reduce-scatters or all-gathers of ``volume`` bytes times ``factors``, over ``degree``'s group."""
    return [
        term(name, SECOND, repeats * volume / link.bandwidth, ring_share(placed(degree, tier)),
             *inner_shards(degree, tier), *factors, source=RING_SOURCE)
        for tier, link in enumerate(setting.links)
    ]  # fmt: skip


def latencies(setting: Setting, degree: str, name: str, repeats: float, *events: Factor) -> list[Expression]:
    """Latency of ``repeats`` times ``events`` collectives over ``degree``'s group: rounds and a launch on each tier."""
    return [
        term(name, SECOND, repeats, waiting(setting, degree, tier), *events, source=ROUNDS_SOURCE)
        for tier in setting.tiers
    ]


def ring_latencies(setting: Setting, degree: str, name: str, repeats: float, *events: Factor) -> list[Expression]:
    """Latency of ``repeats`` times ``events`` reduce-scatters or all-gathers around a ring of ``degree``'s group.

    Of the n - 1 hops, n_k - 1 cross tier k for each of the units outside it: (n_k - 1) n_(k+1) n_(k+2) ...
    """
    terms: list[Expression] = []
    for tier, link in enumerate(setting.links):
        column = placed(degree, tier)
        outside = tuple(power(placed(degree, outer)) for outer in range(tier + 1, len(setting.links)))
        hops = term(name, SECOND, repeats * link.latency, others(column), *outside, *events, source=RING_HOPS_SOURCE)
        launch = term(name, SECOND, repeats * setting.collective_latency(tier), crosses(column), *events)
        terms += [hops, launch]
    return terms


def tensor_parallel(setting: Setting, moe: bool) -> list[Expression]:
    """All-gathers and reduce-scatters around the sharded products of a layer, in one micro-batch, not hidden.

    Each pair moves the hidden state of the micro-batch, 2 (n-1)/n of it (Korthikanti et al. 2022, arXiv 2205.05198,
    section 4.2.2); a dense layer has two pairs forward and two backward, a mixture layer one for attention and one for
    shared experts, full recomputation adds the forward ones. Without sequence parallelism the all-reduce moves as much.
    """
    model = setting.model
    pairs = 2 if not moe or (model.moe and model.moe.d_shared) else 1
    calls = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: 1.0, Recompute.FULL: 1.5}, "tp passes/2")
    exposed = 1.0 - setting.assumptions.tp_overlap
    volume = setting.activation_bytes * setting.sequence * model.d_model
    name = "tensor-parallel communication"
    return [
        *ring(setting, "tp", name, volume, exposed * 4 * pairs, power("micro_batch"), power("cp", -1), calls),
        *ring_latencies(setting, "tp", "tensor-parallel latency", 4 * pairs, calls),
    ]


def context_parallel(setting: Setting, core: Expression) -> Expression:
    """Attention core with the ring exchange of keys and values that it hides: the longer of the two.

    Each of cp - 1 steps sends the local keys and values forward, and them and their gradients backward (Liu et al.,
    Ring Attention, arXiv 2310.01889); the slowest tier that the ring crosses sets the pace. Each step has kernels of
    its own: forward an attention and a merge of the partial results, backward the three of attention and an
    accumulation; and a message, with its launch and the link's latency, once forward and twice backward.
    """
    model = setting.model
    if model.mla is None:
        width = 2.0 * model.head_dim * model.kv_heads
        kv_heads = model.kv_heads
    else:
        width = model.heads * (model.mla.qk_nope_dim + model.mla.qk_rope_dim + model.mla.v_head_dim)
        kv_heads = model.heads
    share = Factor("key-value shard", ("tp",), lambda tp: np.maximum(1.0 / tp, 1.0 / kv_heads))
    passes = choice("recompute", {Recompute.NONE: 3.0, Recompute.SELECTIVE: 3.0, Recompute.FULL: 4.0}, "cp passes")
    steps = ring_share("cp")  # cp - 1 steps of 1/cp of the sequence each
    volume = setting.activation_bytes * setting.sequence * width
    kernels = choice("recompute", {Recompute.NONE: 6.0, Recompute.SELECTIVE: 6.0, Recompute.FULL: 8.0}, "cp kernels")
    split = term("context-parallel launches", SECOND, setting.kernel_latency, others("cp"), kernels)
    exchanges = []
    for tier, link in enumerate(setting.links):
        active = crosses(placed("cp", tier))
        bytes_time = term("context-parallel communication", SECOND, volume / link.bandwidth, power("micro_batch"),
                          steps, active, share, passes, source="ring attention, arXiv 2310.01889")  # fmt: skip
        latency = term("context-parallel latency", SECOND, link.latency + setting.kernel_latency, others("cp"), active,
                       passes)  # fmt: skip
        exchanges.append(total("context-parallel communication", [bytes_time, latency]))
    return largest("attention core", [total("attention core", [core, split]), *exchanges])


def expert_parallel(setting: Setting) -> list[Expression]:
    """Dispatch and combine of a mixture layer in one micro-batch: all-to-all over ep, all-gather over etp, not hidden.

    A rank sends each of its micro_batch s / (cp tp) tokens to top_k experts; with uniform routing (n_k - 1) / n_k of
    what stays within the tiers above k crosses tier k. Links of different tiers work at once. Forward and backward each
    dispatch and combine; full recomputation repeats the forward. Deduplicated, a token crosses a tier once for every
    unit there that holds some of its experts (DeepSeek-V3, arXiv 2412.19437, section 3.2.2).
    """
    model, assumptions = setting.model, setting.assumptions
    assert model.moe is not None
    exposed = 1.0 - assumptions.ep_overlap
    routed = setting.sequence * model.moe.top_k * model.d_model * assumptions.expert_imbalance
    volume = routed * (assumptions.dispatch_bytes + assumptions.combine_bytes)
    calls = choice("recompute", {Recompute.NONE: 2.0, Recompute.SELECTIVE: 2.0, Recompute.FULL: 3.0}, "ep passes")
    per_token = (power("micro_batch"), power("cp", -1), power("tp", -1), calls)
    outermost = len(setting.links) - 1
    once = assumptions.dispatch == "deduplicated"
    exchanges = []
    for tier, link in enumerate(setting.links):
        above = tuple(power(placed("ep", outer), -1) for outer in range(tier + 1, outermost + 1))
        if once:
            above += (distinct_units(placed("ep", tier), model.moe.top_k),)
        exchanges.append(
            term("expert-parallel communication", SECOND, exposed * volume / link.bandwidth,
                 ring_share(placed("ep", tier)), *above, *per_token, source="uniform all-to-all over nested tiers")
        )  # fmt: skip
    if setting.alone:
        least = exposed * volume / (model.moe.top_k if once else 1)
        exchanges = [term("expert-parallel communication", SECOND, least, least_exchange(setting, "ep"), *per_token)]
    gathers = []
    for tier, link in enumerate(setting.links):
        below = tuple(power(placed("etp", inner)) for inner in range(tier))
        gathers.append(
            term("expert-tensor communication", SECOND, exposed * 2 * BF16 * routed / link.bandwidth,
                 others(placed("etp", tier)), *below, *per_token)
        )  # fmt: skip
    latency = [
        *latencies(setting, "ep", "expert-parallel latency", 2.0, calls),
        *latencies(setting, "etp", "expert-tensor latency", 2.0, calls),
    ]
    return [largest("expert-parallel communication", exchanges), *latency, *gathers]


@lru_cache(maxsize=256)  # one object for all stages
def pipeline_transfer(setting: Setting) -> Expression:
    """Activations to the next stage and gradients back, for one micro-batch on one stage: 2 vp messages, not hidden.

    The slowest tier that the pipeline crosses sets the pace. With sequence parallelism only a rank's shard travels.
    """
    exposed = 1.0 - setting.assumptions.pp_overlap
    volume = 2 * setting.activation_bytes * setting.sequence * setting.model.d_model
    crossings = []
    for tier, link in enumerate(setting.links):
        active = crosses(placed("pp", tier))
        bytes_time = term("pipeline communication", SECOND, exposed * volume / link.bandwidth, active,
                          power("micro_batch"), power("cp", -1), SEQUENCE_SHARD, power("vp"))  # fmt: skip
        latency = term("pipeline latency", SECOND, 2 * (link.latency + setting.kernel_latency), active, power("vp"))
        crossings.append(total("pipeline communication", [bytes_time, latency]))
    return largest("pipeline communication", crossings)
