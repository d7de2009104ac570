"""Closed forms of the paper: the compute at which bandwidth ends linear scaling, and at which latency ends all training.

They work on nodes of accelerators, in multiply-adds: C = what a node does in a second, W_m = words a second from its
memories, W_n = words a second, one way, to other nodes. Batch b = b_0 (T/T_0)^x and layers L = L_0 (T/T_0)^y give
a = x - y, the only exponent that matters. A result in FLOP is twice that in multiply-adds; the paper's notebook puts T_0 in
FLOP into the formula in multiply-adds, a factor 2^a, which ``published`` repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

from planner.frontier.matmul import GRANULE

if TYPE_CHECKING:
    from planner.frontier.problem import Frontier
    from planner.frontier.setting import Setting

#: The paper's reference: batch of 4e6 tokens and 100 layers at 3e23 FLOP.
BATCH, LAYERS, COMPUTE = 4e6, 100.0, 3e23
NODE = 8
YEAR = 365.25 * 86400.0
QUARTER = YEAR / 4


@dataclass(frozen=True)
class Growth:
    """Batch over layers, b/L = ``ratio`` (T / ``reference``)^``exponent``; tokens, FLOP."""

    ratio: float = BATCH / LAYERS
    reference: float = COMPUTE
    exponent: float = 0.0


@dataclass(frozen=True)
class Node:
    """A node's rates: multiply-adds/s, words/s from memory, words/s one way to other nodes; ``wait`` seconds a product."""

    arithmetic: float
    memory: float
    network: float
    wait: float

    @property
    def smallest_batch(self) -> float:
        """Tokens below which reading the weights takes longer than the arithmetic, n = C / W_m."""
        return self.arithmetic / self.memory

    @property
    def smallest_shard(self) -> float:
        """Side of a node's weight shard below which activations take longer than the arithmetic, a = 4 C / (3 W_n)."""
        return 4.0 * self.arithmetic / (3.0 * self.network)


def node_of(setting: Setting) -> Node:
    """The node of a setting: its inner network levels, or eight accelerators where there is one level only."""
    accelerator, word = setting.accelerator, setting.word
    size = 1
    for level in setting.levels[:-1]:
        size *= level.size
    size = size if len(setting.levels) > 1 else NODE
    waits = sum(level.latency for level in setting.levels)
    return Node(
        arithmetic=size * accelerator.peak / 2.0,
        memory=size * accelerator.memory_bandwidth / (2.0 * word),
        network=size * setting.levels[-1].bandwidth / word,
        wait=accelerator.kernel_latency + 2.0 * waits,
    )


def bandwidth_limit(node: Node, growth: Growth, seconds: float = QUARTER, published: bool = False) -> float:
    """FLOP beyond which memory and network together leave some arithmetic idle.

    T = [ (1/960) (b_0/L_0 T_0^-a C t / (shard^2 batch))^2 ]^(1/(1-2a)): as many nodes as shards of the smallest side
    (d f / shard^2), times those that b tokens keep busy with 2 microbatches for each pipeline stage, train for t.
    """
    shard, batch = max(node.smallest_shard, GRANULE), max(node.smallest_batch, GRANULE)  # smaller ones idle anyway
    rate = node.arithmetic * seconds / (shard**2 * batch)
    return _solved(1.0 / 960.0, rate, growth, published)


def latency_limit(wait: float, growth: Growth, seconds: float = QUARTER, published: bool = False) -> float:
    """FLOP beyond which the batches, one after another, take longer than ``seconds`` on any cluster.

    T = [ (3/320) (b_0/L_0 T_0^-a t / wait)^2 ]^(1/(1-2a)): 20 P / b batches of 4 L products that wait one after another.
    """
    return _solved(3.0 / 320.0, seconds / wait, growth, published)


def _solved(constant: float, rate: float, growth: Growth, published: bool) -> float:
    """T = constant (ratio (T / reference)^a rate)^2 solved for T, in FLOP."""
    reference = growth.reference if published else growth.reference / 2.0
    exponent = 1.0 / (1.0 - 2.0 * growth.exponent)
    scaled = growth.ratio * reference**-growth.exponent * rate
    found: float = 2.0 * (constant * scaled**2) ** exponent
    return found


def limits_at(frontier: Frontier) -> dict[str, float | None]:
    """FLOP at which each limit binds for the frontier's own batch, depth and sparsity; None where it never does.

    ``memory`` and ``network`` are the bandwidth limit with the other one endless. A model of E experts has b tokens for all
    of them and P / E active parameters, which makes the constants 1 / E of the dense ones.
    """
    model, node = frontier.model, node_of(frontier.setting)
    growth = Growth(ratio=model.batch / (model.layers * sqrt(model.experts)))
    seconds = frontier.setting.limit
    found = {
        "bandwidth": bandwidth_limit(node, growth, seconds),
        "memory": bandwidth_limit(replace(node, network=inf), growth, seconds),
        "network": bandwidth_limit(replace(node, memory=inf), growth, seconds),
        "latency": latency_limit(node.wait, growth, seconds) if node.wait else inf,
    }
    return {name: value if isfinite(value) else None for name, value in found.items()}
