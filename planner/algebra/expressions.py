"""The language of costs: monomials in discrete decisions, their sums, maxima and products.

A *column* is a named decision (``tp``, ``micro_batch``, ``schedule`` ...); a plan gives each a number. A `Factor` is a
non-negative function of a few columns, a `Monomial` a coefficient times factors. Everything that a training step costs
is written once in these, and read three ways: `planner.algebra.evaluation` prices plans exactly, `planner.milp` turns the
expression into constraints, `planner.algebra.breakdown` names what costs what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.algebra.units import ONE, Unit, common

Array: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[..., Array]


@dataclass(frozen=True)
class Factor:
    """A non-negative function of ``columns``; zero makes the whole monomial vanish.

    ``function`` takes one array for each column, all of the same shape (plans,), and returns an array of that shape.
    ``label`` says what it is, such as ``(tp-1)/tp``; two factors of the same label and columns must be the same
    function, since evaluation computes each of them once.
    """

    label: str
    columns: tuple[str, ...]
    function: Function

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """What identifies the factor."""
        return self.label, self.columns


def power(column: str, exponent: float = 1.0) -> Factor:
    """``column ** exponent``."""
    if exponent == 1:
        return Factor(column, (column,), lambda value: np.asarray(value, dtype=float))
    if exponent == -1:
        return Factor(f"1/{column}", (column,), lambda value: 1.0 / value)
    return Factor(f"{column}^{exponent:g}", (column,), lambda value: np.asarray(value, dtype=float) ** exponent)


def choice(column: str, table: dict[int, float], label: str) -> Factor:
    """A constant for each choice of a categorical ``column``; a choice that is not in ``table`` gives zero."""
    codes = np.zeros(max(table) + 1)
    for code, value in table.items():
        codes[code] = value

    def look_up(value: Array) -> Array:
        index = np.asarray(value, dtype=np.intp)
        known = index < len(codes)
        return np.where(known, codes[np.where(known, index, 0)], 0.0)

    return Factor(label, (column,), look_up)


class Expression:
    """Base of all expressions: ``name`` labels the breakdown, ``unit`` is checked by sums and maxima."""

    name: str
    unit: Unit

    def __add__(self, other: Expression) -> Expression:
        return Sum((self, other))

    def __mul__(self, other: Expression | Factor | float) -> Expression:
        return product(self, other)

    __rmul__ = __mul__

    def named(self, name: str) -> Expression:
        """The same expression under a name of its own in the breakdown."""
        return replace(self, name=name)  # type: ignore[type-var]


@dataclass(frozen=True)
class Monomial(Expression):
    """``coefficient`` (in ``unit``) times the product of ``factors``; ``source`` is where the formula is from."""

    coefficient: float
    factors: tuple[Factor, ...] = ()
    unit: Unit = ONE
    name: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not np.isfinite(self.coefficient) or self.coefficient < 0:
            raise ValueError(f"monomial {self.name or '?'}: coefficient {self.coefficient} is not finite and >= 0")


@dataclass(frozen=True)
class Sum(Expression):
    """The sum of ``terms``, which are all of one unit."""

    terms: tuple[Expression, ...]
    name: str = ""

    def __post_init__(self) -> None:
        common([term.unit for term in self.terms], f"sum {self.name}".strip())

    @property
    def unit(self) -> Unit:  # type: ignore[override]
        """The terms' unit."""
        return self.terms[0].unit


@dataclass(frozen=True)
class Max(Expression):
    """The largest of ``terms``, which are all of one unit."""

    terms: tuple[Expression, ...]
    name: str = ""

    def __post_init__(self) -> None:
        common([term.unit for term in self.terms], f"maximum {self.name}".strip())

    @property
    def unit(self) -> Unit:  # type: ignore[override]
        """The terms' unit."""
        return self.terms[0].unit


@dataclass(frozen=True)
class Product(Expression):
    """``left`` times ``right``."""

    left: Expression
    right: Expression
    name: str = ""

    @property
    def unit(self) -> Unit:  # type: ignore[override]
        """The product of the two units."""
        return self.left.unit * self.right.unit


def term(name: str, unit: Unit, coefficient: float, *factors: Factor, source: str = "") -> Monomial:
    """A named monomial: ``coefficient`` in ``unit`` times ``factors``."""
    return Monomial(float(coefficient), tuple(factors), unit, name, source)


def total(name: str, terms: Iterable[Expression]) -> Expression:
    """The named sum of ``terms``; terms that are identically zero are left out."""
    kept = tuple(item for item in terms if not is_zero(item))
    if not kept:
        raise ValueError(f"sum {name}: every term is identically zero")
    return kept[0].named(name) if len(kept) == 1 and not kept[0].name else Sum(kept, name)


def largest(name: str, terms: Iterable[Expression]) -> Expression:
    """The named maximum of ``terms``; terms that are identically zero are left out unless all are."""
    given = tuple(terms)
    kept = tuple(item for item in given if not is_zero(item)) or given[:1]
    return kept[0] if len(kept) == 1 else Max(kept, name)


def is_zero(expression: Expression) -> bool:
    """Whether the expression is zero for every plan."""
    if isinstance(expression, Monomial):
        return expression.coefficient == 0
    if isinstance(expression, Product):
        return is_zero(expression.left) or is_zero(expression.right)
    assert isinstance(expression, Sum | Max)
    return all(is_zero(item) for item in expression.terms)


@dataclass(frozen=True)
class Substitute:
    """``function`` of ``column`` in the place of another column; ``label`` says what it is."""

    column: str
    function: Function
    label: str


def substitute(expression: Expression, columns: dict[str, Substitute]) -> Expression:
    """The expression with functions of other columns in the place of those named in ``columns``."""
    done: dict[int, Expression] = {}  # shared parts stay shared

    def changed(item: Expression) -> Expression:
        if id(item) not in done:
            done[id(item)] = build(item)
        return done[id(item)]

    def build(item: Expression) -> Expression:
        if isinstance(item, Monomial):
            return replace(item, factors=tuple(_composed(factor, columns) for factor in item.factors))
        if isinstance(item, Product):
            return replace(item, left=changed(item.left), right=changed(item.right))
        assert isinstance(item, Sum | Max)
        return replace(item, terms=tuple(changed(term) for term in item.terms))

    return changed(expression)


def _composed(factor: Factor, columns: dict[str, Substitute]) -> Factor:
    inner = [columns.get(column) for column in factor.columns]
    if not any(inner):
        return factor

    def function(*arguments: Array) -> Array:
        given = [new.function(value) if new else value for new, value in zip(inner, arguments, strict=True)]
        return factor.function(*given)

    names = tuple(new.column if new else own for new, own in zip(inner, factor.columns, strict=True))
    label = ", ".join(f"{old} = {new.label}" for old, new in zip(factor.columns, inner, strict=True) if new)
    return Factor(f"{factor.label} with {label}", names, function)


def product(left: Expression, right: Expression | Factor | float) -> Expression:
    """``left`` times ``right``; two monomials make one, which keeps the left one's name."""
    if isinstance(right, Factor):
        right = Monomial(1.0, (right,))
    elif not isinstance(right, Expression):
        right = Monomial(float(right))
    if isinstance(left, Monomial) and isinstance(right, Monomial):
        return Monomial(
            left.coefficient * right.coefficient,
            left.factors + right.factors,
            left.unit * right.unit,
            left.name or right.name,
            left.source or right.source,
        )
    return Product(left, right, left.name)
