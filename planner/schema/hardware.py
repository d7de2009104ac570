"""An accelerator: rates, memory, and the profile of what is achieved of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.schema.base import Strict

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]


class Peak(Strict):
    """Dense matrix rates, TFLOP/s; never the structured-sparse figure."""

    bf16: Positive | None = None
    fp16: Positive | None = None
    fp8: Positive | None = None
    fp4: Positive | None = None
    fp32: Positive | None = None  # vector


class Efficiency(Strict):
    """The fraction of a rate that well-shaped work achieves. Each belongs to the accelerator, not to a run."""

    matmul_16bit: Fraction = 0.75  # of peak bf16 / fp16, large matrices
    matmul_8bit: Fraction = 0.60  # of peak fp8
    attention_forward: Fraction = 0.55  # of peak 16-bit, fused attention, counted FLOP
    attention_backward: Fraction = 0.45
    memory: Fraction = 0.80  # of memory bandwidth, streaming kernels
    kernel_latency_us: NonNegative = 4.0  # launch and tail of one kernel that is not hidden
    matmul_tile: Annotated[tuple[int, int], Field(strict=False)] = (128, 128)  # output tile of one core, rows x columns
    source: str = "default of this catalogue, 2026-12: typical of measured kernels, not calibrated for this part"


class Hardware(Strict):
    """One accelerator as a training framework sees it (one rank)."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    vendor: str
    year: Annotated[int, Field(ge=2012, le=2100)]
    source: str
    date: str  # when the source was read
    peak_tflop_per_s: Peak
    memory_gib: Positive  # what a process can address, context included
    memory_gb_per_s: Positive
    cores: Annotated[int, Field(ge=1)]  # units that take one matmul tile each (SMs, CUs, MXUs)
    scale_up_gb_per_s: NonNegative  # one way, one accelerator
    scale_up_domain: Annotated[int, Field(ge=1)]
    scale_out_gb_per_s: NonNegative  # one way, one accelerator
    tdp_w: Positive | None = None
    usd_per_hour: Positive | None = None
    price_source: str = ""
    context_gib: NonNegative = 1.5  # driver context and communicator buffers
    note: str = ""
    efficiency: Efficiency = Efficiency()
