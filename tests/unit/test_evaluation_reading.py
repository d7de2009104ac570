"""The first reading: exact values of many plans at once."""

from collections import Counter

import numpy as np
import pytest

from planner.algebra.evaluation import Evaluator, evaluate
from planner.algebra.expressions import Factor, Max, Monomial, Product, Sum, choice, power, term
from planner.algebra.units import SECOND

TP, PP, ZERO = [1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 1.0, 7.0], [0.0, 1.0, 2.0, 1.0]
COLUMNS = {"tp": np.array(TP), "pp": np.array(PP), "zero": np.array(ZERO)}


def hand(tp, pp, zero):
    """The expression below as plain arithmetic on floats."""
    ring = 2.5 * (tp - 1) / tp * pp
    halves = 0.25 * tp**0.5 * {0: 1.0, 1: 0.5}.get(int(zero), 0.0)
    return max(ring, 4.0) * (1 / pp) + halves + 1e-3


def written():
    ring = term("ring", SECOND, 2.5, Factor("(tp-1)/tp", ("tp",), lambda tp: (tp - 1) / tp), power("pp"))
    halves = term("halves", SECOND, 0.25, power("tp", 0.5), choice("zero", {0: 1.0, 1: 0.5}, "share"))
    exposed = Max((ring, term("least", SECOND, 4.0)))
    return Sum((Product(exposed, Monomial(1.0, (power("pp", -1),))), halves, term("launch", SECOND, 1e-3)))


def test_vectorised_values_equal_hand_calculations():
    expected = [hand(*plan) for plan in zip(TP, PP, ZERO, strict=True)]
    assert evaluate(written(), COLUMNS) == pytest.approx(expected, rel=1e-15)


def test_each_plan_is_priced_alone():
    together = evaluate(written(), COLUMNS)
    for plan in range(4):
        alone = evaluate(written(), {name: values[plan : plan + 1] for name, values in COLUMNS.items()})
        assert alone.shape == (1,)
        assert alone[0] == together[plan]


def test_a_constant_has_a_value_for_each_plan():
    assert evaluate(term("fixed", SECOND, 2.5), COLUMNS).tolist() == [2.5] * 4


def test_no_plans_have_no_values():
    assert evaluate(written(), {name: values[:0] for name, values in COLUMNS.items()}).shape == (0,)


def counted(calls, label="tp", columns=("tp",)):
    def function(*values):
        calls[label, columns] += 1
        return np.prod(values, axis=0)

    return Factor(label, columns, function)


def test_shared_factors_are_computed_once():
    calls: Counter = Counter()
    items = [Monomial(float(c), (counted(calls), counted(calls, "product", ("tp", "pp")))) for c in (1, 2, 3)]
    expression = Sum((items[0], Max((items[1], items[2])), Product(items[0] + items[1], items[2])))
    evaluator = Evaluator(COLUMNS)
    first = evaluator(expression)
    evaluator(items[1])
    assert calls == {("tp", ("tp",)): 1, ("product", ("tp", "pp")): 1}
    assert evaluator(expression) is first


def test_factors_of_one_label_but_other_columns_differ():
    calls: Counter = Counter()
    expression = Monomial(1.0, (counted(calls, "x", ("tp",)),)) + Monomial(1.0, (counted(calls, "x", ("pp",)),))
    assert evaluate(expression, COLUMNS).tolist() == [4.0, 7.0, 5.0, 15.0]
    assert calls.total() == 2


def test_evaluation_leaves_columns_and_shared_parts_alone():
    columns = {name: values.copy() for name, values in COLUMNS.items()}
    plain = Monomial(1.0, (power("tp"),))
    both = Sum((plain, plain, Max((plain, Monomial(1.0, (power("pp"),))))))
    evaluator = Evaluator(columns)
    evaluator(both)
    assert evaluator(plain).tolist() == TP
    assert evaluator(both).tolist() == [5.0, 9.0, 12.0, 24.0]
    for name, values in COLUMNS.items():
        assert columns[name].tolist() == values.tolist()


def test_an_unknown_column_is_an_error():
    with pytest.raises(KeyError):
        evaluate(Monomial(1.0, (power("unknown"),)), COLUMNS)
