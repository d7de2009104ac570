"""The memory wall's formulas by hand: transformers, growth rates, comparisons, remedies."""

from __future__ import annotations

import sys
from datetime import date
from math import inf
from pathlib import Path

import pytest

from planner import catalog
from planner.errors import InputError
from planner.memory_wall import remedies, transformers
from planner.memory_wall.comparison import AGREES, DIFFERS, INFERRED, WRONG, Column, Compared, Table, half_digit
from planner.memory_wall.drawing import draw_wall
from planner.memory_wall.published import Point, Remark
from planner.memory_wall.report import TABLES, build
from planner.memory_wall.transformers import Transformer, WallTransformer, load_transformers
from planner.memory_wall.trends import fit
from planner.physics import parameters

GPT3 = catalog.load_model("gpt3-175b")
H100 = catalog.load_hardware("h100-sxm")


def wall(model: str = "gpt3-175b", **entry) -> Transformer:
    record = WallTransformer(name="test", model=model, **{"length": 512, **entry})
    return Transformer(record, catalog.load_model(model))


def test_a_plain_stack_has_the_closed_forms_of_the_tables():
    model, s = GPT3, 512
    layers, h, a, v = model.layers, model.d_model, model.heads, model.vocab
    plain = wall()
    assert transformers.parameter_count(plain) == parameters.total(model)
    assert transformers.feature_count(plain) == layers * s * h * (10 + a * s / h)
    assert transformers.forward_flop(plain) == layers * (24 * s * h**2 + 4 * s**2 * h)
    inside = 3 * s * h * layers * (34 + 5 * a * s / h)
    assert transformers.activation_bytes(plain, 3) == pytest.approx(inside + 3 * s * (5 * h + 2 * v), rel=1e-12)


def test_cross_attention_adds_an_attention_to_a_layer():
    plain, crossed, s, h, a = wall(), wall(cross_attention_layers=2), 512, GPT3.d_model, GPT3.heads
    added = transformers.parameter_count(crossed) - transformers.parameter_count(plain)
    assert added == 2 * (4 * h**2 + 4 * h + 2 * h)
    assert transformers.forward_flop(crossed) - transformers.forward_flop(plain) == 2 * (8 * s * h**2 + 4 * s**2 * h)
    assert transformers.feature_count(crossed) - transformers.feature_count(plain) == 2 * s * (5 * h + a * s)


def test_shared_layers_and_a_narrow_embedding_count_once():
    layer = parameters.layer(GPT3, mixture=False)
    assert transformers.parameter_count(wall(shared_layers=True)) == parameters.total(GPT3) - 95 * layer
    narrow = transformers.parameter_count(wall(embedding_width=128))
    assert narrow == parameters.total(GPT3) - GPT3.vocab * (GPT3.d_model - 128) + 128 * GPT3.d_model


def test_training_takes_three_forward_passes_of_each_sequence():
    run = wall(sequences=10.0, training_length=1024)
    assert transformers.training_flop(run) == 30 * transformers.forward_flop(wall(length=1024))
    assert transformers.training_flop(wall()) is None


def test_mixtures_of_experts_have_parameters_only():
    mixture = wall("mixtral-8x7b")
    assert transformers.parameter_count(mixture) == parameters.total(mixture.model)
    assert transformers.forward_flop(mixture) is None
    assert transformers.feature_count(mixture) is None
    assert transformers.activation_bytes(mixture) is None


def test_a_wrong_list_of_transformers_is_refused(tmp_path: Path):
    path = tmp_path / "list.toml"
    path.write_text(
        'schema = 1\n[[transformer]]\nname = "x"\nmodel = "gpt2"\nlength = 8\ncross_attention_layers = 13\n'
    )
    with pytest.raises(InputError, match=r"list.toml: x: cross_attention_layers = 13 exceeds the 12 layers"):
        load_transformers(path)
    path.write_text('schema = 1\n[[transformer]]\nname = "x"\nmodel = "gpt-17"\nlength = 8\n')
    with pytest.raises(InputError, match="gpt-17"):
        load_transformers(path)


def points(values: list[tuple[int, float]], fitted: bool = True) -> list[Point]:
    return [Point(str(year), date(year, 1, 1), value, fitted) for year, value in values]


def test_a_fit_finds_an_exact_growth_and_ignores_what_is_not_fitted():
    exact = [Point(str(year), date(year, 1, 1), 3.0 ** ((date(year, 1, 1) - date(2000, 1, 1)).days / 730.5), True)
             for year in range(2000, 2011)]  # fmt: skip
    line = fit([*exact, *points([(2005, 1e9)], fitted=False)])
    assert line.points == 11
    assert line.rate(2) == pytest.approx(3.0, rel=1e-12)
    assert line.rate(20) == pytest.approx(3.0**10, rel=1e-12)
    assert line.at(date(2000, 1, 1)) == pytest.approx(1.0, rel=1e-9)
    assert line.doubling_years == pytest.approx(2 * 0.63092975, rel=1e-6)
    assert line.deviation == pytest.approx(0.0, abs=1e-12)


def test_the_scatter_is_that_of_the_residuals():
    line = fit(points([(2000, 10.0), (2000, 1000.0), (2010, 10.0), (2010, 1000.0)]))
    assert (line.slope, line.deviation) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0))


