"""``planner repair``: the smallest changes that give a problem a plan."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli import output


def repair(
    instance: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="A problem without a plan: a catalogue name or a TOML file.")
    ],
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the problem, as in solve.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> int:
    """Find single changes that make a problem solvable, the smallest of each kind, each proved by a plan."""
    from planner.instance import load

    problem = load(instance, override)
    from planner.insight.repairing import repairs

    found = list(repairs(problem, lambda kind: output.note(f"looking at {kind}")))
    name = problem.problem.name
    if as_json:
        changes = [{"change": one.words, "set": one.override or None, "plan": one.plan} for one in found]
        output.emit(output.as_json({"problem": name, "changes": changes}))
    elif not found:
        output.emit(f"{name}: no single change of memory, accelerators, framework or one decision gives it a plan")
    else:
        from planner.cli.report import in_short

        made = output.table(f"{name} would have a plan with", "--set", "such as")
        made.columns[1].justify = made.columns[2].justify = "left"
        for one in found:
            made.add_row(one.words, one.override, in_short(one.plan))
        output.emit(output.render(made))
    return 0 if found else 1
