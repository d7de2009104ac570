"""The exact evaluation: plans a second of one model, and a file of given plans."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import measure
from benchmarks.registry import Options
from benchmarks.tables import Table

if TYPE_CHECKING:
    from planner.algebra.expressions import Array
    from planner.instance import Instance

PROBLEMS = ("gpt3-175b-1k-a100", "llama3-405b-16k-h100", "deepseek-v3-2k-h800")
CHUNK = 16384
CHUNKS = 4
FILE_ROWS = 100_000
#: The columns of measured.csv that a prediction reads; the others are its origin, outcome and remarks.
# fmt: off
DESCRIBING = [
    "id", "model", "arch", "n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "gated_mlp", "vocab",
    "tied_embeddings", "seq_len", "n_experts", "top_k", "d_expert", "n_shared_experts", "gpu", "gpus_per_node",
    "n_gpus", "interconnect", "precision", "global_batch", "micro_batch", "tp", "sp", "cp", "pp", "vp", "ep", "etp",
    "dp", "zero_stage", "recompute", "offload", "overlap", "attn_impl",
]
# fmt: on
PLANS_A_SECOND, FILE_LIMIT_S = 500_000, 5.0


def run(options: Options) -> list[Table]:
    return [_throughput(options), _file(options)]


def _throughput(options: Options) -> Table:
    from planner.instance import load

    table = Table(
        "Exact evaluation: distinct plans of one model, one core",
        ["problem", "plans", "step time only, plans/s", "step time and memory, plans/s", "of goal (step time)"],
    )
    for problem in PROBLEMS:
        instance = load(problem)
        chunks = list(_plans(instance))
        plans = sum(len(next(iter(columns.values()))) for columns in chunks)
        time_only = plans / median(_price(instance, chunks, memory=False) for _ in range(options.repeat))
        both = plans / median(_price(instance, chunks, memory=True) for _ in range(options.repeat))
        table.add(problem, plans, time_only, both, time_only / PLANS_A_SECOND)
    table.notes += [
        f"CPU time, medians of {options.repeat}, arrays of {CHUNK:,} plans; building the columns is not counted",
        f"the goal is {PLANS_A_SECOND:,} plans a second",
    ]
    return table


def _plans(instance: Instance) -> Iterator[dict[str, Array]]:
    """Plans that keep every rule, taken evenly from the first hundreds of thousands of the enumeration."""
    from planner.search.enumeration import Enumerator

    found: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = []
    size = 0
    for indices in Enumerator(instance.space).combinations():
        found.append(indices)
        size += len(indices)
        if size >= 4 * CHUNK * CHUNKS:
            break
    everything = np.concatenate(found)
    chosen = np.random.default_rng(0).permutation(len(everything))[: CHUNK * CHUNKS]
    for begin in range(0, len(chosen), CHUNK):
        yield instance.space.columns(everything[chosen[begin : begin + CHUNK]])


def _price(instance: Instance, chunks: list[dict[str, Array]], *, memory: bool) -> float:
    from planner.algebra.evaluation import Evaluator

    expressions = (instance.step_time, instance.peak_memory) if memory else (instance.step_time,)
    started = time.process_time()
    for columns in chunks:
        evaluator = Evaluator(columns)
        for expression in expressions:
            evaluator(expression)
    return time.process_time() - started


def _file(options: Options) -> Table:
    table = Table(
        "planner evaluate of a file",
        ["file", "rows", "priced", "wall s", "CPU s", "rows/s", "peak MiB", "limit s", "of limit"],
    )
    for name, columns in (("every column", None), ("model, system and plan", DESCRIBING)):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "rows.csv", Path(folder) / "out.csv"
            _write_rows(source, columns)
            size = source.stat().st_size / 1e6
            runs = measure.repeated([*measure.PLANNER, "evaluate", source, "-o", target], options.repeat)
            priced = _priced(target)
        wall = measure.wall(runs)
        table.add(
            f"{name}, {size:.0f} MB",
            FILE_ROWS,
            priced,
            wall,
            measure.cpu(runs),
            FILE_ROWS / wall,
            measure.peak(runs),
            FILE_LIMIT_S,
            wall / FILE_LIMIT_S,
        )
    table.notes.append("rows of instances/published/measured.csv with growing batches; whole command, file to file")
    return table


def _write_rows(path: Path, columns: list[str] | None) -> None:
    import pandas as pd

    from planner import catalog

    measured = pd.read_csv(catalog.root() / "instances/published/measured.csv", dtype=str, keep_default_na=False)
    positions = [place for _, place in zip(range(FILE_ROWS), cycle(range(len(measured))), strict=False)]
    rows = measured.iloc[positions].reset_index(drop=True)
    factor = [1 + place // len(measured) for _, place in zip(range(FILE_ROWS), count(), strict=False)]
    batch = pd.to_numeric(rows["global_batch"], errors="coerce")
    rows["global_batch"] = (batch * factor).map(lambda value: "" if np.isnan(value) else f"{value:.0f}")
    (rows if columns is None else rows[columns]).to_csv(path, index=False)


def _priced(path: Path) -> int | None:
    import pandas as pd

    if not path.exists():
        return None
    return int(pd.read_csv(path, usecols=["pred_step_time_s"])["pred_step_time_s"].notna().sum())
