"""A pipeline as it ran: start and end of every operation, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.schedule.orders import Kind, Order


@dataclass(frozen=True)
class Timeline:
    """Start and end of every operation (s), stage by stage in the order given.

    Of operations that run together both have the start and the end of the pair. ``busy`` and ``sent`` are the seconds that
    each stage computes, and that sending keeps it from it; shape (stages,).
    """

    order: list[Order]
    starts: list[list[float]]
    ends: list[list[float]]
    busy: Array
    sent: Array

    @property
    def makespan(self) -> float:
        """Seconds from the first start to the last end."""
        return max((times[-1] for times in self.ends if times), default=0.0)

    @property
    def bubble(self) -> Array:
        """The part of the whole time that each stage neither computes nor sends; shape (stages,)."""
        return 1.0 - self.utilisation - self.sent / self.makespan

    @property
    def utilisation(self) -> Array:
        """The part of the whole time that each stage computes; shape (stages,)."""
        return self.busy / self.makespan

    def most_in_flight(self, *, weight: bool = True) -> list[int]:
        """Most chunks of micro-batches whose activations each stage holds: forward begun, and last use not ended.

        The last use is the gradient of the weights, or, without ``weight``, that of the inputs.
        """
        chunks = 1 + max((operation.chunk for order in self.order for operation in order), default=0)
        held = self.most_held(np.ones((len(self.order), chunks)), weight=weight)
        return [round(count) for count in held.tolist()]

    def most_held(self, sizes: Array, *, weight: bool = True) -> Array:
        """Most that each stage holds at once of what a chunk keeps of a micro-batch, ``sizes`` of shape (stages, chunks).

        In the unit of ``sizes``, shape (stages,).
        """
        freed = {Kind.BACKWARD, Kind.WEIGHT if weight else Kind.INPUT}
        sign = np.zeros(len(Kind))
        sign[Kind.FORWARD] = 1.0
        sign[list(freed)] = -1.0
        found = np.zeros(len(self.order))
        for stage, operations in enumerate(self.order):
            if operations:
                table: NDArray[np.intp] = np.array([operation[:2] for operation in operations], dtype=np.intp)
                change = sign[table[:, 0]] * sizes[stage][table[:, 1]]
                found[stage] = max(0.0, float(np.cumsum(change).max()))
        return found

    def last_gradients(self) -> Array:
        """When the last micro-batch of each stage begins to add to the gradients of weights, s; shape (stages,)."""
        found = np.zeros(len(self.order))
        for stage, operations in enumerate(self.order):
            giving = [place for place, operation in enumerate(operations)
                      if operation.kind in (Kind.BACKWARD, Kind.WEIGHT)]  # fmt: skip
            last = operations[giving[-1]].micro_batch
            found[stage] = min(self.starts[stage][place] for place in giving if operations[place].micro_batch == last)
        return found
