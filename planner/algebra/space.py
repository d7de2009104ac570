"""The decision space: axes with finitely many values, and the relations between their columns.

Every relation between axes is a linear row over the axes' one-hot choices: products of degrees are compared by their
*prime exponents*, which are integers, and only "at most" is compared by logarithms. The same rows prune the enumeration,
give the relaxations their multipliers, and become constraints of the mixed-integer program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import log, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array

Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Axis:
    """One decision: a row is one value, given by one or more integer columns of equal length."""

    name: str
    table: Mapping[str, Integers]

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(next(iter(self.table.values())))

    def restrict(self, keep: NDArray[np.bool_] | Integers) -> Axis:
        """The axis with only the rows that ``keep`` selects."""
        return Axis(self.name, {column: values[keep] for column, values in self.table.items()})


@dataclass(frozen=True)
class Equal:
    """``product of column ** power == value``; the powers are integers."""

    name: str
    powers: Mapping[str, int]
    value: int = 1


@dataclass(frozen=True)
class AtMost:
    """``product of columns <= limit``."""

    name: str
    columns: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class Whole:
    """``value * product of column ** power`` is a whole number; the powers are integers."""

    name: str
    powers: Mapping[str, int]
    value: int = 1


@dataclass(frozen=True)
class Allowed:
    """``function(*columns)`` holds; the columns belong to one or two axes."""

    name: str
    columns: tuple[str, ...]
    function: Callable[..., NDArray[np.bool_]]


Relation: TypeAlias = Equal | AtMost | Whole | Allowed


@dataclass(frozen=True)
class Row:
    """``lower <= sum over axes of weights[axis][chosen value] <= upper``; ``exact``: the weights are whole numbers."""

    name: str
    weights: Mapping[str, Array]
    lower: float
    upper: float
    exact: bool


@dataclass(frozen=True, eq=False)  # compared by identity: what is worked out about a space is kept with it
class Space:
    """Axes, constant columns and relations. ``constants`` are columns with one value."""

    axes: tuple[Axis, ...]
    relations: tuple[Relation, ...]
    constants: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def owner(self) -> dict[str, Axis]:
        """The axis of each column."""
        return {column: axis for axis in self.axes for column in axis.table}

    @cached_property
    def position(self) -> dict[str, int]:
        """The place of each axis."""
        return {axis.name: place for place, axis in enumerate(self.axes)}

    @property
    def size(self) -> float:
        """How many combinations the axes have, feasible or not."""
        return prod(float(axis.size) for axis in self.axes)

    def restrict(self, keep: Mapping[str, NDArray[np.bool_] | Integers]) -> Space:
        """The space in which the axes named in ``keep`` have only the rows that it selects."""
        axes = tuple(axis.restrict(keep[axis.name]) if axis.name in keep else axis for axis in self.axes)
        return Space(axes, self.relations, self.constants)

    def columns(self, indices: Integers) -> dict[str, Array]:
        """The columns of plans given by ``indices`` of shape (plans, axes); arrays of shape (plans,)."""
        found: dict[str, Array] = {}
        for place, axis in enumerate(self.axes):
            chosen = indices[:, place]
            for column, values in axis.table.items():
                found[column] = values[chosen].astype(float)
        for column, value in self.constants.items():
            found[column] = np.full(len(indices), float(value))
        return found

    def axes_of(self, columns: tuple[str, ...]) -> tuple[Axis, ...]:
        """The axes that own ``columns``, in the order of the space; constants have none."""
        owners = {self.owner[column].name for column in columns if column in self.owner}
        return tuple(axis for axis in self.axes if axis.name in owners)

    def tabulate(self, function: Callable[..., NDArray[np.generic]], columns: tuple[str, ...]) -> NDArray[np.generic]:
        """``function`` of ``columns`` on the grid of the axes that own them; one dimension for each such axis."""
        axes = self.axes_of(columns)
        arguments = []
        for column in columns:
            if column in self.constants:
                arguments.append(np.full([axis.size for axis in axes], float(self.constants[column])))
                continue
            place = [axis.name for axis in axes].index(self.owner[column].name)
            shape = [1] * len(axes)
            shape[place] = axes[place].size
            values = axes[place].table[column].astype(float).reshape(shape)
            arguments.append(np.broadcast_to(values, [axis.size for axis in axes]))
        flat = [np.ascontiguousarray(argument).reshape(-1) for argument in arguments]
        return np.asarray(function(*flat)).reshape([axis.size for axis in axes])

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The product relations as linear rows; `Allowed` is not among them."""
        found: list[Row] = []
        for relation in self.relations:
            if isinstance(relation, AtMost):
                weights = self._weights({column: 1 for column in relation.columns}, np.log)
                upper = log(relation.limit) - self._constant({column: 1 for column in relation.columns}, log)
                found.append(Row(relation.name, weights, -np.inf, upper, exact=False))
            elif isinstance(relation, Equal | Whole):
                for prime in self._primes(relation):
                    weights = self._weights(relation.powers, partial(exponents, prime=prime))
                    shift = self._constant(relation.powers, partial(exponent, prime=prime))
                    if isinstance(relation, Equal):
                        target = float(exponent(relation.value, prime) - shift)
                        found.append(Row(f"{relation.name} ({prime})", weights, target, target, exact=True))
                    else:
                        lower = float(-exponent(relation.value, prime) - shift)
                        found.append(Row(f"{relation.name} ({prime})", weights, lower, np.inf, exact=True))
        return tuple(row for row in found if not _always_holds(row))

    def holds(self, columns: Mapping[str, Array]) -> NDArray[np.bool_]:
        """Whether every relation holds, exactly, for plans given by their columns; shape (plans,)."""
        valid = np.ones(len(next(iter(columns.values()))), dtype=bool)
        for relation in self.relations:
            valid &= holds(relation, columns)
        return valid

    def _weights(self, powers: Mapping[str, int], function: Callable[[Integers], Array]) -> dict[str, Array]:
        weights: dict[str, Array] = {}
        for column, power in powers.items():
            if column in self.constants:
                continue
            axis = self.owner[column]
            weights[axis.name] = weights.get(axis.name, np.zeros(axis.size)) + power * function(axis.table[column])
        return weights

    def _constant(self, powers: Mapping[str, int], function: Callable[[int], float]) -> float:
        return sum(power * function(self.constants[c]) for c, power in powers.items() if c in self.constants)

    def _primes(self, relation: Equal | Whole) -> list[int]:
        values = {relation.value}
        for column in relation.powers:
            if column in self.constants:
                values.add(self.constants[column])
            else:
                values.update(int(value) for value in self.owner[column].table[column])
        return sorted({prime for value in values for prime in factorise(value)})


