"""A planning problem: a model, a cluster, how it is to be trained, and which decisions are free."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from planner.schema.base import Strict
from planner.schema.framework import Assumptions
from planner.schema.hardware import Fraction, NonNegative, Positive
from planner.schema.model import Count, Number

Name = Annotated[str, Field(min_length=1)]


class Range(Strict):
    """An inclusive range of whole numbers; either end may be open."""

    min: Number | None = None
    max: Count | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"contradictory limits: min = {self.min} exceeds max = {self.max}")
        return self

    def admits(self, value: int) -> bool:
        """Whether ``value`` lies in the range."""
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


#: How a whole-number decision is restricted: one value, a list of values, or a range.
Selection = Annotated[int, Field(ge=0)] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | Range
Switch = bool | Annotated[list[bool], Field(min_length=1)]

Recompute = Literal["none", "selective", "full"]
Precision = Literal["bf16", "fp16", "fp8", "fp4"]
Schedule = Literal["gpipe", "1f1b", "interleaved", "zero-bubble"]


class Decisions(Strict):
    """Restrictions of the decisions; what is not named is free."""

    tp: Selection | None = None
    sequence_parallel: Switch | None = None
    cp: Selection | None = None
    pp: Selection | None = None
    vp: Selection | None = None
    schedule: Schedule | list[Schedule] | None = None
    dp: Selection | None = None
    ep: Selection | None = None
    etp: Selection | None = None
    edp: Selection | None = None
    replicas: Selection | None = None  # HSDP: groups that each hold all shards; 1 is plain ZeRO / FSDP
    micro_batch: Selection | None = None
    grad_accum: Selection | None = None
    zero: Selection | None = None
    recompute: Recompute | list[Recompute] | None = None
    precision: Precision | list[Precision] | None = None


class Placement(Strict):
    """A degree's split over the cluster's tiers, innermost first; what is not named is free."""

    tp: list[Count] | None = None
    cp: list[Count] | None = None
    dp: list[Count] | None = None
    pp: list[Count] | None = None
    ep: list[Count] | None = None
    etp: list[Count] | None = None


class Training(Strict):
    """What one step trains on."""

    gpus: Count | Annotated[list[Count], Field(min_length=1)] | Range | None = None  # None: the whole cluster
    global_batch: Count | Annotated[list[Count], Field(min_length=1)] | Range  # sequences in a step
    sequence_length: Count
    tokens: Positive | None = None  # of the whole run, for the time to train


class Factors(Strict):
    """Multiples of what the cluster and its accelerators have: levers, of hardware that does not exist."""

    peak: Positive = 1.0  # matrix rates
    memory: Positive = 1.0
    memory_bandwidth: Positive = 1.0
    network_bandwidth: Positive = 1.0  # of all tiers
    outer_bandwidth: Positive = 1.0  # of the outermost tier, beside network_bandwidth
    latency: NonNegative = 1.0  # of all tiers


class Limits(Strict):
    """Bounds beyond the cluster's own."""

    memory_gib: NonNegative | None = None  # per accelerator, instead of the accelerator's own
    memory_fraction: Fraction = 1.0  # of it that may be used


class Problem(Strict):
    """One instance: find the best plan for ``model`` on ``cluster``."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Name
    description: str = ""
    source: str = ""
    model: Name
    cluster: Name
    training: Training
    decisions: Decisions = Decisions()
    placement: Placement = Placement()
    framework: Name = "nemo-24"  # Megatron Core as NeMo 24.07 runs it; a profile in instances/frameworks or a path
    assumptions: Assumptions = Assumptions()  # beyond, or instead of, what the framework does
    limits: Limits = Limits()
    factors: Factors = Factors()


def admitted(selection: Any, value: int) -> bool:
    """Whether a `Selection` (or none) admits ``value``."""
    if selection is None:
        return True
    if isinstance(selection, Range):
        return selection.admits(value)
    return value in selection if isinstance(selection, list) else value == selection
