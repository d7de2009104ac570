"""Pricing rows of a table: inference of empty cells, free texts, rows in error, independence of rows."""

import io
import time

import numpy as np
import pandas as pd
import pytest

from planner import catalog
from planner.errors import InputError
from planner.evaluation import PREDICTIONS, evaluate
from planner.physics.setting import Precision, Recompute
from planner.rows.plans import (
    read_plans,
)
from planner.rows.shapes import read_models
from planner.rows.systems import read_systems
from planner.rows.table import Table

ROW = {
    "model": "a llama", "arch": "dense", "n_layers": 32, "d_model": 4096, "n_heads": 32, "n_kv_heads": 8,
    "head_dim": 128, "d_ff": 14336, "gated_mlp": True, "vocab": 128256, "tied_embeddings": False, "seq_len": 4096,
    "gpu": "H100-80G", "gpus_per_node": 8, "n_gpus": 64, "interconnect": "NVLink4 8-GPU + 8x400Gb IB",
    "precision": "bf16", "global_batch": 128, "micro_batch": 1, "tp": 4, "sp": True, "cp": 1, "pp": 2, "dp": 8,
    "zero_stage": "zero1", "recompute": "none", "attn_impl": "flash", "framework": "Megatron-LM",
}  # fmt: skip


def rows(*changes):
    return pd.DataFrame([ROW | change for change in changes])


def price(**change):
    result = evaluate(rows(change)).iloc[0]
    assert result.pred_error == "", result.pred_error
    return result


def error(**change):
    result = evaluate(rows(change)).iloc[0]
    assert np.isnan([result[name] for name in PREDICTIONS]).all()
    assert pd.isna(result.pred_fits)
    return result.pred_error


# --- what is returned -----------------------------------------------------------------------------------------------


def test_predictions_agree_with_each_other():
    result = price()
    tokens = 128 * 4096 / (64 * result.pred_step_time_s)
    assert result.pred_tokens_per_s_per_gpu == pytest.approx(tokens)
    peak = catalog.load_hardware("h100-sxm").peak_tflop_per_s.bf16
    assert result.pred_mfu == pytest.approx(result.pred_tflops_per_gpu / peak)
    assert 0.2 < result.pred_mfu < 0.75
    # 6 FLOP an active weight and token, and the causal attention core, 6 s d a token and layer
    weights = 8.03e9 - 128256 * 4096
    assert result.pred_tflops_per_gpu * 1e12 == pytest.approx(tokens * (6 * weights + 6 * 32 * 4096 * 4096), rel=2e-3)
    assert result.pred_fits
    assert 10 < result.pred_peak_mem_gb < 80


def test_input_columns_and_index_are_kept():
    frame = rows({}, {"tp": 0}).assign(mine=["a", "b"]).set_axis(["x", "x"])
    result = evaluate(frame)
    assert result.index.tolist() == ["x", "x"]
    pd.testing.assert_frame_equal(result[list(frame.columns)], frame)
    assert list(result.columns) == [*frame.columns, *PREDICTIONS, "pred_fits", "pred_error"]
    assert "pred_error" not in frame


def test_an_empty_table():
    result = evaluate(rows({}).head(0))
    assert len(result) == 0
    assert "pred_error" in result


def test_a_table_without_the_columns():
    result = evaluate(pd.DataFrame({"something": [1, 2]}))
    assert result.pred_error.str.contains("n_gpus is empty").all()
    assert result.pred_error.str.contains("n_layers").all()
    assert result.pred_error.str.contains("gpu = '': is empty").all()


def test_a_column_that_appears_twice():
    frame = rows({})
    with pytest.raises(InputError, match="column tp: appears more than once"):
        evaluate(pd.concat([frame, frame[["tp"]]], axis=1))


