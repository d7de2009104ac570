"""When every operation of a pipeline runs: events, in the order of each stage, as soon as their inputs are there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.algebra.expressions import Array
from planner.errors import InputError
from planner.schedule.orders import Kind, Order


@dataclass(frozen=True)
class Durations:
    """Seconds of every operation, and of the way between stages.

    ``forward``, ``backward`` and ``weight`` are of shape (stages, chunks); ``backward`` is the whole backward pass where
    the order has no weight gradients of its own, else the input's gradient alone. ``transfer`` (s) passes between the end
    of an operation and the start of the next one along the model on another stage, which stay free meanwhile.
    """

    forward: Array
    backward: Array
    weight: Array
    transfer: float = 0.0


@dataclass(frozen=True)
class Timeline:
    """Start and end of every operation (s), stage by stage in the order given, and what follows from them."""

    order: list[Order]
    starts: list[list[float]]
    ends: list[list[float]]

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return max(times[-1] for times in self.ends)

    @property
    def busy(self) -> Array:
        """Seconds that each stage computes; shape (stages,)."""
        pairs = zip(self.starts, self.ends, strict=True)
        return np.array([sum(ends) - sum(starts) for starts, ends in pairs])

    @property
    def bubble(self) -> Array:
        """The part of the whole time that each stage waits; shape (stages,)."""
        return 1.0 - self.busy / self.makespan

    def most_in_flight(self) -> list[int]:
        """Most chunks of micro-batches whose activations each stage holds: forward begun, and last use not ended."""
        found = []
        for operations in self.order:
            split = any(operation.kind is Kind.WEIGHT for operation in operations)
            freed = Kind.WEIGHT if split else Kind.BACKWARD
            held = most = 0
            for operation in operations:
                if operation.kind is Kind.FORWARD:
                    held += 1
                    most = max(most, held)
                elif operation.kind is freed:
                    held -= 1
            found.append(most)
        return found


def simulate(order: list[Order], durations: Durations) -> Timeline:
    """Run the operations of each stage in its order, each as soon as the stage is free and its input has come.

    Raises `InputError` where stages wait for each other in a circle.
    """
    pp, vp = durations.forward.shape
    last = pp * vp - 1
    seconds = [
        np.asarray(part, dtype=float).tolist() for part in (durations.forward, durations.backward, durations.weight)
    ]
    micro_batches = 1 + max(operation.micro_batch for operations in order for operation in operations)
    never = float("inf")
    forward_end = [[never] * micro_batches for _ in range(last + 1)]
    backward_end = [[never] * micro_batches for _ in range(last + 1)]
    starts: list[list[float]] = [[] for _ in order]
    ends: list[list[float]] = [[] for _ in order]
    free = [0.0] * pp
    waiting = list(range(pp))
    done = [0] * pp
    while waiting:
        moved = False
        for stage in waiting:
            operations, place, clock = order[stage], done[stage], free[stage]
            while place < len(operations):
                kind, chunk, number = operations[place]
                position = chunk * pp + stage
                if kind is Kind.FORWARD:
                    ready = _come(forward_end[position - 1][number], pp, durations) if position else 0.0
                elif kind is Kind.BACKWARD:
                    ready = forward_end[position][number]
                    if position < last:
                        ready = max(ready, _come(backward_end[position + 1][number], pp, durations))
                else:
                    ready = backward_end[position][number]
                if ready == never:
                    break
                start = ready if ready > clock else clock
                clock = start + seconds[kind][stage][chunk]
                starts[stage].append(start)
                ends[stage].append(clock)
                if kind is Kind.FORWARD:
                    forward_end[position][number] = clock
                elif kind is Kind.BACKWARD:
                    backward_end[position][number] = clock
                place += 1
            moved |= place > done[stage]
            done[stage], free[stage] = place, clock
        waiting = [stage for stage in waiting if done[stage] < len(order[stage])]
        if waiting and not moved:
            raise InputError(f"the schedule stops: stages {', '.join(map(str, waiting[:8]))} wait for each other")
    return Timeline(order, starts, ends)


def _come(end: float, pp: int, durations: Durations) -> float:
    return end + durations.transfer if pp > 1 else end
