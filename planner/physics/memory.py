"""Peak memory of one accelerator on each stage that can be the fullest; bytes.

Activations follow Korthikanti et al. 2022 (arXiv 2205.05198, section 4), written for gated and grouped-query layers and
for fused attention, which keeps no scores.
"""

from __future__ import annotations

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, Sum, choice, largest, power, product, term, total
from planner.algebra.units import BYTE
from planner.physics import stages, states
from planner.physics.compute import BF16, SEQUENCE_SHARD
from planner.physics.setting import Recompute, Setting
from planner.physics.states import Pick

SOURCE = "arXiv 2205.05198, section 4"


def peak(setting: Setting) -> Expression:
    """The fullest stage: the first (most micro-batches in flight), the second (more layers), or the last (logits)."""
    return largest(
        "peak memory",
        [
            stage_memory(setting, "first stage", stages.first, 0),
            stage_memory(setting, "second stage", stages.second, 1),
            stage_memory(setting, "last stage", stages.last, -1),
        ],
    )


def stage_memory(setting: Setting, name: str, pick: Pick, stage: int) -> Expression:
    """Everything that a rank of one stage holds at its peak; ``stage`` counts from the front, -1 is the last."""
    layers = [activations(setting, pick, moe) for moe in (False, True) if moe_count(setting, pick, moe)]
    terms: list[Expression] = [*states.memory(setting, pick)]
    held = total("activations", layers)
    terms.append(product(held, in_flight(setting, stage)).named("activations"))
    terms.append(working_set(setting))
    if stage == -1:
        terms.append(logits(setting))
    elif stage == 0:
        terms.append(logits_of_single_stage(setting))
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
        stage = pick(model, pp, vp)
        return float(stage.moe if moe else stage.dense)

    return stages.stage_factor(model, f"{'mixture' if moe else 'dense'} layers of the {pick.__name__} stage", count)


def in_flight(setting: Setting, stage: int) -> Expression:
    """Micro-batches whose activations the stage holds, in units of the whole stage: no more than the step has."""

    def count(pp: Array, vp: Array, schedule: Array, grad_accum: Array) -> Array:
        keys, inverse = np.unique(np.stack([pp, vp, schedule]), axis=1, return_inverse=True)
        most = [
            stages.in_flight(int(kind), int(p), int(v), int(p) - 1 if stage < 0 else min(stage, int(p) - 1))
            for p, v, kind in keys.T
        ]
        return np.minimum(np.array(most)[inverse.reshape(-1)], grad_accum)

    label = f"in flight on stage {stage}"
    from planner.algebra.units import ONE

    return term(label, ONE, 1.0, Factor(label, ("pp", "vp", "schedule", "grad_accum"), count))


def activations(setting: Setting, pick: Pick, moe: bool) -> Expression:
    """What the picked stage keeps of one micro-batch for its backward pass, in its dense or its mixture layers.

    Per token and layer, 16-bit: sharded with sequence parallelism, 2 norm inputs and the inputs of attention and feed-
    forward, 8 d; sharded by tp, queries, keys, values, attention output and feed-forward. Selective recomputation drops
    norm outputs and the activation function's output, and the scores of unfused attention; full recomputation keeps the
    layer's input.
    """
    model = setting.model
    tokens = (power("micro_batch"), power("cp", -1))
    count = layers_factor(setting, pick, moe)
    scale = setting.sequence * BF16
    keep_sequence = choice(
        "recompute", {Recompute.NONE: 4.0, Recompute.SELECTIVE: 2.0, Recompute.FULL: 1.0}, "kept hidden states"
    )
    by_sequence = term("activations", BYTE, scale * model.d_model, count, *tokens, SEQUENCE_SHARD, keep_sequence,
                       source=SOURCE)  # fmt: skip
    attention = _attention_width(setting)
    width = (model.moe.d_shared if model.moe else 0) if moe else model.d_ff
    kept = attention + (3 if model.gated_mlp else 2) * width
    without = attention + (2 if model.gated_mlp else 1) * width
    quadratic = 0.0
    if setting.assumptions.attention == "unfused":
        quadratic = 2.5 * model.heads * setting.sequence  # scores, probabilities and a one-byte dropout mask
    keep_tensor = choice("recompute", {Recompute.NONE: (kept + quadratic) / kept, Recompute.SELECTIVE: without / kept},
                         f"kept tensor-sharded {'mixture' if moe else 'dense'}")  # fmt: skip
    by_tensor = term("activations", BYTE, scale * kept, count, *tokens, power("tp", -1), keep_tensor, source=SOURCE)
    terms: list[Expression] = [by_sequence, by_tensor]
    if moe:
        assert model.moe is not None
        routed = scale * model.moe.top_k * setting.assumptions.expert_imbalance
        matrices = 3 if model.gated_mlp else 2
        keep = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: (matrices - 1) / matrices},
                      "kept expert activations")  # fmt: skip
        terms.append(term("expert activations", BYTE, routed * matrices * model.moe.d_expert, count, *tokens,
                          power("tp", -1), keep))  # fmt: skip
        keep_inputs = choice("recompute", {Recompute.NONE: 1.0, Recompute.SELECTIVE: 1.0}, "kept expert inputs")
        terms.append(term("expert activations", BYTE, routed * 2 * model.d_model, count, *tokens, power("tp", -1),
                          power("etp"), keep_inputs))  # fmt: skip
    return Sum(tuple(terms), "activations")


def _attention_width(setting: Setting) -> float:
    model = setting.model
    if model.mla is None:
        return 2.0 * (model.heads + model.kv_heads) * model.head_dim
    mla = model.mla
    key = mla.qk_nope_dim + mla.qk_rope_dim
    return model.heads * (2.0 * key + 2 * mla.v_head_dim) + mla.q_lora_rank + mla.kv_lora_rank + mla.qk_rope_dim


def working_set(setting: Setting) -> Expression:
    """Buffers of the layer at work: gathered hidden states and, with full recomputation, the layer's own activations."""
    model = setting.model
    tokens = (power("micro_batch"), power("cp", -1))
    scale = setting.sequence * BF16
    again = choice("recompute", {Recompute.FULL: 1.0}, "[recompute=full]")
    terms: list[Expression] = [
        term("communication buffers", BYTE, scale * 2 * model.d_model, *tokens),
        term("recomputed layer", BYTE, scale * 4 * model.d_model, *tokens, SEQUENCE_SHARD, again),
    ]
    width = _attention_width(setting) + (3 if model.gated_mlp else 2) * model.d_ff
    if model.moe is not None:
        matrices = 3 if model.gated_mlp else 2
        routed = model.moe.top_k * setting.assumptions.expert_imbalance
        width = _attention_width(setting) + matrices * (model.moe.d_shared + routed * model.moe.d_expert)
        terms.append(term("dispatch buffers", BYTE, scale * 2 * routed * model.d_model, *tokens, power("tp", -1),
                          power("etp")))  # fmt: skip
    terms.append(term("recomputed layer", BYTE, scale * width, *tokens, power("tp", -1), again))
    return total("working set", terms)


def logits(setting: Setting) -> Expression:
    """16-bit logits, their fp32 copy and gradient of one micro-batch on the last stage."""
    size = setting.sequence * setting.model.vocab * (BF16 + 4 + BF16)
    return term("logits and loss", BYTE, size, power("micro_batch"), power("cp", -1), power("tp", -1))


def logits_of_single_stage(setting: Setting) -> Expression:
    """The first stage computes the loss too where it is the only one."""
    single = Factor("[pp=1]", ("pp",), lambda pp: (pp == 1) * 1.0)
    return product(logits(setting), single)
