"""Time of one training step: the pipeline, gradient reduction and the optimizer; seconds."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from planner.algebra.expressions import Array, Expression, Factor, Sum, largest, product, substitute, term, total
from planner.algebra.units import ONE, SECOND
from planner.physics import collectives, compute, stages, states
from planner.physics.memory import layers_factor, moe_count
from planner.physics.setting import Schedule, Setting
from planner.physics.states import Pick

#: The degrees that have a part on every tier.
DEGREES = ("tp", "cp", "pp", "shard", "replica", "ep", "etp", "edp")
#: A backward pass is two of the three passes of a micro-batch; gradients are reduced under the last one.
BACKWARD = 2.0 / 3.0


def _slots(pp: Array, vp: Array, schedule: Array) -> Array:
    return stages.tabulated(
        lambda p, v, kind: 0.0 if kind == Schedule.ZERO_BUBBLE else stages.bubble_slots(kind, p, v), pp, vp, schedule
    )


def _waits(pp: Array, schedule: Array) -> Array:
    idle: Array = (pp - 1.0) * (schedule == Schedule.ZERO_BUBBLE)
    return idle


#: Idle micro-batches of a step; of a zero-bubble pipeline, idle times F + B - W (arXiv 2401.10241, section 2), since not
#: every part of a pass has weight gradients.
BUBBLE = Factor("bubble slots", ("pp", "vp", "schedule"), _slots)
ZERO_BUBBLE = Factor("zero-bubble slots", ("pp", "schedule"), _waits)


def step_time(setting: Setting) -> Expression:
    """``grad_accum`` micro-batches on the slowest stage, the bubble, and what of the gradient reduction is not hidden.

    At most the assumed fraction f of the reduction C is hidden, and no more of it than one backward pass lasts:
    T = outside + update + tied embedding + bubble + max over stages of max(m t + (1 - f) C, (m - 2/3) t + C).
    """
    stage_times = [
        stage_time(setting, stages.busiest, embeds=False, heads=False),
        stage_time(setting, stages.last, embeds=False, heads=True),
        stage_time(setting, stages.first, embeds=True, heads=False),
    ]
    communication = states.reduction(setting)
    exposed = term("", ONE, 1.0 - setting.assumptions.dp_overlap)
    all_of_it = Factor("grad_accum", ("grad_accum",), lambda value: value)
    before_last = Factor("grad_accum-2/3", ("grad_accum",), lambda value: value - BACKWARD)
    waits = idle(setting)
    alternatives = [
        total("", [product(stage, micro_batches), waits, product(communication, share)])
        for micro_batches, share in ((all_of_it, exposed), (before_last, term("", ONE, 1.0)))
        for stage in stage_times
    ]
    return total("step time", [largest("", alternatives), *around(setting)])


def around(setting: Setting) -> list[Expression]:
    """What a step takes after its last gradient is reduced: the optimizer's step, tied embeddings, the framework's own."""
    outside = term("outside the model", SECOND, 1e-3 * setting.assumptions.step_ms)
    return [states.update(setting), *states.tied_embedding(setting), outside]


def idle(setting: Setting) -> Expression:
    """What the busiest stage waits for others in a step: the bubble of its schedule."""
    whole, less = layers_time(setting, stages.busiest), layers_time(setting, stages.busiest, waiting=True)
    parts = [product(whole, term("bubble", ONE, 1.0, BUBBLE)), product(less, term("bubble", ONE, 1.0, ZERO_BUBBLE))]
    return total("pipeline bubble", [part.named("pipeline bubble") for part in parts])


def floor(setting: Setting) -> Expression:
    """The step time as if every group lay alone on the network, from its innermost tier outwards.

    No plan of the same degrees takes less, wherever it lies: a group that fills the inner tiers first sends least over the
    outer, slower ones. Where an outer tier is faster, the inner one is taken to be as fast. The floor depends on the
    degrees alone, not on their parts, and so bounds all placements at once.
    """
    links = tuple(
        replace(link, bandwidth=max(outer.bandwidth for outer in setting.links[tier:]),
                latency=min(outer.latency for outer in setting.links[tier:]))
        for tier, link in enumerate(setting.links)
    )  # fmt: skip
    parts = {
        collectives.placed(degree, tier): collectives.alone(degree, [link.fanout for link in links], tier)
        for degree in DEGREES
        for tier in setting.tiers
    }
    return substitute(step_time(replace(setting, links=links, alone=True)), parts)


def stage_time(setting: Setting, pick: Pick, *, embeds: bool, heads: bool) -> Expression:
    """One micro-batch, forward and backward, on the picked stage.

    Where there is one stage only, the picked last stage embeds as well.
    """
    terms = [layers_time(setting, pick)]
    if heads:
        single = Factor("[pp=1]", ("pp",), lambda pp: (pp == 1) * 1.0)
        terms += [compute.head(setting), product(compute.embedding(setting), single)]
    if embeds:
        terms.append(compute.embedding(setting))
    return total(f"{pick.__name__} stage", terms)


def layers_time(setting: Setting, pick: Pick, waiting: bool = False) -> Expression:
    """The layers of the picked stage for one micro-batch, with the communication inside them and to the next stage.

    ``waiting``: less the weight gradients of the products twice over, F + B - W of a zero-bubble pipeline.
    """
    terms: list[Expression] = []
    for moe in (False, True):
        if moe_count(setting, pick, moe):
            count = layers_factor(setting, pick, moe)
            terms.append(product(layer_time(setting, moe, waiting), count))
    terms.append(collectives.pipeline_transfer(setting))
    return total("layers", terms)


@lru_cache(maxsize=256)  # one object for all stages: it is priced once, and its maxima are the same
def layer_time(setting: Setting, moe: bool, waiting: bool = False) -> Expression:
    """One layer's compute and communication for one micro-batch, or the host's time to issue it."""
    work = compute.layer(setting, moe, compute.WAITING_PASSES if waiting else compute.PASSES)
    assert isinstance(work, Sum)
    terms: list[Expression] = [
        collectives.context_parallel(setting, item) if item.name == "attention core" else item for item in work.terms
    ]
    terms += collectives.tensor_parallel(setting, moe)
    if moe:
        terms += collectives.expert_parallel(setting)
    return largest("layer", [total("layer", terms), compute.host(setting, moe)])


def model_flop(setting: Setting) -> float:
    """FLOP that one sequence needs, without recomputation: three passes of active weights and causal attention.

    6 FLOP an active weight and token (Narayanan et al. 2021, appendix), embedding look-up excluded, plus three times
    the forward attention core.
    """
    model = setting.model
    weights = 0.0
    for stage in stages.stages(model, 1, 1):
        for moe, count in ((False, stage.dense), (True, stage.moe)):
            if count:
                layer = sum(inner * outer for inner, outer, _ in compute.product_shapes(model, moe))
                if moe:
                    assert model.moe is not None
                    matrices = 3 if model.gated_mlp else 2
                    layer += model.d_model * (model.moe.experts + matrices * model.moe.top_k * model.moe.d_expert)
                weights += count * layer
    weights += (1 + model.mtp_layers) * model.d_model * model.vocab + 2 * model.mtp_layers * model.d_model**2
    layers = model.layers + model.mtp_layers
    return 6.0 * weights * setting.sequence + 3.0 * layers * compute.attention_flop(setting)
