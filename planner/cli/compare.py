"""``planner compare``: levers over one problem, solved and ranked."""

from __future__ import annotations

import os
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import failures, output
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas


def compare(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="A problem or frontier problem: a name or a TOML file.")
    ],
    scenarios: Annotated[
        str, typer.Option(metavar="NAME,...", help="Scenarios: names or files; all that mean something if left out.")
    ] = "",
    budgets: Annotated[
        str, typer.Option(metavar="FLOP,...", help="Compute budgets of a frontier problem, such as 1e28,1e29.")
    ] = "",
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the problem everywhere.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Where answers are kept, and found again.")] = Path(
        "scenarios.results.sqlite"
    ),
    jobs: Annotated[int | None, typer.Option(help="Processes on this machine; as many as cores if left out.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw the curves of a frontier problem over its budgets.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the whole table to a .csv file.")
    ] = None,
) -> int:
    """Solve a problem as it is and under each scenario, and rank the levers. What is finished is kept."""
    output.check_target(target)
    from planner.batch.engine import Engine
    from planner.batch.scenarios import scenario_sweep
    from planner.batch.store import Store
    from planner.batch.table import frame
    from planner.batch.workers import LocalWorkers
    from planner.cli.sweep_progress import SweepProgress
    from planner.schema.overrides import parse_override

    settings = dict(parse_override(text) for text in override or [])
    sweep = scenario_sweep(problem, [name for name in scenarios.split(",") if name], _budgets(budgets), settings)
    with Store(store) as kept, SweepProgress() as progress:
        count = jobs or os.cpu_count() or 1
        engine = Engine(sweep, kept, lambda: LocalWorkers(count), folder=Path.cwd(), report=progress.report)
        run = engine.run()
        table = frame(sweep, run, kept)
    if as_json:
        import json

        output.emit(output.as_json({"name": sweep.name, "rows": json.loads(table.to_json(orient="records"))}))
    else:
        shown = _frontier(table) if "budget" in table.columns else _ranked(table)
        output.emit(output.render(sweep.name, shown))
    if target is not None:
        output.write_atomically(target, lambda place: table.to_csv(place, index=False))
    if plots is not None:
        from planner.curves.drawing import draw_sweep

        for drawn in draw_sweep(table, sweep, plots):
            output.note(f"drawn: {drawn}")
    if run.interrupted:
        return failures.INTERRUPTED
    return failures.STOPPED if run.progress.failed else failures.SOLVED


def _budgets(text: str) -> list[float]:
    try:
        found = [float(word) for word in text.split(",") if word]
    except ValueError:
        raise InputError(
            f"--budgets {text}: numbers of FLOP with commas between them are expected, as 1e28,1e29"
        ) from None
    wrong = [value for value in found if not 0 < value < float("inf")]
    if wrong:
        raise InputError(f"--budgets {text}: {wrong[0]:g} must be above 0")
    return sorted(found)


def _ranked(table: pandas.DataFrame) -> Any:
    """Levers of a training problem by the step time of the best plan, beside the problem as it is."""
    timed = "step_time_s" in table.columns
    baseline = float(table["step_time_s"].iloc[0]) if timed else float("nan")
    made = output.table("Lever", "s a step", "gain", "MFU", "accelerators", "GiB")
    rows = table.sort_values("step_time_s", na_position="last") if timed else table
    for row in rows.to_dict(orient="records"):
        seconds = row.get("step_time_s")
        if seconds is None or isnan(seconds):
            made.add_row(row["case"], "", str(row.get("reason") or row["status"])[:60], "", "", "")
            continue
        made.add_row(row["case"], f"{seconds:.4g}", f"{1 - seconds / baseline:+.1%}", f"{row['mfu']:.1%}",
                     f"{row['gpus']:,.0f}", f"{row['memory_gib']:.1f}")  # fmt: skip
    return made


def _frontier(table: pandas.DataFrame) -> Any:
    """Levers of a frontier problem: utilisation at each budget, best last budget first; none: no cluster is fast enough."""
    values = table.pivot_table(index="case", columns="budget", values="mfu", aggfunc="first", dropna=False)
    values = values.reindex(table["case"].unique())
    order = values.fillna(0.0).sum(axis=1).sort_values(ascending=False).index
    made = output.table("MFU at a budget, FLOP", *(f"{budget:.3g}" for budget in values.columns))
    for case in order:
        made.add_row(str(case), *("none" if isnan(value) else f"{value:.1%}" for value in values.loc[case]))
    return made