def test_rows_do_not_affect_each_other():
    changes = [{}, {"tp": 0}, {"seq_len": 8192}, {"gpu": "B200"}, {"tp": "x"}, {"micro_batch": 2}, {"precision": "fp8"}]
    together = evaluate(rows(*changes))
    for place, change in enumerate(changes):
        alone = evaluate(rows(change)).iloc[0]
        assert together.pred_error[place] == alone.pred_error
        np.testing.assert_allclose(
            [together[name][place] for name in PREDICTIONS], [alone[name] for name in PREDICTIONS]
        )


def test_text_from_a_csv_file_is_read_as_numbers():
    frame = rows({}, {"tp": 8, "pp": 1})
    written = io.StringIO(frame.to_csv(index=False))
    as_text = pd.read_csv(written, dtype=str)
    pd.testing.assert_frame_equal(evaluate(as_text)[list(PREDICTIONS)], evaluate(frame)[list(PREDICTIONS)])


# --- rows in error --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 0}, "tp = 0: must be a whole number from 1 to 1e9"),
        ({"pp": -2}, "pp = -2: must be a whole number"),
        ({"cp": 1.5}, "cp = 1.5: must be a whole number"),
        ({"dp": "many"}, "dp = 'many': must be a whole number"),
        ({"n_layers": np.inf}, "n_layers = inf: must be a whole number"),
        ({"n_layers": 10**6}, "n_layers = 1000000: must be at most 10000"),
        ({"n_gpus": 63}, "n_gpus = 63 is not the product of the degrees, tp = 4 x cp = 1 x pp = 2 x dp = 8 is 64"),
        ({"n_gpus": 63, "dp": None}, "n_gpus = 63 is no multiple of tp = 4 x cp = 1 x pp = 2"),
        ({"cp": None, "pp": None}, "give the empty degrees"),
        ({"n_gpus": None, "dp": None}, "n_gpus is empty"),
        ({"global_batch": 4}, "global_batch = 4 is less than dp x micro_batch = 8 x 1"),
        ({"global_batch": None}, "global_batch is empty"),
        ({"micro_batch": None}, "micro_batch is empty and does not follow"),
        ({"seq_len": None}, "seq_len is empty"),
        ({"vocab": None}, "vocab is empty: the shape is needed"),
        ({"d_ff": None, "n_heads": None}, "n_heads, d_ff are empty"),
        ({"n_kv_heads": 5}, "n_heads = 32 is not a multiple of n_kv_heads = 5"),
        ({"arch": "hybrid_mamba_moe"}, "arch = 'hybrid_mamba_moe': this architecture is not modelled"),
        ({"arch": "moe"}, "n_experts, top_k are empty"),
        ({"n_experts": 4, "top_k": 8, "d_expert": 64}, "top_k = 8 exceeds n_experts = 4"),
        ({"n_experts": 8, "top_k": 2, "d_expert": 64, "ep": 16}, "ep = 16: must be at most n_experts = 8"),
        (
            {"n_experts": 64, "top_k": 2, "d_expert": 64, "ep": 64},
            "ep x etp = 64 x 1: must be at most tp x cp x dp = 32",
        ),
        ({"gpu": "H1000"}, "gpu = 'H1000': is no known accelerator; did you mean H100"),
        ({"gpu": None}, "gpu = '': is empty"),
        ({"precision": "int8"}, "precision = 'int8': must be bf16"),
        ({"zero_stage": "zero7"}, "zero_stage = 'zero7': must be none, zero0 to zero3"),
        ({"recompute": "some"}, "recompute = 'some': must be none, selective (...) or full"),
        ({"sp": "maybe"}, "sp = 'maybe': must be True or False"),
        ({"pp": 70000, "vp": 1, "dp": None, "n_gpus": 70000 * 4}, "pp x vp = 70000 x 1: must be at most 65535"),
    ],
)
def test_what_is_wrong_with_a_row(change, message):
    assert message in error(**change)


