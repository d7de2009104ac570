"""How long each stage of a plan takes for each pass, its messages, and what it keeps of a micro-batch: the cost model's.

The cost model prices a micro-batch as a whole. Its parts follow from it by what differs: full recomputation adds exactly
one forward pass to a layer, and the matrix products count three passes of equal length, the last of which gives the
gradients of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.algebra.expressions import Array, Expression, Sum
from planner.physics import collectives, compute, memory, stages, step
from planner.physics.setting import Recompute, Setting

#: The terms of a layer that have gradients of weights: a third of their three passes.
WEIGHTED = ("matrix products", "expert products")
#: The look-up of embeddings reads and writes a row forward, reads one and adds to another backward (`compute.embedding`).
EMBEDDING_FORWARD = 2 / 5


@dataclass(frozen=True)
class StageTimes:
    """Of one micro-batch: seconds of each pass and bytes kept for the backward pass, shape (stages, chunks); messages.

    ``backward`` are the gradients of inputs (with what is recomputed for them), ``weight`` those of weights. One message
    to another stage keeps the sender for ``sending`` seconds and travels ``transfer`` seconds more.
    """

    forward: Array
    backward: Array
    weight: Array
    kept: Array
    sending: float
    transfer: float

    @property
    def compute(self) -> Array:
        """Seconds of all passes; shape (stages, chunks)."""
        return self.forward + self.backward + self.weight


def stage_times(setting: Setting, columns: Mapping[str, int]) -> StageTimes:
    """The times of the plan ``columns`` (column values), stage by stage."""
    pp, vp = columns["pp"], columns["vp"]
    content = stages.chunks(setting.model, pp, vp, setting.weighed)
    tables = np.zeros((4, pp, vp))
    for moe in (False, True):
        counts = np.array([chunk.moe if moe else chunk.dense for chunk in content], dtype=float).reshape(vp, pp).T
        if counts.any():
            tables += np.multiply.outer(_layer(setting, columns, moe), counts)
    head = _value(compute.head(setting), columns)
    tables[:3, -1, -1] += head / 3
    embedding = _value(compute.embedding(setting), columns)
    tables[:3, 0, 0] += embedding * np.array([EMBEDDING_FORWARD, 0.0, 1 - EMBEDDING_FORWARD])
    exposed = _value(collectives.pipeline_transfer(setting), columns)
    bare = replace(setting, assumptions=setting.assumptions.model_copy(update={"pp_overlap": 0.0}))
    whole = _value(collectives.pipeline_transfer(bare), columns)
    messages = 2 * vp
    forward, backward, weight, kept = tables
    return StageTimes(forward, backward, weight, kept, exposed / messages, (whole - exposed) / messages)


def _layer(setting: Setting, columns: Mapping[str, int], moe: bool) -> Array:
    """Seconds forward, of the gradients of inputs and of weights, and bytes kept, of one layer."""
    whole = step.layer_time(setting, moe)
    plain, again = ({**columns, "recompute": int(kind)} for kind in (Recompute.NONE, Recompute.FULL))
    forward = _value(whole, again) - _value(whole, plain)
    work = compute.layer(setting, moe)
    assert isinstance(work, Sum)
    weight = sum(_value(item, plain) for item in work.terms if item.name in WEIGHTED) / 3
    rest = _value(whole, columns) - forward
    weight = min(weight, rest)  # where the host is slower, it is slower in all
    return np.array([forward, rest - weight, weight, _value(memory.kept(setting, moe), columns)])


def _value(expression: Expression, columns: Mapping[str, int]) -> float:
    return float(Evaluator({name: np.array([float(value)]) for name, value in columns.items()})(expression)[0])
