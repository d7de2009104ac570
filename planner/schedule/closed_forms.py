"""What the literature says of each schedule on even stages with free exchanges: its bubble, and what a stage holds.

All are of ``pp`` stages that each take ``forward`` seconds for the forward pass of a micro-batch, ``backward`` for the
gradients of its inputs and ``weight`` for those of its weights, chunks together. A step of m micro-batches then takes m
times their sum, and the bubble. `planner.schedule.engine` gives the same where the docstrings say exactly.
"""

from __future__ import annotations

from planner.physics.setting import Schedule


def bubble(schedule: Schedule, pp: int, vp: int, forward: float, backward: float, weight: float) -> float:
    """Seconds of a step that every stage waits.

    GPipe (arXiv 1811.06965) and 1F1B (arXiv 2006.09503): (pp - 1) (F + B + W), exactly. Interleaved (arXiv 2104.04473,
    section 2.2): (pp - 1) (F + B + W) / vp, exactly for equal chunks. ZB-H1 (arXiv 2401.10241, section 2): (pp - 1) (F + B -
    W), exactly where W is no longer than F and than B and there are at least pp micro-batches; a lower bound where W is
    longer.
    """
    if schedule is Schedule.ZERO_BUBBLE:
        return (pp - 1) * (forward + backward - weight)
    whole = (pp - 1) * (forward + backward + weight)
    return whole / vp if schedule is Schedule.INTERLEAVED else whole


def bidirectional_bubble(pp: int, forward: float, backward: float, weight: float, together: float) -> float:
    """Seconds of a DualPipe step that a stage in the middle waits: (pp/2 - 1) (F&B + B' - 3 W) with B' = B + W.

    ``together`` is F&B, the time of a forward and a whole backward pass that run together; a stage's chunk of each
    direction takes ``forward``, ``backward`` and ``weight``. Exactly where F = B, W is no longer than F, and F&B no shorter
    than B'. With B longer than F a step is shorter than this says, with F longer than B longer. Pairs count as work; where
    they are shorter than F + B', other stages have fewer of them and wait less. Source: DeepSeek-V3 technical report,
    arXiv 2412.19437, table 2.
    """
    return (pp / 2 - 1) * (together + backward + weight - 3 * weight)


def in_flight(schedule: Schedule, pp: int, vp: int, stage: int, micro_batches: int) -> int:
    """Most chunks whose backward pass (of ZB-H1: the gradient of the inputs) is still to end, on one stage; exactly.

    GPipe: all. 1F1B and ZB-H1: pp - stage (arXiv 2401.10241, section 2). Interleaved: as many as warm up, 2 (pp - stage -
    1) + (vp - 1) pp, and one (Megatron-LM), all where there are only pp micro-batches. Never more than the step has.
    """
    every = micro_batches * vp
    if pp == 1:
        return 1
    if schedule is Schedule.GPIPE:
        return every
    if schedule is Schedule.INTERLEAVED:
        return every if micro_batches == pp else min(2 * (pp - stage - 1) + (vp - 1) * pp + 1, every)
    return min(pp - stage, every)


def awaiting_weight_gradient(pp: int, micro_batches: int) -> int:
    """Most micro-batches of ZB-H1 whose gradient of weights is still to end, on any stage: pp; exactly.

    A stage that holds fewer for their backward pass puts off as many more gradients of weights (arXiv 2401.10241, section
    2): all stages have the same number in flight.
    """
    return min(pp, micro_batches)


def bidirectional_in_flight(pp: int) -> int:
    """Most chunks of micro-batches that any DualPipe stage holds: pp + 1; exactly (arXiv 2412.19437, table 2)."""
    return pp + 1