def test_every_problem_of_a_row_is_reported():
    text = error(tp=0, gpu="abacus", recompute="some")
    assert [part.split(" = ")[0] for part in text.split("; ") if " = " in part] == ["tp", "recompute", "gpu"]
    text = error(tp=9, d_model=None, seq_len=None, ep=0)
    assert [word in text for word in ("n_gpus = 64 is not", "d_model is empty", "seq_len is empty", "ep = 0")] == [
        True
    ] * 4
    assert "micro_batch" not in text


# --- never refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"n_layers": 31},  # does not divide among the stages
        {"n_gpus": 192, "tp": 12},  # does not divide the heads, nor the node
        {"n_gpus": 3, "tp": 1, "pp": 3, "dp": 1},
        {"n_gpus": 40, "tp": 1, "pp": 40, "dp": 1},  # more stages than layers
        {"pp": 2, "vp": 3},
        {"seq_len": 4097},
        {"global_batch": 129},
        {"n_gpus": 16, "pp": 1, "dp": 4, "gpus_per_node": 3},
    ],
)
def test_a_plan_is_not_refused_for_a_rule_of_a_framework(change):
    assert price(**change).pred_step_time_s > 0


def test_an_uneven_batch_takes_the_next_whole_number_of_micro_batches():
    plans = read_plans(Table(rows({"global_batch": 129}, {"global_batch": 136}, {"global_batch": 128})))
    assert plans.grad_accum.tolist() == [17, 17, 16]
    assert price(global_batch=129).pred_step_time_s == pytest.approx(price(global_batch=136).pred_step_time_s)


# --- empty cells ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "degrees"),
    [
        ({"dp": None}, (4, 1, 2, 8)),
        ({"tp": None}, (4, 1, 2, 8)),
        ({"cp": None}, (4, 1, 2, 8)),
        ({"cp": None, "pp": None, "dp": 16}, (4, 1, 1, 16)),
        ({"tp": None, "cp": None, "dp": None}, (1, 1, 2, 32)),
        ({"tp": None, "cp": None, "pp": None, "dp": None}, (1, 1, 1, 64)),
        ({"n_gpus": None}, (4, 1, 2, 8)),
    ],
)
def test_empty_degrees(change, degrees):
    table = Table(rows(change))
    plans = read_plans(table)
    assert table.sound.all()
    assert (plans.tp[0], plans.cp[0], plans.pp[0], plans.dp[0]) == degrees
    assert plans.gpus[0] == 64


def test_usual_values_of_empty_cells():
    empty = dict.fromkeys(
        ("vp", "ep", "etp", "sp", "recompute", "precision", "zero_stage", "attn_impl", "interconnect")
    )
    plans = read_plans(Table(rows(empty)))
    found = (plans.vp, plans.ep, plans.etp, plans.sequence_parallel, plans.recompute, plans.precision, plans.zero)
    assert [float(column[0]) for column in found] == [1, 1, 1, 1, Recompute.NONE, Precision.BF16, 1]
    assert price(**empty).pred_step_time_s > 0


def test_micro_batch_follows_where_it_can():
    plans = read_plans(Table(rows({"micro_batch": None, "global_batch": 8}, {"micro_batch": None, "grad_accum": 4})))
    assert plans.micro_batch.tolist() == [1, 4]


def test_chunks_without_a_pipeline_are_none():
    assert read_plans(Table(rows({"pp": 1, "dp": 16, "vp": 4}))).vp.tolist() == [1]


# --- systems and models ---------------------------------------------------------------------------------------------


