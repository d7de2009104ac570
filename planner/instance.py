"""A problem with everything that it refers to, its decision space and its two costs: what every solver works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from planner import catalog
from planner.algebra.expressions import Expression, power, product
from planner.errors import InputError
from planner.physics import memory, step
from planner.physics.decisions import build_space, chosen_precisions
from planner.physics.setting import PRECISIONS, Setting, links_of, usable_memory
from planner.schema.base import Strict, read_toml, validate
from planner.schema.overrides import apply_override
from planner.schema.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.algebra.space import Space
    from planner.schema.cluster import Cluster
    from planner.schema.hardware import Hardware
    from planner.schema.model import Model
    from planner.schema.problem import Factors


@dataclass(frozen=True)
class Instance:
    """A resolved problem. ``origin`` names its file in messages."""

    problem: Problem
    model: Model
    hardware: Hardware
    cluster: Cluster
    setting: Setting
    space: Space
    origin: str

    @cached_property
    def step_time(self) -> Expression:
        """Time of one training step, s."""
        return step.step_time(self.setting)

    @cached_property
    def peak_memory(self) -> Expression:
        """Bytes on the fullest accelerator."""
        return memory.peak(self.setting)

    @cached_property
    def objective(self) -> Expression:
        """What is minimised: the step time, for one sequence where the global batch is free."""
        if "global_batch" in self.space.owner:
            return product(self.step_time, power("global_batch", -1))
        return self.step_time

    @cached_property
    def floor(self) -> Expression:
        """No more than `objective` for any plan of the same degrees, wherever on the network they lie."""
        bound = step.floor(self.setting)
        return product(bound, power("global_batch", -1)) if "global_batch" in self.space.owner else bound

    def to_json(self) -> dict[str, Any]:
        """The records that the instance is made of, as JSON; `revive` makes it again."""
        records = {"problem": self.problem, "model": self.model, "hardware": self.hardware, "cluster": self.cluster}
        return {name: record.model_dump(mode="json", by_alias=True) for name, record in records.items()}

    @property
    def model_flop(self) -> float:
        """FLOP that one sequence needs without recomputation."""
        return step.model_flop(self.setting)


def load(reference: str, overrides: list[str] | None = None) -> Instance:
    """The instance that ``reference`` names (a file or a catalogue name), with ``key=value`` overrides applied.

    Raises `InputError` with every problem found.
    """
    path = catalog.locate("problem", reference)
    document = read_toml(path)
    if document.get("kind") == "frontier":
        raise InputError(f"{path}: kind: is a frontier problem, which 'planner frontier' solves")
    for override in overrides or []:
        apply_override(document, override, Problem)
    return resolve(validate(Problem, document, str(path)), str(path), path.parent)


def revive(document: Mapping[str, Any], origin: str) -> Instance:
    """The instance of the records in ``document``, which `Instance.to_json` gave. Raises `InputError`."""
    from planner.schema.cluster import Cluster
    from planner.schema.hardware import Hardware
    from planner.schema.model import Model

    kinds: dict[str, type[Strict]] = {"problem": Problem, "model": Model, "hardware": Hardware, "cluster": Cluster}
    lacking = [f"{origin}: inputs.{name}: is missing" for name in kinds if name not in document]
    if lacking:
        raise InputError(lacking)
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        try:
            found[name] = kind.model_validate(document[name], strict=False)
        except ValidationError as error:
            raise InputError(f"{origin}: inputs.{name}: is no {name} as planner solve writes it ({error.error_count()} "
                             "problems)") from None  # fmt: skip
    return assemble(found["problem"], found["model"], found["hardware"], found["cluster"], origin)


def resolve(problem: Problem, origin: str = "problem", folder: Path | None = None) -> Instance:
    """The instance of ``problem``; relative references in it are looked up beside ``folder``."""
    problems: list[str] = []

    def attempt(loader: Any, reference: str) -> Any:
        try:
            return loader(reference, folder)
        except InputError as error:
            problems.extend(f"{origin}: {line}" for line in error.problems)
            return None

    model = attempt(catalog.load_model, problem.model)
    cluster = attempt(catalog.load_cluster, problem.cluster)
    hardware = attempt(catalog.load_hardware, cluster.accelerator) if cluster else None
    framework = attempt(catalog.load_framework, problem.framework)
    if problems or hardware is None:
        raise InputError(problems)
    problem = problem.model_copy(update={"assumptions": framework.applied_to(problem.assumptions, hardware.name)})
    return assemble(problem, model, hardware, cluster, origin)


def assemble(problem: Problem, model: Model, hardware: Hardware, cluster: Cluster, origin: str = "problem") -> Instance:
    """The instance of a problem whose references are resolved and whose assumptions are complete.

    Raises `InputError` for restrictions that leave nothing.
    """
    setting_hardware, setting_cluster = (
        scaled_hardware(hardware, problem.factors),
        scaled_cluster(cluster, problem.factors),
    )
    peak = hardware.peak_tflop_per_s
    sixteen_bit = "bf16" if peak.bf16 else "fp16"
    names = chosen_precisions(problem, lambda name: getattr(peak, name, None) is not None, sixteen_bit, origin)
    setting = Setting(
        model=model,
        hardware=setting_hardware,
        links=links_of(setting_cluster),
        sequence=problem.training.sequence_length,
        assumptions=problem.assumptions,
        precisions=tuple(PRECISIONS[name] for name in names),
        capacity=usable_memory(setting_hardware, problem.limits, problem.assumptions),
    )
    space = build_space(problem, setting, cluster.accelerators, origin)
    return Instance(problem, model, hardware, cluster, setting, space, origin)


def scaled_hardware(hardware: Hardware, factors: Factors) -> Hardware:
    """The accelerator with the factors' multiples."""
    if factors.peak == factors.memory == factors.memory_bandwidth == 1:
        return hardware
    peaks = {name: factors.peak * rate for name, rate in hardware.peak_tflop_per_s if rate is not None}
    return hardware.model_copy(update={
        "peak_tflop_per_s": hardware.peak_tflop_per_s.model_copy(update=peaks),
        "memory_gib": factors.memory * hardware.memory_gib,
        "memory_gb_per_s": factors.memory_bandwidth * hardware.memory_gb_per_s,
    })  # fmt: skip


def scaled_cluster(cluster: Cluster, factors: Factors) -> Cluster:
    """The cluster with the factors' multiples."""
    tiers = [
        tier.model_copy(update={
            "bandwidth_gb_per_s": tier.bandwidth_gb_per_s * factors.network_bandwidth
            * (factors.outer_bandwidth if place == len(cluster.tiers) - 1 else 1.0),
            "latency_us": tier.latency_us * factors.latency,
        })
        for place, tier in enumerate(cluster.tiers)
    ]  # fmt: skip
    return cluster.model_copy(update={"tiers": tiers})
