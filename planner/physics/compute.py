"""Time of one micro-batch on one accelerator, forward and backward, by kind of work; seconds.

The terms are of one layer unless their name says otherwise. Matrix products are a roofline with tile and wave
quantisation; a backward pass is the input-gradient and the weight-gradient product of the same sizes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, choice, largest, power, term, total
from planner.algebra.units import SECOND
from planner.physics import stages
from planner.physics.setting import OPERAND_BYTES, Precision, Recompute, Setting

if TYPE_CHECKING:
    from planner.schema.model import Model

BF16 = 2.0  # bytes of an element

#: Passes over a layer's matrix products: forward, input gradient, weight gradient, and again forward.
PASSES = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: 1.0, Recompute.FULL: 4 / 3}, "passes/3")


#: The same without the weight gradients twice over: what a zero-bubble pipeline waits for, stage by stage.
WAITING_PASSES = choice(
    "recompute", {Recompute.NONE: 1 / 3, Recompute.SELECTIVE: 1 / 3, Recompute.FULL: 2 / 3}, "waits/3"
)


def sequence_shard(tp: Array, sequence_parallel: Array) -> Array:
    """Part of the tokens that one tensor rank holds outside the sharded products: 1/tp with sequence parallelism."""
    return np.where(sequence_parallel > 0, 1.0 / tp, 1.0)


SEQUENCE_SHARD = Factor("sequence shard", ("tp", "sequence_parallel"), sequence_shard)


def when_precision(setting: Setting, precision: Precision) -> tuple[Factor, ...]:
    """A selector of one precision; none is needed where there is no choice."""
    if len(setting.precisions) == 1:
        return ()
    return (choice("precision", {precision: 1.0}, f"[{precision.name.lower()}]"),)


def layer(setting: Setting, moe: bool, passes: Factor = PASSES) -> Expression:
    """Everything that one layer computes: products (so many ``passes``), attention core, element-wise kernels, experts."""
    terms = [
        *(products(setting, moe, precision, passes) for precision in setting.precisions),
        attention_core(setting),
        *elementwise(setting, moe),
    ]
    if moe:
        terms += experts(setting, passes)
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


def products(setting: Setting, moe: bool, precision: Precision, passes: Factor = PASSES) -> Expression:
    """The layer's matrix products, three passes: an exact table over tp, micro-batch and cp.

    Each product of M x K by K x N takes the longer of its tiles' waves at the achieved rate and its bytes at the
    achieved memory bandwidth, plus the latency of a kernel.
    """
    shapes = product_shapes(setting.model, moe)
    name = "dense products" if not moe else "attention and shared products"
    accumulated = 2.0 * setting.assumptions.gradient_bytes  # the gradient held so far is read, the sum written

    def seconds(tp: Array, micro_batch: Array, cp: Array) -> Array:
        tokens = micro_batch * setting.sequence / cp
        elapsed = np.zeros(tokens.shape)
        for inner, outer, column in shapes:
            n, k = (outer / tp, inner) if column else (outer, inner / tp)
            elapsed += product_time(setting, precision, tokens, n, k)
            elapsed += product_time(setting, precision, tokens, k, n)
            elapsed += product_time(setting, precision, k, n, tokens, accumulated)
        return elapsed

    def distinct(tp: Array, micro_batch: Array, cp: Array) -> Array:
        tp, micro_batch, cp = np.broadcast_arrays(tp, micro_batch, cp)
        whole = bool(np.all(micro_batch == np.floor(micro_batch)))  # a published run's can be a mean
        coded = stages.codes(tp, micro_batch, cp) if whole else None
        if coded is None:
            return seconds(tp, micro_batch, cp)
        code, sizes = coded
        table = np.zeros(math.prod(sizes))
        table[code] = 1.0
        seen = np.flatnonzero(table)
        table[seen] = seconds(*(np.asarray(part, dtype=float) for part in np.unravel_index(seen, sizes)))
        return table[code]

    label = f"{name} {precision.name.lower()}"
    table = Factor(label, ("tp", "micro_batch", "cp"), distinct)
    return term("matrix products", SECOND, 1.0, table, passes, *when_precision(setting, precision),
                source="roofline with wave quantisation (NVIDIA, Matrix Multiplication Background Guide)")  # fmt: skip


def product_time(
    setting: Setting,
    precision: Precision,
    rows: Array | float,
    columns: Array | float,
    depth: Array | float,
    result: float = BF16,
) -> Array:
    """Seconds of one ``rows x depth`` by ``depth x columns`` product; ``result`` bytes move for each element of it."""
    tile_rows, tile_columns = setting.hardware.efficiency.matmul_tile
    cores = setting.hardware.cores
    tiles = np.ceil(rows / tile_rows) * np.ceil(columns / tile_columns)
    waves = np.ceil(tiles / cores)
    work = 2.0 * waves * cores * (tile_rows * tile_columns) * depth / setting.matmul_rate(precision)
    element = OPERAND_BYTES[precision]
    traffic = ((rows + columns) * depth * element + rows * columns * result) / setting.memory_rate
    return np.maximum(work, traffic) + setting.kernel_latency


def attention_core(setting: Setting) -> Expression:
    """Scores and weighted values, causal: 4 s^2 d_attention / 2 FLOP a sequence forward, 2.5 times that backward.

    Fused attention recomputes the scores backward by itself (FlashAttention-2, arXiv 2307.08691, section 3.1).
    """
    model = setting.model
    forward = attention_flop(setting)
    rate_forward, rate_backward = setting.attention_rates
    seconds_forward = forward / rate_forward
    if setting.assumptions.attention == "unfused":
        # two products forward and four backward, and scores and probabilities through memory, 16-bit
        traffic = 2 * BF16 * 4 * model.heads * setting.sequence**2 / setting.memory_rate
        seconds_forward = 2 * forward / setting.matmul_rate(setting.sixteen_bit) + traffic
        seconds_backward = 2 * seconds_forward
        again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 1.0, Recompute.FULL: 1.0}
    else:
        seconds_backward = 2.5 * forward / rate_backward
        again = {Recompute.NONE: 0.0, Recompute.SELECTIVE: 0.0, Recompute.FULL: 1.0}
    both = seconds_forward + seconds_backward
    table: dict[int, float] = {kind: 1 + n * seconds_forward / both for kind, n in again.items()}
    passes = choice("recompute", table, "attention passes")
    return term("attention core", SECOND, both, power("micro_batch"), power("tp", -1), power("cp", -1), passes,
                source="FlashAttention-2, arXiv 2307.08691")  # fmt: skip


def attention_flop(setting: Setting) -> float:
    """FLOP of one sequence's scores and weighted values in one layer, forward, averaged over local and global layers.

    Causal attention of s positions over at most w: s w - w^2 / 2 pairs.
    """
    model, sequence = setting.model, setting.sequence
    mla = model.mla
    width = 2 * model.head_dim if mla is None else mla.qk_nope_dim + mla.qk_rope_dim + mla.v_head_dim
    pairs = sequence**2 / 2
    if model.sliding_window is not None:
        window = min(model.sliding_window.window, sequence)
        local = sequence * window - window**2 / 2
        every = model.sliding_window.global_every
        pairs = local if every == 0 else local + (pairs - local) / every
    return 2.0 * model.heads * width * pairs


def elementwise(setting: Setting, moe: bool) -> list[Expression]:
    """Norms, residuals, activations, rotary embedding: bytes through memory, and the kernels that move them.

    Values of d_model a token read and written, sharded over tokens only with sequence parallelism: forward, a norm 2
    (x; y) and a residual addition 3; backward, a norm 3 (dy, x; dx) and the addition of the two branches' gradients 3;
    two of each. Sharded by tp in any case: an activation function reads its inputs (two with a gate) and writes its
    output, and backward reads them and the gradient and writes one for each input; rotary embedding reads and writes
    queries and keys in either direction.
    """
    model = setting.model
    norm, residual = 2 * 2, 2 * 3
    norm_back, residual_back = 2 * 3, 2 * 3
    by_sequence = _recomputed(norm, residual, norm_back + residual_back)
    inputs = 2 if model.gated_mlp else 1
    width = (model.moe.d_shared if model.moe else 0) if moe else model.d_ff
    rotary = 0 if model.learned_positions else 2 * (model.heads + model.kv_heads) * model.head_dim
    by_tensor = _recomputed((inputs + 1) * width, rotary, (2 * inputs + 1) * width + rotary)
    kind = "mixture" if moe else "dense"
    cheap, rest, backward = kernels(model, moe, fused=setting.assumptions.attention == "fused")
    seconds = setting.assumptions.elementwise * BF16 * setting.sequence / setting.memory_rate
    shared = (power("micro_batch"), power("cp", -1))
    return [
        term("norms and residuals", SECOND, model.d_model * seconds, *shared, SEQUENCE_SHARD,
             choice("recompute", by_sequence, "hidden states moved")),
        term("activation functions", SECOND, seconds, *shared, power("tp", -1),
             choice("recompute", by_tensor, f"inner values moved {kind}")),
        term("kernel launches", SECOND, setting.kernel_latency,
             choice("recompute", _recomputed(cheap, rest, backward), f"kernels {kind}")),
    ]  # fmt: skip


def _recomputed(cheap: float, rest: float, backward: float) -> dict[int, float]:
    """Forward and backward work by recomputation, of which the selective one repeats the ``cheap`` forward part."""
    once = float(cheap + rest + backward)
    return {Recompute.NONE: once, Recompute.SELECTIVE: once + cheap, Recompute.FULL: once + cheap + rest}


def kernels(model: Model, moe: bool, *, fused: bool) -> tuple[int, int, int]:
    """Kernels of one layer beside its matrix products: forward and cheap to repeat, other forward, backward.

    As Transformer Engine and Megatron-LM launch them, biases and dropout fused: norms (backward two: inputs, and the
    sum of the weight's gradient), activation, rotary embedding of queries and of keys, split of the projection,
    residual additions, fused attention (1 forward; 3 backward: row sums, gradients, cast of dQ), or unfused (3 forward:
    scores, softmax, values; 5 backward), which selective recomputation repeats. Weight gradients are added by their
    products. With its 12 products a dense layer has 34, of three passes.
    """
    norms = model.norms_per_layer
    inner = 2 if model.mla is not None or model.qk_norm != "none" else 0
    split = 2 if model.mla is not None else 1  # latent attention splits and joins parts with and without rotation
    rotary = 0 if model.learned_positions else 2
    activation = 1 if not moe or (model.moe and model.moe.d_shared) else 0
    attention, attention_back, residuals = (1, 3, 2) if fused else (3, 5, 2)
    cheap = norms + activation + (0 if fused else attention)
    rest = inner + split + rotary + residuals + (attention if fused else 0)
    backward = 2 * (norms + inner) + activation + split + rotary + attention_back + residuals
    return cheap, rest, backward


def experts(setting: Setting, passes: Factor = PASSES) -> list[Expression]:
    """Routed experts, balanced up to the imbalance factor: their products, weights, and the tokens' permutation.

    The grouped products take the longer of their work and their bytes. Each local expert wastes half a tile of rows on
    average; its weights are read forward and backward, and their gradient added to what is held; both go as the number
    of local experts, experts / ep, and the width d_expert / etp.
    """
    model, assumptions = setting.model, setting.assumptions
    assert model.moe is not None
    moe, d = model.moe, model.d_model
    matrices = 3 if model.gated_mlp else 2
    routed = setting.sequence * moe.top_k * assumptions.expert_imbalance
    elements = matrices * d * moe.d_expert  # of one expert
    per_token = (power("micro_batch"), power("cp", -1), power("tp", -1))
    per_expert = (power("ep", -1), power("etp", -1))
    half_tile = setting.hardware.efficiency.matmul_tile[0] / 2
    terms: list[Expression] = []
    for precision in setting.precisions:
        element = OPERAND_BYTES[precision]
        seconds = 3 * 2.0 * elements / setting.matmul_rate(precision)  # of one routed token, three passes
        weights = (2 * element + 2 * assumptions.gradient_bytes) * elements / setting.memory_rate
        token = 3 * element * matrices * (d + moe.d_expert) / setting.memory_rate
        selector = when_precision(setting, precision)
        work = [
            term("expert products", SECOND, routed * seconds, *per_token, passes, *selector),
            term("expert padding", SECOND, moe.experts * half_tile * seconds, *per_expert, passes, *selector),
        ]
        traffic = [
            term("expert weights", SECOND, moe.experts * weights, *per_expert, passes, *selector),
            term("expert tokens", SECOND, routed * token, *per_token, passes, *selector),
        ]
        terms.append(largest("expert products", [total("expert products", work), total("expert traffic", traffic)]))
    permuted = 3 * assumptions.elementwise * BF16 * routed * (4 * d + matrices * moe.d_expert) / setting.memory_rate
    # forward: router product, top-k, sort, permutation, products in and out, activation, un-permutation; backward: un-
    # permutation, two products for each, activation, permutation, softmax, two router products
    launches = _recomputed(1, 7, 10)
    router = setting.sequence * 3 * 2.0 * d * moe.experts / setting.matmul_rate(setting.sixteen_bit)
    terms += [
        term("routing and permutation", SECOND, permuted + router, *per_token, PASSES),
        term("expert launches", SECOND, setting.kernel_latency, choice("recompute", launches, "expert kernels")),
    ]
    return terms


def host(setting: Setting, moe: bool) -> Expression:
    """What the host takes to issue one layer's kernels, forward, backward and again forward.

    Kernels run behind it: a layer lasts as long as the slower of host and accelerator (a launch-bound layer).
    """
    assumptions = setting.assumptions
    forward = 1e-3 * (assumptions.host_moe_ms if moe else assumptions.host_ms)
    passes = choice("recompute", {Recompute.NONE: 2.0, Recompute.SELECTIVE: 2.0, Recompute.FULL: 3.0}, "host passes")
    further = assumptions.host_pipelined
    if not further:
        return term("host", SECOND, forward, passes)

    def slowed(tp: Array, pp: Array) -> Array:
        return 1.0 + further * np.log2(tp) * (pp > 1)

    return term("host", SECOND, forward, passes, Factor(f"host slowed by {further:g}", ("tp", "pp"), slowed))


def head(setting: Setting) -> Expression:
    """Output layer, loss and MTP projections of one micro-batch on the last stage: three passes, never recomputed.

    A fused loss moves 12 B an entry of the logits (16-bit logits, an fp32 copy written and read, the gradient). Plain
    tensor operations move 36 B: cast (2 read, 4 written), log-softmax (4, 4), gradient of the log-probabilities (4
    written), log-softmax backward (8, 4), cast (4, 2).
    """
    model = setting.model
    heads = 1 + model.mtp_layers
    flop = 3 * 2.0 * model.d_model * model.vocab * heads
    flop += 3 * 2.0 * 2 * model.d_model**2 * model.mtp_layers
    bytes_of_logits = heads * model.vocab * (12.0 if setting.assumptions.loss == "fused" else 36.0)
    seconds = flop / setting.matmul_rate(setting.sixteen_bit) + bytes_of_logits / setting.memory_rate
    return term("output layer and loss", SECOND, setting.sequence * seconds,
                power("micro_batch"), power("cp", -1), power("tp", -1))  # fmt: skip


def embedding(setting: Setting) -> Expression:
    """Table look-up on the first stage: a row read and written forward, read and added backward."""
    seconds = setting.sequence * 5 * BF16 * setting.model.d_model / setting.memory_rate
    return term("embedding", SECOND, seconds, power("micro_batch"), power("cp", -1))
