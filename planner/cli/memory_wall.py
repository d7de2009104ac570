"""``planner memory-wall``: what models need against what accelerators have, the trends, and the paper's claims."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

    from planner.memory_wall.comparison import Column, Table

#: Columns of a terminal from which on a value and its deviation stand side by side.
ROOMY = 100
#: Columns of the trends that only data show.
ONLY_DATA = ("source", "from", "to", "scatter")
#: Behind a value that is compared.
MARKS = {"source error": "!", "differs": "*", "inferred": "~", "agrees": ""}
LEGEND = (
    "Behind a value: how far it is from the published one; * it differs, ! the source is wrong (the table 'errors' says "
    "why), ~ an input was chosen to fit it."
)


def memory_wall(
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="transformers, vision, memory, accelerators, figures, trends, claims or errors; all of them without it.",
        ),
    ] = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option(help="Hold models against these accelerators of the catalogue, instead of the source's."),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw the figures there, as PNG and SVG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FOLDER", help="Write each table there, as TABLE.csv.")
    ] = None,
) -> None:
    """Compute the tables, trends and claims of "AI and Memory Wall" anew, beside what is published."""
    for option, folder in (("--plots", plots), ("-o", target)):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{option} {folder}: is a file, not a folder")

    from planner.memory_wall.report import build

    built = build(tables or [], hardware or [])
    if as_json:
        document = {
            table.key: {"title": table.title, "rows": table.records(), "notes": list(table.notes)} for table in built
        }
        output.emit(output.as_json(document))
    else:
        output.emit(output.render(*[part for table in built for part in _parts(table)]))
    if target is not None:
        _write(built, target)
    if plots is not None:
        from planner.memory_wall.drawing import draw_wall

        for drawn in draw_wall(plots):
            output.note(f"drawn: {drawn}")


def _parts(table: Table) -> list[RenderableType]:
    from planner.memory_wall.comparison import Compared

    notes = list(table.notes)
    if table.key == "claims":
        made = _texts(["Claim", "verdict", "computed, and when"], [_claim(row) for row in table.rows])
    elif table.key == "errors":
        made = _texts(["Published value", "what", "reason"], [_error(row) for row in table.rows])
    else:
        columns = [column for column in table.columns if column.key not in ONLY_DATA]
        made = output.table(*(column.heading for column in columns))
        for row in table.rows:
            made.add_row(*(_shown(row.get(column.key), column) for column in columns))
        if any(isinstance(cell, Compared) for row in table.rows for cell in row.values()):
            notes.append(LEGEND)
    return [made, *(["\n".join(notes)] if notes else [])]


def _texts(headings: list[str], rows: list[tuple[str, ...]]) -> RichTable:
    made = output.table(*headings)
    for column in made.columns:
        column.justify = "left"
    for row in rows:
        made.add_row(*row)
    return made


def _claim(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = _number(row["low"]), _number(row["high"])
    said = high if low == high else f"within {high}" if not row["low"] else f"{low} to {high}"
    unit = row["unit"]
    joint = "" if unit.startswith("x") else " "
    edition = "" if row["edition"] == "both" else f" ({row['edition']})"
    claim = f"{row['claim']}: {said}{joint}{unit}{edition}"
    return claim, row["verdict"], f"{_number(row['computed'])}{joint}{unit}; {row['condition']}"


def _error(row: dict[str, Any]) -> tuple[str, ...]:
    return f"{row['model']}: {row['value']} ({row['in']})", row["fault"], row["reason"]


def _shown(cell: Any, column: Column) -> str:
    from planner.memory_wall.comparison import Compared

    if isinstance(cell, Compared):
        mark = MARKS.get(cell.verdict, "")
        between = " " if shutil.get_terminal_size((80, 24)).columns >= ROOMY else "\n"
        off = "" if cell.deviation is None else f"{between}{cell.deviation:+.1%}"
        return mark if cell.computed is None else _number(cell.computed / column.scale, column.digits) + off + mark
    if isinstance(cell, float) and column.key == "deviation":
        return f"{cell:+.1%}"
    if isinstance(cell, float) or column.scale != 1:
        value = cell / column.scale
        return f"<{column.least:g}" if value < column.least else _number(value, column.digits)
    return "" if cell is None else str(cell)


def _number(value: float, digits: int = 4) -> str:
    """A value with so many digits, without an exponent where it is not long."""
    whole = 10.0 ** (digits - 1) <= abs(value) < 1e7 or (value == int(value) and abs(value) < 1e7)
    return f"{value:,.0f}" if whole else f"{value:,.{digits}g}"


def _write(tables: list[Table], folder: Path) -> None:
    import csv

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {folder}: cannot be made ({error.strerror or error})") from None
    for table in tables:
        records = table.records()

        def write(place: Path, records: list[dict[str, str | int | float | None]] = records) -> None:
            with place.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, list(records[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(records)

        output.write_atomically(folder / f"{table.key}.csv", write)
