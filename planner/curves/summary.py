"""The landmarks of scaling curves: where linear scaling ends, where utilisation is gone, where nothing trains any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from planner.batch.grid import PROBLEM
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas

    from planner.schema.sweep import Sweep

#: Linear scaling has ended where less than this part of the sustained rate is used (arXiv 2411.01137).
LINEAR = 0.8
#: Where utilisation is low, as a fraction of the peak.
LOW = 0.1
#: Axes along which compute grows: what varies on one curve.
COMPUTE_AXES = ("width", "budget")
COMPUTE = "compute_flop"
#: Closed forms, by the columns that hold them.
LIMITS = ("bandwidth", "memory", "network", "latency")


@dataclass(frozen=True)
class Landmarks:
    """Where one curve bends; FLOP, None where it does not within the sweep.

    ``linear_until`` is the compute before the first point below `LINEAR` of the sustained rate, ``linear_ends_at`` that
    point; ``low_after`` the last one of at least `LOW` of the peak; ``wall_after`` the last one that finishes in time, with
    its ``wall_gpus``, and ``infeasible_from`` the first one that is proved not to. ``bandwidth_limit`` ... are where the
    closed forms cross the curve's own compute.
    """

    curve: str
    linear_until: float | None
    linear_ends_at: float | None
    low_after: float | None
    wall_after: float | None
    wall_mfu: float | None
    wall_gpus: int | None
    infeasible_from: float | None
    bandwidth_limit: float | None
    memory_limit: float | None
    network_limit: float | None
    latency_limit: float | None


def curves(table: pandas.DataFrame, sweep: Sweep) -> Iterator[tuple[str, pandas.DataFrame]]:
    """The table's curves, each with its name and its rows by growing compute.

    Raises `InputError` if the table is not of frontier problems.
    """
    if COMPUTE not in table.columns:
        raise InputError("the curves: the sweep has no frontier problems with an answer")
    labels = [*((PROBLEM,) if table[PROBLEM].nunique() > 1 else ()), *(("case",) if sweep.cases else ()), *sweep.axes]
    others = [label for label in labels if label not in COMPUTE_AXES]
    known = table[table[COMPUTE].notna()]
    if not others:
        yield sweep.name, known.sort_values(COMPUTE)
        return
    for values, rows in known.groupby(others, sort=False):
        name = ", ".join(_named(label, value) for label, value in zip(others, values, strict=True))
        yield name, rows.sort_values(COMPUTE)


def landmarks(name: str, rows: pandas.DataFrame) -> Landmarks:
    """The landmarks of one curve, whose rows are sorted by compute."""
    solved = rows[rows["mfu"].notna()]
    compute = solved[COMPUTE].to_numpy()
    below = (solved["linear"] <= LINEAR).to_numpy()
    first = int(below.argmax()) if below.any() else None
    used = compute[(solved["mfu"] >= LOW).to_numpy()]
    last = solved.iloc[-1] if len(solved) else None
    hopeless = rows[rows["status"] == "infeasible"][COMPUTE]
    beyond = hopeless[hopeless > compute[-1]] if len(compute) else hopeless
    return Landmarks(
        curve=name,
        linear_until=float(compute[first - 1])
        if first
        else (float(compute[-1]) if first is None and len(compute) else None),
        linear_ends_at=None if first is None else float(compute[first]),
        low_after=float(used[-1]) if len(used) else None,
        wall_after=None if last is None else float(last[COMPUTE]),
        wall_mfu=None if last is None else float(last["mfu"]),
        wall_gpus=None if last is None else int(last["gpus"]),
        infeasible_from=float(beyond.iloc[0]) if len(beyond) else None,
        **{f"{limit}_limit": _crossing(rows, f"limit: {limit}") for limit in LIMITS},
    )


def summary(table: pandas.DataFrame, sweep: Sweep) -> pandas.DataFrame:
    """The landmarks of every curve of a sweep, one row each."""
    import pandas

    return pandas.DataFrame([asdict(landmarks(name, rows)) for name, rows in curves(table, sweep)])


def _crossing(rows: pandas.DataFrame, column: str) -> float | None:
    """Compute at which the rows' own limit is no longer above it, between two rows by interpolation of logarithms."""
    import numpy as np

    given = rows[rows[column].notna()] if column in rows.columns else rows.iloc[:0]
    if not len(given):
        return None
    compute = np.log(given[COMPUTE].to_numpy(dtype=float))
    room = np.log(given[column].to_numpy(dtype=float)) - compute
    past = np.flatnonzero(room <= 0)
    if not len(past) or past[0] == 0:
        return None
    here = past[0]
    share = room[here - 1] / (room[here - 1] - room[here])
    return float(np.exp(compute[here - 1] + share * (compute[here] - compute[here - 1])))


def _named(label: str, value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if label in ("case", PROBLEM) else f"{label} {text}"
