"""A cluster: one kind of accelerator behind up to four nested network tiers."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.schema.base import Strict
from planner.schema.hardware import Fraction, NonNegative, Positive


class Tier(Strict):
    """One network level. ``size`` accelerators are joined by it (cumulative, inner tiers included)."""

    name: str
    size: Annotated[int, Field(ge=1)]
    bandwidth_gb_per_s: Positive  # one way, one accelerator, with all of them sending
    latency_us: NonNegative  # one message between two accelerators
    efficiency: Fraction = 0.80  # achieved part of the bandwidth by a large collective


class Cluster(Strict):
    """Tiers run from the innermost (node or NVLink domain) to the outermost; the last holds every accelerator."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    accelerator: str  # a name in instances/hardware or a path
    source: str
    date: str
    note: str = ""
    tiers: Annotated[list[Tier], Field(min_length=1, max_length=4)]

    @property
    def accelerators(self) -> int:
        """How many accelerators the cluster has."""
        return self.tiers[-1].size

    @property
    def fanouts(self) -> list[int]:
        """How many units of the tier below each tier joins; their product is `accelerators`."""
        sizes = [1, *(tier.size for tier in self.tiers)]
        return [outer // inner for inner, outer in pairwise(sizes)]

    @model_validator(mode="after")
    def _nested(self) -> Self:
        for inner, outer in pairwise(self.tiers):
            if outer.size % inner.size or outer.size == inner.size:
                raise ValueError(
                    f"tier {outer.name!r} of {outer.size} is no proper multiple of {inner.name!r} of {inner.size}"
                )
        return self
