"""The language of costs: what may be combined, and what the combinations are."""

import math

import numpy as np
import pytest

from planner.algebra.evaluation import evaluate
from planner.algebra.expressions import (
    Factor,
    Max,
    Monomial,
    Product,
    Substitute,
    Sum,
    choice,
    is_zero,
    largest,
    power,
    product,
    substitute,
    term,
    total,
)
from planner.algebra.units import BYTE, FLOP, ONE, SECOND
from planner.errors import UnitError

COLUMNS = {"tp": np.array([1.0, 2.0, 8.0]), "pp": np.array([4.0, 1.0, 3.0]), "zero": np.array([0.0, 1.0, 7.0])}


def value(expression):
    return evaluate(expression, COLUMNS).tolist()


def seconds(coefficient=1.0, *factors, name="t"):
    return term(name, SECOND, coefficient, *factors)


def test_adding_seconds_to_bytes_is_refused():
    with pytest.raises(UnitError, match=r"cannot combine s with B"):
        seconds() + term("size", BYTE, 1.0)


@pytest.mark.parametrize("kind", [Sum, Max])
def test_every_term_of_a_sum_or_maximum_has_its_unit(kind):
    assert kind((seconds(), seconds())).unit == SECOND
    with pytest.raises(UnitError, match="both: cannot"):
        kind((seconds(), seconds(), term("size", BYTE, 1.0)), "both")


def test_units_are_checked_inside_products():
    rate = term("rate", BYTE / SECOND, 3.0)
    assert (rate * seconds() + term("size", BYTE, 1.0)).unit == BYTE
    assert Product(rate, Max((seconds(), seconds()))).unit == BYTE
    with pytest.raises(UnitError):
        rate * seconds() + seconds()


@pytest.mark.parametrize("coefficient", [-1.0, -1e-300, math.inf, -math.inf, math.nan])
def test_coefficients_are_finite_and_not_negative(coefficient):
    with pytest.raises(ValueError, match="coefficient"):
        Monomial(coefficient)
    with pytest.raises(ValueError, match="coefficient"):
        term("time", SECOND, coefficient)
    with pytest.raises(ValueError, match="coefficient"):
        seconds() * coefficient


def test_a_product_that_overflows_is_refused():
    with pytest.raises(ValueError, match="coefficient"):
        seconds(1e200) * term("much", FLOP, 1e200)


def test_a_product_of_monomials_is_one_monomial():
    left, right = (
        term("work", FLOP, 6.0, power("tp"), source="left"),
        Monomial(0.5, (power("pp", -1),), ONE / FLOP * SECOND),
    )
    both = left * right
    assert isinstance(both, Monomial)
    assert (both.coefficient, both.unit, both.name, both.source) == (3.0, SECOND, "work", "left")
    assert value(both) == [3 * 1 / 4, 3 * 2 / 1, 3 * 8 / 3]
    assert product(Monomial(1.0), right.named("right")).name == "right"


def test_products_with_numbers_and_factors_from_either_side():
    assert value(2.0 * seconds(3.0)) == value(seconds(3.0) * 2.0) == [6.0] * 3
    assert value(seconds(3.0) * power("tp")) == [3.0, 6.0, 24.0]
    assert value(3 * (seconds(1.0, power("tp")) + seconds(1.0, power("pp")))) == [15.0, 9.0, 33.0]


@pytest.mark.parametrize("exponent", [1, -1, 2, 0.5, -1.5, 0])
def test_powers(exponent):
    assert value(Monomial(1.0, (power("tp", exponent),))) == pytest.approx([x**exponent for x in (1.0, 2.0, 8.0)])


def test_equal_powers_have_one_key_and_different_ones_two():
    assert power("tp", 2.0).key == power("tp", 2).key
    keys = {power("tp", e).key for e in (1, -1, 2, -2, 0.5)} | {power("pp").key}
    assert len(keys) == 6


def test_a_choice_that_is_not_in_the_table_gives_zero():
    factor = choice("zero", {0: 2.0, 2: 3.0}, "share")
    assert factor.function(np.array([0.0, 1.0, 2.0, 3.0, 99.0])).tolist() == [2.0, 0.0, 3.0, 0.0, 0.0]


