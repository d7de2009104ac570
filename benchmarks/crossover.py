"""Plain enumeration against the program: the same expressions, every plan priced, on problems of growing size."""

from __future__ import annotations

from benchmarks import measure
from benchmarks.registry import Options
from benchmarks.tables import Table

#: Problems by size of their space, each with the decisions that are fixed.
PROBLEMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("llama2-7b-4x24gb", ()),
    ("megatron-22b-8-a100", ()),
    ("llama3-8b-8-h100", ()),
    ("mixtral-8x7b-64-h100", ("cp=1", "replicas=1", "recompute=none", "sequence_parallel=true")),
    ("gpt3-175b-64-a100", ("cp=1", "replicas=1")),
    ("gpt3-175b-64-a100", ()),
    ("mixtral-8x7b-64-h100", ()),
    ("gpt3-175b-1k-a100", ()),
    ("gpt3-175b-4k-a100", ()),
    ("deepseek-v3-2k-h800", ()),
)
ENUMERATION_LIMIT_S = 60


def run(options: Options) -> list[Table]:
    table = Table(
        "Plain enumeration against the program",
        [
            "problem",
            "fixed",
            "plans priced",
            "enumeration",
            "its wall s",
            "its step s",
            "program",
            "wall s",
            "step s",
            "enumeration / program",
        ],
    )
    for problem, fixed in PROBLEMS:
        command = [*measure.PLANNER, "solve", problem, "--json"]
        command += [part for item in fixed for part in ("--set", item)]
        limit = ["--time-limit", str(ENUMERATION_LIMIT_S)]
        every = measure.repeated([*command, "--solver", "exhaustive", *limit], 1)
        if every[0].wall_s < ENUMERATION_LIMIT_S / 2:
            every += measure.repeated([*command, "--solver", "exhaustive", *limit], options.repeat - 1)
        program = measure.repeated(command, options.repeat)
        table.add(
            problem,
            " ".join(fixed) or "nothing",
            every[0].document.get("solver", {}).get("plans"),
            measure.status(every[0]),
            measure.wall(every),
            every[0].document.get("step_time_s"),
            measure.status(program[0]),
            measure.wall(program),
            program[0].document.get("step_time_s"),
            measure.wall(every) / measure.wall(program),
        )
    table.notes += [
        f"enumeration is stopped after {ENUMERATION_LIMIT_S} s: 'feasible' there means that it did not get to the end",
        "whole commands; the program proves its plan to 0.1 %, the enumeration to nothing until it is through",
    ]
    return [table]
