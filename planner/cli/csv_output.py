"""Writing rows with their predictions to a CSV file: every record as the input has it, the predictions behind it."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas as pd

    from planner.cli.csv_input import Rows


def write_rows(place: Path, rows: Rows, result: pd.DataFrame, added: list[str]) -> None:
    """Write ``result``, whose last columns are ``added`` to those of ``rows``, to a CSV file at ``place``.

    The cells of the input are not written anew, which would take most of the time and spell some of them otherwise.
    """
    records = _records(rows, result.shape[1] - len(added))
    if records is None:
        result.to_csv(place, index=False)
        return
    end = b"\r\n" if b"\r" in rows.content else b"\n"
    behind = (",".join(cells).encode() for cells in _with_header(result[added]))
    with place.open("wb") as stream:
        stream.writelines(b"%b,%b%b" % (*both, end) for both in zip(records, behind, strict=True))


def _records(rows: Rows, columns: int) -> list[bytes] | None:
    """The header's line and every record's, with all of their ``columns`` cells.

    None where a record is more than a line, or has other columns (the input had one of the predictions', too).
    """
    content = rows.content.removeprefix(b"\xef\xbb\xbf")
    if content.count(b"\r") != content.count(b"\r\n"):
        return None
    lines = [line for line in content.replace(b"\r\n", b"\n").split(b"\n") if line.strip(b" \t")]
    if len(lines) != len(rows.frame) + 1:  # a record of several lines has text on the first and on the last of them
        return None
    empty = rows.frame.iloc[:, -1].isna().to_numpy().nonzero()[0]  # the others end in a cell of the last column
    places = sorted({0, 1, *(empty + 1).tolist()})
    try:
        for place, cells in zip(places, csv.reader(lines[place].decode() for place in places), strict=True):
            if len(cells) > columns:
                return None
            lines[place] += b"," * (columns - len(cells))
    except csv.Error:  # a cell beyond that reader's limit
        return None
    return lines


def _with_header(added: pd.DataFrame) -> Iterator[Iterable[str]]:
    """The names of the columns, then the cells of every row, as they are written."""
    yield added.columns
    yield from zip(*(_cells(added[name]) for name in added.columns), strict=True)


def _cells(column: pd.Series[Any]) -> list[str]:
    """The cells of a column as text, with all digits that tell its numbers from others."""
    if column.dtype == float:
        return ["" if value != value else repr(value) for value in column.tolist()]
    values = column.tolist()
    texts = {value: _quoted(str(value)) if isinstance(value, str | bool) else "" for value in set(values)}
    return [texts[value] for value in values]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text