def test_sums_and_maxima():
    tp, pp = seconds(1.0, power("tp")), seconds(2.0, power("pp"))
    assert value(tp + pp) == [9.0, 4.0, 14.0]
    assert value(Max((tp, pp))) == [8.0, 2.0, 8.0]
    assert value(Product(tp + pp, Max((tp, pp)))) == [72.0, 8.0, 112.0]


def test_total_leaves_out_what_is_zero():
    nothing, tp = seconds(0.0), seconds(1.0, power("tp"))
    found = total("all", [nothing, tp, nothing * power("pp"), tp])
    assert isinstance(found, Sum)
    assert found.terms == (tp, tp)
    assert found.name == "all"
    with pytest.raises(ValueError, match="identically zero"):
        total("none", [nothing])


def test_total_of_one_unnamed_term_is_that_term():
    assert total("all", [seconds(name="")]) == seconds(name="all")
    kept = total("all", [seconds(name="inner")])
    assert isinstance(kept, Sum)
    assert kept.terms[0].name == "inner"


def test_largest_leaves_out_zeros_unless_all_are():
    nothing, tp = seconds(0.0), seconds(1.0, power("tp"))
    assert largest("max", [nothing, tp]) is tp
    assert largest("max", [nothing, nothing]) is nothing
    assert isinstance(largest("max", [tp, seconds(2.0)]), Max)


def test_what_is_zero_for_every_plan():
    nothing, some = seconds(0.0, power("tp")), seconds(1.0)
    assert is_zero(nothing)
    assert is_zero(Sum((nothing, nothing)))
    assert is_zero(Max((nothing, nothing)))
    assert is_zero(Product(Sum((some, some)), nothing))
    assert not is_zero(Sum((nothing, some)))
    assert not is_zero(Max((nothing, some)))
    assert not is_zero(Product(Sum((nothing, some)), some))


def renaming(**columns):
    return {old: Substitute(new, lambda value: value, new) for old, new in columns.items()}


def test_substitute_puts_other_columns_in_place():
    shared = Max((seconds(1.0, power("tp")), seconds(2.0, power("zero"))), "paid")
    expression = Sum((Product(shared, Monomial(1.0, (power("pp"),))), shared, seconds(1.0, power("tp", 2))))
    swapped = substitute(expression, renaming(tp="pp", pp="tp"))
    columns = COLUMNS | {"tp": COLUMNS["pp"], "pp": COLUMNS["tp"]}
    assert value(swapped) == evaluate(expression, columns).tolist()
    assert value(swapped) != value(expression)
    assert swapped.unit == expression.unit
    assert value(substitute(expression, {})) == value(expression)


def test_substitute_puts_functions_of_columns_in_place():
    expression = seconds(1.0, power("tp", 2)) + seconds(1.0, power("pp"))
    halved = substitute(expression, {"tp": Substitute("pp", lambda pp: pp / 2, "pp/2")})
    assert value(halved) == [(pp / 2) ** 2 + pp for pp in (4.0, 1.0, 3.0)]


def test_substitute_keeps_shared_parts_shared_and_others_as_they_are():
    shared, other = seconds(1.0, power("tp")) + seconds(1.0), power("pp")
    swapped = substitute(Sum((shared, shared, seconds(1.0, other))), renaming(tp="zero"))
    assert swapped.terms[0] is swapped.terms[1]
    assert swapped.terms[2].factors[0] is other


def test_a_substituted_factor_is_another_factor():
    plain = Monomial(1.0, (power("tp"),))
    swapped = substitute(plain, {"tp": Substitute("tp", lambda tp: 2 * tp, "2 tp")})
    assert value(plain + swapped) == [3.0, 6.0, 24.0]


def test_substitute_reaches_every_column_of_a_factor():
    factor = Factor("tp/pp", ("tp", "pp"), lambda tp, pp: tp / pp)
    assert value(substitute(Monomial(1.0, (factor,)), renaming(pp="tp"))) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("expression", [
    seconds(2.0, power("tp")), seconds() + seconds(), Max((seconds(), seconds(2.0))),
    Product(seconds(), seconds() + seconds()),
])  # fmt: skip
def test_a_name_of_its_own_changes_only_the_name(expression):
    again = expression.named("mine")
    assert again.name == "mine"
    assert type(again) is type(expression)
    assert again.unit == expression.unit
    assert value(again) == value(expression)
    assert again.named(expression.name) == expression
