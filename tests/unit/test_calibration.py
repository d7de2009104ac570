"""Fits find constants that are known, keep what runs cannot tell, and errors and regret are what they should be."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from planner import catalog
from planner.calibration.consensus import beliefs, expected, stated
from planner.calibration.fit import fit, with_values
from planner.calibration.observations import step_times
from planner.calibration.parameters import PARAMETERS
from planner.calibration.profiles import build, to_toml, usable
from planner.calibration.scores import regrets, scores
from planner.errors import InputError
from planner.evaluation import evaluate
from planner.rows.frameworks import profile
from planner.schema.base import validate
from planner.schema.framework import Assumptions, Framework


def runs(count=24, **changes):
    """Plans of Llama 3 8B on one to four nodes that differ in all degrees, without times."""
    draw = np.random.default_rng(3)
    rows = []
    for number in range(count):
        tp, pp = int(draw.choice([1, 2, 4, 8])), int(draw.choice([1, 1, 2, 4]))
        gpus = int(draw.choice([8, 16, 32])) * pp
        dp, micro = gpus // tp // pp, int(draw.choice([1, 2, 4]))
        rows.append({
            "id": number, "framework": "generic", "model": "llama-3-8b", "gpu": "H100", "gpus_per_node": 8, "n_gpus": gpus,
            "seq_len": int(draw.choice([2048, 4096, 8192])), "micro_batch": micro, "tp": tp, "pp": pp, "dp": dp,
            "global_batch": dp * micro * int(draw.choice([4, 8, 16])), "zero_stage": "zero1", "precision": "bf16",
        })  # fmt: skip
    return pd.DataFrame(rows).assign(**changes)


def measured(frame, noise=0.0, **constants):
    """``frame`` with the times of a framework that has these constants."""
    truth = with_values(profile("generic").model_copy(update={"on": {}}), constants)
    times = evaluate(frame, {"generic": truth})["pred_step_time_s"]
    return frame.assign(step_time_s=times * np.exp(noise * np.random.default_rng(1).standard_normal(len(frame))))


def test_the_frame_is_priced():
    assert (evaluate(runs())["pred_error"] == "").all()


def test_known_constants_are_found():
    truth = {"matmul_rate": 0.7, "attention_rate": 0.3, "elementwise": 3.0}
    start = profile("generic").model_copy(update={"on": {}})
    found = fit(measured(runs(), **truth), start, beliefs(start))
    assert found.median_error < 0.01
    assert found.values["matmul_rate"] == pytest.approx(0.7, rel=0.05)
    by_name = {estimate.name: estimate for estimate in found.estimates}
    assert by_name["matmul_rate"].identified
    for name, value in truth.items():
        assert by_name[name].low <= value <= by_name[name].high


def test_what_no_run_tells_stays_as_believed_and_is_said():
    start = profile("generic").model_copy(update={"on": {}})
    found = fit(measured(runs(), noise=0.02), start, beliefs(start))
    by_name = {estimate.name: estimate for estimate in found.estimates}
    for name in ("host_moe_ms", "ep_overlap"):  # no run has experts
        assert not by_name[name].identified
        assert by_name[name].value == pytest.approx(getattr(start.assumptions, name), rel=1e-3)
        assert by_name[name].low < by_name[name].value < by_name[name].high


def test_without_beliefs_nothing_is_fitted():
    frame = measured(runs())
    found = fit(frame, profile("generic").model_copy(update={"on": {}}), [])
    assert found.estimates == ()
    assert found.ratios == pytest.approx(np.ones(len(frame)))


def test_runs_without_times_are_refused():
    with pytest.raises(InputError, match="no run has both"):
        fit(runs(), profile("generic"), PARAMETERS)


def test_accelerators_have_constants_of_their_own_where_they_differ():
    fast, slow = measured(runs(16), matmul_rate=0.95), measured(runs(16, gpu="A100-80G"), matmul_rate=0.6)
    start = profile("generic").model_copy(update={"on": {}})
    found = build(pd.concat([fast, slow], ignore_index=True), start, beliefs(start)).framework
    assert set(found.on) == {"a100-sxm-80", "h100-sxm"} == set(found.measured_on)
    assert found.on["a100-sxm-80"].matmul_rate < 0.7 < 0.78 < found.on["h100-sxm"].matmul_rate


def test_a_profile_survives_its_file():
    import tomllib

    for name in catalog.names("framework"):
        given = profile(name)
        assert validate(Framework, tomllib.loads(to_toml(given)), name) == given


def test_an_unmeasured_framework_is_expected_to_be_like_its_relatives():
    def relative(name, family, rate):
        own = Assumptions(matmul_rate=rate, loss="fused")
        return profile("generic").model_copy(update={"name": name, "family": family, "assumptions": own, "on": {}})

    others = [relative("a", "x", 0.5), relative("b", "x", 0.6), relative("c", "x", 0.9), relative("d", "y", 1.1)]
    new = Framework(schema=1, name="new", family="x", source="", date="", assumptions=Assumptions(loss="unfused"))
    found = expected(new, others)
    assert found.assumptions.matmul_rate == 0.6
    assert found.assumptions.loss == "unfused"  # what is stated of it stays
    alone = expected(new.model_copy(update={"family": "z"}), others)
    assert alone.assumptions.matmul_rate == pytest.approx(0.75)
    assert stated(found).assumptions.matmul_rate == Assumptions().matmul_rate


def test_beliefs_stay_within_their_bounds():
    extreme = with_values(profile("generic").model_copy(update={"on": {}}), {"matmul_rate": 5.0})
    assert next(belief for belief in beliefs(extreme) if belief.name == "matmul_rate").usual == 1.2


def test_times_come_from_times_then_rates_then_inversions():
    frame = pd.DataFrame({
        "step_time_s": [2.0, None, None, None, -1.0], "tokens_per_s_per_gpu": [999.0, 1024.0, None, None, None],
        "step_time_derived_s": [9.0, 9.0, 3.0, None, None], "global_batch": 8, "seq_len": 1024, "n_gpus": 4,
    })  # fmt: skip
    assert step_times(frame).fillna(0).tolist() == [2.0, 2.0, 3.0, 0.0, 0.0]


def test_scores_by_hand():
    frame = pd.DataFrame({
        "src_key": "s", "gpu": "g", "model": "m", "n_gpus": 8, "global_batch": 8, "seq_len": 1024, "precision": "bf16",
        "step_time_s": [1.0, 2.0, 4.0], "pred_step_time_s": [1.1, 1.0, 4.0], "pred_peak_mem_gb": [10.0, 20.0, 30.0],
        "peak_mem_gb": [10.0, 25.0, None],
    })  # fmt: skip
    row = scores(frame).iloc[0]
    assert row["median"] == pytest.approx(0.1)
    assert row["bias"] == pytest.approx(0.0)
    assert row["regret"] == pytest.approx(1.0)  # the second is ranked first, and takes twice as long as the first
    assert row["choices"] == 1
    assert row["rank"] == pytest.approx(0.5)
    assert row["memory_median"] == pytest.approx(0.1)
    assert regrets(frame.assign(measured_s=frame["step_time_s"]).iloc[:1]) == []


def test_slow_pipelines_teach_nothing():
    frame = pd.DataFrame({"mfu": [0.05, 0.05, 0.2, None], "pp": [1, 2, 2, 4]})
    assert usable(frame).index.tolist() == [0, 2, 3]


def test_a_belief_of_a_fraction_is_on_its_own_scale():
    overlap = next(parameter for parameter in PARAMETERS if parameter.fraction)
    assert overlap.outward(overlap.inward(0.3)) == 0.3
    rate = replace(PARAMETERS[0], fraction=False)
    assert rate.outward(rate.inward(0.5)) == pytest.approx(0.5)
