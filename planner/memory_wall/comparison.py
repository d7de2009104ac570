"""Computed beside published: how far off, and whether that is agreement, an error of the source, or neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from planner.memory_wall.published import Remark

AGREES, INFERRED, WRONG, DIFFERS = "agrees", "inferred", "source error", "differs"


@dataclass(frozen=True)
class Compared:
    """A computed value beside the published one; either may be unknown. ``tolerance`` is relative.

    A value that rounds to the printed digits agrees, too.
    """

    computed: float | None
    published: float | None
    tolerance: float
    remark: Remark | None = None
    inferred: bool = False  # an input was chosen to fit the published value: agreement proves nothing

    @property
    def deviation(self) -> float | None:
        """Computed over published, less one; None where one is unknown."""
        if self.computed is None or not self.published:
            return None
        return self.computed / self.published - 1

    @property
    def verdict(self) -> str:
        """`AGREES` within the tolerance, `WRONG` where the source is at fault, `DIFFERS`; empty without a comparison.

        `INFERRED` instead of `AGREES` where an input comes from the published value.
        """
        if self.remark is not None and self.remark.wrong and self.published is not None:
            return WRONG
        if self.computed is None or self.published is None or self.deviation is None:
            return ""
        near = abs(self.deviation) <= self.tolerance
        if not near and abs(self.computed - self.published) > half_digit(self.published):
            return DIFFERS
        return INFERRED if self.inferred else AGREES


def half_digit(printed: float) -> float:
    """Half a unit in the last digit of a printed value, of which zeros at the end are not digits beyond the second.

    0.07: 0.005; 8.9: 0.05; 23,000: 500; 2,000: 50.
    """
    digits, exponent = Decimal(repr(printed)).normalize().as_tuple()[1:]
    assert isinstance(exponent, int)
    if len(digits) == 1 and exponent > 0:
        exponent -= 1
    return 0.5 * 10.0**exponent


Cell = str | int | float | None | Compared


@dataclass(frozen=True)
class Column:
    """A column of a table: the key in data, and how people see it.

    ``scale`` is how many of the value's unit one of the heading's is; ``digits`` are those that count, and what is below
    ``least`` is shown as that.
    """

    key: str
    heading: str
    scale: float = 1.0
    digits: int = 4
    least: float = 0.0


@dataclass(frozen=True)
class Table:
    """A table for people, files and programs: each row maps the columns' keys to cells."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Cell], ...]
    notes: tuple[str, ...] = ()

    def records(self) -> list[dict[str, str | int | float | None]]:
        """The rows as plain data: a compared value has four entries, its own, ``published``, ``deviation``, ``verdict``."""
        compared = {
            column.key for row in self.rows for column in self.columns if isinstance(row.get(column.key), Compared)
        }
        found = []
        for row in self.rows:
            record: dict[str, str | int | float | None] = {}
            for column in self.columns:
                cell = row.get(column.key)
                if isinstance(cell, Compared):
                    record |= {
                        column.key: cell.computed, f"{column.key}_published": cell.published,
                        f"{column.key}_deviation": cell.deviation, f"{column.key}_verdict": cell.verdict,
                    }  # fmt: skip
                else:
                    record[column.key] = cell
                    if column.key in compared:
                        record |= dict.fromkeys(
                            f"{column.key}_{part}" for part in ("published", "deviation", "verdict")
                        )
            found.append(record)
        return found


def remark_on(remarks: Iterable[Remark], table: str, models: Iterable[str], column: str) -> Remark | None:
    """What is known about one published value; a model may have several names."""
    names = set(models)
    found = (remark for remark in remarks if (remark.table, remark.column) == (table, column) and remark.model in names)
    return next(found, None)
