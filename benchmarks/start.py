"""How quickly the command starts."""

from __future__ import annotations

from benchmarks import measure
from benchmarks.registry import Options
from benchmarks.tables import Table

COMMANDS = (("--help",), ("solve", "--help"), ("list", "model"))
TARGET_S = 0.3


def run(options: Options) -> list[Table]:
    table = Table("Start", ["command", "CPU s", "wall s", "peak MiB", "limit CPU s"])
    for arguments in COMMANDS:
        measure.run([*measure.PLANNER, *arguments])  # the first run compiles
        runs = measure.repeated([*measure.PLANNER, *arguments], max(5, options.repeat))
        limit = TARGET_S if arguments == ("--help",) else None
        table.add(f"planner {' '.join(arguments)}", measure.cpu(runs), measure.wall(runs), measure.peak(runs), limit)
    table.notes.append(f"medians of {max(5, options.repeat)} processes")
    return [table]
