"""The order of a bidirectional pipeline: DualPipe (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.1).

The model is cut into ``pp`` parts. Stage s holds part s as chunk 0 and part ``pp - 1 - s`` as chunk 1; half of the micro-
batches pass the stages from the first to the last through chunks 0, the other half from the last to the first through
chunks 1. In the steady state a forward pass of one direction runs together with a backward pass of the other, so that each
hides the other's exchanges.
"""

from __future__ import annotations

from collections import deque

from planner.errors import InputError
from planner.schedule.orders import Kind, Operation, Order, Route


def bidirectional(pp: int, micro_batches: int) -> list[Order]:
    """The operations of each of ``pp`` stages, in order; the first half of the micro-batches passes chunks 0.

    Raises `InputError` for an odd number of stages or micro-batches, and for fewer micro-batches than twice the stages:
    the published order has a steady state for those only.
    """
    problems = []
    if pp < 2 or pp % 2:
        problems.append(f"pp = {pp}: a bidirectional pipeline needs an even number of stages")
    elif micro_batches % 2 or micro_batches < 2 * pp:
        problems.append(f"micro-batches = {micro_batches}: a bidirectional pipeline needs an even number, at least 2 pp = "
                        f"{2 * pp}")  # fmt: skip
    if problems:
        raise InputError(problems)
    return [_StageOrder(stage, pp, micro_batches).build() for stage in range(pp)]


def bidirectional_routes(pp: int) -> list[Route]:
    """The way of either half of the micro-batches: chunks 0 forwards, chunks 1 backwards through the stages."""
    return [[(stage, 0) for stage in range(pp)], [(stage, 1) for stage in reversed(range(pp))]]


class _StageOrder:
    """Writes one stage's order. *Near* is the direction whose first stage is the nearer one, *far* the other."""

    def __init__(self, stage: int, pp: int, micro_batches: int) -> None:
        self.depth = min(stage, pp - 1 - stage)  # from the nearer end of the pipeline
        self.half, self.pairs = pp // 2, micro_batches // 2
        self.pp = pp
        self.near, self.far = (0, 1) if stage < self.half else (1, 0)
        self.order: Order = []
        self.begun, self.finished = [0, 0], [0, 0]
        self.put_off: deque[tuple[int, int]] = deque()  # weight gradients that are still to be computed

    def build(self) -> Order:
        """The whole order: warm-up, steady state, and a drain that puts off weight gradients to fill its gaps."""
        from_middle = self.half - self.depth - 1
        for _ in range(2 * from_middle):
            self._forward(self.near)
        for _ in range(self.depth + 1):
            self._forward(self.near)
            self._forward(self.far)
        for _ in range(from_middle):
            self._backward(self.far, split=True)
            self._weight()
            self._forward(self.far)
        for count in range(self.pairs - self.pp + self.depth + 1):
            # the two stages in the middle need not wait for both inputs of their first pair at once
            self._together(self.near, self.far, joined=count > 0 or from_middle > 0)
            self._together(self.far, self.near)
        for _ in range(from_middle):
            self._backward(self.far)
            self._together(self.far, self.near)
        left = 2 * (self.depth + 1)
        for count in range(left):
            self._backward(self.far if count % 2 == 0 else self.near, split=count > self.depth)
        for _ in range(from_middle):
            self._weight()
            self._backward(self.near, split=True)
        while self.put_off:
            self._weight()
        return self.order

    def _forward(self, direction: int, joined: bool = False) -> None:
        number = direction * self.pairs + self.begun[direction]
        self.begun[direction] += 1
        self.order.append(Operation(Kind.FORWARD, direction, number, joined))

    def _backward(self, direction: int, split: bool = False) -> None:
        number = direction * self.pairs + self.finished[direction]
        self.finished[direction] += 1
        self.order.append(Operation(Kind.INPUT if split else Kind.BACKWARD, direction, number))
        if split:
            self.put_off.append((direction, number))

    def _together(self, forward: int, backward: int, joined: bool = True) -> None:
        self._forward(forward, joined)
        self._backward(backward)

    def _weight(self) -> None:
        direction, number = self.put_off.popleft()
        self.order.append(Operation(Kind.WEIGHT, direction, number))
