"""The third reading: parts that add up, named as they were written."""

import numpy as np
import pytest

from planner.algebra.breakdown import Part, explain
from planner.algebra.evaluation import evaluate
from planner.algebra.expressions import Max, Monomial, Product, Sum, power, term, total
from planner.algebra.units import SECOND
from planner.search.enumeration import Enumerator
from tests.property.instances import random_instance

PLAN = {"tp": 4.0, "pp": 2.0}


def seconds(name, coefficient, *factors, source=""):
    return term(name, SECOND, coefficient, *factors, source=source)


def assert_adds_up(part):
    assert part.value >= 0
    if part.parts:
        assert sum(inner.value for inner in part.parts) == pytest.approx(part.value, rel=1e-12)
        for inner in part.parts:
            assert_adds_up(inner)


def test_a_monomial_is_one_part_with_its_source():
    part = explain(seconds("ring", 3.0, power("tp"), source="paper"), PLAN)
    assert part == Part("ring", 12.0, "s", "paper")
    assert part.flat() == {"ring": 12.0}


def test_parts_of_nested_sums_add_up():
    inner = total("inner", [seconds("a", 1.0, power("tp")), seconds("b", 2.0)])
    part = explain(total("outer", [inner, seconds("c", 5.0)]), PLAN)
    assert (part.name, part.value) == ("outer", 11.0)
    assert [(p.name, p.value) for p in part.parts] == [("inner", 6.0), ("c", 5.0)]
    assert part.flat() == {"a": 4.0, "b": 2.0, "c": 5.0}
    assert_adds_up(part)


def test_of_a_maximum_only_the_largest_is_shown():
    paid = Max((seconds("network", 1.0, power("pp")), seconds("compute", 1.0, power("tp"))))
    part = explain(Sum((paid, seconds("rest", 1.0)), "step"), PLAN)
    assert part.flat() == {"compute": 4.0, "rest": 1.0}
    part = explain(Sum((paid, seconds("rest", 1.0)), "step"), {"tp": 1.0, "pp": 9.0})
    assert part.flat() == {"network": 9.0, "rest": 1.0}


def test_a_named_maximum_keeps_its_name_and_its_largest_term():
    part = explain(Max((seconds("network", 1.0), seconds("compute", 2.0)), "slowest"), PLAN)
    assert (part.name, part.value, part.flat()) == ("slowest", 2.0, {"compute": 2.0})


def test_a_product_scales_every_part():
    part = explain(
        Product(Sum((seconds("a", 1.0), seconds("b", 2.0)), "both"), Monomial(1.0, (power("tp"),)), "both"), PLAN
    )
    assert part.flat() == {"a": 4.0, "b": 8.0}
    assert part.value == 12.0
    assert_adds_up(part)


def test_a_product_with_a_name_of_its_own_hides_the_inside():
    part = explain(Product(Sum((seconds("a", 1.0), seconds("b", 2.0)), "both"), Monomial(2.0), "hidden"), PLAN)
    assert part == Part("hidden", 6.0, "s")


def test_nothing_that_costs_nothing_is_shown():
    part = explain(Sum((seconds("a", 1.0), seconds("none", 0.0)), "all"), PLAN)
    assert [inner.name for inner in part.parts] == ["a"]


def test_leaves_of_one_name_are_added():
    part = explain(Sum((seconds("a", 1.0), Sum((seconds("a", 2.0), seconds("b", 3.0)), "inner")), "all"), PLAN)
    assert part.flat() == {"a": 3.0, "b": 3.0}


@pytest.mark.parametrize("seed", range(6))
def test_parts_add_up_to_the_exact_costs_of_random_instances(seed):
    instance = random_instance(seed)
    chunk = next((indices for indices in Enumerator(instance.space).combinations() if len(indices)), None)
    if chunk is None:
        return
    for row in np.random.default_rng(seed).integers(len(chunk), size=3):
        columns = instance.space.columns(chunk[row : row + 1])
        plan = {name: float(values[0]) for name, values in columns.items()}
        for expression in (instance.step_time, instance.peak_memory):
            part = explain(expression, plan)
            assert part.value == pytest.approx(float(evaluate(expression, columns)[0]), rel=1e-12)
            assert_adds_up(part)
            assert sum(part.flat().values()) == pytest.approx(part.value, rel=1e-9)
