"""Time of one micro-batch on one accelerator, forward and backward, by kind of work; seconds.

The terms are of one layer unless their name says otherwise. Matrix products are a roofline with tile and wave
quantisation; a backward pass is the input-gradient and the weight-gradient product of the same sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, choice, power, term, total
from planner.algebra.units import SECOND
from planner.physics.setting import Precision, Recompute, Setting

if TYPE_CHECKING:
    from planner.schema.model import Model

BF16 = 2.0  # bytes of an element

#: Passes over a layer's matrix products: forward, input gradient, weight gradient, and again forward.
PASSES = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: 1.0, Recompute.FULL: 4 / 3}, "passes/3")


def sequence_shard(tp: Array, sequence_parallel: Array) -> Array:
    """Part of the tokens that one tensor rank holds outside the sharded products: 1/tp with sequence parallelism."""
    return np.where(sequence_parallel > 0, 1.0 / tp, 1.0)


SEQUENCE_SHARD = Factor("sequence shard", ("tp", "sequence_parallel"), sequence_shard)


def when_precision(setting: Setting, precision: Precision) -> tuple[Factor, ...]:
    """A selector of one precision; none is needed where there is no choice."""
    if len(setting.precisions) == 1:
        return ()
    return (choice("precision", {precision: 1.0}, f"[{precision.name.lower()}]"),)


def layer(setting: Setting, moe: bool) -> Expression:
    """Everything that one layer computes: products, attention core, element-wise kernels, experts."""
    terms = [
        *(products(setting, moe, precision) for precision in setting.precisions),
        attention_core(setting),
        *elementwise(setting, moe),
    ]
    if moe:
        terms += experts(setting)
    return total("layer", terms)


def product_shapes(model: Model, moe: bool) -> list[tuple[float, float, bool]]:
    """The layer's matrix products as (input width, output width, is the output sharded by tp?).

    Routed experts are apart (`experts`).
    """
    d, heads = model.d_model, model.heads
    shapes: list[tuple[float, float, bool]] = []
    if model.mla is None:
        shapes.append((d, (heads + 2 * model.kv_heads) * model.head_dim, True))
        shapes.append((heads * model.head_dim, d, False))
    else:
        mla = model.mla
        query = heads * (mla.qk_nope_dim + mla.qk_rope_dim)
        if mla.q_lora_rank:
            shapes += [(d, mla.q_lora_rank, True), (mla.q_lora_rank, query, True)]
        else:
            shapes.append((d, query, True))
        shapes.append((d, mla.kv_lora_rank + mla.qk_rope_dim, True))
        shapes.append((mla.kv_lora_rank, heads * (mla.qk_nope_dim + mla.v_head_dim), True))
        shapes.append((heads * mla.v_head_dim, d, False))
    width = model.d_ff if not moe else (model.moe.d_shared if model.moe else 0)
    if width:
        shapes += [(d, (2 if model.gated_mlp else 1) * width, True), (width, d, False)]
    return shapes


def products(setting: Setting, moe: bool, precision: Precision) -> Expression:
    """The layer's matrix products, three passes: an exact table over tp, micro-batch and cp.

    Each product of M x K by K x N takes the longer of its tiles' waves at the achieved rate and its bytes at the achieved
    memory bandwidth, plus the latency of a kernel.
    """
    shapes = product_shapes(setting.model, moe)
    name = "dense products" if not moe else "attention and shared products"

    def seconds(tp: Array, micro_batch: Array, cp: Array) -> Array:
        tokens = micro_batch * setting.sequence / cp
        elapsed = np.zeros(np.broadcast(tp, tokens).shape)
        for inner, outer, column in shapes:
            n, k = (outer / tp, inner) if column else (outer, inner / tp)
            for rows, columns, depth in ((tokens, n, k), (tokens, k, n), (k, n, tokens)):
                elapsed += product_time(setting, precision, rows, columns, depth)
        return elapsed

    label = f"{name} {precision.name.lower()}"
    table = Factor(label, ("tp", "micro_batch", "cp"), seconds)
    return term("matrix products", SECOND, 1.0, table, PASSES, *when_precision(setting, precision),
                source="roofline with wave quantisation (NVIDIA, Matrix Multiplication Background Guide)")  # fmt: skip


def product_time(setting: Setting, precision: Precision, rows: Array, columns: Array, depth: Array) -> Array:
    """Seconds of one ``rows x depth`` by ``depth x columns`` product."""
    tile_rows, tile_columns = setting.hardware.efficiency.matmul_tile
    cores = setting.hardware.cores
    tiles = np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns)
    waves = np.ceil(tiles / cores)
    work = 2.0 * waves * cores * (tile_rows * tile_columns) * depth / setting.matmul_rate(precision)
    element = 1.0 if precision is Precision.FP8 else BF16
    traffic = ((rows + columns) * depth * element + rows * columns * BF16) / setting.memory_rate
    return np.maximum(work, traffic) + setting.kernel_latency


def attention_core(setting: Setting) -> Expression:
    """Scores and weighted values, causal: 4 s^2 d_attention / 2 FLOP a sequence forward, 2.5 times that backward.

    Fused attention recomputes the scores backward by itself (FlashAttention-2, arXiv 2307.08691, section 3.1).
    """
    model, efficiency = setting.model, setting.hardware.efficiency
    forward = attention_flop(setting)
    rate = setting.peak(setting.sixteen_bit)
    seconds_forward = forward / (rate * efficiency.attention_forward)
    if setting.assumptions.attention == "unfused":
        # two products forward and four backward, and scores and probabilities through memory, 16-bit
        traffic = 2 * BF16 * 4 * model.heads * setting.sequence**2 / setting.memory_rate
        seconds_forward = 2 * forward / setting.matmul_rate(setting.sixteen_bit) + traffic
        seconds_backward = 2 * seconds_forward
        again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 1.0, Recompute.FULL: 1.0}
    else:
        seconds_backward = 2.5 * forward / (rate * efficiency.attention_backward)
        again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 0.0, Recompute.FULL: 1.0}
    both = seconds_forward + seconds_backward
    passes = choice("recompute", {kind: 1 + n * seconds_forward / both for kind, n in again.items()}, "attention passes")
    return term("attention core", SECOND, both, power("micro_batch"), power("tp", -1), power("cp", -1), passes,
                source="FlashAttention-2, arXiv 2307.08691")  # fmt: skip


def attention_flop(setting: Setting) -> float:
    """FLOP of one sequence's scores and weighted values in one layer, forward, averaged over local and global layers.

    Causal attention of s positions over at most w: s w - w^2 / 2 pairs.
    """
    model, sequence = setting.model, setting.sequence
    if model.mla is None:
        width = 2 * model.head_dim
    else:
        width = model.mla.qk_nope_dim + model.mla.qk_rope_dim + model.mla.v_head_dim
    pairs = sequence**2 / 2
    if model.sliding_window is not None:
        window = min(model.sliding_window.window, sequence)
        local = sequence * window - window**2 / 2
        every = model.sliding_window.global_every
        pairs = local if every == 0 else local + (pairs - local) / every
    return 2.0 * model.heads * width * pairs


def elementwise(setting: Setting, moe: bool) -> list[Expression]:
    """Norms, residuals, activations, rotary embedding: bytes through memory, forward and twice that backward.

    Sharded over tokens only with sequence parallelism: per token 2 norms and 2 residuals of d_model, read and written;
    sharded by tp in any case: activation function and rotary embedding.
    """
    model = setting.model
    forward_sequence = 4 * 2 * BF16 * model.d_model
    width = (model.moe.d_shared if model.moe else 0) if moe else model.d_ff
    forward_tensor = BF16 * ((3 if model.gated_mlp else 2) * width + 2 * (model.heads + model.kv_heads) * model.head_dim)
    passes = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: 4 / 3, Recompute.FULL: 4 / 3}, "cheap passes/3")
    seconds = 3 * setting.sequence / setting.memory_rate
    shared = (power("micro_batch"), power("cp", -1), passes)
    kernels = 10 * setting.kernel_latency
    return [
        term("norms and residuals", SECOND, forward_sequence * seconds, *shared, SEQUENCE_SHARD),
        term("activation functions", SECOND, forward_tensor * seconds, *shared, power("tp", -1)),
        term("kernel launches", SECOND, kernels, PASSES),
    ]


def experts(setting: Setting) -> list[Expression]:
    """Routed experts, balanced up to the imbalance factor: their products, weights, and the tokens' permutation.

    Weights are read once a pass, and each local expert wastes half a tile of rows on average; both go as the number of
    local experts, experts / ep, and the width d_expert / etp.
    """
    model = setting.model
    assert model.moe is not None
    moe, d = model.moe, model.d_model
    matrices = 3 if model.gated_mlp else 2
    routed = setting.sequence * moe.top_k * setting.assumptions.expert_imbalance
    flop = 3 * 2.0 * matrices * d * moe.d_expert  # of one routed token, three passes
    per_token = (power("micro_batch"), power("cp", -1), power("tp", -1))
    half_tile = setting.hardware.efficiency.matmul_tile[0] / 2
    terms: list[Expression] = []
    for precision in setting.precisions:
        element = 1.0 if precision is Precision.FP8 else BF16
        rate = setting.matmul_rate(precision)
        weights = 3 * element * matrices * d * moe.d_expert / setting.memory_rate
        selector = when_precision(setting, precision)
        source = "grouped products: FLOP, weights and half a tile of padding for each local expert"
        terms += [
            term("expert products", SECOND, routed * flop / rate, *per_token, PASSES, *selector, source=source),
            term("expert weights and padding", SECOND, moe.experts * (weights + half_tile * flop / rate),
                 power("ep", -1), power("etp", -1), PASSES, *selector, source=source),
        ]  # fmt: skip
    permuted = 3 * BF16 * routed * (4 * d + matrices * moe.d_expert) / setting.memory_rate
    router = setting.sequence * 3 * 2.0 * d * moe.experts / setting.matmul_rate(setting.sixteen_bit)
    terms += [
        term("routing and permutation", SECOND, permuted + router, *per_token, PASSES),
        term("expert launches", SECOND, 12 * setting.kernel_latency, PASSES),
    ]
    return terms


def head(setting: Setting) -> Expression:
    """Output layer, loss and MTP projections of one micro-batch on the last stage: three passes, never recomputed."""
    model = setting.model
    heads = 1 + model.mtp_layers
    flop = 3 * 2.0 * model.d_model * model.vocab * heads
    flop += 3 * 2.0 * 2 * model.d_model**2 * model.mtp_layers
    bytes_of_logits = heads * model.vocab * (BF16 + 4 + 4 + BF16)
    seconds = flop / setting.matmul_rate(setting.sixteen_bit) + bytes_of_logits / setting.memory_rate
    return term("output layer and loss", SECOND, setting.sequence * seconds,
                power("micro_batch"), power("cp", -1), power("tp", -1))  # fmt: skip


def embedding(setting: Setting) -> Expression:
    """Table look-up on the first stage: a row read and written forward, read and added backward."""
    seconds = setting.sequence * 5 * BF16 * setting.model.d_model / setting.memory_rate
    return term("embedding", SECOND, seconds, power("micro_batch"), power("cp", -1))
