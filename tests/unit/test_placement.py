"""Placement of degrees on tiers: Megatron's rank order, and parts that always multiply to the degree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.physics.placement import place

DEGREES = ("tp", "cp", "pp", "shard", "replica", "ep", "etp")


def placed(fanouts=(8, np.inf), **degrees):
    totals = {name: np.array([float(degrees.get(name, 1))]) for name in DEGREES}
    totals["shard"] = np.maximum(totals["shard"], totals["cp"])
    return {name: float(part[0]) for name, part in place(totals, fanouts).items()}


def parts(columns, degree):
    return [value for name, value in sorted(columns.items()) if name.rpartition("_")[0] == degree]


def test_tensor_ranks_fill_the_node_before_data_ranks():
    columns = placed(tp=4, shard=16, pp=2)
    assert parts(columns, "tp") == [4, 1]
    assert parts(columns, "shard") == [2, 8]
    assert parts(columns, "pp") == [1, 2]


def test_pipeline_is_in_the_node_only_where_room_is_left():
    assert parts(placed(tp=2, pp=8), "pp") == [4, 2]
    assert parts(placed(tp=8, pp=8), "pp") == [1, 8]


def test_tensor_degree_beyond_the_node_crosses_it():
    assert parts(placed(tp=16), "tp") == [8, 2]


def test_context_ranks_are_the_innermost_data_ranks():
    columns = placed(tp=2, cp=8, shard=32)
    assert parts(columns, "cp") == [4, 2]
    assert parts(columns, "shard") == [4, 8]


def test_replicas_lie_outside_the_shards():
    columns = placed(shard=8, replica=4)
    assert parts(columns, "shard") == [8, 1]
    assert parts(columns, "replica") == [1, 4]


def test_experts_fill_the_tensor_and_data_ranks_of_a_tier():
    columns = placed(tp=2, shard=32, ep=16, etp=1)
    assert parts(columns, "ep") == [8, 2]
    assert parts(columns, "edp") == [1, 4]


def test_expert_slices_come_before_experts():
    columns = placed(tp=4, shard=4, ep=4, etp=4)
    assert parts(columns, "etp") == [4, 1]
    assert parts(columns, "ep") == [2, 2]
    assert parts(columns, "edp") == [1, 1]


def test_degrees_that_do_not_divide_the_node_have_real_parts():
    columns = placed(tp=3, shard=8)
    assert parts(columns, "shard") == pytest.approx([8 / 3, 3])


def test_three_tiers():
    columns = placed(fanouts=(8, 4, np.inf), tp=8, shard=2, pp=16)
    assert parts(columns, "shard") == [1, 2, 1]
    assert parts(columns, "pp") == [1, 2, 8]


def test_fanouts_may_differ_between_plans():
    totals = {name: np.ones(2) for name in DEGREES} | {"tp": np.array([8.0, 8.0])}
    columns = place(totals, (np.array([8.0, 4.0]), np.inf))
    assert columns["tp_0"].tolist() == [8, 4]
    assert columns["tp_1"].tolist() == [1, 2]


@given(
    tp=st.integers(1, 40), cp=st.integers(1, 12), dp=st.integers(1, 100), pp=st.integers(1, 40),
    replica=st.integers(1, 6), ep=st.integers(1, 64), etp=st.integers(1, 8),
    fanouts=st.lists(st.integers(1, 72), min_size=1, max_size=3),
)  # fmt: skip
def test_parts_multiply_to_the_degree(tp, cp, dp, pp, replica, ep, etp, fanouts):
    shard = cp * dp
    ep = min(ep, max(1, tp * shard // etp))
    etp = min(etp, tp * shard)
    degrees = {"tp": tp, "cp": cp, "pp": pp, "shard": shard, "replica": replica, "ep": ep, "etp": etp}
    columns = placed((*fanouts, np.inf), **degrees)
    for name, degree in degrees.items():
        assert np.prod(parts(columns, name)) == pytest.approx(degree)
    assert np.prod(parts(columns, "edp")) == pytest.approx(tp * shard / (ep * etp))
    assert min(columns.values()) >= 1
    for tier in range(len(fanouts)):
        inside = [columns[f"{name}_{tier}"] for name in ("tp", "shard", "replica", "pp")]
        assert np.prod(inside) <= fanouts[tier] * (1 + 1e-6)
