"""Relations as linear rows over prime exponents: exactly the relations, for every combination."""

import numpy as np
import pytest

from planner.algebra.space import (
    Allowed,
    AtMost,
    Axis,
    Equal,
    Space,
    Whole,
    divisors,
    exponent,
    exponents,
    factorise,
    holds,
)
from tests.property.spaces import grid, random_space

PRIMES = (1, 2, 3, 5, 7, 9, 14, 15, 61, 122)


def axis(name, *values, **more):
    table = {name: values, **more}
    return Axis(name, {column: np.array(column_values, dtype=np.int64) for column, column_values in table.items()})


def space(*relations, constants=None, values=PRIMES):
    return Space((axis("a", *values), axis("b", *values)), relations, constants or {})


def admitted_by_rows(given):
    """Whether each combination of ``grid(given)`` keeps every row."""
    indices = grid(given)
    valid = np.ones(len(indices), dtype=bool)
    for row in given.rows:
        value = sum(weights[indices[:, given.position[name]]] for name, weights in row.weights.items())
        slack = 0.0 if row.exact else 1e-9
        valid &= (row.lower - slack <= value) & (value <= row.upper + slack)
    return valid


def pairs(given, valid):
    columns = given.columns(grid(given)[valid])
    return set(zip(columns["a"].astype(int).tolist(), columns["b"].astype(int).tolist(), strict=True))


def expected(condition, values=PRIMES):
    return {(a, b) for a in values for b in values if condition(a, b)}


CASES = [
    (Equal("ab = 15", {"a": 1, "b": 1}, 15), lambda a, b: a * b == 15),
    (Equal("ab = 61", {"a": 1, "b": 1}, 61), lambda a, b: a * b == 61),
    (Equal("a = b", {"a": 1, "b": -1}), lambda a, b: a == b),
    (Equal("a = 7 b", {"a": 1, "b": -1}, 7), lambda a, b: a == 7 * b),
    (Equal("a a = b", {"a": 2, "b": -1}), lambda a, b: a * a == b),
    (Equal("a = 11", {"a": 1}, 11), lambda a, b: False),
    (Whole("b divides a", {"a": 1, "b": -1}), lambda a, b: a % b == 0),
    (Whole("b divides 61 a", {"a": 1, "b": -1}, 61), lambda a, b: 61 * a % b == 0),
    (Whole("ab divides 210", {"a": -1, "b": -1}, 210), lambda a, b: 210 % (a * b) == 0),
    (Whole("b b divides a", {"a": 1, "b": -2}), lambda a, b: a % (b * b) == 0),
    (AtMost("ab <= 61", ("a", "b"), 61), lambda a, b: a * b <= 61),
    (AtMost("ab <= 105", ("a", "b"), 105), lambda a, b: a * b <= 105),
    (AtMost("a <= 7", ("a",), 7), lambda a, b: a <= 7),
]  # fmt: skip


@pytest.mark.parametrize(("relation", "condition"), CASES, ids=[relation.name for relation, _ in CASES])
def test_a_relation_is_exactly_its_condition(relation, condition):
    given = space(relation)
    assert pairs(given, given.holds(given.columns(grid(given)))) == expected(condition)
    assert pairs(given, admitted_by_rows(given)) == expected(condition)


def test_allowed_is_its_function_and_not_a_row():
    given = space(Allowed("odd", ("a", "b"), lambda a, b: (a + b) % 2 == 1))
    assert given.rows == ()
    assert pairs(given, given.holds(given.columns(grid(given)))) == expected(lambda a, b: (a + b) % 2 == 1)


def test_constants_take_part_in_relations():
    relations = (
        Equal("abc", {"a": 1, "b": 1, "c": -1}),
        Whole("c/a", {"c": 1, "a": -1}),
        AtMost("bc", ("b", "c"), 900),
    )
    given = space(*relations, constants={"c": 122})
    wanted = expected(lambda a, b: a * b == 122 and 122 % a == 0 and b * 122 <= 900)
    assert wanted
    assert pairs(given, given.holds(given.columns(grid(given)))) == wanted
    assert pairs(given, admitted_by_rows(given)) == wanted


def test_rows_of_equal_and_whole_have_whole_weights_and_sides():
    for relation, _ in CASES:
        for row in space(relation).rows:
            assert row.exact is not isinstance(relation, AtMost)
            if row.exact:
                sides = [side for side in (row.lower, row.upper) if np.isfinite(side)]
                assert all(
                    float(number).is_integer() for number in [*sides, *np.concatenate(list(row.weights.values()))]
                )


