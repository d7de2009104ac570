"""How the program grows with the cluster: columns, rows, nodes and time for 2^3 to 2^24 accelerators."""

from __future__ import annotations

import tempfile
import tomllib
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks import measure, toml
from benchmarks.registry import Options
from benchmarks.tables import Table

#: Problem that is scaled, and sequences a step for eight accelerators.
PROBLEMS = (("gpt3-175b-4k-a100", 12), ("deepseek-v3-1m-h800", 60))
EXPONENTS = range(3, 25, 3)
STATISTICS = ("columns", "rows", "nodes")
BYTES_A_PARAMETER = 20  # so much memory is assumed on small clusters, where no real accelerator would hold the model
TIME_LIMIT_S = 300


def run(options: Options) -> list[Table]:
    return [_grow(problem, batch, options) for problem, batch in PROBLEMS]


def _grow(problem: str, batch: int, options: Options) -> Table:
    table = Table(
        f"Growth: {problem} on other numbers of accelerators",
        ["accelerators", "batch", "GiB each", "status", "gap", "step s", *STATISTICS, "solver s", "wall s", "of first"],
    )
    first = 0.0
    for exponent in EXPONENTS:
        accelerators = 2**exponent
        with tempfile.TemporaryDirectory() as folder:
            memory = _write(Path(folder), problem, accelerators, batch * accelerators // 8)
            command = [*measure.PLANNER, "solve", f"{folder}/problem.toml", "--json"]
            runs = measure.repeated([*command, "--time-limit", str(TIME_LIMIT_S)], options.repeat)
        document = runs[0].document
        statistics = document.get("solver", {})
        wall = measure.wall(runs)
        first = first or wall
        table.add(
            accelerators,
            batch * accelerators // 8,
            memory,
            measure.status(runs[0]),
            document.get("gap"),
            document.get("step_time_s"),
            *(statistics.get(name) for name in STATISTICS),
            statistics.get("wall_s"),
            wall,
            wall / first,
        )
    table.notes += [
        f"whole command, medians of {options.repeat}; the cluster's tiers are cut or widened to its size",
        f"memory is the accelerator's own, or {BYTES_A_PARAMETER} B a parameter where that is more",
    ]
    return table


def _write(folder: Path, name: str, accelerators: int, batch: int) -> float:
    """Write the problem and its cluster; returns the memory of one accelerator, GiB."""
    from planner import catalog
    from planner.physics import parameters

    problem = tomllib.loads(catalog.locate("problem", name).read_text())
    cluster = tomllib.loads(catalog.locate("cluster", problem["cluster"]).read_text())
    cluster |= {"tiers": tiers(cluster["tiers"], accelerators), "name": f"{cluster['name']} x {accelerators}"}
    size = parameters.total(catalog.load_model(problem["model"]))
    own = catalog.load_hardware(cluster["accelerator"]).memory_gib
    needed = ceil(BYTES_A_PARAMETER * size / accelerators / 2**30)
    problem["training"] |= {"gpus": accelerators, "global_batch": batch}
    if needed > own:
        problem["limits"] = problem.get("limits", {}) | {"memory_gib": needed}
    problem["cluster"] = "./cluster.toml"
    (folder / "cluster.toml").write_text(toml.dumps(cluster))
    (folder / "problem.toml").write_text(toml.dumps(problem))
    return max(own, needed)


def tiers(catalogued: list[dict[str, Any]], accelerators: int) -> list[dict[str, Any]]:
    """The tiers of a cluster of another size: inner ones as they are, the outermost as large as needed."""
    inner = [tier for tier in catalogued if tier["size"] < accelerators]
    if len(inner) == len(catalogued):
        inner = inner[:-1]
    return [*inner, catalogued[len(inner)] | {"size": accelerators}]
