"""The published figures to compare with: the tables and the points of the figures, with what is known to be wrong in them.

Data: ``instances/published/memory_wall_*.csv``, each row with its source.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import date
from functools import cache

from planner import catalog
from planner.errors import InputError
from planner.schema.base import read_bytes

TABLES = "transformers", "vision", "training"  # of numbers by model
TEXT = frozenset({"model", "date", "input", "source"})


@dataclass(frozen=True)
class Point:
    """One marker of a figure: its name, date and value, and whether the printed trend line goes through it."""

    name: str
    date: date
    value: float
    fitted: bool


@dataclass(frozen=True)
class AcceleratorPoint:
    """An accelerator of the figures: nominal memory in GB (1e9 bytes), and its record in the catalogue, if it has one."""

    name: str
    date: date
    memory_gb: float
    drawn_at_parameters: float  # where the figure of model sizes draws it
    hardware: str


@dataclass(frozen=True)
class Legend:
    """What a figure's legend says of a series: it grows ``growth`` times in ``years``; its values are in ``unit``."""

    key: str
    name: str
    unit: str
    growth: float
    years: float
    source: str


@dataclass(frozen=True)
class Remark:
    """Why a published value is not the computed one; ``wrong`` if the source is at fault, not the comparison."""

    table: str
    model: str
    column: str
    wrong: bool
    reason: str
    source: str


@dataclass(frozen=True)
class PublishedClaim:
    """One claim: ``low`` to ``high`` in ``unit``, as ``source`` states it."""

    key: str
    claim: str
    low: float
    high: float
    unit: str
    edition: str
    source: str


def table(name: str) -> dict[str, dict[str, float]]:
    """One of `TABLES`: by model, what is printed by column; columns that are empty are not there."""
    found = {}
    for row in _rows(name):
        found[row["model"]] = {
            column: _number(name, row["model"], column, text)
            for column, text in row.items()
            if text and column not in TEXT
        }
    return found


def sizes() -> list[Point]:
    """Parameters of models over time; the fitted ones are transformers."""
    return _points("sizes", "model", "parameters")


def compute() -> list[Point]:
    """Training FLOP over time, as drawn; the fitted ones are transformers."""
    points = _points("compute", "model", "training_pflop")
    return [Point(point.name, point.date, 1e15 * point.value, point.fitted) for point in points]


def hardware(series: str) -> list[Point]:
    """``hw_flops`` (peak FLOP/s), ``dram_bw`` or ``interconnect_bw`` (bandwidth), over that of the earliest part."""
    rows = [row for row in _rows("hardware") if row["series"] == series]
    return [
        Point(row["label"], _date(row), _number("hardware", row["label"], "normalised", row["normalised"]), True)
        for row in rows
    ]


def accelerators() -> list[AcceleratorPoint]:
    """The accelerators whose memory is drawn beside the models."""
    return [
        AcceleratorPoint(
            row["accelerator"], _date(row),
            _number("accelerators", row["accelerator"], "memory_gb", row["memory_gb"]),
            _number("accelerators", row["accelerator"], "drawn_at_parameters", row["drawn_at_parameters"]),
            row["hardware"],
        )
        for row in _rows("accelerators")
    ]  # fmt: skip


def legends() -> list[Legend]:
    """The growth rates that the figures of the 2024 edition print."""
    return [
        Legend(
            row["key"], row["name"], row["unit"], _number("trends", row["key"], "growth", row["growth"]),
            _number("trends", row["key"], "years", row["years"]), row["source"],
        )
        for row in _rows("trends")
    ]  # fmt: skip


def remarks() -> list[Remark]:
    """Every published value that differs from ours, and why."""
    return [
        Remark(row["table"], row["model"], row["column"], row["fault"] == "source", row["reason"], row["source"])
        for row in _rows("remarks")
    ]


def claims() -> list[PublishedClaim]:
    """The claims of the paper's two editions."""
    return [
        PublishedClaim(
            row["key"], row["claim"], _number("claims", row["key"], "low", row["low"]),
            _number("claims", row["key"], "high", row["high"]), row["unit"], row["edition"], row["source"],
        )
        for row in _rows("claims")
    ]  # fmt: skip


def _points(name: str, label: str, value: str) -> list[Point]:
    return [
        Point(row[label], _date(row), _number(name, row[label], value, row[value]), row["in_fit"] == "yes")
        for row in _rows(name)
    ]


@cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    path = catalog.root() / "instances" / "published" / f"memory_wall_{name}.csv"
    return tuple(csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8"))))


def _date(row: dict[str, str]) -> date:
    return date.fromisoformat(row["date"])


def _number(name: str, row: str, column: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"memory_wall_{name}.csv: {row}: {column} = {text!r}: must be a number") from None
