"""What every stage of a pipeline does, in which order, for each schedule.

A stage holds ``vp`` chunks of layers; chunk c of stage s is number ``c pp + s`` along the model. An operation is the
forward pass of a chunk for a micro-batch, its backward pass, or, where a schedule splits that, the gradients of its inputs
and those of its weights.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from planner.errors import InputError
from planner.physics.setting import Schedule


class Kind(IntEnum):
    """What an operation computes; a backward pass without a split gives both gradients."""

    FORWARD = 0
    BACKWARD = 1
    WEIGHT = 2


class Operation(NamedTuple):
    """One operation of a stage."""

    kind: Kind
    chunk: int
    micro_batch: int


Order = list[Operation]


def orders(schedule: Schedule, pp: int, vp: int, micro_batches: int) -> list[Order]:
    """The operations of each of ``pp`` stages, in order.

    GPipe (Huang et al. 2019, arXiv 1811.06965), 1F1B (Narayanan et al. 2019), interleaved 1F1B (Narayanan et al. 2021, arXiv
    2104.04473, as Megatron-LM orders it), ZB-H1 (Qi et al. 2023, arXiv 2401.10241). Raises `InputError` for counts below
    one, chunks without interleaving, and interleaving whose micro-batches are no multiple of the stages.
    """
    _check(schedule, pp, vp, micro_batches)
    if schedule is Schedule.GPIPE and pp > 1:  # without a pipeline, gradients are accumulated one by one
        return [_gpipe(micro_batches) for _ in range(pp)]
    if schedule is Schedule.INTERLEAVED and pp > 1:
        return [_interleaved(stage, pp, vp, micro_batches) for stage in range(pp)]
    if schedule is Schedule.ZERO_BUBBLE:
        return [_zero_bubble(stage, pp, micro_batches) for stage in range(pp)]
    return [_one_forward_one_backward(stage, pp, micro_batches) for stage in range(pp)]


def _check(schedule: Schedule, pp: int, vp: int, micro_batches: int) -> None:
    problems = [f"{name} = {value}: must be at least 1" for name, value in
                (("pp", pp), ("vp", vp), ("micro-batches", micro_batches)) if value < 1]  # fmt: skip
    if not problems and vp > 1 and (schedule is not Schedule.INTERLEAVED or pp == 1):
        problems.append(f"vp = {vp}: only an interleaved pipeline of several stages has more than one chunk a stage")
    if not problems and schedule is Schedule.INTERLEAVED and micro_batches % pp:
        problems.append(f"micro-batches = {micro_batches}: interleaving needs a multiple of pp = {pp}")
    if problems:
        raise InputError(problems)


def _gpipe(micro_batches: int) -> Order:
    forward = [Operation(Kind.FORWARD, 0, number) for number in range(micro_batches)]
    return forward + [Operation(Kind.BACKWARD, 0, number) for number in range(micro_batches)]


def _one_forward_one_backward(stage: int, pp: int, micro_batches: int) -> Order:
    forward = [Operation(Kind.FORWARD, 0, number) for number in range(micro_batches)]
    backward = [Operation(Kind.BACKWARD, 0, number) for number in range(micro_batches)]
    return _alternating(forward, backward, min(pp - stage - 1, micro_batches))


def _interleaved(stage: int, pp: int, vp: int, micro_batches: int) -> Order:
    """Micro-batches in groups of pp pass the chunks in turn; the last 2 (pp - stage - 1) + (vp - 1) pp warm up."""
    passes = micro_batches * vp
    forward, backward = [], []
    for place in range(passes):
        group, within = divmod(place, pp * vp)
        chunk, member = divmod(within, pp)
        number = group * pp + member
        forward.append(Operation(Kind.FORWARD, chunk, number))
        backward.append(Operation(Kind.BACKWARD, vp - 1 - chunk, number))
    warm_up = passes if micro_batches == pp else 2 * (pp - stage - 1) + (vp - 1) * pp
    return _alternating(forward, backward, min(warm_up, passes))


def _alternating(forward: Order, backward: Order, warm_up: int) -> Order:
    """``warm_up`` forward passes, then one forward and one backward in turn, then the backward passes that are left."""
    order = forward[:warm_up]
    for ahead, behind in zip(forward[warm_up:], backward, strict=False):
        order += [ahead, behind]
    return order + backward[len(forward) - warm_up :]


def _zero_bubble(stage: int, pp: int, micro_batches: int) -> Order:
    """1F1B whose stage number s puts off s weight gradients, which then fill its gaps; no stage holds more than pp."""
    warm_up = min(pp - stage, micro_batches)
    order = [Operation(Kind.FORWARD, 0, number) for number in range(warm_up)]
    for number in range(micro_batches):
        order.append(Operation(Kind.BACKWARD, 0, number))
        if number >= stage:
            order.append(Operation(Kind.WEIGHT, 0, number - stage))
        if number + warm_up < micro_batches:
            order.append(Operation(Kind.FORWARD, 0, number + warm_up))
    late = range(max(0, micro_batches - stage), micro_batches)
    return order + [Operation(Kind.WEIGHT, 0, number) for number in late]
