"""``planner simulate``: the pipeline of a plan, operation by operation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.schedule.of_plan import SimulatedPipeline

GIB = 1024.0**3
MILLI = 1e3
MOST_STAGES = 16  # shown in full; of more, only the ends and the busiest


def simulate(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN.json", help="A plan, as 'planner solve PROBLEM -o FILE' writes it.")
    ],
    schedule: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Another schedule: gpipe, 1f1b, interleaved, zero-bubble or dualpipe."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a trace that Perfetto and chrome://tracing open.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the timeline (.svg, .png or .pdf; needs planner[plots]).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Simulate the pipeline of a plan, and compare its time with the cost model's closed form."""
    output.check_target(trace)
    output.check_target(picture)
    from planner.cli.plan_input import read_plan

    given = read_plan(plan)
    from planner.schedule.of_plan import simulated

    found = simulated(given.instance.setting, given.columns, schedule)
    if trace is not None:
        import json

        from planner.schedule.trace import trace_events

        document = {"traceEvents": trace_events(found.timeline), "displayTimeUnit": "ms"}
        output.write_text(trace, json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n")
    if picture is not None:
        from planner.schedule.picture import draw

        draw(found.timeline, picture, f"{given.document['problem']}: {found.schedule}")
    output.emit(output.as_json(_document(found)) if as_json else _report(found, given.document["problem"]))


def _document(found: SimulatedPipeline) -> dict[str, Any]:
    timeline, times = found.timeline, found.times
    waiting = timeline.bubble * timeline.makespan
    return {
        "schedule": found.schedule,
        "step_time_s": found.step_time,
        "modelled_step_time_s": found.modelled,
        "pipeline_s": timeline.makespan,
        "modelled_pipeline_s": found.modelled_pipeline,
        "reduction_s": found.reduction,
        "outside_pipeline_s": found.reduction + found.around,
        "bubble_s": float(waiting.mean()),
        "closed_form_bubble_s": found.theory,
        "message_s": {"sending": times.sending, "transfer": times.transfer},
        "stages": [
            {
                "stage": stage,
                "forward_s": times.forward[stage].tolist(),
                "input_gradient_s": times.backward[stage].tolist(),
                "weight_gradient_s": times.weight[stage].tolist(),
                "busy_s": float(timeline.busy[stage]),
                "sending_s": float(timeline.sent[stage]),
                "utilisation": float(timeline.utilisation[stage]),
                "bubble": float(timeline.bubble[stage]),
                "most_chunks_in_flight": held,
                "activation_bytes": float(found.held[stage]),
            }
            for stage, held in enumerate(timeline.most_in_flight())
        ],
    }


def _report(found: SimulatedPipeline, problem: str) -> str:
    document = _document(found)
    words = f"{problem}: {found.schedule}, {found.step_time:.4g} s a step as simulated"
    if found.modelled is not None:
        words += (
            f",\n{found.modelled:.4g} s by the cost model's closed form ({found.step_time / found.modelled - 1:+.2%})"
        )
    tail = (
        f"Stages wait {document['bubble_s']:.4g} s on average; the closed form for even stages and free messages says "
        f"{found.theory:.4g} s."
    )
    if found.schedule == "dualpipe":
        tail += "\nEvery stage holds the weights of two: memory for them is not in the plan."
    return output.render(words, _parts(found), _stages(document["stages"]), tail)


def _parts(found: SimulatedPipeline) -> RenderableType:
    made = output.table("Time of a step, s", "simulated", "closed form")
    modelled = found.modelled, found.modelled_pipeline
    shown = ["-"] * 4
    if modelled[0] is not None and modelled[1] is not None:
        rest = modelled[0] - modelled[1] - found.around
        shown = [f"{value:.4g}" for value in (modelled[1], max(0.0, rest), found.around, modelled[0])]
    simulated = (found.timeline.makespan, found.reduction, found.around, found.step_time)
    names = ("pipeline", "gradient reduction that is not hidden", "optimizer and the rest", "total")
    for name, value, closed in zip(names, simulated, shown, strict=True):
        if name == "total":
            made.add_section()
        made.add_row(name, f"{value:.4g}", closed)
    return made


def _stages(rows: list[dict[str, Any]]) -> RenderableType:
    made = output.table("Stage", "fwd ms", "bwd ms", "computes", "sends", "waits", "in flight", "GiB")
    kept = set(range(len(rows)))
    if len(rows) > MOST_STAGES:
        busiest = max(rows, key=lambda row: row["busy_s"])["stage"]
        kept = {*range(4), busiest, *range(len(rows) - 4, len(rows))}
    previous = -1
    for place in sorted(kept):
        if place > previous + 1:
            made.add_row("...")
        previous, row = place, rows[place]
        backward = sum(row["input_gradient_s"]) + sum(row["weight_gradient_s"])
        sends = 1.0 - row["utilisation"] - row["bubble"]
        made.add_row(
            str(place), f"{sum(row['forward_s']) * MILLI:.4g}", f"{backward * MILLI:.4g}", f"{row['utilisation']:.1%}",
            f"{sends:.1%}", f"{row['bubble']:.1%}", str(row["most_chunks_in_flight"]),
            f"{row['activation_bytes'] / GIB:.3g}",
        )  # fmt: skip
    return made