def holds(relation: Relation, columns: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Whether ``relation`` holds for each plan of ``columns``."""
    if isinstance(relation, Allowed):
        return np.asarray(relation.function(*(columns[column] for column in relation.columns)), dtype=bool)
    if isinstance(relation, AtMost):
        return np.asarray(prod((columns[column] for column in relation.columns), start=1.0) <= relation.limit)
    over = prod((columns[c] ** power for c, power in relation.powers.items() if power > 0), start=1.0)
    under = prod((columns[c] ** -power for c, power in relation.powers.items() if power < 0), start=1.0)
    if isinstance(relation, Equal):
        return np.asarray(over == relation.value * under)
    return np.asarray((relation.value * over) % under == 0)


def factorise(value: int) -> dict[int, int]:
    """The prime factors of ``value`` with their exponents."""
    found: dict[int, int] = {}
    prime = 2
    while prime * prime <= value:
        while value % prime == 0:
            found[prime] = found.get(prime, 0) + 1
            value //= prime
        prime += 1
    if value > 1:
        found[value] = found.get(value, 0) + 1
    return found


def exponent(value: int, prime: int) -> int:
    """How often ``prime`` divides ``value``."""
    count = 0
    while value % prime == 0:
        value //= prime
        count += 1
    return count


def exponents(values: Integers, prime: int) -> Array:
    """How often ``prime`` divides each of ``values``."""
    return np.array([exponent(int(value), prime) for value in values], dtype=float)


def divisors(value: int) -> list[int]:
    """The divisors of ``value``, ascending."""
    found = [1]
    for prime, count in factorise(value).items():
        found = [divisor * prime**i for divisor in found for i in range(count + 1)]
    return sorted(found)


def _always_holds(row: Row) -> bool:
    low = sum(float(values.min()) for values in row.weights.values())
    high = sum(float(values.max()) for values in row.weights.values())
    return row.lower <= low and high <= row.upper
