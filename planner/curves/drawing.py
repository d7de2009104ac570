"""The curves of a frontier sweep as pictures (PNG and SVG) and as data (CSV)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.curves.summary import COMPUTE, LINEAR, Landmarks, curves, landmarks, summary
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas

    from planner.schema.sweep import Sweep

#: The Okabe-Ito colours, which colour-blind people can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
DEGREES = {"tp_model": "tensor, width", "tp_ff": "tensor, feed-forward", "dp": "data", "pp": "pipeline", "ep": "expert"}
CLOSED_FORMS = {"bandwidth_limit": ("closed form: bandwidth", "--"), "latency_limit": ("closed form: latency", ":")}
SHARE = "share: "
RESOLUTION = 160  # dots an inch


def draw_sweep(table: pandas.DataFrame, sweep: Sweep, folder: Path) -> list[Path]:
    """Draw utilisation, parallelism mix and time shares of every curve into ``folder``, with their data; the files.

    Raises `InputError` where the sweep has no curves, the folder cannot be written or matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise InputError("--plots: needs the package 'matplotlib' (pip install 'planner[plots]')") from None
    matplotlib.use("agg")
    found = [(name, rows, landmarks(name, rows)) for name, rows in curves(table, sweep)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / "curves.csv", folder / "landmarks.csv"]
        table.to_csv(written[0], index=False)
        summary(table, sweep).to_csv(written[1], index=False)
        written += _saved(_utilisation(found, sweep.name), folder / "utilisation")
        for number, (name, rows, _) in enumerate(found):
            suffix = f"-{number + 1}" if len(found) > 1 else ""
            written += _saved(_mix(name, rows), folder / f"parallelism{suffix}")
            written += _saved(_shares(name, rows), folder / f"time{suffix}")
    except OSError as error:
        raise InputError(f"--plots {folder}: cannot be written ({error.strerror or error})") from None
    return written


def _utilisation(found: list[tuple[str, pandas.DataFrame, Landmarks]], title: str) -> Any:
    """MFU over compute, one line a curve; where linear scaling ends, and where the closed forms say so."""
    figure, axes = _figure(title, "model FLOP utilisation")
    for number, (name, rows, marks) in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        solved = rows[rows["mfu"].notna()]
        ends = "" if marks.linear_ends_at is None else f", linear to {marks.linear_until or marks.linear_ends_at:.2g}"
        axes.plot(
            solved[COMPUTE], solved["mfu"], color=colour, marker="o", markersize=3, linewidth=1.4, label=name + ends
        )
        if marks.linear_ends_at is not None:
            at = solved[solved[COMPUTE] == marks.linear_ends_at].iloc[0]
            axes.plot(at[COMPUTE], at["mfu"], color=colour, marker="s", markersize=8, fillstyle="none")
        if marks.infeasible_from is not None:
            axes.plot(marks.infeasible_from, 0.0, color=colour, marker="x", markersize=8, clip_on=False)
        for key, (label, style) in CLOSED_FORMS.items():
            at = getattr(marks, key)
            if at is not None:
                axes.axvline(at, color=colour, linestyle=style, linewidth=0.9, label=label if number == 0 else None)
    sustained = found[0][1]["mfu"] / found[0][1]["linear"]
    axes.axhline(LINEAR * sustained.dropna().iloc[0], color="grey", linewidth=0.7, label="0.8 of the sustained rate")
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=7, loc="lower left")
    return figure


def _mix(name: str, rows: pandas.DataFrame) -> Any:
    """How the accelerators are divided: each degree's share of the logarithm of their number, stacked."""
    figure, axes = _figure(name, "accelerators, log2; stacked by degree")
    solved = rows[rows["mfu"].notna()]
    logs = [np.log2(solved[degree].to_numpy(dtype=float)) for degree in DEGREES]
    axes.stackplot(solved[COMPUTE], logs, labels=list(DEGREES.values()), colors=COLOURS, linewidth=0)
    axes.legend(fontsize=7, loc="upper left")
    return figure


def _shares(name: str, rows: pandas.DataFrame) -> Any:
    """What the time of the run goes into, stacked."""
    figure, axes = _figure(name, "share of the run's time")
    solved = rows[rows["mfu"].notna()]
    parts = [column for column in solved.columns if column.startswith(SHARE)]
    values = [solved[part].fillna(0.0).to_numpy(dtype=float) for part in parts]
    axes.stackplot(
        solved[COMPUTE], values, labels=[part.removeprefix(SHARE) for part in parts], colors=COLOURS, linewidth=0
    )
    axes.set_ylim(0.0, 1.0)
    axes.legend(fontsize=7, loc="lower left")
    return figure


def _figure(title: str, label: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlabel("training compute, FLOP")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, linewidth=0.3)
    return figure, axes


def _saved(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for path in paths:
        figure.savefig(path, dpi=RESOLUTION)
    return paths
