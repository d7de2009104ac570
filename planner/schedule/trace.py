"""A simulated pipeline as a trace for Perfetto or chrome://tracing, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import InputError
from planner.schedule.orders import Kind

if TYPE_CHECKING:
    from planner.schedule.engine import Timeline

NAMES = {Kind.FORWARD: "forward", Kind.BACKWARD: "backward", Kind.WEIGHT: "weight gradient"}
COLOURS = {Kind.FORWARD: "#56B4E9", Kind.BACKWARD: "#009E73", Kind.WEIGHT: "#E69F00"}  # Okabe-Ito
MICRO = 1e6  # microseconds of a second
RESOLUTION = 140  # dots an inch
LABELLED = 400  # operations beyond which boxes bear no number


def trace_events(timeline: Timeline) -> list[dict[str, Any]]:
    """Complete events ("ph": "X") of the Trace Event Format, times in microseconds, one thread for each stage."""
    events: list[dict[str, Any]] = []
    for stage, operations in enumerate(timeline.order):
        events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": stage, "args": {"name": f"stage {stage}"}})
        times = zip(operations, timeline.starts[stage], timeline.ends[stage], strict=True)
        events += [
            {
                "ph": "X", "pid": 0, "tid": stage, "cat": NAMES[operation.kind],
                "name": f"{NAMES[operation.kind]} {operation.micro_batch}",
                "ts": start * MICRO, "dur": (end - start) * MICRO,
                "args": {"micro_batch": operation.micro_batch, "chunk": operation.chunk},
            }
            for operation, start, end in times
        ]  # fmt: skip
    return events


def draw(timeline: Timeline, path: Path, title: str) -> None:
    """Draw the timeline, one row a stage, into a file whose ending says its kind (.svg, .png, .pdf).

    Raises `InputError` where matplotlib is missing or does not know the ending.
    """
    try:
        import matplotlib
    except ImportError:
        raise InputError("--picture: needs the package 'matplotlib' (pip install 'planner[plots]')") from None
    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    stages = len(timeline.order)
    figure, axes = pyplot.subplots(figsize=(12, 1.5 + 0.3 * min(stages, 64)), layout="constrained")
    labelled = sum(map(len, timeline.order)) <= LABELLED
    for stage, operations in enumerate(timeline.order):
        for kind in NAMES:
            boxes = [
                (start, end - start, operation)
                for operation, start, end in zip(operations, timeline.starts[stage], timeline.ends[stage], strict=True)
                if operation.kind is kind
            ]
            edges = {"edgecolor": "white", "linewidth": 0.3} if labelled else {"linewidth": 0.0}
            axes.broken_barh([box[:2] for box in boxes], (stage - 0.45, 0.9), facecolors=COLOURS[kind], **edges)
            if labelled:
                for start, length, operation in boxes:
                    axes.text(
                        start + length / 2, stage, str(operation.micro_batch), ha="center", va="center", fontsize=6
                    )
    used = {operation.kind for operations in timeline.order for operation in operations}
    axes.legend(handles=[Patch(color=COLOURS[kind], label=NAMES[kind]) for kind in NAMES if kind in used],
                loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, fontsize=8, frameon=False)  # fmt: skip
    axes.set(title=title, xlabel="s", ylabel="stage", xlim=(0, timeline.makespan), ylim=(stages - 0.4, -0.6))
    try:
        figure.savefig(path, dpi=RESOLUTION, format=path.suffix.lstrip(".") or "svg")
    except ValueError as error:
        raise InputError(f"--picture {path}: {str(error).splitlines()[0]}") from None
    finally:
        pyplot.close(figure)
