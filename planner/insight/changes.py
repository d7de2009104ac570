"""Changes of a cluster or an accelerator, in words, and the instance that they make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.instance import assemble

if TYPE_CHECKING:
    from planner.instance import Instance
    from planner.schema.cluster import Cluster
    from planner.schema.hardware import Hardware
    from planner.schema.problem import Problem

MORE_MEMORY = 8.0  # GiB
MORE_ACCELERATORS = 1.1


@dataclass(frozen=True)
class Change:
    """A change in words, the instance after it, and whether a plan of before is priced as it stands."""

    words: str
    instance: Instance
    same_places: bool = True


def changes(instance: Instance) -> Iterator[Change]:
    """What a cluster could have more of: memory, bandwidths, latencies, a larger inner domain, accelerators.

    Changes that the problem's restrictions forbid are left out.
    """
    problem, hardware, cluster = instance.problem, instance.hardware, instance.cluster
    own = problem.limits.memory_gib
    words = f"{MORE_MEMORY:g} GiB more memory"
    if own is None:
        larger = hardware.model_copy(update={"memory_gib": hardware.memory_gib + MORE_MEMORY})
        yield Change(words, _with(instance, hardware=larger))
    else:
        limits = problem.limits.model_copy(update={"memory_gib": own + MORE_MEMORY})
        yield Change(words, _with(instance, problem=problem.model_copy(update={"limits": limits})))
    faster = hardware.model_copy(update={"memory_gb_per_s": 2 * hardware.memory_gb_per_s})
    yield Change("twice the memory bandwidth", _with(instance, hardware=faster))
    peaks = {name: 2 * rate for name, rate in hardware.peak_tflop_per_s if rate is not None}
    peak = hardware.peak_tflop_per_s.model_copy(update=peaks)
    yield Change(
        "twice the matrix rates", _with(instance, hardware=hardware.model_copy(update={"peak_tflop_per_s": peak}))
    )
    for place, tier in enumerate(cluster.tiers):
        wider = {"bandwidth_gb_per_s": 2 * tier.bandwidth_gb_per_s}
        yield Change(f"twice the bandwidth of {tier.name}", _with(instance, cluster=_tier(cluster, place, wider)))
        quicker = {"latency_us": tier.latency_us / 2}
        yield Change(f"half the latency of {tier.name}", _with(instance, cluster=_tier(cluster, place, quicker)))
    inner = cluster.tiers[0]
    if (
        len(cluster.tiers) > 1
        and cluster.tiers[1].size % (2 * inner.size) == 0
        and cluster.tiers[1].size > 2 * inner.size
    ):
        larger_domain = _tier(cluster, 0, {"size": 2 * inner.size})
        yield Change(
            f"{inner.name} domains of {2 * inner.size}", _with(instance, cluster=larger_domain), same_places=False
        )
    yield from _more_accelerators(instance)


def _more_accelerators(instance: Instance) -> Iterator[Change]:
    """Ten per cent more, in whole units of the tier below the outermost, of which any number may be used."""
    cluster, problem = instance.cluster, instance.problem
    unit = cluster.tiers[-2].size if len(cluster.tiers) > 1 else 1
    count = math.ceil(MORE_ACCELERATORS * cluster.accelerators / unit) * unit
    counted = problem.training.model_copy(update={"gpus": [cluster.accelerators, count]})
    if problem.training.gpus is None:
        larger = _tier(cluster, len(cluster.tiers) - 1, {"size": count})
        changed = problem.model_copy(update={"training": counted})
        more = f"{count - cluster.accelerators:,} more accelerators ({count / cluster.accelerators - 1:.0%})"
        yield Change(more, _with(instance, problem=changed, cluster=larger), same_places=False)


def _tier(cluster: Cluster, place: int, update: dict[str, float]) -> Cluster:
    tiers = [tier.model_copy(update=update) if place == number else tier for number, tier in enumerate(cluster.tiers)]
    return cluster.model_copy(update={"tiers": tiers})


def _with(
    instance: Instance,
    *,
    problem: Problem | None = None,
    hardware: Hardware | None = None,
    cluster: Cluster | None = None,
) -> Instance:
    return assemble(problem or instance.problem, instance.model, hardware or instance.hardware,
                    cluster or instance.cluster, instance.origin)  # fmt: skip
