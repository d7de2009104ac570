"""``planner validate``: predictions beside measurements, source by source."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output

if TYPE_CHECKING:
    import pandas as pd


class Held(StrEnum):
    """What is kept from the constants before they predict it."""

    NOTHING = "nothing"
    FOLDS = "folds"
    SOURCES = "sources"


#: Columns of the tables and how they are shown.
TIMES = (
    ("runs", "runs", "{:,.0f}"), ("median", "median", "{:.1%}"), ("p90", "90 %", "{:.1%}"), ("bias", "bias", "{:+.1%}"),
    ("rank", "rank", "{:.2f}"), ("regret", "regret", "{:.1%}"),
)  # fmt: skip
MEMORIES = (("memory_runs", "runs", "{:,.0f}"), ("memory_median", "median", "{:.1%}"), ("memory_p90", "90 %", "{:.1%}"))


def validate_runs(
    rows: Annotated[
        Path | None, typer.Argument(metavar="[MEASURED.csv]", help="Measured runs; without it, the published ones.")
    ] = None,
    held: Annotated[
        Held,
        typer.Option(
            "--held-out",
            help="Fit the constants anew without a fifth of the runs (folds) or without the whole source (sources) that "
            "they then predict; takes minutes.",
        ),
    ] = Held.NOTHING,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw predicted against measured times, one picture a source.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the table of errors to a CSV file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Compare predicted with measured step times and memories, for each source and accelerator.

    Columns are those of `planner evaluate`, and step_time_s or tokens_per_s_per_gpu, peak_mem_gb, and src_key.
    """
    output.check_target(target)
    frame = _read(rows)
    from planner.calibration.scores import apart, scores

    priced = _priced(frame, held)
    table = scores(apart(priced))
    if target is not None:
        output.write_atomically(target, lambda place: table.to_csv(place, index=False))
    drawn: list[Path] = []
    if plots is not None:
        from planner.calibration.drawing import draw_sources

        drawn = draw_sources(apart(priced), plots)
    if as_json:
        document = {"held_out": held.value, "sources": [_plain(row) for row in table.to_dict(orient="records")],
                    "plots": [str(path) for path in drawn]}  # fmt: skip
        output.emit(output.as_json(document))
        return
    output.emit(output.render(
        _table("Step time", table, TIMES), _table("Peak memory", table, MEMORIES), _words(priced, held)
    ))  # fmt: skip


def _read(rows: Path | None) -> pd.DataFrame:
    from planner import catalog
    from planner.cli.csv_input import read_rows

    path = rows or catalog.root() / "instances" / "published" / "measured.csv"
    frame = read_rows(path).frame
    if "src_key" not in frame.columns:
        frame["src_key"] = path.stem
    for name in ("gpu", "framework"):
        if name not in frame.columns:
            frame[name] = ""
    for name in ("global_batch", "seq_len", "n_gpus", "mfu", "peak_mem_gb"):
        if name in frame.columns:
            import pandas as pd

            frame[name] = pd.to_numeric(frame[name], errors="coerce")
    return frame


def _priced(frame: pd.DataFrame, held: Held) -> pd.DataFrame:
    if held is Held.NOTHING:
        from planner.evaluation import evaluate

        return evaluate(frame)
    from planner.calibration.held_out import held_out

    return held_out(frame, "folds" if held is Held.FOLDS else "sources", output.note)


def _table(title: str, table: pd.DataFrame, columns: tuple[tuple[str, str, str], ...]) -> Any:
    made = output.table(title, *(label for _, label, _ in columns))
    counted = columns[0][0]
    for row in table[table[counted] > 0].to_dict(orient="records"):
        made.add_row(f"{row['src_key']}, {row['gpu']}", *(_shown(row[name], form) for name, _, form in columns))
    return made


def _shown(value: Any, form: str) -> str:
    return "" if value is None or math.isnan(value) else form.format(value)


def _words(priced: pd.DataFrame, held: Held) -> str:
    failed = int((priced["pred_error"] != "").sum())
    told = {
        Held.NOTHING: "The runs themselves chose the constants of their frameworks.",
        Held.FOLDS: "Every run was predicted with constants that it had no part in.",
        Held.SOURCES: "Every source was predicted with constants that none of its runs had a part in.",
    }[held]
    return (
        f"Median and 90th percentile of the absolute error, median of the error (bias), rank correlation. {told} "
        f"{failed:,} of {len(priced):,} runs could not be priced (planner evaluate says why).\n"
        "Regret: how much slower the plan ranked first is than the fastest, where plans of one model on one cluster "
        "were measured."
    )


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()}  # fmt: skip
