"""The benchmarks by name. Each lives in a file of its own and is imported when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.tables import Table


@dataclass(frozen=True)
class Options:
    """What the command line asks of the benchmarks."""

    repeat: int = 3
    samples: int = 2000
    calculon: Path | None = None
    calculon_saved: Path | None = None  # where the figures of its search are kept


@dataclass(frozen=True)
class Benchmark:
    """A module of this package with ``run(options) -> list[Table]``."""

    module: str
    about: str
    slow: bool = False  # minutes: only by name or with --all

    def run(self, options: Options) -> list[Table]:
        tables: list[Table] = import_module(f"benchmarks.{self.module}").run(options)
        return tables


BENCHMARKS = {
    "help": Benchmark("start", "CPU time of planner --help"),
    "solve": Benchmark("solve_times", "whole solves: time, memory, status and gap against the limits"),
    "price": Benchmark("exact", "exact evaluation: plans a second, and a file of 100,000 rows"),
    "growth": Benchmark("growth", "columns, rows, nodes and time against accelerators, 2^3 to 2^24"),
    "enumeration": Benchmark("crossover", "our own plain enumeration against the program, by size of the space"),
    "frontier": Benchmark("frontier", "the 435 published frontier points: CPU time and plans beside theirs", slow=True),
    "sweeps": Benchmark("sweeps", "the batch engine: speed-up, memory, kills, Dask", slow=True),
    "oracle": Benchmark("oracle", "the optimum and the bound against the exhaustive oracle", slow=True),
    "calculon": Benchmark("calculon", "side by side with Calculon's search (--calculon PATH)", slow=True),
}
