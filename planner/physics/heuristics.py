"""Where good plans usually are: subspaces to seed the local search from, and the decisions that it frees together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from planner.algebra.space import AtMost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.algebra.space import Space

_BATCH = ("micro_batch", "grad_accum", "recompute", "zero", "precision", "dp", "gpus", "data")

#: Families of axes (a degree with its parts on all tiers) that are freed together around a plan.
NEIGHBOURHOODS: tuple[tuple[str, ...], ...] = (
    ("pipeline", "tensor", "global_batch", *_BATCH),
    ("tensor", "tp", "shard", "edp", *_BATCH),
    ("pipeline", "pp", "shard", "edp", *_BATCH),
    ("tensor", "tp", "pipeline", "pp", "edp", "micro_batch", "grad_accum"),
    ("context", "cp", "micro_batch", "grad_accum", "data", "shard", "edp"),
    ("ep", "etp", "edp", "recompute", "micro_batch", "grad_accum"),
    ("replica", "shard", "data", "zero", "edp"),
    ("tp", "cp", "pp", "shard", "ep", "etp", "edp"),
    ("tensor", "tp", "data", "shard", "ep", "edp", "micro_batch", "grad_accum"),
    ("pipeline", "pp", "data", "shard", "ep", "edp", "micro_batch", "grad_accum"),
)

#: Axes in the order in which they are joined under bounds: degrees and choices first, then where the degrees lie.
TOTALS = ("gpus", "global_batch", "tensor", "precision", "pipeline", "context", "micro_batch", "grad_accum", "recompute",
          "zero", "ep", "etp", "data", "edp", "dp")  # fmt: skip
PARTS = ("tp", "pp", "ep", "etp", "shard", "replica", "cp", "edp")


def joining_order(space: Space) -> tuple[list[int], list[int]]:
    """The places of the axes of totals, and of parts, in the order in which they are joined."""
    names = [axis.name for axis in space.axes]
    wanted = list(TOTALS)
    if any(isinstance(relation, AtMost) and relation.name == "accelerators" for relation in space.relations):
        wanted.remove("data")  # how many accelerators a plan uses decides most, and is not given
        wanted.insert(wanted.index("context") + 1, "data")
    totals = [names.index(name) for name in wanted if name in names]
    parts = [place for degree in PARTS for place, name in enumerate(names) if name.rpartition("_")[0] == degree
             and place not in totals]  # fmt: skip
    return totals, parts + [place for place in range(len(names)) if place not in totals and place not in parts]


def subspaces(space: Space) -> Iterator[dict[str, NDArray[np.bool_]]]:
    """Masks of subspaces to try in turn: tensor ranks inside the node, no replicas, ZeRO-1, few recomputation choices."""
    plain: dict[str, NDArray[np.bool_]] = {}
    for axis in space.axes:
        values = next(iter(axis.table.values()))
        family, _, tier = axis.name.rpartition("_")
        smallest = values == values.min()
        if (
            (family in ("tp", "etp", "cp") and tier not in ("", "0"))
            or family == "replica"
            or axis.name in ("context", "etp")
        ):
            plain[axis.name] = smallest
        elif axis.name == "data":
            plain[axis.name] = axis.table["replica"] == axis.table["replica"].min()
        elif axis.name == "zero":
            plain[axis.name] = values == (1 if (values == 1).any() else values.min())
        elif axis.name == "recompute":
            plain[axis.name] = (values == values.min()) | (values == values.max())
        elif axis.name == "precision":
            plain[axis.name] = values == values.max()
        elif axis.name == "tensor" and (axis.table["sequence_parallel"] > 0).any():
            plain[axis.name] = (axis.table["sequence_parallel"] > 0) | (axis.table["tp"] == axis.table["tp"].min())
    yield plain
