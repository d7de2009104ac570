"""The memory wall's formulas are those of the planner's own cost model, where both speak of the same thing."""

from __future__ import annotations

import numpy as np
import pytest

from planner import catalog
from planner.algebra.evaluation import evaluate
from planner.memory_wall import remedies
from planner.memory_wall.transformers import layer_activation_bytes
from planner.physics import memory, parameters, stages, states
from planner.physics.placement import place
from planner.physics.setting import GIB, Link, Precision, Recompute, Setting
from planner.schema.problem import Assumptions

DEGREES = ("tp", "cp", "pp", "shard", "replica", "ep", "etp")


def setting(model: str, **assumptions) -> Setting:
    links = (Link("node", 8, 200e9, 3e-6), Link("network", 1, 20e9, 10e-6))
    shape = catalog.load_model(model)
    given = Assumptions(**assumptions)
    return Setting(
        shape, catalog.load_hardware("h100-sxm"), links, shape.sequence_length, given, (Precision.BF16,), GIB
    )


def price(expression, **decisions) -> float:
    totals = {name: np.array([float(decisions.get(name, 1))]) for name in DEGREES}
    others = {"micro_batch": 1, "vp": 1, "zero": 0, "recompute": Recompute.NONE, "sequence_parallel": 1}
    columns = {name: np.array([float(decisions.get(name, usual))]) for name, usual in others.items()}
    return float(evaluate(expression, totals | place(totals, (8, np.inf)) | columns)[0])


@pytest.mark.parametrize("name", ["gpt3-175b", "gpt2-xl", "mt-nlg-530b"])
def test_a_layer_keeps_what_the_planner_says_and_two_dropout_masks(name):
    given = setting(name, attention="unfused")
    masks = 2 * given.sequence * given.model.d_model  # modern training has no dropout, so the planner counts none
    kept = price(memory.kept(given, False), micro_batch=3)
    assert kept + 3 * masks == pytest.approx(layer_activation_bytes(given.model, given.sequence, 3), rel=1e-12)


@pytest.mark.parametrize("ranks", [1, 8, 64])
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_sharded_states_are_those_of_the_planner(stage, ranks):
    given = setting("gpt2-xl", gradient_bytes=2)
    held = sum(price(item, shard=ranks, zero=stage) for item in states.memory(given, stages.first))
    expected = remedies.state_bytes(stage, ranks) * parameters.total(given.model)
    assert held == pytest.approx(expected, rel=1e-5)  # the planner leaves out the final norm
