"""Units multiply, and refuse to be added to others."""

import pytest

from planner.algebra.units import BYTE, FLOP, ONE, SECOND, Unit, common
from planner.errors import UnitError


def test_products_add_the_powers():
    assert BYTE * SECOND == SECOND * BYTE
    assert Unit((("B", 2),)) == BYTE * BYTE
    assert str(BYTE * BYTE * SECOND) == "B^2 s"


def test_quotients_cancel():
    bandwidth = BYTE / SECOND
    assert str(bandwidth) == "B s^-1"
    assert bandwidth * SECOND == BYTE
    assert BYTE / BYTE == ONE
    assert BYTE / bandwidth == SECOND


def test_one_changes_nothing():
    for unit in (SECOND, BYTE, FLOP, ONE, FLOP / SECOND):
        assert unit * ONE == ONE * unit == unit / ONE == unit
    assert str(ONE) == "1"


def test_equal_units_are_one_unit_whatever_they_were_made_of():
    assert hash(FLOP / SECOND * BYTE) == hash(BYTE * FLOP / SECOND)
    assert FLOP / SECOND * BYTE == BYTE / SECOND * FLOP


def test_common_unit_of_equal_ones():
    assert common([SECOND], "time") == SECOND
    assert common([BYTE / SECOND, BYTE / SECOND], "rates") == BYTE / SECOND


@pytest.mark.parametrize("other", [BYTE, ONE, SECOND * SECOND, ONE / SECOND])
def test_different_units_are_refused_with_both_names(other):
    with pytest.raises(UnitError) as caught:
        common([SECOND, SECOND, other], "step time")
    assert "step time" in str(caught.value)
    assert str(other) in str(caught.value)
