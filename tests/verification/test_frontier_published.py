"""The frontier paper's own points: the exact evaluation reproduces them, and no proved plan is worse than theirs.

Data: instances/published/frontier.csv, 435 simulated points of the authors' public program
(github.com/ege-erdil/limits_to_distributed_training, b1f771c). They are printed with six digits: tolerance 1e-3.
"""

import pandas as pd
import pytest

from planner import catalog
from planner.algebra.breakdown import explain
from planner.curves.summary import LINEAR
from planner.frontier import costs
from planner.frontier.budget import solve_frontier
from planner.frontier.loading import load_frontier, read_frontier
from planner.frontier.result import traffic
from planner.frontier.scaling import model_of_width, widths
from planner.frontier.setting import ORDINARY, ZERO_BUBBLE
from planner.outcome import Status

TABLE = pd.read_csv(catalog.root() / "instances" / "published" / "frontier.csv")
TOLERANCE = 1e-3
#: The problem of each of the authors' settings, dense; those of their batch rules are for H100.
PROBLEMS = {
    "V100 SXM": "v100", "A100 SXM": "a100", "H100 SXM": "h100", "H100 SXM Low Latency": "h100-low-latency",
    "H100 SXM Global NVLink and LL": "h100-global-nvlink-low-latency",
    "H100 SXM Infinite Network and LL": "h100-infinite-network",
    "No scaling": "h100", "Default scaling": "h100", "DeepSeek scaling": "h100",
}  # fmt: skip
RULES = {"No scaling": ["batch.rule=none"], "DeepSeek scaling": ["batch.rule=deepseek"]}
#: Where linear scaling ends, as published: the last compute before, and the first of which no more than 0.8 of the sustained
#: rate is used; FLOP, three digits.
ENDS = [
    ("v100-dense", [], 1.31e27, 2.85e27), ("a100-dense", [], 2.05e28, 3.40e28), ("h100-dense", [], 1.49e28, 2.05e28),
    ("h100-low-latency-dense", [], 5.80e28, 1.34e29), ("h100-global-nvlink-dense", [], 2.04e29, 4.07e29),
    ("h100-global-nvlink-low-latency-dense", [], 2.71e31, 5.08e31),
    ("h100-infinite-network-dense", [], 6.83e31, 9.00e31),
    ("v100-sparse", [], 6.97e26, 1.57e27), ("a100-sparse", [], 1.59e29, 2.32e29), ("h100-sparse", [], 2.61e28, 6.83e28),
    ("h100-low-latency-sparse", [], 2.61e28, 6.83e28), ("h100-global-nvlink-sparse", [], 4.76e29, 7.37e29),
    ("h100-global-nvlink-low-latency-sparse", [], 7.46e31, 1.00e32),
    ("h100-infinite-network-sparse", [], 2.41e32, 5.71e32),
    ("h100-dense", RULES["No scaling"], 1.31e27, 2.85e27), ("h100-dense", RULES["DeepSeek scaling"], 2.39e33, 3.21e33),
    ("h100-sparse", RULES["No scaling"], 6.97e26, 1.57e27), ("h100-sparse", RULES["DeepSeek scaling"], 3.47e33, 7.31e33),
]  # fmt: skip


def frontier_of(row):
    kind = "sparse" if "sparse" in row.run else "dense"
    overrides = [f"width={row.d_model}", *RULES.get(row.setting, [])]
    return load_frontier(f"frontier-{PROBLEMS[row.setting]}-{kind}", overrides)


def parts_of(text, total, levels):
    if levels == 1:
        return [int(total)]
    return [int(value) for value in str(text).split("x")]