def test_a_fit_needs_two_days_and_positive_values():
    with pytest.raises(InputError, match="two days"):
        fit(points([(2000, 1.0), (2000, 2.0)]))
    with pytest.raises(InputError, match="2001: a value that is not above 0"):
        fit(points([(2000, 1.0), (2001, 0.0)]))


@pytest.mark.parametrize(
    ("printed", "half"), [(0.07, 0.005), (8.9, 0.05), (23000.0, 500.0), (2000.0, 50.0), (61e6, 5e5), (3.0, 0.5)]
)
def test_half_a_digit(printed: float, half: float):
    assert half_digit(printed) == pytest.approx(half)


def test_verdicts():
    wrong = Remark("t", "m", "c", True, "slip", "")
    assert Compared(102.0, 100.0, 0.025).verdict == AGREES
    assert Compared(103.0, 100.0, 0.025).verdict == AGREES  # printed with two digits: 100 is 95 to 105
    assert Compared(106.0, 100.0, 0.025).verdict == DIFFERS
    assert Compared(1.0, 100.0, 0.025, wrong).verdict == WRONG
    assert Compared(102.0, 100.0, 0.025, inferred=True).verdict == INFERRED
    assert Compared(106.0, 100.0, 0.025, inferred=True).verdict == DIFFERS
    assert (Compared(1.0, None, 0.025, wrong).verdict, Compared(None, 1.0, 0.1).verdict) == ("", "")


def test_records_have_the_same_keys_in_every_row():
    columns = (Column("model", "Model"), Column("size", "size"))
    table = Table("t", "T", columns, ({"model": "a", "size": Compared(1.0, 2.0, 0.1)}, {"model": "b", "size": None}))
    first, second = table.records()
    assert list(first) == list(second) == ["model", "size", "size_published", "size_deviation", "size_verdict"]
    assert (first["size_deviation"], second["size_published"]) == (-0.5, None)


def test_every_table_has_rows_of_the_same_keys():
    for table in build():
        records = table.records()
        assert records, table.key
        assert len({tuple(record) for record in records}) == 1, table.key
        assert {column.key for column in table.columns} <= set(records[0]), table.key
    assert [table.key for table in build()] == list(TABLES)


def test_an_unknown_table_or_accelerator_is_refused():
    with pytest.raises(InputError, match="table 'model': must be one of transformers, vision"):
        build(["model"])
    with pytest.raises(InputError, match="h100-sxn"):
        build(["accelerators"], ["h100-sxn"])


def test_figures_without_matplotlib_say_what_to_install(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"--plots: needs the package 'matplotlib'"):
        draw_wall(tmp_path)


def test_sharded_states():
    assert [remedies.state_bytes(stage, 4) for stage in range(4)] == [16.0, 7.0, 5.5, 4.0]
    assert remedies.zero_gain(2, inf) == 8.0
    assert remedies.zero_gain(3, 37) == pytest.approx(37.0)
    assert remedies.zero_gain(2, remedies.zero_ranks(2, 7.2)) == pytest.approx(7.2)


def test_recomputation_saves_more_the_more_it_may_compute():
    gains = [remedies.recomputation_gain(GPT3, 2048, extra / 1000, fused=False) for extra in range(0, 360)]
    assert gains == sorted(gains)
    assert gains[0] == pytest.approx(1.0)
    # All layers keep their input, one of them is whole.
    assert gains[-1] == pytest.approx(96 * 114 / (95 * 2 + 114))
    # The scores alone: 80 of 114 for a third of 4 s^2 h over 24 s h^2 + 4 s^2 h.
    core = 1 / (1 + 6 * 12288 / 2048) / 3
    assert remedies.recomputation_gain(GPT3, 2048, core, fused=False) == pytest.approx(96 * 114 / (95 * 34 + 114))


def test_fused_attention_leaves_less_to_save():
    assert remedies.recomputation_gain(GPT3, 2048, 1 / 3, fused=True) == pytest.approx(96 * 34 / (95 * 2 + 34))
    half = remedies.recomputation_gain(GPT3, 2048, 1 / 6, fused=True)
    assert half == pytest.approx(96 * 34 / (95 * 18 + 34))


def test_sequence_parallelism_and_selective_recomputation():
    assert remedies.tensor_parallel_gain(GPT3, 2048, 8) == pytest.approx((10 + 3 + 10) / (34 / 8))


def test_integers_and_pruning():
    assert (remedies.integer_footprint(4), remedies.integer_footprint(8)) == (8.0, 4.0)
    assert remedies.integer_footprint(4, 128) == pytest.approx(32 / 4.125)
    assert remedies.pruned_footprint(0.2) == pytest.approx(5.0)
    assert remedies.pruned_footprint(0.2, 1.0) == pytest.approx(10 / 3)


def test_fewer_bits_are_faster_while_weights_are_what_takes_the_time():
    bound = remedies.memory_bound_batch(H100, 4)
    assert bound == pytest.approx(989.4e12 / 4 / 3350e9)
    assert remedies.decode_gain(H100, 4, int(bound)) == pytest.approx(8.0)
    wide = int(remedies.memory_bound_batch(H100, 32)) + 1
    assert remedies.decode_gain(H100, 4, wide) == pytest.approx(1.0)
    assert 1.0 < remedies.decode_gain(H100, 4, 256) < 8.0
