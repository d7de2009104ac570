"""A simulated pipeline as a picture: time to the right, one row a stage, a colour for each kind of operation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.errors import InputError
from planner.schedule.orders import NAMES, Kind

if TYPE_CHECKING:
    from planner.schedule.timeline import Timeline

COLOURS = {
    Kind.FORWARD: "#56B4E9",
    Kind.BACKWARD: "#009E73",
    Kind.INPUT: "#CC79A7",
    Kind.WEIGHT: "#E69F00",
}  # Okabe-Ito
RESOLUTION = 140  # dots an inch
LABELLED = 400  # operations beyond which boxes bear no number
SEPARATE = 20_000  # operations beyond which boxes are not drawn one by one
COLUMNS = 1_600  # of the picture then; each shows what takes most of its time


def draw(timeline: Timeline, path: Path, title: str) -> None:
    """Draw the timeline into a file whose ending says its kind (.svg, .png, .pdf).

    Of operations that run together the forward pass is above. Raises `InputError` where matplotlib is missing or does not
    know the ending.
    """
    try:
        import matplotlib
    except ImportError:
        raise InputError("--picture: needs the package 'matplotlib' (pip install 'planner[plots]')") from None
    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    stages, count = len(timeline.order), sum(map(len, timeline.order))
    figure, axes = pyplot.subplots(figsize=(12, 1.5 + 0.3 * min(stages, 64)), layout="constrained")
    edges = {"edgecolor": "white", "linewidth": 0.3} if count <= LABELLED else {"linewidth": 0.0}
    used = set()
    for stage in range(stages):
        for (kind, half), boxes in _boxes(timeline, stage, separate=count <= SEPARATE).items():
            used.add(kind)
            bottom, height = {0: (stage - 0.45, 0.9), 1: (stage - 0.45, 0.45), 2: (stage, 0.45)}[half]
            axes.broken_barh(boxes.tolist(), (bottom, height), facecolors=COLOURS[kind], **edges)
        if count <= LABELLED:
            _label(axes, timeline, stage)
    handles = [Patch(color=COLOURS[kind], label=NAMES[kind]) for kind in NAMES if kind in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    axes.set(title=title, xlabel="s", ylabel="stage", xlim=(0, timeline.makespan), ylim=(stages - 0.4, -0.6))
    try:
        figure.savefig(path, dpi=RESOLUTION, format=path.suffix.lstrip(".") or "svg")
    except ValueError as error:
        raise InputError(f"--picture {path}: {str(error).splitlines()[0]}") from None
    finally:
        pyplot.close(figure)


def _boxes(timeline: Timeline, stage: int, *, separate: bool) -> dict[tuple[Kind, int], Array]:
    """Start and length of each box by kind and half of the row (0: all of it, 1: upper, 2: lower); shape (boxes, 2)."""
    operations = timeline.order[stage]
    times = np.column_stack([timeline.starts[stage], timeline.ends[stage]])
    halves = np.zeros(len(operations), dtype=int)
    for place, operation in enumerate(operations):
        if operation.joined:
            halves[place : place + 2] = 1, 2
    kinds = np.array([operation.kind for operation in operations])
    if not separate:
        return {(kind, 0): runs for kind, runs in _columns(kinds, halves > 0, times, timeline.makespan).items()}
    found = {}
    for kind in NAMES:
        for half in range(3):
            chosen = times[(kinds == kind) & (halves == half)]
            if len(chosen):
                found[kind, half] = np.column_stack([chosen[:, 0], chosen[:, 1] - chosen[:, 0]])
    return found


def _columns(kinds: NDArray[np.intp], shared: NDArray[np.bool_], times: Array, makespan: float) -> dict[Kind, Array]:
    """Boxes by kind where the row is cut into `COLUMNS`, each showing the kind, or the gap, that takes most of it."""
    edges = np.linspace(0.0, makespan, COLUMNS + 1)
    width = makespan / COLUMNS
    covered = np.zeros((len(NAMES) + 1, COLUMNS))
    for kind in NAMES:
        own = times[kinds == kind]
        if len(own):
            weight = np.where(shared[kinds == kind], 0.5, 1.0)
            spent = np.cumsum((own[:, 1] - own[:, 0]) * weight)
            before = spent - (own[:, 1] - own[:, 0]) * weight
            covered[kind] = np.diff(np.interp(edges, own.reshape(-1), np.column_stack([before, spent]).reshape(-1)))
    covered[-1] = np.maximum(0.0, width - covered[:-1].sum(axis=0))
    shown = covered.argmax(axis=0)
    starts = np.flatnonzero(np.diff(shown, prepend=-1))
    ends = np.append(starts[1:], COLUMNS)
    runs = np.column_stack([starts * width, (ends - starts) * width])
    return {kind: runs[shown[starts] == kind] for kind in NAMES if (shown[starts] == kind).any()}


def _label(axes: object, timeline: Timeline, stage: int) -> None:
    previous = False
    for operation, start, end in zip(timeline.order[stage], timeline.starts[stage], timeline.ends[stage], strict=True):
        shift = -0.22 if operation.joined else 0.22 if previous else 0.0
        previous = operation.joined
        axes.text((start + end) / 2, stage + shift, str(operation.micro_batch), ha="center", va="center", fontsize=6)  # type: ignore[attr-defined]