def plans_of(row, levels):
    """The row's plan; the file does not say which schedule it has, where both are possible."""
    degrees = {"tp_model": (row.tpm_levels, row.tp_model), "tp_ff": (row.tpff_levels, row.tp_ff),
               "dp": (row.dp_levels, row.dp), "pp": (row.pp_levels, row.pp), "ep": (row.ep_levels, row.ep)}  # fmt: skip
    parts = {degree: parts_of(text, total, levels) for degree, (text, total) in degrees.items()}
    schedules = [ORDINARY]
    if row.interleave == 1 and row.microbatches >= 2 * row.pp:
        schedules.append(ZERO_BUBBLE)
    return [costs.columns_of(parts, row.microbatches, row.interleave, schedule) for schedule in schedules]


@pytest.mark.parametrize(("run", "setting"), sorted(set(zip(TABLE["run"], TABLE["setting"], strict=True))))
def test_every_published_point_is_reproduced(run, setting):
    for row in TABLE[(TABLE["run"] == run) & (TABLE["setting"] == setting)].itertuples():
        frontier = frontier_of(row)
        model, here = frontier.model, frontier.setting
        assert (model.layers, model.experts, model.batch) == (row.layers, row.sparsity, row.batch_tokens)
        assert model.compute == pytest.approx(row.compute_flop, rel=1e-6)

        def figures(plan, frontier=frontier, here=here):
            seconds = explain(frontier.run_time, plan).value
            by_kind = traffic(here, plan)
            return {"months": seconds / here.month, "utilization": costs.utilisation_of(here, seconds, plan["gpus"]),
                    **{f"{key}_months": by_kind[name] / here.month for key, name in (
                        ("tp", "tensor parallel"), ("dp", "data parallel"), ("pp_ep", "pipeline and experts"),
                        ("latency", "latency"))}}  # fmt: skip

        plan = min(plans_of(row, len(here.levels)), key=lambda plan: abs(figures(plan)["months"] - row.months))
        assert plan["gpus"] == row.n_gpu
        for key, value in figures(plan).items():
            assert value == pytest.approx(getattr(row, key), rel=TOLERANCE, abs=1e-6), (row.setting, row.d_model, key)


def assert_no_worse(row):
    outcome = solve_frontier(frontier_of(row))
    assert outcome.status is Status.OPTIMAL
    frontier, gpus = frontier_of(row), outcome.plans[0]["gpus"]
    assert gpus <= row.n_gpu
    assert outcome.values[0] <= frontier.setting.limit
    if gpus == row.n_gpu:
        used = costs.utilisation_of(frontier.setting, outcome.values[0], gpus)
        assert used >= row.utilization - TOLERANCE


@pytest.mark.parametrize("place", range(7, 435, 29))
def test_a_proved_plan_is_no_worse_than_the_published_one(place):
    assert_no_worse(next(TABLE.iloc[[place]].itertuples()))


@pytest.mark.parametrize(("name", "overrides", "before", "end"), ENDS)
def test_linear_scaling_ends_where_published(name, overrides, before, end):
    problem, _, _ = read_frontier(f"frontier-{name}", overrides)
    grid = {model_of_width(problem, width).compute: width for width in widths(problem)}
    used = []
    for compute in (before, end):
        nearest = min(grid, key=lambda value, compute=compute: abs(value / compute - 1))
        assert nearest == pytest.approx(compute, rel=5e-3)
        frontier = load_frontier(f"frontier-{name}", [*overrides, f"width={grid[nearest]}"])
        outcome = solve_frontier(frontier)
        seconds, gpus = outcome.values[0], outcome.plans[0]["gpus"]
        used.append(costs.utilisation_of(frontier.setting, seconds, gpus) / frontier.setting.accelerator.sustained)
    assert used[0] > LINEAR >= used[1]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 435, 29))
def test_no_proved_plan_is_worse_than_the_published_one(first):
    for row in TABLE.iloc[first : first + 29].itertuples():
        assert_no_worse(row)


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["1e26", "1e27"])
def test_three_network_levels_have_a_plan(budget):
    # so many placements are alike that they cannot all be looked at under a generous limit: it has to be narrowed
    frontier = load_frontier("frontier-h100-superpod-sparse", [f"budget={budget}"])
    assert str(solve_frontier(frontier).status) == "optimal"
