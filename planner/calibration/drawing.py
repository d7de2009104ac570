"""Predicted against measured step time, one picture a source (PNG and SVG)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from planner.calibration.observations import step_times
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas

RESOLUTION = 140  # dots an inch
BANDS = (0.1, 0.25)  # relative errors that are marked


def draw_sources(priced: pandas.DataFrame, folder: Path) -> list[Path]:
    """Draw every source of ``priced`` into ``folder``; the files.

    Raises `InputError` where the folder cannot be written or matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise InputError("--plots: needs the package 'matplotlib' (pip install 'planner[plots]')") from None
    matplotlib.use("agg")
    frame = priced.assign(measured_s=step_times(priced))
    frame = frame[frame["measured_s"].notna() & frame["pred_step_time_s"].notna()]
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, runs in frame.groupby("src_key"):
            written += _draw(str(source), runs, folder)
    except OSError as error:
        raise InputError(f"--plots {folder}: cannot be written ({error.strerror or error})") from None
    return written


def _draw(source: str, runs: pandas.DataFrame, folder: Path) -> list[Path]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 5), layout="constrained")
    low = 0.8 * min(runs["measured_s"].min(), runs["pred_step_time_s"].min())
    high = 1.25 * max(runs["measured_s"].max(), runs["pred_step_time_s"].max())
    ends = [low, high]
    for band in BANDS:
        upper, lower = [(1 + band) * end for end in ends], [end / (1 + band) for end in ends]
        axes.fill_between(ends, lower, upper, color="#0072B2", alpha=0.12, linewidth=0)
    axes.plot(ends, ends, color="black", linewidth=0.8)
    for gpu, part in runs.groupby("gpu"):
        axes.scatter(part["measured_s"], part["pred_step_time_s"], s=10, alpha=0.6, label=str(gpu))
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured step time, s",
             ylabel="predicted step time, s", title=f"{source}: {len(runs)} runs, within 10 % and 25 %")  # fmt: skip
    axes.legend(fontsize=8)
    stem = folder / f"measured-{re.sub(r'[^a-z0-9]+', '-', source.lower()).strip('-')}"
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    for file in files:
        figure.savefig(file, dpi=RESOLUTION)
    pyplot.close(figure)
    return files
