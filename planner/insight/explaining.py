"""What a plan's time goes into, and what would shorten it: each change solved anew, with its own proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.algebra.breakdown import explain
from planner.errors import InputError
from planner.insight.changes import Change, changes
from planner.outcome import Status
from planner.result import degrees
from planner.solving import optimise

if TYPE_CHECKING:
    from planner.instance import Instance

#: What the parts of a step's time wait for, by the words in their names; the first that occurs counts.
RESOURCES = (
    ("pipeline bubble", "other stages"), ("outside the model", "host"), ("host", "host"), ("latency", "latency"),
    ("launches", "latency"), ("communication", "network bandwidth"), ("tied embedding", "network bandwidth"),
    ("norms", "memory bandwidth"), ("activation", "memory bandwidth"), ("optimizer", "memory bandwidth"),
    ("routing", "memory bandwidth"), ("expert weights", "memory bandwidth"), ("expert tokens", "memory bandwidth"),
    ("embedding", "memory bandwidth"), ("products", "matrix rate"), ("attention", "matrix rate"),
    ("padding", "matrix rate"), ("output layer", "matrix rate"),
)  # fmt: skip


@dataclass(frozen=True)
class Gain:
    """A change and what it buys: the step time of the best plan after it, and that of the plan of before, if it stands.

    Both in seconds for the batch of before; ``gap`` is that of the new proof. No ``step_time``: no plan.
    """

    words: str
    step_time: float | None
    kept_step_time: float | None
    gap: float
    plan: Mapping[str, Any] | None


def resources(time_s: Mapping[str, float]) -> dict[str, float]:
    """Seconds of a step by what they wait for; most first."""
    found: dict[str, float] = {}
    for name, seconds in time_s.items():
        resource = next((resource for word, resource in RESOURCES if word in name), "other")
        found[resource] = found.get(resource, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def gains(
    instance: Instance, columns: Mapping[str, int], gap: float = 1e-3, report: Callable[[str], None] | None = None
) -> Iterator[Gain]:
    """What each change of the cluster would buy the plan ``columns`` of ``instance``."""
    for change in changes(instance):
        if report:
            report(change.words)
        yield _gain(change, columns, gap)


def _gain(change: Change, columns: Mapping[str, int], gap: float) -> Gain:
    outcome = optimise(change.instance, gap=gap, start=[columns])
    kept = None
    if change.same_places:
        kept = explain(change.instance.step_time, {name: float(value) for name, value in columns.items()}).value
    if not outcome.plans:
        return Gain(change.words, None, kept, outcome.gap, None)
    plan = outcome.plans[0]
    seconds = explain(change.instance.step_time, {name: float(value) for name, value in plan.items()}).value
    seconds *= columns["global_batch"] / plan["global_batch"]
    return Gain(change.words, seconds, kept, outcome.gap, degrees(change.instance, plan))


@dataclass(frozen=True)
class Wish:
    """A wish beside the best plan: ``price`` is how much slower, relatively, the best plan that keeps it is.

    ``seconds`` is by how much each part of a step's time grows, most first. No ``plan``: none keeps the wish, for
    ``reason``.
    """

    price: float | None
    step_time: float | None
    gap: float
    seconds: Mapping[str, float]
    plan: Mapping[str, Any] | None
    memory: float | None
    reason: str


def whatif(instance: Instance, columns: Mapping[str, int], wished: Instance, gap: float = 1e-3) -> Wish:
    """The best plan of ``wished``, which is ``instance`` with some decisions fixed, beside the plan ``columns``."""
    from planner.result import reason

    outcome = optimise(wished, gap=gap, start=[columns])
    if not outcome.plans:
        if outcome.status is not Status.INFEASIBLE:
            raise InputError("stopped before any plan was found")
        return Wish(None, None, outcome.gap, {}, None, None, reason(wished, outcome))
    plan = outcome.plans[0]
    before = explain(instance.step_time, {name: float(value) for name, value in columns.items()})
    after = explain(wished.step_time, {name: float(value) for name, value in plan.items()})
    scale = columns["global_batch"] / plan["global_batch"]
    old, new = before.flat(), after.flat()
    seconds = {name: scale * new.get(name, 0.0) - old.get(name, 0.0) for name in old | new}
    ranked = dict(sorted(seconds.items(), key=lambda item: -abs(item[1])))
    memory = explain(wished.peak_memory, {name: float(value) for name, value in plan.items()}).value
    step_time = scale * after.value
    return Wish(step_time / before.value - 1, step_time, outcome.gap, ranked, degrees(wished, plan), memory, "")
