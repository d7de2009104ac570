"""What a training framework does: the assumptions of the cost model, and profiles of frameworks that set them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.schema.base import Strict
from planner.schema.hardware import NonNegative, Positive

Overlap = Annotated[float, Field(ge=0, le=1)]


class Assumptions(Strict):
    """What the training framework does. Overlaps are fractions of the communication that compute hides."""

    attention: Literal["fused", "unfused"] = "fused"
    loss: Literal["fused", "unfused"] = "fused"  # unfused: plain tensor operations, log-probabilities in 32 bits
    #: At ZeRO 2 and 3 under several micro-batches: reduce and gather for each, or hold whole until the step ends.
    reshard: Literal["micro-batch", "step"] = "micro-batch"
    #: Layers are dealt out evenly by number, or by their cost with the output layer weighed.
    stages: Literal["even", "weighed"] = "even"
    #: A token goes to each of its experts, or once to every node (or rank) that holds some of them.
    dispatch: Literal["all-to-all", "deduplicated"] = "all-to-all"
    folding: bool = True  # experts may use tensor ranks (parallel folding); false: ep divides dp x cp and etp = tp
    tp_overlap: Overlap = 0.0
    ep_overlap: Overlap = 0.0
    pp_overlap: Overlap = 0.5
    dp_overlap: Overlap = 0.8
    expert_imbalance: Annotated[float, Field(ge=1)] = 1.0  # load of the busiest expert rank over the mean
    gradient_bytes: Literal[2, 4] = 4  # reduced per parameter
    gradient_copies_bytes: NonNegative = (
        0.0  # held per parameter beside those: 16-bit gradients before they are added up
    )
    #: Inputs of sharded products stay gathered for the backward pass, instead of being gathered again.
    keep_gathered: bool = False
    #: Bytes of gradients that travel, in parts of gradient_bytes; below 1 they are compressed and expanded at either end.
    gradient_compression: Annotated[float, Field(gt=0, le=1)] = 1.0
    #: Bytes of activations that travel between tensor, context and pipeline ranks, in parts of 16-bit ones.
    activation_compression: Annotated[float, Field(gt=0, le=1)] = 1.0
    #: Steps that replicas take alone before they exchange what they learnt (local SGD, DiLoCo); 1: every step.
    local_steps: Annotated[int, Field(ge=1)] = 1
    #: Tokens that a run needs with every step synchronised, over those that it needs as it is (local steps, staleness).
    sample_efficiency: Annotated[float, Field(gt=0, le=1)] = 1.0
    optimizer_bytes: Positive = 12.0  # per parameter: fp32 master copy and two Adam moments
    dispatch_bytes: Positive = 2.0  # per element sent to an expert
    combine_bytes: Positive = 2.0  # per element sent back
    fragmentation: Annotated[float, Field(ge=0, lt=1)] = 0.04  # of device memory that the allocator cannot use
    matmul_rate: Positive = 1.0  # of the accelerator's achieved rate that matrix products run at inside a step
    attention_rate: Positive = 1.0  # of the accelerator's best attention kernels' rate
    elementwise: Positive = 1.0  # traffic of element-wise kernels over that of fused ones
    host_ms: NonNegative = 0.0  # that the host takes to issue the forward pass of one dense layer; backward likewise
    host_moe_ms: NonNegative = 0.0  # the same of a layer with experts
    #: Further host time for each doubling of tp in a pipeline, in parts of the two above: ranks that wait for another.
    host_pipelined: NonNegative = 0.0
    step_ms: NonNegative = 0.0  # of every step outside the model: data, logging, the optimizer's many small kernels
    reductions_per_layer: Positive = 1.0  # buckets that the gradients, and gathered weights, of a layer travel in
    collective_us: NonNegative = (
        20.0  # launch and synchronisation of a collective on the innermost tier, beside its hops
    )
    network_us: NonNegative = 50.0  # the same on every further tier that it spans


class Framework(Strict):
    """A framework, or one generation of it: ``assumptions`` names what differs from the defaults, and why."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    source: str
    date: str  # when the source was read
    note: str = ""
    #: Texts in the ``framework`` column of a table that mean this one (regular expressions, letter case apart).
    names: Annotated[tuple[str, ...], Field(strict=False)] = ()
    family: str = ""  # frameworks of one family are expected to be alike
    zero: Annotated[int, Field(ge=0, le=3)] = 0  # ZeRO stage where a run says nothing
    measured_on: Annotated[tuple[str, ...], Field(strict=False)] = ()  # accelerators whose runs gave the constants
    assumptions: Assumptions = Assumptions()
    on: Mapping[str, Assumptions] = Field(default_factory=dict)  # what differs on an accelerator, by its catalogue name

    def applied_to(self, own: Assumptions, hardware: str) -> Assumptions:
        """``own`` with what it leaves unsaid as this framework does it on ``hardware``."""
        layers = [self.assumptions, *([self.on[hardware]] if hardware in self.on else []), own]
        said: dict[str, Any] = {}
        for layer in layers:
            said |= {name: getattr(layer, name) for name in layer.model_fields_set}
        return Assumptions.model_construct(**said)
