"""What the cost model is written about: a model on a cluster, trained in a certain way, in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.schema.cluster import Cluster
    from planner.schema.hardware import Hardware
    from planner.schema.model import Model
    from planner.schema.problem import Assumptions, Limits

GIB = 1024.0**3


class Schedule(IntEnum):
    """Pipeline schedules: Huang et al. 2019 (GPipe), Narayanan et al. 2019 and 2021, Qi et al. 2023 (ZB-H1)."""

    GPIPE = 0
    ONE_F_ONE_B = 1
    INTERLEAVED = 2
    ZERO_BUBBLE = 3


class Recompute(IntEnum):
    """What the backward pass computes again: nothing, the cheap parts of a layer, or the whole layer."""

    NONE = 0
    SELECTIVE = 1
    FULL = 2


class Precision(IntEnum):
    """The type of the linear layers' matrix products; everything else is 16-bit."""

    BF16 = 0
    FP16 = 1
    FP8 = 2


#: The spelling of each choice in instances and results.
SCHEDULES = {"gpipe": Schedule.GPIPE, "1f1b": Schedule.ONE_F_ONE_B, "interleaved": Schedule.INTERLEAVED,
             "zero-bubble": Schedule.ZERO_BUBBLE}  # fmt: skip
RECOMPUTES = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}
PRECISIONS = {"bf16": Precision.BF16, "fp16": Precision.FP16, "fp8": Precision.FP8}


@dataclass(frozen=True)
class Link:
    """A network tier: achieved one-way bandwidth of one accelerator (B/s), latency (s), and how many units it joins."""

    name: str
    fanout: int
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Setting:
    """Everything that the cost expressions depend on except the decisions."""

    model: Model
    hardware: Hardware
    links: tuple[Link, ...]
    sequence: int
    assumptions: Assumptions
    precisions: tuple[Precision, ...]
    capacity: float  # bytes of one accelerator that tensors may take
    alone: bool = False  # exchanges are bounded from below over all placements (see `planner.physics.step.floor`)

    @property
    def tiers(self) -> range:
        """The indices of the network tiers, innermost first."""
        return range(len(self.links))

    @property
    def memory_rate(self) -> float:
        """Achieved memory bandwidth, B/s."""
        return self.hardware.memory_gb_per_s * 1e9 * self.hardware.efficiency.memory

    @property
    def kernel_latency(self) -> float:
        """Seconds that one kernel costs beyond its work."""
        return self.hardware.efficiency.kernel_latency_us * 1e-6

    def peak(self, precision: Precision) -> float:
        """Dense peak rate, FLOP/s; 16-bit formats stand in for each other, and 16-bit for a missing fp8."""
        peak = self.hardware.peak_tflop_per_s
        sixteen = (peak.fp16 or peak.bf16) if precision is Precision.FP16 else (peak.bf16 or peak.fp16)
        rate = peak.fp8 if precision is Precision.FP8 and peak.fp8 else sixteen
        return (rate or peak.fp32 or 0.0) * 1e12

    def matmul_rate(self, precision: Precision) -> float:
        """Rate of a large, well-shaped matrix product, FLOP/s."""
        efficiency = self.hardware.efficiency
        eight_bit = precision is Precision.FP8 and self.hardware.peak_tflop_per_s.fp8 is not None
        return self.peak(precision) * (efficiency.matmul_8bit if eight_bit else efficiency.matmul_16bit)

    @property
    def sixteen_bit(self) -> Precision:
        """The 16-bit type of everything but the linear layers."""
        return Precision.FP16 if Precision.FP16 in self.precisions else Precision.BF16


def links_of(cluster: Cluster) -> tuple[Link, ...]:
    """The cluster's tiers as links."""
    return tuple(
        Link(tier.name, fanout, tier.bandwidth_gb_per_s * 1e9 * tier.efficiency, tier.latency_us * 1e-6)
        for tier, fanout in zip(cluster.tiers, cluster.fanouts, strict=True)
    )


def usable_memory(hardware: Hardware, limits: Limits, assumptions: Assumptions) -> float:
    """Bytes of one accelerator that tensors may take: less context, less what the allocator cannot use."""
    memory = hardware.memory_gib if limits.memory_gib is None else limits.memory_gib
    return max(0.0, memory * limits.memory_fraction * (1 - assumptions.fragmentation) - hardware.context_gib) * GIB
