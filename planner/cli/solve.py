"""``planner solve``: the best plan of a problem, with a proof."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli import failures, output
from planner.errors import InputError

LARGEST_SEED = 2**31 - 1  # of HiGHS


class Solver(StrEnum):
    """What looks for the plan."""

    HIGHS = "highs"
    EXHAUSTIVE = "exhaustive"


def solve(
    instance: Annotated[
        str,
        typer.Argument(metavar="INSTANCE", help="A problem: a catalogue name ('planner list problem') or a TOML file."),
    ],
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the problem, such as tp=8 or gpus=512."),
    ] = None,
    gap: Annotated[float, typer.Option(help="Stop when the plan is proved this close to the best, relatively.")] = 1e-3,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Stop after this many seconds with the best plan so far; without it, never."),
    ] = None,
    top: Annotated[int, typer.Option(help="How many plans to show, best first.")] = 1,
    solver: Annotated[Solver, typer.Option(help="HiGHS, or the price of every plan (small problems).")] = Solver.HIGHS,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    presolve: Annotated[
        bool,
        typer.Option(help="Shrink the space first; without it HiGHS proves everything alone, which takes longer."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the JSON document to a file as well."),
    ] = None,
) -> int:
    """Find the best plan and prove how good it is."""
    limit = inf if time_limit is None else time_limit
    _check(gap, limit, top, seed)
    output.check_target(target)

    from planner.cli.progress import ProgressLine
    from planner.instance import load
    from planner.result import Plan, no_plan

    problem = load(instance, override)
    from planner.solving import optimise  # heavy: after the input is known to be good

    with ProgressLine() as progress:
        outcome = optimise(
            problem, gap=gap, time_limit=limit, top=top, solver=solver.value, seed=seed, presolve=presolve,
            progress=progress.report,
        )  # fmt: skip
    plan = Plan.of(problem, outcome, seed)
    document: dict[str, Any] = plan.to_json() if plan else no_plan(problem, outcome, seed)
    text = output.as_json(document)
    if as_json:
        output.emit(text)
    elif plan:
        from planner.cli.report import plan_text

        output.emit(plan_text(plan, [link.name for link in problem.setting.links]))
    else:
        hint = (
            f"\n'planner repair {instance}' finds the smallest changes" if str(outcome.status) == "infeasible" else ""
        )
        output.emit(f"{problem.problem.name}: {outcome.status}\n{document['reason']}{hint}")
    if target is not None:  # last: a full disk must not cost the answer
        output.write_text(target, text)
    return failures.exit_code(outcome)


def _check(gap: float, limit: float, top: int, seed: int) -> None:
    problems = []
    if not 0 < gap < 1:
        problems.append(f"--gap {gap:g}: must be above 0 and below 1")
    if not limit >= 0:
        problems.append(f"--time-limit {limit:g}: must be a number of seconds, 0 or more")
    if top < 1:
        problems.append(f"--top {top}: must be 1 or more")
    if not 0 <= seed <= LARGEST_SEED:
        problems.append(f"--seed {seed}: must be from 0 to {LARGEST_SEED}")
    if problems:
        raise InputError(problems)
