"""When every operation of a pipeline runs: events, in the order of each stage, as soon as their inputs are there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planner.algebra.expressions import Array
from planner.errors import InputError
from planner.schedule.orders import NAMES, Kind, Operation, Order, Route, routes
from planner.schedule.timeline import Timeline

NEVER = float("inf")


@dataclass(frozen=True)
class Durations:
    """Seconds of every operation, and of the messages between stages.

    ``forward``, ``backward`` (the gradients of inputs) and ``weight`` (those of weights) are of shape (stages, chunks); a
    backward pass that is not split takes the sum of the latter two, and a forward and a backward pass that run together
    take ``joint`` times the sum of both. A message from stage a to another stage b first keeps a busy for ``sending[a, b]``,
    then travels for ``transfer[a, b]`` while both compute; shape (stages, stages), or one number for all.
    """

    forward: Array
    backward: Array
    weight: Array
    transfer: Array | float = 0.0
    sending: Array | float = 0.0
    joint: float = 1.0

    def of(self, kind: Kind) -> Array:
        """Seconds of one kind of operation; shape (stages, chunks)."""
        if kind is Kind.BACKWARD:
            return np.asarray(self.backward + self.weight, dtype=float)
        parts = {Kind.FORWARD: self.forward, Kind.INPUT: self.backward, Kind.WEIGHT: self.weight}
        return np.asarray(parts[kind], dtype=float)


def simulate(order: list[Order], durations: Durations, ways: list[Route] | None = None) -> Timeline:
    """Run the operations of each stage in its order, each as soon as the stage is free and its input has come.

    ``ways`` are the routes of the micro-batches; without them, those of a pipeline in one direction. Raises `InputError`
    where stages wait for each other in a circle, or for what is in no order.
    """
    run = _Run(order, durations, ways)
    run.to_the_end()
    return Timeline(order, run.starts, run.ends, np.array(run.busy), np.array(run.sent))


class _Run:
    """The state of a simulation. Places are (stage, chunk) as one number, ``stage vp + chunk``."""

    def __init__(self, order: list[Order], durations: Durations, ways: list[Route] | None) -> None:
        pp, self.vp = durations.forward.shape
        self.order, self.joint = order, durations.joint
        self.seconds = [durations.of(kind).reshape(-1).tolist() for kind in Kind]
        transfer = np.broadcast_to(np.asarray(durations.transfer, dtype=float), (pp, pp))
        sending = np.broadcast_to(np.asarray(durations.sending, dtype=float), (pp, pp))
        places = pp * self.vp
        # where a place's input comes from, forward and backward, and how long that is after its end; what sending takes
        self.source = [[-1] * places, [-1] * places]
        self.delay, self.sending = [[0.0] * places, [0.0] * places], [[0.0] * places, [0.0] * places]
        for way in routes(pp, self.vp) if ways is None else ways:
            numbered = [stage * self.vp + chunk for stage, chunk in way]
            for direction, path in enumerate((numbered, numbered[::-1])):
                for here, there in pairwise(path):
                    self.source[direction][there] = here
                    a, b = here // self.vp, there // self.vp
                    if a != b:
                        self.delay[direction][there] = float(sending[a, b] + transfer[a, b])
                        self.sending[direction][here] = float(sending[a, b])
        count = 1 + max((operation.micro_batch for operations in order for operation in operations), default=0)
        self.forward_end = [[NEVER] * count for _ in range(places)]
        self.backward_end = [[NEVER] * count for _ in range(places)]
        self.starts: list[list[float]] = [[] for _ in order]
        self.ends: list[list[float]] = [[] for _ in order]
        self.free, self.busy, self.sent = [0.0] * pp, [0.0] * pp, [0.0] * pp

    def to_the_end(self) -> None:
        """Run stages in turn, each as far as it gets, until all are done. Raises `InputError` when none gets further."""
        waiting = list(range(len(self.order)))
        while waiting:
            moved = [self._advance(stage) for stage in waiting]
            waiting = [stage for stage in waiting if len(self.ends[stage]) < len(self.order[stage])]
            if waiting and not any(moved):
                raise InputError(self._stopped(waiting))

    def _advance(self, stage: int) -> bool:
        """Run what a stage can run now; whether that was anything."""
        operations, starts, ends, base = self.order[stage], self.starts[stage], self.ends[stage], stage * self.vp
        (forward_source, backward_source), (forward_delay, backward_delay) = self.source, self.delay
        forward_end, backward_end, seconds = self.forward_end, self.backward_end, self.seconds
        forward, weight = Kind.FORWARD, Kind.WEIGHT
        begun = place = len(ends)
        count, clock = len(operations), self.free[stage]
        busy = sent = 0.0
        while place < count:
            kind, chunk, number, joined = operations[place]
            at = base + chunk
            if joined:
                start, lasts = self._together(base, clock, operations[place], operations[place + 1])
                if start == NEVER:
                    break
                starts.append(start)
                ends.append(start + lasts)
                forward_end[at][number] = start + lasts
                place += 1
                _, chunk, number, _ = operations[place]
                at = base + chunk
                sends = self.sending[0][base + operations[place - 1].chunk] + self.sending[1][at]
                backward_end[at][number] = end = start + lasts
            else:
                if kind is forward:  # as `_ready` says; written out, since most of the time is spent here
                    source = forward_source[at]
                    start = forward_end[source][number] + forward_delay[at] if source >= 0 else 0.0
                elif kind is weight:
                    start = backward_end[at][number]
                else:
                    start, source = forward_end[at][number], backward_source[at]
                    if source >= 0:
                        start = max(start, backward_end[source][number] + backward_delay[at])
                if start == NEVER:
                    break
                if start < clock:
                    start = clock
                lasts = seconds[kind][at]
                end = start + lasts
                if kind is forward:
                    forward_end[at][number] = end
                    sends = self.sending[0][at]
                elif kind is weight:
                    sends = 0.0
                else:
                    backward_end[at][number] = end
                    sends = self.sending[1][at]
            starts.append(start)
            ends.append(end)
            clock = end + sends
            busy += lasts
            sent += sends
            place += 1
        self.free[stage] = clock
        self.busy[stage] += busy
        self.sent[stage] += sent
        return place > begun

    def _together(self, base: int, clock: float, first: Operation, second: Operation) -> tuple[float, float]:
        """Start and length of a forward and a backward pass that run together, s."""
        kind, at, number = first.kind, base + first.chunk, first.micro_batch
        other_kind, other, other_number = second.kind, base + second.chunk, second.micro_batch
        start = max(clock, self._ready(kind, at, number), self._ready(other_kind, other, other_number))
        return start, self.joint * (self.seconds[kind][at] + self.seconds[other_kind][other])

    def _ready(self, kind: Kind, at: int, number: int) -> float:
        """When the input of an operation is there, s; `NEVER` while that is unknown."""
        if kind is Kind.FORWARD:
            source = self.source[0][at]
            return self.forward_end[source][number] + self.delay[0][at] if source >= 0 else 0.0
        if kind is Kind.WEIGHT:
            return self.backward_end[at][number]
        own, source = self.forward_end[at][number], self.source[1][at]
        return max(own, self.backward_end[source][number] + self.delay[1][at]) if source >= 0 else own

    def _stopped(self, waiting: list[int]) -> str:
        named = []
        for stage in waiting[:4]:
            kind, chunk, number, _ = self.order[stage][len(self.ends[stage])]
            named.append(f"stage {stage} for the input of {NAMES[kind]} {number} of chunk {chunk}")
        more = f", and {len(waiting) - 4} more" if len(waiting) > 4 else ""
        return f"the schedule stops, stages wait for each other: {', '.join(named)}{more}"
