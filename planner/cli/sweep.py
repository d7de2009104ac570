"""``planner sweep``: a grid of problems, solved by many workers, as one table and as curves."""

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

    from planner.batch.engine import Run

#: Rows that are shown; a file has all of them.
MOST_ROWS = 24
#: Columns that are shown, where a sweep has them; a file has all of them.
SHOWN = ("status", "gpus", "mfu", "months", "step_time_s", "gap", "reason")


def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP", help="A sweep: a TOML file, or one of the catalogue's.")],
    store: Annotated[
        Path | None,
        typer.Option(
            help="Where answers are kept, and found again; beside the sweep as NAME.results.sqlite if left out."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes on this machine; as many as cores if left out.")] = None,
    dask: Annotated[
        str | None, typer.Option(help="A Dask cluster instead: tcp://host:port, or local:N for one on this machine.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of every problem, such as months=6."),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Solve again what failed in an earlier run.")
    ] = False,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw the curves of a frontier sweep, as PNG, SVG and data.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the whole table to a .csv or .parquet file."),
    ] = None,
) -> int:
    """Solve every point of a sweep. What is finished is kept: a sweep that was stopped goes on where it was."""
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: must be 1 or more")
    output.check_target(target)
    if target is not None and target.suffix not in (".csv", ".parquet"):
        raise InputError(f"-o {target}: must end in .csv or .parquet")
    if plots is not None and plots.exists() and not plots.is_dir():
        raise InputError(f"--plots {plots}: is a file, not a folder")

    from planner.batch.engine import Engine
    from planner.batch.store import Store
    from planner.batch.sweeps import find_sweep
    from planner.batch.table import frame
    from planner.batch.workers import DaskWorkers, LocalWorkers
    from planner.cli.sweep_progress import SweepProgress

    path, found = find_sweep(str(file), override or [])
    place = store or Path(f"{path.stem}.results.sqlite" if path.parent.name == "sweeps" else f"{path}.results.sqlite")
    count = jobs or os.cpu_count() or 1
    with Store(place) as kept, SweepProgress() as progress:
        engine = Engine(
            found, kept, lambda: DaskWorkers(dask) if dask else LocalWorkers(count),
            folder=path.parent, retry_failed=retry_failed, report=progress.report,
        )  # fmt: skip
        run = engine.run()
        table = frame(found, run, kept)
    if as_json:
        output.emit(output.as_json({"name": found.name, "store": str(place), "rows": _plain(table)}))
    else:
        output.emit(_text(found.name, table, run, place))
    if target is not None:
        output.write_atomically(target, lambda temporary: write_table(table, temporary, target.suffix))
    if plots is not None:
        from planner.curves.drawing import draw_sweep

        for drawn in draw_sweep(table, found, plots):
            output.note(f"drawn: {drawn}")
    if run.interrupted:
        return failures.INTERRUPTED
    return failures.STOPPED if run.progress.failed else failures.SOLVED


def write_table(table: pandas.DataFrame, path: Path, suffix: str) -> None:
    """Write the table to ``path`` as CSV or Parquet."""
    if suffix == ".csv":
        table.to_csv(path, index=False)
        return
    try:
        table.to_parquet(path, index=False)
    except ImportError:
        raise InputError("-o: Parquet needs the package 'pyarrow' (pip install 'planner[parquet]')") from None


def _text(name: str, table: pandas.DataFrame, run: Run, store: Path) -> str:
    from planner.batch.grid import PROBLEM

    progress = run.progress
    lines = [
        f"{name}: {progress.done:,} of {progress.total:,} points, {progress.known:,} of them known before, "
        f"{progress.failed:,} failed" + (", interrupted" if run.interrupted else ""),
        f"Kept in {store}",
    ]
    if not len(table):
        return "\n".join(lines)
    first = list(table.columns[: list(table.columns).index("status")])
    first = [column for column in first if column != PROBLEM or table[column].nunique() > 1]
    columns = [*first, *(column for column in SHOWN if column in table.columns and table[column].notna().any())]
    made = output.table(*columns)
    for _, row in table.head(MOST_ROWS).iterrows():
        made.add_row(*(_shown(row[column]) for column in columns))
    more = [f"... and {len(table) - MOST_ROWS:,} rows more"] if len(table) > MOST_ROWS else []
    return output.render("\n".join(lines), made, *more)


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _plain(table: pandas.DataFrame) -> list[dict[str, Any]]:
    import json

    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows
