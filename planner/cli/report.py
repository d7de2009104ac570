"""A plan as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.cli.output import render, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

    from planner.result import Plan

GIB = 1024.0**3
MOST_STAGES = 16  # shown in full; of more, only the ends and the fullest

#: What the rows of the plan table are called; the JSON keys are the same without the words.
DEGREES = {
    "tp": "tensor parallel (tp)",
    "cp": "context parallel (cp)",
    "dp": "data parallel (dp)",
    "replicas": "  of it, replicas of all shards",
    "pp": "pipeline stages (pp)",
    "ep": "expert parallel (ep)",
    "etp": "expert tensor (etp)",
    "edp": "expert data (edp)",
}
CHOICES = ("schedule", "vp", "micro_batch", "grad_accum", "global_batch", "zero", "recompute", "sequence_parallel",
           "precision")  # fmt: skip


def plan_text(plan: Plan, tiers: list[str]) -> str:
    """Everything that a person wants to know about ``plan``; ``tiers`` are the names of the network tiers."""
    parts: list[RenderableType] = [_headline(plan), _degrees(plan, tiers), _choices(plan)]
    parts += [_shares("Time of a step", "s", plan.time_s, plan.step_time_s)]
    memory = plan.memory_bytes
    title = f"Memory of the fullest stage ({memory['fullest_stage']})"
    by_part = {name: value / GIB for name, value in memory["by_part"].items()}
    parts += [_shares(title, "GiB", by_part, memory["capacity"] / GIB, "of usable"), _stages(plan)]
    if plan.alternatives:
        parts.append(_alternatives(plan))
    tail = [f"Binding: {'; '.join(plan.binding)}"] if plan.binding else []
    tail += [f"Note: {note}" for note in plan.notes]
    if plan.solver:
        tail.append("Solver: " + ", ".join(f"{key} {_number(value)}" for key, value in plan.solver.items()))
    return render(*parts, "\n".join(tail)) if tail else render(*parts)


def _headline(plan: Plan) -> str:
    if plan.gap is None or plan.bound_step_time_s is None or plan.gap >= 1:
        proof = "nothing is proved yet"
    else:
        proof = f"no plan takes less than {plan.bound_step_time_s:.4g} s for as many sequences (gap {plan.gap:.2%})"
    lines = [
        f"{plan.problem}: {plan.status}" + (f", stopped by {plan.stopped}" if plan.stopped else ""),
        f"{plan.step_time_s:.4g} s a step; {proof}",
        f"MFU {plan.mfu:.1%}, HFU {plan.hfu:.1%}, {plan.tflops_per_gpu:.4g} TFLOP/s and "
        f"{plan.tokens_per_s_per_gpu:,.4g} tokens/s for each accelerator",
    ]
    if plan.training_days is not None:
        lines.append(f"{plan.training_days:,.4g} days for all tokens of the run")
    return "\n".join(lines)


def _degrees(plan: Plan, tiers: list[str]) -> RenderableType:
    made = table("Plan", "degree", *tiers)
    for key, label in DEGREES.items():
        if key in plan.plan["placement"]:
            made.add_row(label, str(plan.plan[key]), *(str(part) for part in plan.plan["placement"][key]))
    made.add_row("accelerators", f"{plan.plan['gpus']:,}")
    return made


def _choices(plan: Plan) -> RenderableType:
    made = table("", "")
    made.show_header = False
    for key in CHOICES:
        made.add_row(key.replace("_", " "), _number(plan.plan[key]))
    return made


def _shares(title: str, unit: str, parts: Mapping[str, float], whole: float, of: str = "share") -> RenderableType:
    made = table(title, unit, of)
    for name, value in sorted(parts.items(), key=lambda item: -item[1]):
        made.add_row(name, f"{value:.4g}", f"{value / whole:.1%}")
    total = sum(parts.values())
    made.add_section()
    made.add_row("total", f"{total:.4g}", f"{total / whole:.1%}")
    return made


def _stages(plan: Plan) -> RenderableType:
    made = table("Stage", "layers", "of them MoE", "GiB", "holds")
    stages, fullest = plan.plan["stages"], plan.memory_bytes["fullest_stage"]
    shown = range(len(stages))
    kept = set(shown) if len(stages) <= MOST_STAGES else {*shown[:4], fullest, *shown[-4:]}
    previous = -1
    for place in sorted(kept):
        if place > previous + 1:
            made.add_row("...")
        previous, stage = place, stages[place]
        holds = [word for key, word in (("embedding", "embedding"), ("output_layer", "output")) if stage[key]]
        if stage["mtp_modules"]:
            holds.append(f"{stage['mtp_modules']} MTP")
        gib = stage["memory_bytes"]["total"] / GIB
        made.add_row(str(place), str(stage["layers"]), str(stage["moe_layers"]), f"{gib:.1f}", ", ".join(holds))
    return made


def _alternatives(plan: Plan) -> RenderableType:
    made = table("Next best", "slower", "plan")
    made.columns[2].justify = "left"
    for other in plan.alternatives:
        slower = other["step_time_s"] / plan.step_time_s - 1
        made.add_row(f"{other['step_time_s']:.4g} s", f"{slower:.1%}", in_short(other))
    return made


def in_short(degrees: Mapping[str, Any]) -> str:
    """A plan in one line, without its degrees of 1."""
    words = [f"{key} {degrees[key]}" for key in ("dp", "tp", "cp", "pp", "vp", "ep") if degrees[key] > 1]
    words += [f"micro-batch {degrees['micro_batch']}", f"zero {degrees['zero']}", str(degrees["schedule"])]
    words += [] if degrees["recompute"] == "none" else [f"{degrees['recompute']} recompute"]
    return ", ".join([*words, str(degrees["precision"])])


def _number(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
