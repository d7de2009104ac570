"""What the cost model is written about: a model on a cluster, trained in a certain way, in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.schema.cluster import Cluster
    from planner.schema.framework import Assumptions
    from planner.schema.hardware import Hardware
    from planner.schema.model import Model
    from planner.schema.problem import Limits

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
    FP4 = 3


#: The spelling of each choice in instances and results.
SCHEDULES = {"gpipe": Schedule.GPIPE, "1f1b": Schedule.ONE_F_ONE_B, "interleaved": Schedule.INTERLEAVED,
             "zero-bubble": Schedule.ZERO_BUBBLE}  # fmt: skip
RECOMPUTES = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}
PRECISIONS = {"bf16": Precision.BF16, "fp16": Precision.FP16, "fp8": Precision.FP8, "fp4": Precision.FP4}

#: Bytes of an element that a matrix product reads.
OPERAND_BYTES = {Precision.BF16: 2.0, Precision.FP16: 2.0, Precision.FP8: 1.0, Precision.FP4: 0.5}


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
    def activation_bytes(self) -> float:
        """Bytes of an activation that travels between ranks."""
        return 2.0 * self.assumptions.activation_compression

    @property
    def weighed(self) -> bool:
        """Whether layers are dealt out to stages by cost."""
        return self.assumptions.stages == "weighed"

    @property
    def memory_rate(self) -> float:
        """Achieved memory bandwidth, B/s."""
        return self.hardware.memory_gb_per_s * 1e9 * self.hardware.efficiency.memory

    @property
    def kernel_latency(self) -> float:
        """Seconds that one kernel costs beyond its work."""
        return self.hardware.efficiency.kernel_latency_us * 1e-6

    def collective_latency(self, tier: int) -> float:
        """Seconds that one collective costs on a tier beyond its messages: launch, and waiting for the last rank."""
        return 1e-6 * (self.assumptions.network_us if tier else self.assumptions.collective_us)

    def peak(self, precision: Precision) -> float:
        """Dense peak rate, FLOP/s; 16-bit formats stand in for each other, and the next wider for a missing narrow one."""
        peak = self.hardware.peak_tflop_per_s
        rate = (peak.fp16 or peak.bf16) if precision is Precision.FP16 else (peak.bf16 or peak.fp16)
        if precision >= Precision.FP8:
            rate = (peak.fp4 if precision is Precision.FP4 else None) or peak.fp8 or rate
        return (rate or peak.fp32 or 0.0) * 1e12

    def matmul_rate(self, precision: Precision) -> float:
        """Rate of a large, well-shaped matrix product inside a step, FLOP/s; 4-bit ones as efficient as 8-bit ones."""
        efficiency = self.hardware.efficiency
        narrow = precision >= Precision.FP8 and self.hardware.peak_tflop_per_s.fp8 is not None
        achieved = efficiency.matmul_8bit if narrow else efficiency.matmul_16bit
        return self.peak(precision) * achieved * self.assumptions.matmul_rate

    @property
    def attention_rates(self) -> tuple[float, float]:
        """Rates of fused attention forward and backward, FLOP/s."""
        efficiency = self.hardware.efficiency
        rate = self.peak(self.sixteen_bit) * self.assumptions.attention_rate
        return rate * efficiency.attention_forward, rate * efficiency.attention_backward

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
