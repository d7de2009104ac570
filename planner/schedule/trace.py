"""A simulated pipeline as a trace for Perfetto or chrome://tracing (Trace Event Format)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.schedule.orders import NAMES

if TYPE_CHECKING:
    from planner.schedule.timeline import Timeline

MICRO = 1e6  # microseconds of a second


def trace_events(timeline: Timeline) -> list[dict[str, Any]]:
    """Complete events ("ph": "X"), times in microseconds; one thread, that is one track, for each stage."""
    events: list[dict[str, Any]] = []
    several = any(operation.chunk for order in timeline.order for operation in order)
    for stage, operations in enumerate(timeline.order):
        own = {"pid": 0, "tid": stage}
        events.append({"ph": "M", "name": "thread_name", **own, "args": {"name": f"stage {stage}"}})
        events.append({"ph": "M", "name": "thread_sort_index", **own, "args": {"sort_index": stage}})
        times = zip(operations, timeline.starts[stage], timeline.ends[stage], strict=True)
        events += [
            {
                "ph": "X", **own, "cat": NAMES[kind],
                "name": f"{NAMES[kind]} {number}" + (f", chunk {chunk}" if several else ""),
                "ts": start * MICRO, "dur": (end - start) * MICRO,
                "args": {"micro_batch": number, "chunk": chunk},
            }
            for (kind, chunk, number, _), start, end in times
        ]  # fmt: skip
    return events
