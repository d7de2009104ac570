"""How models, data and batches grow with training compute: the rules of arXiv 2411.01137 and its authors' public program.

A layer is two matrices, width x feed-forward and back, in ``experts`` copies of which a token meets one. Everything is
rounded to the list {1, 3, 5, 7, 9} * 2^i; ties go to the smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from planner.schema.frontier import Batch, FrontierProblem, Shape

ROUND = np.sort(np.outer([1, 3, 5, 7, 9], 2.0 ** np.arange(60)).ravel())
#: Widths of the published curves: {1, 3, ..., 15} * 2^i between these.
NARROWEST, WIDEST, ODD = 12_288, 128 * 12_288, range(1, 16, 2)
#: A model of width 12,288 has this many experts when it is sparse; the reference point of the batch rules.
REFERENCE_WIDTH, REFERENCE_EXPERTS = 12_288, 8
REFERENCE_COMPUTE, REFERENCE_SEQUENCES, REFERENCE_LENGTH = 3e23, 2048, 2048
DEEPSEEK_COEFFICIENT, DEEPSEEK_EXPONENT = 0.2920, 0.3271
#: Forward and backward FLOP of one weight and token.
FLOP_PER_WEIGHT = 6.0


@dataclass(frozen=True)
class Model:
    """A model to train: ``layers`` of ``experts`` copies of two ``width`` x ``ff`` matrices.

    ``compute`` of the run in FLOP; ``batch`` in tokens.
    """

    width: int
    ff: int
    layers: int
    experts: int
    compute: float
    batch: int

    @property
    def parameters(self) -> float:
        """All weights, of all experts."""
        return 2.0 * self.width * self.ff * self.layers * self.experts

    @property
    def tokens(self) -> float:
        """Tokens of the run."""
        return self.compute * self.experts / (FLOP_PER_WEIGHT * self.parameters)


def widths(problem: FrontierProblem) -> list[int]:
    """The widths that a budget may choose from, ascending."""
    if problem.shape.widths is not None:
        return sorted(set(problem.shape.widths))
    found = {odd << power for odd in ODD for power in range(11, 22)}
    return sorted(width for width in found if NARROWEST <= width <= WIDEST)


def model_of_width(problem: FrontierProblem, width: int) -> Model:
    """The model of a width, trained on as many tokens as the shape says (20 per parameter)."""
    shape = problem.shape
    ff, layers, experts = _matrices(shape, width)
    parameters = 2.0 * width * ff * layers * experts
    compute = FLOP_PER_WEIGHT * parameters / experts * shape.tokens_per_parameter * parameters
    return Model(width, ff, layers, experts, compute, batch_tokens(problem.batch, compute, experts))


def model_of_budget(problem: FrontierProblem, budget: float) -> Model:
    """The model whose compute by `model_of_width` is nearest to ``budget`` FLOP, trained for exactly the budget."""
    candidates = [model_of_width(problem, width) for width in widths(problem)]
    nearest = min(candidates, key=lambda model: abs(np.log(model.compute / budget)))
    batch = batch_tokens(problem.batch, budget, nearest.experts)
    return Model(nearest.width, nearest.ff, nearest.layers, nearest.experts, budget, batch)


def batch_tokens(rule: Batch, compute: float, experts: int) -> int:
    """Tokens in a batch under a rule; a whole number of sequences for each expert."""
    length = rule.sequence_length
    reference = REFERENCE_SEQUENCES * REFERENCE_LENGTH / length  # sequences
    if rule.rule == "none":
        sequences = reference
    elif rule.rule == "deepseek":
        sequences = sqrt(experts) * DEEPSEEK_COEFFICIENT * compute**DEEPSEEK_EXPONENT / length
    else:
        sequences = sqrt(experts) * reference * (compute / REFERENCE_COMPUTE) ** rule.exponent
    return int(experts * nearest(rule.factor * sequences / experts)) * length


def nearest(value: float) -> float:
    """The number of the list that is nearest to ``value``."""
    return float(ROUND[np.argmin(np.abs(ROUND - value))])


def _matrices(shape: Shape, width: int) -> tuple[int, int, int]:
    """Feed-forward width, layers and experts of a width."""
    ff = round(shape.feed_forward_ratio * width)
    layers = shape.layers
    if layers == "scaled":
        layers = int(nearest(shape.depth_coefficient * float(width * ff) ** shape.depth_exponent))
    experts = shape.experts
    if experts == "scaled":
        scale = sqrt(width * ff / (4 * REFERENCE_WIDTH**2))
        experts = int(nearest(REFERENCE_EXPERTS * scale))
    return ff, layers, experts
