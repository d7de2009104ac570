"""Which layers each pipeline stage holds, and what follows from it alone.

The layers are cut into ``pp * vp`` consecutive chunks, chunk ``i`` on stage ``i mod pp``. Where the layers do not
divide, the stages in the middle take one more, since the first also embeds and the last also has the output layer (as
Llama 3.1 405B was trained: 126 layers on 16 stages, 7 on the first and the last, 8 elsewhere). Where a framework weighs
costs, the last chunk has fewer layers by what the output layer costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array, Factor
from planner.physics import parameters
from planner.physics.setting import Schedule

if TYPE_CHECKING:
    from planner.schema.model import Model


@dataclass(frozen=True)
class Stage:
    """The content of one stage: dense and mixture layers (MTP modules count as layers), embedding, output layer."""

    dense: int
    moe: int
    embeds: bool
    heads: bool
    mtp: int = 0  # MTP modules among the layers

    @property
    def layers(self) -> int:
        """All layers."""
        return self.dense + self.moe


@lru_cache(maxsize=65536)
def stages(model: Model, pp: int, vp: int, weighed: bool = False) -> tuple[Stage, ...]:
    """The content of each of the ``pp`` stages with ``vp`` chunks each; ``weighed``: dealt out by cost."""
    content = chunks(model, pp, vp, weighed)
    return tuple(
        Stage(
            sum(chunk.dense for chunk in content[stage::pp]), sum(chunk.moe for chunk in content[stage::pp]),
            stage == 0, stage == pp - 1, model.mtp_layers if stage == pp - 1 else 0,
        )
        for stage in range(pp)
    )  # fmt: skip


@lru_cache(maxsize=4096)
def chunks(model: Model, pp: int, vp: int, weighed: bool = False) -> tuple[Stage, ...]:
    """The content of each of the ``pp vp`` chunks, in the order of the model; chunk i is on stage ``i mod pp``."""
    sizes = _weighed_sizes(model, pp, vp) if weighed and pp > 1 else _chunk_sizes(model.layers, pp, vp)
    moe = _is_moe(model)
    found, layer, last = [], 0, len(sizes) - 1
    for chunk, size in enumerate(sizes):
        mixtures = sum(moe[layer : layer + size])
        layer += size
        mtp = model.mtp_layers if chunk == last else 0
        found.append(
            Stage(size - mixtures + mtp * (not moe[-1]), mixtures + mtp * moe[-1], chunk == 0, chunk == last, mtp)
        )
    return tuple(found)


def busiest(model: Model, pp: int, vp: int, weighed: bool = False) -> Stage:
    """The stage with the most layers by their active parameters, embedding and output layer apart."""
    dense, moe = _dense_work(model), _moe_work(model)
    return max(stages(model, pp, vp, weighed), key=lambda stage: stage.dense * dense + stage.moe * moe)


def first(model: Model, pp: int, vp: int, weighed: bool = False) -> Stage:
    """The first stage."""
    return stages(model, pp, vp, weighed)[0]


def second(model: Model, pp: int, vp: int, weighed: bool = False) -> Stage:
    """The second stage, or the first where there is one only."""
    return stages(model, pp, vp, weighed)[min(1, pp - 1)]


def last(model: Model, pp: int, vp: int, weighed: bool = False) -> Stage:
    """The last stage."""
    return stages(model, pp, vp, weighed)[-1]


def numbered(stage: int) -> Callable[..., Stage]:
    """A pick of the stage with this number (from 0), or of the last one where there are not so many."""

    def pick(model: Model, pp: int, vp: int, weighed: bool = False) -> Stage:
        return stages(model, pp, vp, weighed)[min(stage, pp - 1)]

    pick.__name__ = f"number {stage}"  # it goes into the labels that tell the factors of different stages apart
    return pick


def fullest_inside(model: Model) -> range:
    """Numbers of the stages, behind the second, that can hold more than every other one.

    A stage holds no more than an earlier one with as many layers of either kind, since that has at least as many micro-
    batches in flight. From the second on, stages have ever fewer layers, so that only the mix of the kinds can make a
    later one the fullest: the first behind the leading dense layers (DeepSeek-V3 on 32 stages: 1 dense layer, 2 dense
    layers, 2 mixture layers), which are on no more stages than they are, or another phase of the ``layer_step``.
    """
    moe = model.moe
    return range(2, 2 if moe is None else max(moe.first_dense_layers, moe.layer_step) + 1)


def stage_factor(model: Model, label: str, function: Callable[[int, int], float]) -> Factor:
    """A factor of ``(pp, vp)`` from a scalar ``function``, computed once for each distinct pair."""
    cached = lru_cache(maxsize=65536)(function)

    def values(pp: Array, vp: Array) -> Array:
        return tabulated(cached, pp, vp)

    return Factor(label, ("pp", "vp"), values)


#: Tables of up to this many entries, and four for each plan, are used instead of sorting.
SMALL_TABLE = 65536


def tabulated(function: Callable[..., float], *columns: Array) -> Array:
    """``function`` of whole numbers, element by element, called once for each distinct combination; shape (plans,)."""
    columns = tuple(np.broadcast_arrays(*columns))
    coded = codes(*columns)
    if coded is None:
        keys, inverse = np.unique(np.stack([column.reshape(-1) for column in columns]), axis=1, return_inverse=True)
        values = np.array([function(*map(int, key)) for key in keys.T], dtype=float)
        return values[inverse.reshape(columns[0].shape)]
    code, sizes = coded
    table = np.zeros(math.prod(sizes))
    table[code] = 1.0
    seen = np.flatnonzero(table)
    table[seen] = [function(*map(int, key)) for key in zip(*np.unravel_index(seen, sizes), strict=True)]
    return table[code]


def codes(*columns: Array) -> tuple[NDArray[np.intp], list[int]] | None:
    """One number for each combination of whole, non-negative numbers, and the sizes that it counts in.

    None where there would be far more numbers than plans. All columns are of shape (plans,).
    """
    if columns[0].size == 0:
        return None
    sizes = [int(column.max()) + 1 for column in columns]
    if math.prod(sizes) > SMALL_TABLE + 4 * columns[0].size:
        return None
    code = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        code = code * size + column
    return code.astype(np.intp), sizes


def dense_parameters(model: Model, stage: Stage, pp: int) -> float:
    """Elements of a stage that tensor parallelism shards: all but the routed experts."""
    shared = parameters.attention(model) + parameters.norms(model) + model.extra_parameters_per_layer
    count = stage.layers * shared + stage.dense * parameters.dense_mlp(model)
    if model.moe is not None:
        count += stage.moe * (parameters.shared_experts(model) + parameters.router(model))
    embedding, head = parameters.embedding(model), parameters.head(model)
    if stage.embeds:
        count += embedding + model.extra_parameters
    if stage.heads and not (model.tied_embeddings and pp == 1):
        count += head or model.vocab * model.d_model  # a tied head has a copy of its own when it is apart
        count += model.d_model
    return float(count)


def expert_parameters(model: Model, stage: Stage) -> float:
    """Elements of a stage in routed experts."""
    if model.moe is None:
        return 0.0
    return float(stage.moe * model.moe.experts * parameters.routed_expert(model))


def bubble_slots(schedule: int, pp: int, vp: int) -> float:
    """Idle time of a step, in units of one micro-batch's forward and backward pass on one stage.

    GPipe and 1F1B: pp - 1; interleaved: (pp - 1) / vp (Narayanan et al. 2021, arXiv 2104.04473, section 2.2); ZB-H1: a
    third of 1F1B's, with forward, input-gradient and weight-gradient passes of equal length (arXiv 2401.10241).
    """
    if schedule == Schedule.INTERLEAVED:
        return (pp - 1) / vp
    return (pp - 1) / 3 if schedule == Schedule.ZERO_BUBBLE else float(pp - 1)


def in_flight(schedule: int, pp: int, vp: int, stage: int) -> float:
    """Most micro-batches whose activations a stage holds, in units of the whole stage; infinite: all of the step.

    1F1B: pp - stage; ZB-H1: pp, since a later stage puts off more weight gradients; interleaved: (2 (pp - stage - 1) +
    (vp - 1) pp + 1) / vp chunks (Megatron-LM's warm-up count plus the one at work).
    """
    if schedule == Schedule.GPIPE:
        return float("inf") if pp > 1 else 1.0
    if schedule == Schedule.INTERLEAVED:
        return (2 * (pp - stage - 1) + (vp - 1) * pp + 1) / vp
    return float(pp if schedule == Schedule.ZERO_BUBBLE else pp - stage)


def _chunk_sizes(layers: int, pp: int, vp: int) -> list[int]:
    base, extra = divmod(layers, pp * vp)
    sizes = [base] * (pp * vp)
    preference = [*range(1, pp - 1), 0, pp - 1] if pp > 1 else [0]
    if pp == 2:
        preference = [0, 1]
    order = [stage + pp * chunk for chunk in range(vp) for stage in preference]
    for place in order[:extra]:
        sizes[place] += 1
    return sizes


def _weighed_sizes(model: Model, pp: int, vp: int) -> list[int]:
    """Chunks of equal cost, as far as whole layers allow: the last one also holds the output layer."""
    work = _moe_work(model) if model.moe is not None else _dense_work(model)
    head = model.vocab * model.d_model / work
    chunks = pp * vp
    final = max(0, math.floor((model.layers + head) / chunks - head))
    base, extra = divmod(model.layers - final, chunks - 1)
    return [base + (chunk < extra) for chunk in range(chunks - 1)] + [final]


@lru_cache(maxsize=1024)
def _is_moe(model: Model) -> tuple[bool, ...]:
    moe = model.moe
    if moe is None:
        return (False,) * model.layers
    return tuple(layer >= moe.first_dense_layers and (layer + 1) % moe.layer_step == 0 for layer in range(model.layers))


def _dense_work(model: Model) -> int:
    return parameters.attention(model) + parameters.dense_mlp(model)


def _moe_work(model: Model) -> int:
    if model.moe is None:
        return 0
    return (
        parameters.attention(model)
        + parameters.shared_experts(model)
        + model.moe.top_k * parameters.routed_expert(model)
    )
