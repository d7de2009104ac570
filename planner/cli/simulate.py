"""``planner simulate``: the pipeline of a plan, operation by operation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output

if TYPE_CHECKING:
    from planner.schedule.of_plan import SimulatedPipeline


def simulate(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN.json", help="A plan, as 'planner solve PROBLEM -o FILE' writes it.")
    ],
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace that Perfetto and chrome://tracing open.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the timeline (.svg, .png or .pdf; needs planner[plots]).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Simulate the pipeline of a plan, and compare its time with the cost model's closed form."""
    output.check_target(trace)
    output.check_target(picture)
    from planner.cli.plan_input import read_plan

    given = read_plan(plan)
    from planner.schedule.of_plan import simulated

    found = simulated(given.instance.setting, given.columns)
    if trace is not None:
        from planner.schedule.trace import trace_events

        output.write_text(trace, output.as_json({"traceEvents": trace_events(found.timeline), "displayTimeUnit": "ms"}))
    if picture is not None:
        from planner.schedule.trace import draw

        draw(found.timeline, picture, f"{given.document['problem']}: {found.schedule.name.lower().replace('_', ' ')}")
    output.emit(output.as_json(_document(found)) if as_json else _report(found, given.document["problem"]))


def _document(found: SimulatedPipeline) -> dict[str, Any]:
    return {
        "schedule": found.schedule.name.lower(),
        "step_time_s": found.step_time,
        "modelled_step_time_s": found.modelled,
        "pipeline_s": found.timeline.makespan,
        "outside_pipeline_s": found.outside,
        "stages": [
            {"stage": stage, "busy_s": busy, "bubble": bubble, "most_chunks_in_flight": held}
            for stage, (busy, bubble, held) in enumerate(zip(
                found.timeline.busy.tolist(), found.timeline.bubble.tolist(), found.timeline.most_in_flight(), strict=True,
            ))
        ],
    }  # fmt: skip


def _report(found: SimulatedPipeline, problem: str) -> str:
    made = output.table("Stage", "busy, s", "waiting", "chunks in flight")
    for row in _document(found)["stages"]:
        made.add_row(
            str(row["stage"]), f"{row['busy_s']:.4g}", f"{row['bubble']:.1%}", str(row["most_chunks_in_flight"])
        )
    difference = found.step_time / found.modelled - 1
    words = (
        f"{problem}: {found.step_time:.4g} s a step as simulated, {found.modelled:.4g} s by the cost model "
        f"({difference:+.2%});\n{found.timeline.makespan:.4g} s in the pipeline, {found.outside:.4g} s outside of it "
        "(gradients that are not hidden, the optimizer's step)."
    )
    return output.render(words, made)
