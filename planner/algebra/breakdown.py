"""The third reading: which named term of an expression costs what, for one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from planner.algebra.evaluation import Evaluator
from planner.algebra.expressions import Expression, Max, Monomial, Product, Sum


@dataclass(frozen=True)
class Part:
    """A named share of a cost: ``value`` in ``unit``; the values of ``parts`` add up to it, if there are any."""

    name: str
    value: float
    unit: str
    source: str = ""
    parts: tuple[Part, ...] = field(default=())

    def flat(self) -> dict[str, float]:
        """Leaf names to values; leaves of the same name are added."""
        if not self.parts:
            return {self.name: self.value}
        merged: dict[str, float] = {}
        for part in self.parts:
            for name, value in part.flat().items():
                merged[name] = merged.get(name, 0.0) + value
        return merged


def explain(expression: Expression, plan: Mapping[str, float]) -> Part:
    """The breakdown of ``expression`` at one plan. Of a maximum only the largest term is shown: it is what is paid."""
    evaluator = Evaluator({name: np.array([float(value)]) for name, value in plan.items()})
    return _explain(expression, evaluator, 1.0)


def _explain(expression: Expression, evaluator: Evaluator, scale: float) -> Part:
    value = scale * float(evaluator(expression)[0])
    unit = str(expression.unit)
    if isinstance(expression, Monomial):
        return Part(expression.name, value, unit, expression.source)
    if isinstance(expression, Max):
        chosen = max(expression.terms, key=lambda item: float(evaluator(item)[0]))
        inner = _explain(chosen, evaluator, scale)
        return Part(expression.name or inner.name, value, unit, inner.source, inner.parts or (inner,))
    if isinstance(expression, Sum):
        parts = tuple(_explain(item, evaluator, scale) for item in expression.terms)
        return Part(expression.name, value, unit, "", tuple(part for part in parts if part.value))
    assert isinstance(expression, Product)
    if expression.name and expression.name != expression.left.name:  # a name of its own hides the inside
        return Part(expression.name, value, unit)
    inner = _explain(expression.left, evaluator, scale * float(evaluator(expression.right)[0]))
    return Part(expression.name or inner.name, value, unit, inner.source, inner.parts)
