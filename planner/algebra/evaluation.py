"""The first reading: exact, vectorised values of an expression for many plans at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, Max, Monomial, Product, Sum

Columns = Mapping[str, Array]


class Evaluator:
    """Prices expressions for one table of plans; each distinct factor is computed once.

    ``columns`` maps every column's name to an array of shape (plans,).
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._factors: dict[object, Array] = {}
        self._values: dict[int, tuple[Expression, Array]] = {}

    def factor(self, factor: Factor) -> Array:
        """The factor's values, shape (plans,)."""
        value = self._factors.get(factor.key)
        if value is None:
            value = factor.function(*(self.columns[name] for name in factor.columns))
            self._factors[factor.key] = value
        return value

    def __call__(self, expression: Expression) -> Array:
        """The expression's values in its unit, shape (plans,)."""
        known = self._values.get(id(expression))
        if known is None:
            known = self._values[id(expression)] = (expression, self._evaluate(expression))
        return known[1]

    def _evaluate(self, expression: Expression) -> Array:
        if isinstance(expression, Monomial):
            size = len(next(iter(self.columns.values())))
            if not expression.factors:
                return np.full(size, expression.coefficient)
            value = expression.coefficient * self.factor(expression.factors[0])
            for factor in expression.factors[1:]:
                value *= self.factor(factor)
            return value
        if isinstance(expression, Product):
            return self(expression.left) * self(expression.right)
        assert isinstance(expression, Sum | Max)
        combine = np.add if isinstance(expression, Sum) else np.maximum
        value = self(expression.terms[0]).copy()
        for item in expression.terms[1:]:
            combine(value, self(item), out=value)
        return value


def evaluate(expression: Expression, columns: Columns) -> Array:
    """The expression's values for a table of plans, in its unit; shape (plans,)."""
    return Evaluator(columns)(expression)
