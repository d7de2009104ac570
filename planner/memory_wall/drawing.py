"""The memory wall's figures (PNG and SVG): model sizes, training compute, hardware, and the memory of a training step."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from planner.curves.drawing import COLOURS, RESOLUTION
from planner.errors import InputError
from planner.memory_wall import published
from planner.memory_wall.published import Point
from planner.memory_wall.tables import GIB, Wall
from planner.memory_wall.trends import MOORE, Trend, trends


def draw_wall(folder: Path) -> list[Path]:
    """Draw all figures into ``folder``; the files.

    Raises `InputError` where the folder cannot be written or matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise InputError("--plots: needs the package 'matplotlib' (pip install 'planner[plots]')") from None
    matplotlib.use("agg")
    found = {trend.legend.key: trend for trend in trends()}
    figures = {
        "model-size": _sizes(found["model_size"], found["accelerator_memory"]),
        "training-compute": _compute(found["training_compute"]),
        "hardware": _hardware([found[key] for key in ("hw_flops", "dram_bw", "interconnect_bw")]),
        "training-memory": _memory(Wall()),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for stem, figure in figures.items() for path in _saved(figure, folder / stem)]
    except OSError as error:
        raise InputError(f"--plots {folder}: cannot be written ({error.strerror or error})") from None


def _sizes(size: Trend, memory: Trend) -> Any:
    """Parameters over time, with accelerators drawn at as many parameters as the source gives their memory."""
    figure, axes = _figure("Model size and accelerator memory", "parameters")
    _series(axes, size, COLOURS[0], "transformers")
    _marks(axes, [point for point in size.points if not point.fitted], COLOURS[4], "others")
    drawn = [Point(chip.name, chip.date, chip.drawn_at_parameters, True) for chip in published.accelerators()]
    per_parameter = memory.points[0].value / drawn[0].value
    _marks(axes, drawn, COLOURS[2], f"accelerators, at {per_parameter:.0f} bytes a parameter")
    _line(axes, memory, COLOURS[2], 1.0 / per_parameter)
    axes.legend(fontsize=7, loc="upper left")
    return figure


def _compute(compute: Trend) -> Any:
    """Training FLOP over time, with Moore's law from the fit's first day."""
    figure, axes = _figure("Training compute", "FLOP")
    _series(axes, compute, COLOURS[0], "transformers")
    _marks(axes, [point for point in compute.points if not point.fitted], COLOURS[4], "others")
    line = compute.fit
    years = (line.last - line.first).days / 365.25
    start = line.at(line.first)
    axes.plot(
        [line.first, line.last], [start, start * MOORE ** (years / 2)], color="grey", linestyle=":",
        label=f"Moore's law, {MOORE:g}x in 2 years",
    )  # fmt: skip
    axes.legend(fontsize=7, loc="upper left")
    return figure


def _hardware(series: list[Trend]) -> Any:
    """Peak FLOPS, DRAM and interconnect bandwidth over time, each over its earliest part."""
    figure, axes = _figure("Hardware", "over the earliest part")
    for trend, colour in zip(series, COLOURS, strict=False):
        _series(axes, trend, colour, trend.legend.name)
    axes.legend(fontsize=7, loc="upper left")
    return figure


def _memory(wall: Wall) -> Any:
    """Stacked memory of a training step as computed, with the printed total and the accelerator of the time."""
    from matplotlib.figure import Figure

    rows = []
    for name, row in published.table("training").items():
        model = wall.find(name)
        memory = None if model is None else wall.memory(model, int(row["batch"]))
        if memory is not None:
            rows.append((f"{name.partition(' (')[0]}\nbatch {int(row['batch'])}", memory, row))
    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    bottom = [0.0] * len(rows)
    for part, colour in zip(("parameters", "optimizer", "activations"), COLOURS, strict=False):
        heights = [getattr(memory, part) / GIB for _, memory, _ in rows]
        axes.bar(places, heights, bottom=bottom, color=colour, label=part, width=0.6)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.plot(places, [row["total_gib"] for _, _, row in rows], "kx", label="printed total")
    limits = [row["limit_gb"] for _, _, row in rows]
    edges = [place - 0.5 for place in range(len(rows) + 1)]
    axes.stairs(limits, edges, color="grey", linestyle="--", label="accelerator of the time")
    axes.set_xticks(list(places), [name for name, _, _ in rows], fontsize=6)
    axes.set_ylabel("GiB")
    axes.set_title("Memory of a training step", fontsize=10)
    axes.grid(visible=True, axis="y", linewidth=0.3)
    axes.legend(fontsize=7, loc="upper left")
    return figure


def _series(axes: Any, trend: Trend, colour: str, label: str) -> None:
    """The fitted points and their line, with the growth in two years in the legend."""
    _marks(axes, [point for point in trend.points if point.fitted], colour, None)
    _line(axes, trend, colour, 1.0, f"{label}: {trend.fit.rate(2):,.4g}x in 2 years")


def _marks(axes: Any, points: list[Point], colour: str, label: str | None) -> None:
    axes.plot(
        [point.date for point in points],
        [point.value for point in points],
        "o",
        color=colour,
        markersize=4,
        label=label,
    )
    for point in points:
        axes.annotate(
            point.name.partition(" (")[0],
            (point.date, point.value),
            xytext=(3, 3),
            textcoords="offset points",
            fontsize=5.5,
            color=colour,
        )


def _line(axes: Any, trend: Trend, colour: str, scale: float, label: str | None = None) -> None:
    first, last = trend.fit.first, trend.fit.last + timedelta(days=180)
    days: list[date] = [first, last]
    axes.plot(days, [scale * trend.fit.at(day) for day in days], color=colour, linewidth=1.2, label=label)


def _figure(title: str, label: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, linewidth=0.3)
    return figure, axes


def _saved(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for path in paths:
        figure.savefig(path, dpi=RESOLUTION)
    return paths
