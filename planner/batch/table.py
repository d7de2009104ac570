"""The results of a sweep as one table: a row for each point, in the order of the grid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from planner.batch.grid import PROBLEM, points
from planner.batch.tasks import INVALID, Json, row_of

if TYPE_CHECKING:
    import pandas

    from planner.batch.engine import Run
    from planner.batch.store import Store
    from planner.schema.sweep import Sweep

#: Columns that differ from run to run.
TIMINGS = ("wall_s",)


def rows(sweep: Sweep, run: Run, store: Store) -> Iterator[Json]:
    """One flat row for each point that has an answer: its place on the axes, and the figures of its result."""
    for point in points(sweep):
        labels = {PROBLEM: point.problem} | point.labels
        if point.position in run.invalid:
            yield labels | {"status": INVALID, "reason": run.invalid[point.position]}
            continue
        key, kind = run.keys.get(point.position, ("", ""))
        known = store.get(key) if key else None
        if known is not None:
            figures = row_of(kind, known["answer"])
            yield labels | {name: value for name, value in figures.items() if name not in labels}


def frame(sweep: Sweep, run: Run, store: Store) -> pandas.DataFrame:
    """The rows as a data frame; figures that a row lacks are missing values."""
    import pandas

    return pandas.DataFrame(list(rows(sweep, run, store)))
