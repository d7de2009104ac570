"""What every stage of a pipeline does, in which order, for each schedule.

A stage holds ``vp`` chunks of layers; chunk c of stage s is number ``c pp + s`` along the model (`routes` says where that is
otherwise). An operation is the forward pass of a chunk for a micro-batch, its backward pass, or, where a schedule splits
that, the gradients of its inputs and those of its weights.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from planner.errors import InputError
from planner.physics.setting import Schedule


class Kind(IntEnum):
    """What an operation computes: a whole backward pass, or one that is split into two gradients."""

    FORWARD = 0
    BACKWARD = 1
    INPUT = 2
    WEIGHT = 3


#: What they are called.
NAMES = {
    Kind.FORWARD: "forward",
    Kind.BACKWARD: "backward",
    Kind.INPUT: "input gradient",
    Kind.WEIGHT: "weight gradient",
}


class Operation(NamedTuple):
    """One operation of a stage; ``joined``: it runs together with the operation after it in the order."""

    kind: Kind
    chunk: int
    micro_batch: int
    joined: bool = False


Order = list[Operation]
#: The (stage, chunk) that a micro-batch passes, from the first layers to the last.
Route = list[tuple[int, int]]


def orders(schedule: Schedule, pp: int, vp: int, micro_batches: int) -> list[Order]:
    """The operations of each of ``pp`` stages, in order.

    GPipe (Huang et al. 2019, arXiv 1811.06965), 1F1B (Narayanan et al. 2019), interleaved 1F1B (Narayanan et al. 2021, arXiv
    2104.04473, as Megatron-LM orders it), ZB-H1 (Qi et al. 2023, arXiv 2401.10241). Raises `InputError` for counts below
    one, chunks without interleaving, and interleaving whose micro-batches are no multiple of the stages.
    """
    _check(schedule, pp, vp, micro_batches)
    passes = _passes(pp, vp, micro_batches)  # the same operations on every stage, in another mixture
    if schedule is Schedule.GPIPE and pp > 1:  # without a pipeline, gradients are accumulated one by one
        return [passes[0] + passes[1]] * pp
    if schedule is Schedule.ZERO_BUBBLE:
        return _zero_bubble(pp, micro_batches)
    return [_alternating(*passes, _warm_up(schedule, stage, pp, vp, micro_batches)) for stage in range(pp)]


def routes(pp: int, vp: int) -> list[Route]:
    """The way of every micro-batch, but for a bidirectional pipeline: through all stages, then the next chunk of each."""
    return [[(place % pp, place // pp) for place in range(pp * vp)]]


def _check(schedule: Schedule, pp: int, vp: int, micro_batches: int) -> None:
    problems = [f"{name} = {value}: must be at least 1" for name, value in
                (("pp", pp), ("vp", vp), ("micro-batches", micro_batches)) if value < 1]  # fmt: skip
    if not problems and vp > 1 and (schedule is not Schedule.INTERLEAVED or pp == 1):
        problems.append(f"vp = {vp}: only an interleaved pipeline of several stages has more than one chunk a stage")
    if not problems and schedule is Schedule.INTERLEAVED and micro_batches % pp:
        problems.append(f"micro-batches = {micro_batches}: interleaving needs a multiple of pp = {pp}")
    if problems:
        raise InputError(problems)


def _passes(pp: int, vp: int, micro_batches: int) -> tuple[Order, Order]:
    """A stage's forward passes, and its whole backward passes: groups of pp micro-batches pass the chunks in turn."""
    forward, backward = [], []
    for first in range(0, micro_batches, pp):
        group = range(first, min(first + pp, micro_batches))
        for chunk in range(vp):
            forward += [Operation(Kind.FORWARD, chunk, number) for number in group]
            backward += [Operation(Kind.BACKWARD, vp - 1 - chunk, number) for number in group]
    return forward, backward


def _warm_up(schedule: Schedule, stage: int, pp: int, vp: int, micro_batches: int) -> int:
    """Forward passes of a stage before its first backward pass, less the one that goes with that."""
    if schedule is not Schedule.INTERLEAVED:
        return min(pp - stage - 1, micro_batches)
    passes = micro_batches * vp
    return passes if micro_batches == pp else min(2 * (pp - stage - 1) + (vp - 1) * pp, passes)


def _alternating(forward: Order, backward: Order, warm_up: int) -> Order:
    """``warm_up`` forward passes, then one forward and one backward in turn, then the backward passes that are left."""
    order = forward[:warm_up]
    for ahead, behind in zip(forward[warm_up:], backward, strict=False):
        order += [ahead, behind]
    return order + backward[len(forward) - warm_up :]


def _zero_bubble(pp: int, micro_batches: int) -> list[Order]:
    """1F1B whose stage number s puts off s weight gradients, which then fill its gaps; no stage holds more than pp."""
    forward, gradients, weights = (
        [Operation(kind, 0, number) for number in range(micro_batches)]
        for kind in (Kind.FORWARD, Kind.INPUT, Kind.WEIGHT)
    )
    found = []
    for stage in range(pp):
        warm_up = min(pp - stage, micro_batches)
        order = forward[:warm_up]
        for number in range(micro_batches):
            order.append(gradients[number])
            if number >= stage:
                order.append(weights[number - stage])
            if number + warm_up < micro_batches:
                order.append(forward[number + warm_up])
        found.append(order + weights[max(0, micro_batches - stage) :])
    return found
