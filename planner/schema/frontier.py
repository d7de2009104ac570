"""A frontier problem: an idealised accelerator and network, how models, data and batches grow, and a time limit."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.schema.base import Strict
from planner.schema.hardware import Fraction, NonNegative, Positive
from planner.schema.model import Count
from planner.schema.problem import Name, Selection

Schedule = Literal["ordinary", "zero-bubble"]


class Device(Strict):
    """An accelerator as the theory sees it: arithmetic and a memory hierarchy."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Name
    source: str
    multiprocessors: Count
    flop_per_clock_per_thread: Positive  # 16-bit, of 128 threads in a multiprocessor
    clock_mhz: Positive  # the highest
    sustained: Fraction  # of clock and peak, over long runs of large products
    memory_gb: Positive
    memory_gb_per_s: Positive
    cache_mib: Positive  # L2
    cache_gb_per_s: Positive
    distributed_shared_memory: bool
    kernel_latency_us: NonNegative


class Network(Strict):
    """Levels from the innermost to the outermost, which has no end. Bandwidths count both directions."""

    names: Annotated[list[Name], Field(min_length=1, max_length=3)]
    sizes: list[Count]  # accelerators, or units of the level inside, that one unit joins; of all levels but the last
    bandwidth_gb_per_s: list[Positive | Literal["infinite"]]  # of one accelerator
    latency_us: list[NonNegative]  # of one message

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        levels = len(self.names)
        for key, wanted in (("sizes", levels - 1), ("bandwidth_gb_per_s", levels), ("latency_us", levels)):
            if len(getattr(self, key)) != wanted:
                raise ValueError(f"{key} needs {wanted} values for {levels} levels (names = {self.names})")
        return self


class Shape(Strict):
    """How the model grows. Its layers are two matrices, width x feed-forward and back; ``experts`` copies of them."""

    experts: Count | Literal["scaled"] = 1  # scaled: as the square root of a layer's parameters, 8 at width 12,288
    feed_forward_ratio: Positive = 4.0
    layers: Count | Literal["scaled"] = "scaled"
    depth_coefficient: Positive = 0.10056  # layers = coefficient * (width * feed-forward width) ^ exponent
    depth_exponent: NonNegative = 0.3751
    widths: Annotated[list[Count], Field(min_length=1)] | None = None  # that a budget may choose from
    tokens_per_parameter: Positive = 20.0  # total parameters (Hoffmann et al. 2022)


class Batch(Strict):
    """How the batch grows with training compute T.

    default: sqrt(experts) 2,048 sequences of 2,048 tokens at 3e23 FLOP, times (T / 3e23) ^ exponent; none: 2,048 such
    sequences always; deepseek: sqrt(experts) 0.2920 T ^ 0.3271 tokens (Bi et al. 2024).
    """

    rule: Literal["default", "none", "deepseek"] = "default"
    exponent: NonNegative = 1.0 / 6.0
    factor: Positive = 1.0  # on the rule's batch
    sequence_length: Count = 2048


class Run(Strict):
    """How long training may take."""

    months: Positive = 3.0
    year_seconds: Positive = 3.154e7  # the published program's year


class Decisions(Strict):
    """Restrictions of the decisions; what is not named is free."""

    gpus: Literal["doubling", "any"] | Selection = "doubling"  # doubling: experts x 2^i
    most_doublings: Annotated[int, Field(ge=0, le=59)] = 59
    tp_model: Selection | None = None
    tp_ff: Selection | None = None
    dp: Selection | None = None
    pp: Selection | None = None
    ep: Selection | Literal["all"] | None = None  # all: as many as divide both the accelerators and the experts
    vp: Selection | None = None
    microbatches: Selection | None = None
    schedule: Schedule | list[Schedule] | None = None


class Assumptions(Strict):
    """The published program's choices, and its quirks."""

    word_bytes: Positive = 2.0  # of weights, activations and gradients
    optimizer_words: NonNegative = 4.0  # per parameter, shared by all accelerators
    overlap_tensor: bool = True  # tensor, pipeline and expert communication hide behind arithmetic
    overlap_data: bool = False
    zero_bubble_latency: bool = False  # latency counts under the zero-bubble schedule as well
    registers_of_one: bool = True  # one multiprocessor's registers, not all, compete with L2 as the outer capacity


class Factors(Strict):
    """What to multiply the hardware's figures by: the levers of a projection."""

    peak: Positive = 1.0
    memory_bandwidth: Positive = 1.0
    memory: Positive = 1.0
    cache_bandwidth: Positive = 1.0
    network_bandwidth: Positive = 1.0
    latency: NonNegative = 1.0  # of kernels and of messages
    kernel_latency: NonNegative = 1.0
    network_latency: NonNegative = 1.0


class FrontierProblem(Strict):
    """Which cluster trains a model of a compute budget in time, and by which plan."""

    schema_version: Literal[1] = Field(alias="schema")
    kind: Literal["frontier"]
    name: Name
    description: str = ""
    source: str = ""
    device: Name
    budget: Positive = 1e26  # FLOP
    width: Count | None = None  # instead of a budget: the model of this width, and its compute
    network: Network
    shape: Shape = Shape()
    batch: Batch = Batch()
    run: Run = Run()
    decisions: Decisions = Decisions()
    assumptions: Assumptions = Assumptions()
    factors: Factors = Factors()
