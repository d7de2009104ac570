"""Whole solves of the problems that have a limit: a process each, from the command to the proof."""

from __future__ import annotations

from benchmarks import measure
from benchmarks.registry import Options
from benchmarks.tables import Table

#: Problem and the most wall time that it may take, s; the last one's limit is a multiple of the one before.
PROBLEMS = (
    ("gpt3-175b-1k-a100", 3.0),
    ("gpt3-175b-4k-a100", None),
    ("llama3-405b-16k-h100", 8.0),
    ("deepseek-v3-2k-h800", 10.0),
    ("deepseek-v3-1m-h800", None),
)
MEMORY_LIMIT_MIB = 400e6 / measure.MIB
GROWTH_LIMIT = 2.0


def run(options: Options) -> list[Table]:
    table = Table(
        "Solve: planner solve PROBLEM --json",
        ["problem", "status", "gap", "step s", "MFU", "wall s", "spread", "CPU s", "peak MiB", "limit s", "of limit"],
    )
    walls: dict[str, float] = {}
    peak = 0.0
    for problem, limit in PROBLEMS:
        runs = measure.repeated([*measure.PLANNER, "solve", problem, "--json"], options.repeat)
        walls[problem] = measure.wall(runs)
        peak = max(peak, measure.peak(runs))
        document = runs[0].document
        table.add(
            problem,
            measure.status(runs[0]),
            document.get("gap"),
            document.get("step_time_s"),
            document.get("mfu"),
            walls[problem],
            measure.spread(runs),
            measure.cpu(runs),
            measure.peak(runs),
            limit,
            walls[problem] / limit if limit else None,
        )
    ratio = walls["deepseek-v3-1m-h800"] / walls["deepseek-v3-2k-h800"]
    table.notes += [
        f"medians of {options.repeat} processes, one HiGHS thread; peak is the highest of them",
        f"deepseek-v3 on 1,048,576 against 2,048 accelerators: {ratio:.2f} times (limit {GROWTH_LIMIT:g})",
        f"peak memory of a solve: {peak:.0f} MiB (limit {MEMORY_LIMIT_MIB:.0f})",
    ]
    return [table]
