"""``planner explain`` and ``planner whatif``: what a plan waits for, what would shorten it, what a wish costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.insight.explaining import Gain, Wish

GIB = 1024.0**3
MOST_PARTS = 6  # of a difference that are shown

PlanFile = Annotated[
    Path, typer.Argument(metavar="PLAN.json", help="A plan, as 'planner solve PROBLEM -o FILE' writes it.")
]
Gap = Annotated[float, typer.Option(help="Prove every answer this close to the best, relatively.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def explain(plan: PlanFile, gap: Gap = 1e-3, as_json: AsJson = False) -> None:
    """Say what a plan's time waits for, and what more of each resource would buy: every answer is solved anew."""
    _check(gap)
    from planner.cli.plan_input import read_plan

    given = read_plan(plan)
    from planner.insight.explaining import gains, resources

    waits = resources(given.document["time_s"])
    found = list(gains(given.instance, given.columns, gap, output.note))
    step_time = float(given.document["step_time_s"])
    if as_json:
        output.emit(output.as_json({
            "problem": given.document["problem"], "step_time_s": step_time, "waits_for_s": waits,
            "binding": given.document["binding"], "changes": [_gain_document(gain, step_time) for gain in found],
        }))  # fmt: skip
        return
    made = output.table(f"{step_time:.4g} s a step wait for", "s", "share")
    for name, seconds in waits.items():
        made.add_row(name, f"{seconds:.4g}", f"{seconds / step_time:.1%}")
    binding = given.document["binding"]
    words = f"Binding: {'; '.join(binding)}" if binding else "No limit binds."
    output.emit(output.render(made, words, _gains(found, step_time), CAPTION))


CAPTION = (
    "Every line is a problem of its own, solved to the gap; 'as it is' prices the same plan after the change. Gains below "
    "the gap may be none."
)


def _gains(found: list[Gain], step_time: float) -> Any:
    made = output.table("With", "s a step", "gain", "as it is", "best plan then")
    made.columns[4].justify = "left"
    for gain in sorted(found, key=lambda gain: gain.step_time or float("inf")):
        if gain.step_time is None or gain.plan is None:
            made.add_row(gain.words, "", "no plan", "", "")
            continue
        from planner.cli.report import in_short

        kept = "" if gain.kept_step_time is None else f"{1 - gain.kept_step_time / step_time:.1%}"
        made.add_row(
            gain.words, f"{gain.step_time:.4g}", f"{1 - gain.step_time / step_time:.1%}", kept, in_short(gain.plan)
        )
    return made


def _gain_document(gain: Gain, step_time: float) -> dict[str, Any]:
    return {
        "change": gain.words,
        "step_time_s": gain.step_time,
        "gain": None if gain.step_time is None else 1 - gain.step_time / step_time,
        "step_time_of_this_plan_s": gain.kept_step_time,
        "gap": gain.gap if gain.plan else None,
        "plan": gain.plan,
    }


def whatif(
    plan: PlanFile,
    wish: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="What you would rather have, as tp=16.")
    ],
    gap: Gap = 1e-3,
    as_json: AsJson = False,
) -> int:
    """Say what a wish costs beside the best plan, and why: all that it leaves open is chosen anew, for the best."""
    _check(gap)
    from planner.cli.plan_input import read_plan

    given = read_plan(plan)
    from planner.insight.explaining import whatif as price
    from planner.instance import revive
    from planner.schema.overrides import apply_override
    from planner.schema.problem import Problem

    document = {name: given.document["inputs"][name] for name in ("problem", "model", "hardware", "cluster")}
    problem = {key: value for key, value in document["problem"].items() if value is not None}
    for override in wish:
        if override.partition("=")[0].strip() in ("model", "cluster", "framework"):
            raise InputError(f"--set {override}: another {override.partition('=')[0].strip()} is another problem")
        apply_override(problem, override, Problem)
    wished = revive(document | {"problem": problem}, f"--set {' '.join(wish)}")
    found = price(given.instance, given.columns, wished, gap)
    if as_json:
        output.emit(output.as_json({
            "problem": given.document["problem"], "wish": wish, "step_time_s": given.document["step_time_s"],
            "wished_step_time_s": found.step_time, "price": found.price, "gap": found.gap if found.plan else None,
            "difference_s": found.seconds, "plan": found.plan, "memory_bytes": found.memory, "reason": found.reason,
        }))  # fmt: skip
    else:
        output.emit(_wish(found, given.document, " and ".join(wish)))
    return 0 if found.plan else 1


def _wish(found: Wish, document: dict[str, Any], wish: str) -> str:
    if found.plan is None or found.price is None or found.step_time is None or found.memory is None:
        return f"{wish}: impossible: {found.reason}"
    from planner.cli.report import in_short

    made = output.table("Part of a step", "s more")
    for name, seconds in list(found.seconds.items())[:MOST_PARTS]:
        if abs(seconds) > 1e-4 * found.step_time:
            made.add_row(name, f"{seconds:+.4g}")
    capacity = document["memory_bytes"]["capacity"]
    words = (
        f"{wish}: {found.step_time:.4g} s a step, {found.price:+.1%} beside {document['step_time_s']:.4g} s (gap "
        f"{found.gap:.2%})\nBest plan so: {in_short(found.plan)}, {found.memory / GIB:.1f} of {capacity / GIB:.1f} GiB\n"
        f"Instead of: {in_short(document['plan'])}"
    )
    return output.render(words, made)


def _check(gap: float) -> None:
    if not 0 < gap < 1:
        raise InputError(f"--gap {gap:g}: must be above 0 and below 1")