def test_rows_that_always_hold_are_left_out():
    assert space(AtMost("ab", ("a", "b"), 122 * 122)).rows == ()
    assert space(Whole("a", {"a": 1})).rows == ()
    assert len(space(Whole("a/b", {"a": 1, "b": -1})).rows) == 5  # primes 2, 3, 5, 7 and 61


@pytest.mark.parametrize("seed", range(60))
def test_rows_agree_with_the_relations_on_every_combination(seed):
    given = random_space(seed)
    columns = given.columns(grid(given))
    valid = admitted_by_rows(given)
    for relation in given.relations:
        if isinstance(relation, Allowed):
            valid &= holds(relation, columns)
    assert valid.tolist() == given.holds(columns).tolist()


def test_random_spaces_have_feasible_and_infeasible_combinations():
    shares = [given.holds(given.columns(grid(given))).mean() for given in map(random_space, range(60))]
    assert sum(0 < share < 1 for share in shares) > 20


def test_columns_are_those_of_the_chosen_rows():
    given = Space((axis("a", 1, 2, second=(5, 7)), axis("b", 3, 9)), (), {"c": 4})
    columns = given.columns(np.array([[0, 1], [1, 0], [1, 1]]))
    assert {name: values.tolist() for name, values in columns.items()} == {
        "a": [1, 2, 2], "second": [5, 7, 7], "b": [9, 3, 9], "c": [4, 4, 4],
    }  # fmt: skip
    assert all(values.dtype == float for values in columns.values())
    assert given.size == 4
    assert given.owner["second"].name == "a"
    assert given.position == {"a": 0, "b": 1}


def test_restrict_keeps_the_selected_rows_and_the_relations():
    given = space(Equal("ab = 15", {"a": 1, "b": 1}, 15))
    smaller = given.restrict({"a": np.array([2, 3]), "b": np.array(PRIMES) > 1})
    assert smaller.owner["a"].table["a"].tolist() == [3, 5]
    assert smaller.owner["b"].table["b"].tolist() == list(PRIMES[1:])
    assert given.owner["a"].size == len(PRIMES)
    assert pairs(smaller, admitted_by_rows(smaller)) == {(3, 5), (5, 3)}
    assert pairs(smaller, smaller.holds(smaller.columns(grid(smaller)))) == {(3, 5), (5, 3)}


@pytest.mark.parametrize("seed", range(10))
def test_a_restricted_space_has_the_plans_of_the_space_that_are_left(seed):
    given = random_space(seed)
    keep = {item.name: np.arange(item.size) % 2 == seed % 2 for item in given.axes if item.size > 1}
    smaller = given.restrict(keep)
    left = np.ones(len(grid(given)), dtype=bool)
    for name, mask in keep.items():
        left &= mask[grid(given)[:, given.position[name]]]
    before = given.holds(given.columns(grid(given)[left]))
    assert admitted_by_rows(smaller).shape == before.shape
    assert smaller.holds(smaller.columns(grid(smaller))).tolist() == before.tolist()


def test_tabulate_has_one_dimension_for_each_axis_in_the_order_of_the_space():
    given = Space((axis("a", 1, 2, second=(5, 7)), axis("b", 3, 9, 10), axis("d", 1, 4)), (), {"c": 4})
    table = given.tabulate(lambda b, second, c, a: 1000 * b + 100 * second + 10 * c + a, ("b", "second", "c", "a"))
    assert table.tolist() == [[1000 * b + 100 * s + 40 + a for b in (3, 9, 10)] for a, s in ((1, 5), (2, 7))]
    assert given.tabulate(lambda c: 2 * c, ("c",)).tolist() == 8.0


@pytest.mark.parametrize("value", [1, 2, 60, 61, 97, 128, 1001, 3721, 15000, 16384])
def test_prime_factors_and_divisors(value):
    factors = factorise(value)
    assert int(np.prod([prime**count for prime, count in factors.items()])) == value
    assert all(all(prime % other for other in range(2, prime)) for prime in factors)
    assert divisors(value) == [number for number in range(1, value + 1) if value % number == 0]
    for prime in (2, 3, 61):
        assert exponent(value, prime) == factors.get(prime, 0)
    assert exponents(np.array([value, 1, 8, 61 * 61]), 61).tolist() == [factors.get(61, 0), 0, 0, 2]
