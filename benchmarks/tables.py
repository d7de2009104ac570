"""Tables of figures, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

Cell: TypeAlias = str | int | float | bool | None


@dataclass
class Table:
    """One table; ``notes`` say what a reader must know to take the figures rightly."""

    title: str
    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.title}: a row of {len(cells)} cells for {len(self.columns)} columns")
        self.rows.append(list(cells))

    def to_json(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, map(_finite, row), strict=True)) for row in self.rows]
        return {"title": self.title, "rows": rows, "notes": self.notes}

    def text(self) -> str:
        """The table as GitHub's Markdown: reads well in a terminal, and can be pasted into a note."""
        cells = [self.columns, *([shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self.columns))]
        numeric = [all(_is_number(row[place]) for row in self.rows) for place in range(len(self.columns))]

        def line(row: list[str]) -> str:
            parts = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            ]
            return f"| {' | '.join(parts)} |"

        rule = [f"{'-' * (width - 1)}:" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
        lines = [f"### {self.title}", "", line(cells[0]), line(rule), *map(line, cells[1:])]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]).rstrip() + "\n"


def shown(cell: Cell) -> str:
    """A cell as text: four significant digits, thousands separated."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        if not isfinite(cell):
            return "-"
        return f"{cell:,.0f}" if abs(cell) >= 1e4 else f"{cell:.4g}"
    return cell


def _is_number(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, int | float) and not isinstance(cell, bool))


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not isfinite(cell) else cell
