"""Peak memory of one accelerator on each stage that can be the fullest; bytes.

Activations follow Korthikanti et al. 2022 (arXiv 2205.05198, section 4), written for gated and grouped-query layers and
for fused attention, which keeps no scores.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, Sum, choice, largest, power, product, term, total
from planner.algebra.units import BYTE, ONE
from planner.physics import stages, states
from planner.physics.compute import BF16, SEQUENCE_SHARD
from planner.physics.setting import Recompute, Schedule, Setting
from planner.physics.states import Pick

SOURCE = "arXiv 2205.05198, section 4"


def peak(setting: Setting) -> Expression:
    """The fullest stage: the first (most micro-batches in flight), the second (more layers), or the last (logits).

    Where layers are of two kinds, also those behind the second that can be (`stages.fullest_inside`).
    """
    inside = [
        stage_memory(setting, f"stage {number}", stages.numbered(number), number)
        for number in stages.fullest_inside(setting.model)
    ]
    return largest(
        "peak memory",
        [
            stage_memory(setting, "first stage", stages.first, 0),
            stage_memory(setting, "second stage", stages.second, 1),
            *inside,
            stage_memory(setting, "last stage", stages.last, -1),
        ],
    )


def stage_memory(setting: Setting, name: str, pick: Pick, stage: int) -> Expression:
    """Everything that a rank of one stage holds at its peak; ``stage`` counts from the front, -1 is the last.

    The loss of the last stage is done before the backward pass of its layers begins: it is there, or the working set.
    """
    layers = [activations(setting, pick, moe) for moe in (False, True) if moe_count(setting, pick, moe)]
    terms: list[Expression] = [*states.memory(setting, pick)]
    held = total("activations", layers)
    terms.append(product(held, in_flight(setting, stage)).named("activations"))
    working = working_set(setting)
    terms.append(largest("working set or loss", [working, logits(setting)]) if stage == -1 else working)
    return total(name, terms)


def moe_count(setting: Setting, pick: Pick, moe: bool) -> bool:
    """Whether the model has layers of that kind at all."""
    if moe:
        return setting.model.moe is not None
    return setting.model.moe is None or setting.model.moe.first_dense_layers > 0 or setting.model.moe.layer_step > 1


def layers_factor(setting: Setting, pick: Pick, moe: bool) -> Factor:
    """How many dense, or mixture, layers the picked stage has."""
    model = setting.model

    def count(pp: int, vp: int) -> float:
        stage = pick(model, pp, vp, setting.weighed)
        return float(stage.moe if moe else stage.dense)

    return stages.stage_factor(model, f"{'mixture' if moe else 'dense'} layers of the {pick.__name__} stage", count)


def in_flight(setting: Setting, stage: int) -> Expression:
    """Micro-batches whose activations the stage holds, in units of the whole stage: no more than the step has.

    An interleaved step of pp micro-batches runs all forward passes first (Megatron-LM), and holds them all.
    """

    def most(pp: int, vp: int, schedule: int) -> float:
        return stages.in_flight(schedule, pp, vp, pp - 1 if stage < 0 else min(stage, pp - 1))

    def count(pp: Array, vp: Array, schedule: Array, grad_accum: Array) -> Array:
        held = np.minimum(stages.tabulated(most, pp, vp, schedule), grad_accum)
        return np.where((schedule == Schedule.INTERLEAVED) & (grad_accum == pp), grad_accum, held)

    label = f"in flight on stage {stage}"
    return term(label, ONE, 1.0, Factor(label, ("pp", "vp", "schedule", "grad_accum"), count))


def activations(setting: Setting, pick: Pick, moe: bool) -> Expression:
    """What the picked stage keeps of one micro-batch for its backward pass, in its dense or its mixture layers."""
    return product(kept(setting, moe), layers_factor(setting, pick, moe))


@lru_cache(maxsize=256)  # one object for all stages
def kept(setting: Setting, moe: bool) -> Expression:
    """What one layer keeps of one micro-batch for its backward pass.

    Per token and layer, 16-bit: sharded with sequence parallelism, 2 norm inputs and the inputs of attention and feed-
    forward, 8 d; sharded by tp, queries, keys, values, attention output and feed-forward. Selective recomputation drops
    norm outputs and the activation function's output, and the scores of unfused attention; full recomputation keeps the
    layer's input. Where a framework keeps the gathered inputs of sharded products, these two are whole.
    """
    model = setting.model
    tokens = (power("micro_batch"), power("cp", -1))
    scale = setting.sequence * BF16
    gathered = setting.assumptions.keep_gathered
    keep_sequence = choice(
        "recompute", {Recompute.NONE: 2.0 if gathered else 4.0, Recompute.SELECTIVE: 2.0, Recompute.FULL: 1.0},
        "kept hidden states",
    )  # fmt: skip
    by_sequence = term("activations", BYTE, scale * model.d_model, *tokens, SEQUENCE_SHARD, keep_sequence,
                       source=SOURCE)  # fmt: skip
    whole = term("activations", BYTE, scale * model.d_model if gathered else 0.0, *tokens,
                 choice("recompute", {Recompute.NONE: 2.0}, "kept gathered inputs"))  # fmt: skip
    attention = _attention_width(setting)
    width = (model.moe.d_shared if model.moe else 0) if moe else model.d_ff
    full = attention + (3 if model.gated_mlp else 2) * width
    without = attention + (2 if model.gated_mlp else 1) * width
    quadratic = 0.0
    if setting.assumptions.attention == "unfused":
        quadratic = 2.5 * model.heads * setting.sequence  # scores, probabilities and a one-byte dropout mask
    keep_tensor = choice("recompute", {Recompute.NONE: (full + quadratic) / full, Recompute.SELECTIVE: without / full},
                         f"kept tensor-sharded {'mixture' if moe else 'dense'}")  # fmt: skip
    by_tensor = term("activations", BYTE, scale * full, *tokens, power("tp", -1), keep_tensor, source=SOURCE)
    terms: list[Expression] = [by_sequence, by_tensor, whole]
    if moe:
        assert model.moe is not None
        routed = scale * model.moe.top_k * setting.assumptions.expert_imbalance
        matrices = 3 if model.gated_mlp else 2
        keep = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: (matrices - 1) / matrices},
                      "kept expert activations")  # fmt: skip
        terms.append(term("expert activations", BYTE, routed * matrices * model.moe.d_expert, *tokens,
                          power("tp", -1), keep))  # fmt: skip
        keep_inputs = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: 1.0}, "kept expert inputs")
        terms.append(term("expert activations", BYTE, routed * 2 * model.d_model, *tokens, power("tp", -1),
                          power("etp"), keep_inputs))  # fmt: skip
    return Sum(tuple(terms), "activations")


def _attention_width(setting: Setting) -> float:
    """What attention keeps of a token: queries, keys, values, output; inputs of the norms inside, and latents."""
    model = setting.model
    if model.mla is None:
        normed = (model.heads + model.kv_heads) * model.head_dim if model.qk_norm != "none" else 0
        return 2.0 * (model.heads + model.kv_heads) * model.head_dim + normed
    mla = model.mla
    key = mla.qk_nope_dim + mla.qk_rope_dim
    latents = 2 * (mla.q_lora_rank + mla.kv_lora_rank) + mla.qk_rope_dim  # before and after their norms
    return model.heads * (2.0 * key + 2 * mla.v_head_dim) + latents


@lru_cache(maxsize=256)  # one object for all stages
def working_set(setting: Setting) -> Expression:
    """Buffers of the layer at work in the backward pass, the widest kind of layer.

    Gathered hidden states; the gradients of the residual stream and of one norm's output, 2 d; the gradients of the
    wider of the feed-forward (activation's output and inputs) and of attention (queries, keys, values, output); and
    what the layer computes again: with selective recomputation norm outputs and the activation's output, with full all
    that `activations` keeps without it.
    """
    model = setting.model
    tokens = (power("micro_batch"), power("cp", -1))
    scale = setting.sequence * BF16
    inputs = 2 if model.gated_mlp else 1  # of the activation function
    widths = []
    if moe_count(setting, stages.first, False):
        widths.append(float(model.d_ff))
    terms: list[Expression] = [term("communication buffers", BYTE, scale * 2 * model.d_model, *tokens)]
    if model.moe is not None:
        routed = model.moe.top_k * setting.assumptions.expert_imbalance
        widths.append(model.moe.d_shared + routed * model.moe.d_expert)
        terms.append(term("dispatch buffers", BYTE, scale * 2 * routed * model.d_model, *tokens, power("tp", -1),
                          power("etp")))  # fmt: skip
    width, attention = max(widths), _attention_width(setting)
    if model.mla is None:
        gradients = 2.0 * (model.heads + model.kv_heads) * model.head_dim
    else:
        gradients = 2.0 * model.heads * (model.mla.qk_nope_dim + model.mla.qk_rope_dim + model.mla.v_head_dim)
    gradients = max((inputs + 1) * width, gradients)
    hidden = choice("recompute", {Recompute.NONE: 2.0, Recompute.SELECTIVE: 4.0, Recompute.FULL: 6.0},
                    "hidden states at work")  # fmt: skip
    inner = choice(
        "recompute",
        {
            Recompute.NONE: 1.0,
            Recompute.SELECTIVE: 1 + width / gradients,
            Recompute.FULL: 1 + (attention + (inputs + 1) * width) / gradients,
        },
        "tensor-sharded values at work",
    )
    terms += [
        term("layer at work", BYTE, scale * model.d_model, *tokens, SEQUENCE_SHARD, hidden, source=SOURCE),
        term("layer at work", BYTE, scale * gradients, *tokens, power("tp", -1), inner, source=SOURCE),
    ]
    return total("working set", terms)


@lru_cache(maxsize=256)  # one object for all stages
def logits(setting: Setting) -> Expression:
    """Logits and loss of one micro-batch on the last stage; those of every MTP module wait for its backward pass.

    A fused loss keeps 16-bit logits, their fp32 copy, and the 16-bit gradient: 8 B an entry (Megatron-LM's works in
    place). Plain tensor operations keep 16-bit logits and, in fp32, log-probabilities, the gradient of these, and the
    gradient of the logits: 14 B.
    """
    entry = BF16 + 4 + BF16 if setting.assumptions.loss == "fused" else BF16 + 3 * 4
    size = setting.sequence * setting.model.vocab * (1 + setting.model.mtp_layers) * entry
    return term("logits and loss", BYTE, size, power("micro_batch"), power("cp", -1), power("tp", -1))
