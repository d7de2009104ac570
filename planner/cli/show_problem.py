"""A problem with what it refers to and its decision space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planner.cli import output
from planner.physics.setting import GIB, PRECISIONS, RECOMPUTES, SCHEDULES
from planner.search.enumeration import Enumerator

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.algebra.space import Axis
    from planner.instance import Instance

CODES: dict[str, Mapping[str, int]] = {"schedule": SCHEDULES, "recompute": RECOMPUTES, "precision": PRECISIONS}
MOST_VALUES = 8


def problem_document(instance: Instance) -> dict[str, Any]:
    """The problem, resolved, as JSON."""
    space = reachable(instance)
    return {
        "kind": "problem",
        **instance.problem.model_dump(mode="json", by_alias=True, exclude_none=True),
        "accelerator": instance.hardware.name,
        "accelerators": instance.cluster.accelerators,
        "usable_memory_bytes": instance.setting.capacity,
        "model_flop_per_sequence": instance.model_flop,
        "space": {axis.name: {column: values.tolist() for column, values in axis.table.items()} for axis in space},
        "constants": dict(instance.space.constants),
        "relations": [relation.name for relation in instance.space.relations],
    }


def problem_parts(instance: Instance) -> list[RenderableType]:
    """The problem, resolved, as text and tables."""
    problem, training = instance.problem, instance.problem.training
    made = output.table(problem.name, "")
    made.add_row("model", problem.model)
    made.add_row("cluster", f"{problem.cluster}: {instance.cluster.accelerators:,} x {instance.hardware.name}")
    made.add_row("accelerators", _shown(training.gpus or instance.cluster.accelerators))
    made.add_row("global batch, sequences", _shown(training.global_batch))
    made.add_row("sequence length", f"{training.sequence_length:,}")
    if training.tokens:
        made.add_row("tokens of the run", f"{training.tokens:.4g}")
    made.add_row("usable memory, GiB", f"{instance.setting.capacity / GIB:.1f}")
    made.add_row("model FLOP of a sequence", f"{instance.model_flop:.4g}")
    axes = output.table("Decision", "values", "which")
    axes.columns[2].justify = "left"
    combinations = 1.0
    for axis in reachable(instance):
        combinations *= axis.size
        axes.add_row(axis.name.replace("_", " "), f"{axis.size:,}", _values(axis))
    text = f"{combinations:.3g} combinations before the {len(instance.space.relations)} rules"
    notes = [" ".join(part.split()) for part in (problem.description, problem.source) if part]
    return [made, *notes, axes, text]


def reachable(instance: Instance) -> tuple[Axis, ...]:
    """The axes without the values that no rule admits; none when nothing is left."""
    enumerator = Enumerator(instance.space)
    masks = enumerator.propagate(enumerator.everything)
    if masks is None:
        return ()
    return tuple(axis.restrict(mask) for axis, mask in zip(instance.space.axes, masks, strict=True))


def _values(axis: Axis) -> str:
    column, values = next(iter(axis.table.items()))
    names = {int(code): name for name, code in CODES.get(column, {}).items()}
    distinct = sorted({int(value) for value in values})
    shown = [names.get(value, f"{value:,}") for value in distinct]
    if len(shown) > MOST_VALUES:
        shown = [*shown[: MOST_VALUES - 2], "...", shown[-1]]
    return " ".join(shown)


def _shown(wanted: Any) -> str:
    if isinstance(wanted, int):
        return f"{wanted:,}"
    if isinstance(wanted, list):
        return ", ".join(f"{value:,}" for value in wanted)
    ends = [f"from {wanted.min:,}"] if wanted.min is not None else []
    ends += [f"up to {wanted.max:,}"] if wanted.max is not None else []
    return "free, " + " ".join(ends)
