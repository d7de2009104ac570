"""The published frontier points: CPU time of a proof at each, and the plans beside those of the authors' program."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.registry import Options
from benchmarks.tables import Table

#: CPU seconds of the authors' hand-pruned enumeration for its figures, on two shared cores: (points, seconds).
THEIRS = {"base_comparison": (93, 56.0), "grand_comparison_dense": (191, 46.0)}
RULES = {"No scaling": ["batch.rule=none"], "DeepSeek scaling": ["batch.rule=deepseek"]}
PROBLEMS = {
    "V100 SXM": "v100", "A100 SXM": "a100", "H100 SXM": "h100", "H100 SXM Low Latency": "h100-low-latency",
    "H100 SXM Global NVLink and LL": "h100-global-nvlink-low-latency",
    "H100 SXM Infinite Network and LL": "h100-infinite-network",
    "No scaling": "h100", "Default scaling": "h100", "DeepSeek scaling": "h100",
}  # fmt: skip
TOLERANCE = 1e-3


def run(options: Options) -> list[Table]:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import pandas as pd

    from planner import catalog
    from planner.frontier.budget import solve_frontier
    from planner.frontier.costs import utilisation_of
    from planner.frontier.loading import load_frontier

    published: Any = pd.read_csv(catalog.root() / "instances" / "published" / "frontier.csv")
    table = Table("Published frontier points, proved to 0.01 %", ["run", "setting", "points", "CPU s", "CPU s a point",
                  "worse than published", "better", "fewer accelerators"])  # fmt: skip
    spent: dict[str, float] = {}
    for (name, setting), rows in published.groupby(["run", "setting"], sort=False):
        kind = "sparse" if "sparse" in name else "dense"
        worse = better = fewer = 0
        started = time.process_time()
        for row in rows.itertuples():
            overrides = [f"width={row.d_model}", *RULES.get(setting, [])]
            frontier = load_frontier(f"frontier-{PROBLEMS[setting]}-{kind}", overrides)
            outcome = solve_frontier(frontier)
            gpus = outcome.plans[0]["gpus"] if outcome.plans else float("inf")
            used = utilisation_of(frontier.setting, outcome.values[0], gpus) if outcome.plans else 0.0
            worse += gpus > row.n_gpu or (gpus == row.n_gpu and used < row.utilization - TOLERANCE)
            fewer += gpus < row.n_gpu
            better += gpus == row.n_gpu and used > row.utilization + TOLERANCE
        seconds = time.process_time() - started
        spent[name] = spent.get(name, 0.0) + seconds
        table.add(name, setting, len(rows), seconds, seconds / len(rows), worse, better, fewer)
    for name, (points, theirs) in THEIRS.items():
        count = int((published["run"] == name).sum())
        ours = spent[name] / count
        table.notes.append(
            f"{name}: {ours:.2f} s of CPU a point over {count} points; the authors' enumeration of their smaller space "
            f"{theirs / points:.2f} s ({points} points in {theirs:g} s): {ours / (theirs / points):.2g} times"
        )
    return [table]
