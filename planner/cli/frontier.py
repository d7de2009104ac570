"""``planner frontier``: the smallest cluster that trains a compute budget in time, and its best plan."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import failures, output
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.frontier.result import FrontierPlan

MONTH_PARTS = 1e-4  # of the run; smaller parts are not worth a line


def frontier(
    instance: Annotated[
        str, typer.Argument(metavar="INSTANCE", help="A frontier problem: a catalogue name or a TOML file.")
    ],
    budget: Annotated[
        float | None, typer.Option(help="Training compute in FLOP, such as 1e26, instead of the instance's.")
    ] = None,
    width: Annotated[
        int | None, typer.Option(help="The model of this width and its compute, instead of a budget.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override a key of the instance, such as months=6 or gpus=any."
        ),
    ] = None,
    gap: Annotated[float, typer.Option(help="Stop when the plan is proved this close to the best, relatively.")] = 1e-4,
    time_limit: Annotated[
        float | None, typer.Option(help="Stop after this many seconds with what is known by then; without it, never.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the JSON document to a file as well.")
    ] = None,
) -> int:
    """Find the smallest cluster that trains a budget's model in time, and prove that its plan is the best."""
    limit = inf if time_limit is None else time_limit
    overrides = [*(override or []), *_chosen(budget, width)]
    output.check_target(target)

    from planner.frontier.loading import load_frontier

    resolved = load_frontier(instance, overrides)
    from planner.cli.progress import ProgressLine
    from planner.frontier.budget import obstacles, solve_frontier
    from planner.frontier.result import FrontierPlan

    with ProgressLine() as progress:
        outcome = solve_frontier(resolved, gap=gap, time_limit=limit, seed=seed, progress=progress.report)
        stops = None
        if str(outcome.status) == "infeasible":
            stops = obstacles(resolved.problem, resolved.device, limit)
    found = FrontierPlan.of(resolved, outcome, stops)
    text = output.as_json(found.to_json())
    output.emit(text if as_json else frontier_text(found, [level.name for level in resolved.setting.levels]))
    if target is not None:  # last: a full disk must not cost the answer
        output.write_text(target, text)
    return failures.exit_code(outcome)


def _chosen(budget: float | None, width: int | None) -> list[str]:
    if budget is not None and width is not None:
        raise InputError("--budget and --width: only one of them can be given")
    if budget is not None and not 0 < budget < inf:
        raise InputError(f"--budget {budget:g}: must be a number of FLOP above 0, such as 1e26")
    return [f"budget={budget!r}"] if budget is not None else [f"width={width}"] if width is not None else []


def frontier_text(found: FrontierPlan, levels: list[str]) -> str:
    """Everything that a person wants to know about the answer; ``levels`` are the network levels' names."""
    parts: list[RenderableType] = [_headline(found)]
    if found.plan is not None:
        parts += [_degrees(found.plan, levels), _choices(found.plan), _time(found), _traffic(found)]
    tail = "Solver: " + ", ".join(f"{key} {_number(value)}" for key, value in found.solver.items())
    return output.render(*parts, tail)


def _headline(found: FrontierPlan) -> str:
    model = found.model
    lines = [
        f"{found.problem}: {found.status}" + (f", stopped by {found.stopped}" if found.stopped else ""),
        f"{found.compute_flop:.4g} FLOP: {model['layers']} layers of {model['width']:,} x {model['ff']:,}"
        + (f" x {model['experts']} experts" if model["experts"] > 1 else "")
        + f", {model['parameters']:.4g} parameters, {model['tokens']:.4g} tokens in batches of {model['batch_tokens']:,}",
    ]
    if found.plan is None or found.mfu is None or found.linear is None:
        return "\n".join([*lines, found.reason])
    lines.append(
        f"{found.plan['gpus']:,} accelerators, the smallest cluster that finishes within {found.limit_months:g} months, "
        f"take {found.months:.4g} months"
    )
    proof = "" if found.bound_mfu is None or found.gap is None else (
        f"; no plan for as many exceeds {found.bound_mfu:.2%} (gap {found.gap:.2%})"
    )  # fmt: skip
    lines.append(f"MFU {found.mfu:.2%}, {found.linear:.1%} of the sustained rate{proof}")
    return "\n".join(lines)


def _degrees(plan: dict[str, Any], levels: list[str]) -> RenderableType:
    labels = {
        "tp_model": "tensor parallel over the width", "tp_ff": "tensor parallel over feed-forward",
        "dp": "data parallel", "pp": "pipeline stages", "ep": "expert parallel",
    }  # fmt: skip
    made = output.table("Plan", "degree", *levels)
    for key, label in labels.items():
        made.add_row(label, f"{plan[key]:,}", *(f"{piece:,}" for piece in plan["placement"][key]))
    made.add_row("accelerators", f"{plan['gpus']:,}")
    return made


def _choices(plan: dict[str, Any]) -> RenderableType:
    made = output.table("", "")
    made.show_header = False
    for key in ("schedule", "vp", "microbatches", "tokens_per_microbatch"):
        made.add_row(key.replace("_", " "), _number(plan[key]))
    return made


def _time(found: FrontierPlan) -> RenderableType:
    made = output.table("Time of the run", "months", "share")
    assert found.run_time_s is not None
    assert found.months is not None
    for name, seconds in found.time_s.items():
        share = seconds / found.run_time_s
        if share >= MONTH_PARTS:
            made.add_row(name, f"{share * found.months:.4f}", f"{share:.2%}")
    made.add_row("total", f"{found.months:.4f}", "100.00%")
    return made


def _traffic(found: FrontierPlan) -> RenderableType:
    made = output.table("Communication by itself, hidden or not", "months")
    for name, months in found.traffic_months.items():
        made.add_row(name, f"{months:.4f}")
    return made


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
