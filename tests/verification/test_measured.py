"""Published runs: all are priced, save those whose fields are missing, and each source is predicted to a few per cent.

Sources are looked at one at a time: three of them hold 84 % of the rows.
"""

import time
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from planner import catalog
from planner.evaluation import PREDICTIONS, evaluate

#: Why a row has no prediction, and how many have none for that reason.
REASONS = {
    "arch = 'hybrid_mamba_moe': this architecture is not modelled": 58,
    "micro_batch is empty and does not follow": 34,  # megatron_h100, narayanan2021, nemo_longseq
    "n_layers, d_model, n_heads, d_ff, vocab are empty": 13,  # bigscience_v100
    "global_batch is empty": 6,  # nemo_launcher
    "n_layers, d_model, n_heads, vocab, n_experts, top_k, d_expert are empty": 2,  # DeepSeekV4 Flash
    # mbridge-0273: ep 64 with pp 8 on 256 GPUs, as published; only 32 ranks hold a stage
    "ep x etp = 64 x 1: must be at most tp x cp x dp = 32": 1,
}

#: Sources of at least 20 priced runs with a time.
LARGE = (
    "bigscience_v100", "internevo", "llmfoundry", "mbridge", "nemo2024", "ultrascale", "vtrain_multi", "vtrain_single",
)  # fmt: skip


@cache
def measured():
    frame = pd.read_csv(catalog.root() / "instances" / "published" / "measured.csv", low_memory=False)
    started = time.process_time()
    result = evaluate(frame)
    result.attrs["seconds"] = time.process_time() - started
    result["time"] = result.step_time_s.fillna(result.step_time_derived_s)
    return result


def of(source):
    result = measured()
    return result[(result.src_key == source) & result.time.notna() & result.pred_step_time_s.notna()]


def test_it_is_quick():
    measured()
    assert measured().attrs["seconds"] < 10


def test_every_row_is_there():
    assert len(measured()) == 3918
    assert measured().id.is_unique
    assert (measured().source.str.len() > 0).all()


@pytest.mark.parametrize("reason", REASONS)
def test_how_many_rows_lack_what(reason):
    assert measured().pred_error.str.startswith(reason).sum() == REASONS[reason]


def test_all_other_rows_are_priced():
    result = measured()
    assert (result.pred_error != "").sum() == sum(REASONS.values()) == 114
    priced = result[result.pred_error == ""]
    for name in PREDICTIONS:
        assert np.isfinite(priced[name]).all()
        assert (priced[name] > 0).all()
    assert (priced.pred_mfu < 1).all()
    assert priced.pred_fits.notna().all()


def test_model_flop_are_within_the_published_conventions():
    # the sources' own range goes from no attention to full attention; ours is causal, half of the full one
    priced = measured()[measured().pred_error == ""]
    flop = priced.pred_tflops_per_gpu * 1e12 / priced.pred_tokens_per_s_per_gpu
    assert ((flop > 0.97 * priced.flops_per_token_lo) & (flop < 1.03 * priced.flops_per_token_hi)).all()


#: Median absolute error of the step time of each source and kind of accelerator, with the shipped profiles. Half as much
#: again may be lost to a change before it is looked at; runs of Ultra-Scale below a tenth of the peak are apart.
ERRORS = {
    ("vtrain_multi", "A100"): 0.06, ("vtrain_single", "A100"): 0.06, ("llmfoundry", "H100"): 0.02,
    ("llmfoundry", "A100"): 0.04, ("internevo", "A100"): 0.06, ("ultrascale", "H100"): 0.06, ("mbridge", "H100"): 0.08,
    ("mbridge", "B"): 0.08, ("mbridge", "GB"): 0.07, ("nemo2024", "H100"): 0.05, ("narayanan2021", "A100"): 0.03,
    ("torchtitan", "H100"): 0.06, ("moezoo", "H100"): 0.09,
}  # fmt: skip


@pytest.mark.parametrize(("source", "gpu"), ERRORS)
def test_the_step_time_of_a_source_is_predicted(source, gpu):
    runs = of(source)
    runs = runs[runs.gpu.str.startswith(gpu) & ~((runs.src_key == "ultrascale") & (runs.mfu < 0.1))]
    error = (runs.pred_step_time_s / runs.time - 1).abs()
    assert error.median() < 1.5 * ERRORS[source, gpu]


def test_slow_pipelines_of_ultrascale_wait_a_second_in_every_micro_batch():
    # What is left of these runs when the prediction is taken off, by micro-batch, is alike for models of 1 to 80 billion
    # parameters: about 0.5 s with two stages and 1 s with more. It is no cost of a plan, and no constant is fitted to it.
    runs = of("ultrascale")
    runs = runs[(runs.mfu < 0.1) & (runs.tp <= 2) & (runs.pp > 2)]
    waits = (runs.time - runs.pred_step_time_s) / (runs.global_batch / runs.dp / runs.micro_batch)
    assert len(runs) > 60
    for _, part in waits.groupby(runs.model):
        if len(part) >= 10:
            assert 0.8 < part.median() < 1.5


@pytest.mark.parametrize("source", LARGE)
def test_the_order_of_runs_is_predicted(source):
    runs = of(source)
    assert len(runs) >= 20
    tokens = runs.global_batch * runs.seq_len / runs.n_gpus
    assert spearmanr(tokens / runs.pred_step_time_s, tokens / runs.time).statistic > 0.6


def test_the_order_of_memories_is_predicted():
    runs = measured()[(measured().src_key == "ultrascale") & measured().pred_peak_mem_gb.notna()]
    assert spearmanr(runs.pred_peak_mem_gb, runs.peak_mem_gb).statistic > 0.9


def test_the_memory_of_runs_that_are_no_stalled_pipelines_is_predicted():
    runs = measured()[(measured().src_key == "ultrascale") & measured().pred_peak_mem_gb.notna()]
    single = runs[(runs.pp == 1) & (runs.tp <= 8) & (runs.mfu >= 0.1)]
    error = (single.pred_peak_mem_gb / single.peak_mem_gb - 1).abs()
    assert len(single) > 200
    assert error.median() < 0.06
    assert error.quantile(0.9) < 0.15