def test_links_of_a_row():
    changes = [
        {}, {"interconnect": None}, {"gpu": "GB200", "gpus_per_node": 4, "interconnect": None},
        {"gpu": "V100-32G", "gpus_per_node": 4, "interconnect": "4x Omni-Path 100Gb"},
        {"gpu": "B200", "interconnect": "NVL72 + IB"}, {"gpus_per_node": None},
    ]  # fmt: skip
    systems = read_systems(Table(rows(*changes)))
    assert systems.domain.tolist() == [8, 8, 72, 4, 72, 8]
    expected = [50 * 0.85, 50 * 0.85, 50 * 0.85, 12.5 * 0.80, 50 * 0.85, 50 * 0.85]
    np.testing.assert_allclose(systems.outer_bandwidth / 1e9, expected)
    np.testing.assert_allclose(systems.inner_bandwidth[0] / 1e9, 450 * 0.81)


def only_model(**change):
    table = Table(rows(change))
    codes, models = read_models(table)
    assert table.sound.all()
    return models[codes[0]]


SHAPE = ("n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "gated_mlp", "vocab", "tied_embeddings")


def test_the_catalogue_gives_a_shape_that_the_row_does_not():
    model = only_model(model="GPT-3 175B", **dict.fromkeys(SHAPE))
    assert model == catalog.load_model("gpt3-175b").model_copy(update={"source": model.source})


def test_the_catalogue_gives_latent_attention_to_a_row_of_its_name():
    row = {
        "model": "DeepSeek-V3", "arch": "moe", "n_layers": 61, "d_model": 7168, "n_heads": 128, "n_kv_heads": 128,
        "head_dim": 56, "d_ff": 18432, "n_experts": 256, "top_k": 8, "d_expert": 2048, "n_shared_experts": 1,
    }  # fmt: skip
    known = catalog.load_model("deepseek-v3")
    model = only_model(**row)
    assert model.mla == known.mla
    assert model.moe == known.moe
    assert model.mtp_layers == 0
    assert only_model(**row | {"n_layers": 4}).mla is None
    assert only_model(**row | {"model": "another"}).moe.first_dense_layers == 0


def test_usual_values_of_an_empty_shape():
    model = only_model(n_kv_heads=None, head_dim=None, gated_mlp=None, tied_embeddings=None)
    assert (model.kv_heads, model.head_dim, model.gated_mlp, model.tied_embeddings) == (32, 128, True, False)
    mixture = only_model(arch="moe", n_experts=8, top_k=2, n_shared_experts=2).moe
    assert (mixture.d_expert, mixture.shared_experts, mixture.d_shared) == (14336, 2, 28672)


# --- meaning --------------------------------------------------------------------------------------------------------


def test_shards_in_a_node_hold_more_but_cross_less():
    whole = price(tp=1, pp=1, dp=64, zero_stage="fsdp (zero3)")
    node = price(tp=1, pp=1, dp=64, zero_stage="hsdp (zero3 within node, replicate across)")
    groups = price(tp=1, pp=1, dp=64, zero_stage="zero3 in groups of 8")
    assert node.pred_peak_mem_gb > whole.pred_peak_mem_gb
    assert node.pred_step_time_s < whole.pred_step_time_s
    assert groups.pred_peak_mem_gb == pytest.approx(node.pred_peak_mem_gb)
    assert groups.pred_step_time_s == pytest.approx(node.pred_step_time_s)


def test_expert_parallel_ranks_of_a_dense_model_mean_nothing():
    assert price(ep=512).pred_step_time_s == price().pred_step_time_s


def test_fp4_is_faster_than_fp8_where_the_accelerator_has_it():
    assert price(precision="nvfp4", gpu="B200").pred_step_time_s < price(precision="fp8", gpu="B200").pred_step_time_s
    assert price(precision="nvfp4", gpu="H100").pred_step_time_s == pytest.approx(
        price(precision="fp8", gpu="H100").pred_step_time_s, rel=0.05
    )


def test_a_hundred_thousand_rows_in_seconds():
    frame = pd.concat([rows({}, {"tp": 8, "dp": 4}, {"micro_batch": 2}, {"seq_len": 8192})] * 25_000, ignore_index=True)
    started = time.process_time()
    result = evaluate(frame)
    assert time.process_time() - started < 5
    assert (result.pred_error == "").all()
