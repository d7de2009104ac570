"""A frontier problem with everything resolved, in SI units: what its costs and its decision space are built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.frontier.matmul import THREADS
from planner.frontier.matmul import Device as Accelerator
from planner.frontier.scaling import Model

if TYPE_CHECKING:
    from planner.schema.frontier import Assumptions, Device, Factors, FrontierProblem

GB, MIB, MICRO, MHZ = 1e9, 1024.0**2, 1e-6, 1e6
MONTHS_A_YEAR = 12.0
#: Codes of the schedules.
ORDINARY, ZERO_BUBBLE = 0, 1
SCHEDULES = {"ordinary": ORDINARY, "zero-bubble": ZERO_BUBBLE}


@dataclass(frozen=True)
class Level:
    """A network level: ``size`` units of the level inside make one of this; 0 for the outermost, which has no end.

    ``bandwidth`` is one way, bytes/s of one accelerator (infinite is possible); ``latency`` of one message in seconds.
    """

    name: str
    size: int
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Setting:
    """One model on one kind of accelerator and network, with ``limit`` seconds to train; ``month`` in seconds."""

    model: Model
    accelerator: Accelerator
    levels: tuple[Level, ...]
    assumptions: Assumptions
    limit: float
    month: float

    @property
    def word(self) -> float:
        """Bytes of a weight, an activation or a gradient."""
        return self.assumptions.word_bytes

    @property
    def top(self) -> int:
        """The outermost level."""
        return len(self.levels) - 1

    @property
    def batches(self) -> float:
        """Batches of the run; not a whole number."""
        return self.model.tokens / self.model.batch


def setting_of(problem: FrontierProblem, device: Device, model: Model) -> Setting:
    """The problem's setting for one model."""
    factors, network = problem.factors, problem.network
    sizes = [*network.sizes, 0]
    rates = [float("inf") if rate == "infinite" else rate for rate in network.bandwidth_gb_per_s]
    month = problem.run.year_seconds / MONTHS_A_YEAR
    return Setting(
        model=model,
        accelerator=_accelerator(device, factors, problem.assumptions),
        levels=tuple(
            Level(name, size, rate * GB / 2 * factors.network_bandwidth,
                  latency * MICRO * factors.latency * factors.network_latency)
            for name, size, rate, latency in zip(network.names, sizes, rates, network.latency_us, strict=True)
        ),
        assumptions=problem.assumptions,
        limit=problem.run.months * month,
        month=month,
    )  # fmt: skip


def _accelerator(device: Device, factors: Factors, assumptions: Assumptions) -> Accelerator:
    clock = device.clock_mhz * MHZ
    return Accelerator(
        multiprocessors=device.multiprocessors,
        clock=clock * device.sustained,
        peak=device.multiprocessors * THREADS * device.flop_per_clock_per_thread * clock * factors.peak,
        sustained=device.sustained,
        memory=device.memory_gb * GB * factors.memory,
        memory_bandwidth=device.memory_gb_per_s * GB * factors.memory_bandwidth,
        cache=device.cache_mib * MIB,
        cache_bandwidth=device.cache_gb_per_s * GB * factors.cache_bandwidth,
        distributed_shared_memory=device.distributed_shared_memory,
        kernel_latency=device.kernel_latency_us * MICRO * factors.latency * factors.kernel_latency,
        word=assumptions.word_bytes,
        registers_of_one=assumptions.registers_of_one,
    )
